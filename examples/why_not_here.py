"""Why does this pixel have no disparity? Reasons and confidence as maps, and how good the confidence is."""

import cv2
import numpy as np
import panels

import scotopic
from scotopic.preview import REASON_COLORS

out = panels.folder(__doc__)
scene = scotopic.render_scene(320, 208)
left, right = scotopic.simulate_pair(scene.left, scene.right, photons=2, read_noise=2)
low, high = scene.disparity_left.min() - 2, scene.disparity_left.max() + 1

for preset in ("fast", "best"):
    result = scotopic.match(left, right, preset=preset, max_disparity=48)
    reasons, legend = np.zeros((*result.reason.shape, 3), np.uint8), []
    for reason, color in REASON_COLORS.items():
        here = result.reason == reason
        reasons[here] = color
        if here.any():
            bright = tuple(part * 210 // max(color) for part in color)  # bright enough to read
            legend.append((f"{reason.name} {100 * here.mean():.1f} %", bright))
    disparities = [
        ("Disparity", panels.colored(result.disparity, low, high)),
        ("Before masking (disparity_all)", panels.colored(result.disparity_all, low, high)),
    ]
    confidence = panels.colored(result.confidence, 0, 1, cv2.COLORMAP_VIRIDIS)
    explained = [("Confidence, 0 (dark) to 1 (bright)", confidence), ("Reason", reasons)]

    # Are confident pixels more often right? All pixels, in fifths, the least confident first.
    near = np.abs(result.disparity_all - scene.disparity_left).ravel() <= 1
    fifths = np.array_split(np.argsort(result.confidence, axis=None), 5)
    said = " ".join(f"{result.confidence.ravel()[fifth].mean():.2f}" for fifth in fifths)
    true = " ".join(f"{near[fifth].mean():.2f}" for fifth in fifths)
    legend.append((f"fifths by confidence: mean {said}, within 1 px {true}", panels.WORDS))
    panels.save(out / f"why_not_here_{preset}.png", [disparities, explained], legend)
