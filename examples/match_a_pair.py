"""Match a pair recorded by two photons per pixel, save everything, and score it against the truth."""

import panels

import scotopic
from scotopic.evaluation import score

out = panels.folder(__doc__)

# A rendered room whose disparity is known, and what a camera would record of it: three levels, nearly a coin toss.
scene = scotopic.render_scene(320, 208)
left, right = scotopic.simulate_pair(scene.left, scene.right, photons=2, read_noise=2)

result = scotopic.match(left, right, max_disparity=48)
result.save(out / "match", overwrite=True)  # PFM, PNG, NPZ, preview, report: docs/conventions.md lists the files

# An error means nothing without the coverage beside it. W = 19 is the paper's window metric, W = 1 the pointwise error.
for window in (19, 1):
    found = score(result.disparity, scene.disparity_left, window=window)
    print(f"coverage {100 * found.coverage:.1f} %, W {window}: EPE {found.epe:.2f} px, Bad-3 {found.bad[3]:.1f} %")

low, high = scene.disparity_left.min() - 2, scene.disparity_left.max() + 1
seen = [("What is there", panels.gray(scene.left)), ("What the left camera records", panels.gray(left))]
answer = [
    (f"Disparity of {100 * result.coverage:.0f} % of the pixels", panels.colored(result.disparity, low, high)),
    ("True disparity", panels.colored(scene.disparity_left, low, high)),
]
panels.save(out / "match_a_pair.png", [seen, answer])
