"""Match a pair recorded with two photons per pixel, save everything, and score it against the ground truth."""

import panels

import scotopic
from scotopic.evaluation import score

out = panels.folder(__doc__)

# A rendered room with known disparity, and a simulated recording of it, in which each channel has only three levels.
scene = scotopic.render_scene(320, 208)
left, right = scotopic.simulate_pair(scene.left, scene.right, photons=2, read_noise=2)

result = scotopic.match(left, right, max_disparity=48)
result.save(out / "match", overwrite=True)  # PFM, PNG, NPZ, preview, report: docs/conventions.md lists the files

# An error means nothing without the coverage beside it. W = 19 is the paper's window metric, W = 1 the pointwise error.
for window in (19, 1):
    found = score(result.disparity, scene.disparity_left, window=window)
    print(f"coverage {found.coverage:.1%}, W {window}: EPE {found.epe:.2f} px, Bad-3 {found.bad[3]:.1f} %")

low, high = scene.disparity_left.min() - 2, scene.disparity_left.max() + 1
seen = [("Clean left view", panels.gray(scene.left)), ("Left view, two photons per pixel", panels.gray(left))]
answer = [
    (f"Disparity of {100 * result.coverage:.0f} % of the pixels", panels.colored(result.disparity, low, high)),
    ("Ground truth", panels.colored(scene.disparity_left, low, high)),
]
panels.save(out / "match_a_pair.png", [seen, answer])
