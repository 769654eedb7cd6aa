"""Real pairs of the night, with sparse truth by LIDAR: one folder for each pair, as for the user's own pairs.

The pair that we have is from Oxford RobotCar (Maddern et al., "1 Year, 1000 km: The Oxford RobotCar Dataset", 2017).
Its noise is its own, and nobody knows it. The LIDAR is about 1 px accurate.
"""

from __future__ import annotations

from dataclasses import replace

from scotopic.evaluation.datasets import own_folder

KIND = replace(
    own_folder.KIND,
    title="night street",
    layout=(
        "<scene>/ with im0.png im1.png and disp0.png (LIDAR: 16-bit, disparity x 256, 0 unknown), or truth as for own "
        "pairs"
    ),
    has_sparse_truth=True,
)
