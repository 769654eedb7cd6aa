"""A stream of pairs, as from a camera: one Matcher, set up once, gives the results in order."""

import time
from collections.abc import Iterator

import numpy as np
import panels

import scotopic
from scotopic.preview import draw_side_by_side

FRAMES, SHAPE = 4, (160, 240)

out = panels.folder(__doc__)
scene = scotopic.render_scene(SHAPE[1], SHAPE[0])


def camera() -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield pairs as they arrive: here the same room with new noise each time; yours would wait for the camera."""
    for frame in range(FRAMES):
        yield scotopic.simulate_pair(scene.left, scene.right, photons=8, read_noise=2, seed=frame)


# Pairs are read ahead in a separate thread. On a GPU, upload, computation and download overlap as well.
matcher = scotopic.Matcher("fast", (*SHAPE, 3), max_disparity=32)
results, start = [], time.perf_counter()
for number, result in enumerate(matcher.run(camera())):
    print(f"frame {number}: coverage {100 * result.coverage:.1f} %, after {time.perf_counter() - start:.2f} s")
    results.append(result)

panels.save(
    out / "stream_of_pairs.png",
    [[(f"Frame {2 * row + k}", draw_side_by_side(results[2 * row + k])) for k in (0, 1)] for row in (0, 1)],
)
# A static scene can be averaged over time, where a pixel was answered more than once.
seen = np.stack([result.disparity for result in results])
twice = np.isfinite(seen).sum(axis=0) > 1
print(f"answered in two frames or more: {100 * twice.mean():.1f} % of the pixels")
