"""From disparity to meters: read a calibration, compute depth and its uncertainty, write and draw a point cloud."""

import cv2
import numpy as np
import panels

import scotopic
from scotopic.depth import (
    depth_from_disparity,
    depth_uncertainty,
    disparity_uncertainty,
    point_cloud,
    read_calibration,
)

out = panels.folder(__doc__)
scene = scotopic.render_scene(320, 208)
# Brighter than in the other examples, so that there are more points to look at.
left, right = scotopic.simulate_pair(scene.left, scene.right, photons=16, read_noise=2)
result = scotopic.match(left, right, max_disparity=48)

# Middlebury's own format. The rendered camera has f = width; let the two be 10 cm apart. Other formats: docs/depth.md.
(out / "calib.txt").write_text(
    "cam0=[320 0 159.5; 0 320 78.7; 0 0 1]\ncam1=[320 0 159.5; 0 320 78.7; 0 0 1]\n"
    "doffs=0\nbaseline=100\nwidth=320\nheight=208\nndisp=48\n"
)
calibration = read_calibration(out / "calib.txt").for_image(320, 208)

depth = depth_from_disparity(result.disparity, calibration)
sigma = depth_uncertainty(
    result.disparity, calibration, disparity_uncertainty(result.disparity_all, result.right_disparity)
)
cloud = point_cloud(result, calibration, image=scene.left, max_depth=8.5)  # colors from an image in good light
cloud.save(out / "points.ply", overwrite=True)
print(f"{len(cloud)} points, depth {np.nanmin(depth):.2f} to {np.nanmax(depth):.2f} m")
print(f"median uncertainty {np.nanmedian(sigma):.2f} m (too small; docs/depth.md says by how much)")

# Draw the points as seen from above and to the right: rotate them about a point in the room, far ones first.
center, (turn, tilt) = np.array([0.0, 0.2, 3.6]), np.deg2rad([-24, 26])
about_y = np.array([[np.cos(turn), 0, np.sin(turn)], [0, 1, 0], [-np.sin(turn), 0, np.cos(turn)]])
about_x = np.array([[1, 0, 0], [0, np.cos(tilt), -np.sin(tilt)], [0, np.sin(tilt), np.cos(tilt)]])
turned = (cloud.points - center) @ (about_x @ about_y).T + [0, 0, 4.6]
view = np.full((208, 320, 3), panels.NIGHT, np.uint8)
for k in np.argsort(-turned[:, 2]):
    x, y = (300 * turned[k, :2] / turned[k, 2] + [160, 104]).astype(int).tolist()
    cv2.circle(view, (x, y), 1, cloud.colors[k].tolist(), -1)
shown = [("Depth, 1 m (blue) to 8 m (yellow)", panels.colored(depth, 1, 8, cv2.COLORMAP_CIVIDIS)), ("points.ply", view)]
panels.save(out / "depth_and_points.png", [shown])
