"""Look inside the method: one junction with its wedges and boundary, the whole field, and a cost volume."""

import cv2
import numpy as np
import panels

import scotopic
from scotopic.backends import cpu_backend
from scotopic.stages.junctions import geometry
from scotopic.stages.patch_costs import build_patch_costs, make_view, scale_costs
from scotopic.stages.sgm import jump_penalties

PATCH, ROW, ZOOM = (19, 29), 5, 5  # the patch and the row of patches to show, and the size of a pixel
RED, GREEN, ORANGE = (255, 60, 60), (80, 220, 120), (255, 150, 40)

out = panels.folder(__doc__)
scene = scotopic.render_scene(320, 208)
noisy = scotopic.simulate_pair(scene.left, scene.right, photons=2, read_noise=2)
settings = scotopic.make_settings("fast", max_disparity=40)
fields = [scotopic.fit_junctions(image, settings.junctions, device="cpu") for image in noisy]
size, stride = settings.junctions.patch_size, settings.junctions.stride

# One patch: five parameters give two distances, three wedges and a boundary; the color of a wedge is a mean.
place = tuple(slice(k * stride, k * stride + size) for k in PATCH)
recorded, junction = noisy[0][place], fields[0].parameters[PATCH]
d13, d42 = geometry.distances(junction, size)
u = geometry.wedges(d13, d42)
painted = geometry.reconstruction(u, geometry.wedge_colors(u, recorded))
rays = panels.gray(recorded, ZOOM)
vertex = ((junction[3:] + 1) / 2 * (size - 1) + 0.5) * ZOOM
for angle in geometry.sector_angles(junction)[:3]:
    end = vertex + 999 * np.array([np.cos(angle), np.sin(angle)])
    cv2.line(rays, vertex.astype(int).tolist(), end.astype(int).tolist(), RED, 3, cv2.LINE_AA)
maps = {"Boundary b": geometry.boundary(d13, d42), "Wedges in their colors": painted}
maps["Clean patch"] = scene.left[place]
first = [("Recorded, 40 x 40 px", panels.gray(recorded, ZOOM)), ("Three rays fitted to it", rays)]
first += [("Wedges u1, u2, u3", panels.gray(np.moveaxis(u, 0, -1), ZOOM))]
panels.save(out / "one_junction.png", [first, [(title, panels.gray(value, ZOOM)) for title, value in maps.items()]])

# The whole field: where patches overlap, their boundaries and colors are averaged.
shown = [("Recorded", panels.gray(noisy[0])), ("Boundary map", panels.gray(fields[0].boundary_map / 0.5))]
panels.save(out / "field.png", [[*shown, ("Color map with boundaries", fields[0].render())]])

# The costs of one row of patches at every disparity, before and after aggregation along eight paths.
backend = cpu_backend()
left, right = (make_view(backend, image, field) for image, field in zip(noisy, fields, strict=True))
costs = build_patch_costs(backend, left, right, settings.matching, is_left=True)
volume = scale_costs(backend, costs, settings.matching)
total = backend.aggregate(volume, jump_penalties(backend, fields[0], settings.matching), settings.matching.p1)
truth = scene.disparity_left[ROW * stride + size // 2, size // 2 :: stride][: volume.shape[1]]
slices = []
for title, costs in ("Costs of the patches in one row", volume[ROW]), ("Aggregated along eight paths", total[ROW]):
    cheap, dear = np.percentile(costs, (0, 90))
    picture = panels.colored(costs.T[::-1], cheap, dear, cv2.COLORMAP_BONE).repeat(7, 0).repeat(9, 1)
    for values, color in (truth, GREEN), (backend.select(total)[0][ROW], ORANGE):
        for x, d in enumerate(values):
            cv2.circle(picture, (9 * x + 4, int(7 * (costs.shape[1] - d)) - 4), 3, color, -1, cv2.LINE_AA)
    slices.append((title, picture))
words = [("x: patches, y: disparity 0 to 39 px, dark: low cost", panels.WORDS), ("selected", ORANGE), ("truth", GREEN)]
panels.save(out / "cost_volume.png", [slices], words)
