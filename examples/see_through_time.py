"""Fuse a stream in the dark: the rig moves, and each pair is matched with the light of those before it."""

import cv2
import numpy as np
import panels

import scotopic

FRAMES = 8

out = panels.folder(__doc__)
scenes = []
for k in range(FRAMES):  # a hand-held rig: it drifts, comes nearer and turns a little; several pixels a frame
    pose = np.eye(4)
    pose[:3, :3] = cv2.Rodrigues(np.deg2rad([0.2 * np.sin(k), 0.3 * k, 0.1 * k]))[0]
    pose[:3, 3] = 0.15 * k, 0.05 * np.sin(k), 0.2 * k
    scenes.append(scotopic.render_scene(192, 128, pose=pose))
dark = [scotopic.simulate_pair(scene.left, scene.right, 2, 2, seed=k) for k, scene in enumerate(scenes)]

stream = scotopic.Matcher("best", fuse=FRAMES, calibration=scenes[0].calibration, max_disparity=28)
for fused in stream.run(dark):
    print(f"{fused.frames.mean():.1f} frames behind a pixel, the camera is at {np.round(fused.pose[:3, 3], 2)}")
alone = scotopic.match(*dark[-1], max_disparity=28)

truth = scenes[-1].disparity_left
for name, found in ("alone", alone), ("fused", fused):
    error = np.abs(found.disparity_all - truth)
    print(f"{name}: {100 * found.coverage:.0f} % trusted; of all pixels {100 * (error <= 1).mean():.0f} % within 1 px")

low, high = truth.min() - 2, truth.max() + 1
mean = np.mean([left for left, _ in dark], axis=0)
panels.save(
    out / "see_through_time.png",
    [
        [
            ("One dark frame", panels.gray(dark[-1][0])),
            (f"Mean of {FRAMES} frames", panels.gray(mean)),
            (f"{FRAMES} frames, fused", panels.gray(fused.fused_left)),
        ],
        [
            ("Disparity of one pair", panels.colored(alone.disparity, low, high)),
            ("Disparity, fused", panels.colored(fused.disparity, low, high)),
            ("Truth", panels.colored(truth, low, high)),
        ],
    ],
)
