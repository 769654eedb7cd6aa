"""Change one line of a program that uses cv2.StereoSGBM: the same calls, the same int16 map, in the dark."""

import cv2
import numpy as np
import panels

import scotopic
from scotopic.cv import StereoScotopic

out = panels.folder(__doc__)
scene = scotopic.render_scene(320, 208)
dark = scotopic.simulate_pair(scene.left, scene.right, photons=2, read_noise=2)
left, right = (np.rint(255 * image).astype(np.uint8)[..., ::-1].copy() for image in dark)  # BGR, as cv2.imread gives it

matchers = {
    "cv2.StereoSGBM": cv2.StereoSGBM.create(
        minDisparity=0, numDisparities=48, blockSize=5, P1=600, P2=2400, disp12MaxDiff=1, uniquenessRatio=10
    ),
    "StereoScotopic": StereoScotopic.create(minDisparity=0, numDisparities=48),  # the line that changes
}
low, high = scene.disparity_left.min() - 2, scene.disparity_left.max() + 1
shown, words = [], []
for name, matcher in matchers.items():
    fixed = matcher.compute(left, right)  # in sixteenths of a pixel; (minDisparity - 1) * 16 where there is none
    known = fixed > (matcher.getMinDisparity() - 1) * 16
    disparity = np.where(known, fixed / 16, np.nan)
    near = np.abs(disparity - scene.disparity_left)[known] <= 3
    said = f"{100 * known.mean():.0f} % answered, {100 * near.mean() if near.size else 0:.0f} % of these within 3 px"
    print(f"{name}: {said}")
    words.append((f"{name}: {said}", panels.WORDS))
    shown.append((name, panels.colored(disparity, low, high)))
panels.save(out / "replace_opencv.png", [shown], words)
