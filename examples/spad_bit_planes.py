"""From the bit planes of a single-photon camera to a match: pack the bits, read them as flux, match."""

import numpy as np
import panels

import scotopic
from scotopic.sensor import common_white, count_bits, flux_from_bits, read_bit_planes

PLANES, BRIGHT = 64, 0.5  # the number of planes, and the most photons per plane

out = panels.folder(__doc__)
scene = scotopic.render_scene(320, 208)
random = np.random.default_rng(0)
for name, view in ("left", scene.left), ("right", scene.right):
    flux = BRIGHT * view.mean(axis=2)
    planes = random.random((PLANES, *flux.shape)) < 1 - np.exp(-flux)  # a bit is set if at least one photon arrived
    np.save(out / f"{name}.npy", np.packbits(planes, axis=2))  # the layout of photoncube's files

# Both views need the same scale, and the values should fill [0, 1]. Files may be larger than memory.
files = [out / "left.npy", out / "right.npy"]
white = common_white(*(flux_from_bits(*count_bits(path))[0] for path in files))
left, right = (read_bit_planes(path, white=white) for path in files)
print(f"white is {white:.2f} photons per plane; {left.assumed['values']}")

result = scotopic.match(left, right, max_disparity=48)
error = np.abs(result.disparity - scene.disparity_left)[result.mask]
print(f"coverage {100 * result.coverage:.1f} %, of these {100 * (error <= 1).mean():.0f} % within 1 px")

first = np.unpackbits(np.load(files[0])[0], axis=1).astype(np.float32)
low, high = scene.disparity_left.min() - 2, scene.disparity_left.max() + 1
shown = [("One bit plane", panels.gray(first)), (f"Flux from {PLANES} planes", panels.gray(left.image))]
panels.save(out / "spad_bit_planes.png", [[*shown, ("Disparity", panels.colored(result.disparity, low, high))]])
