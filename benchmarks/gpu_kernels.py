"""How fast each GPU kernel runs, and how far that is from what the GPU can do.

Used by ``speed.py --device cuda``. Two ceilings are measured on the spot: fused multiply-adds on registers, and a large
copy. For each kernel the work is counted by hand from its formulas: pixel evaluations, floating-point operations (a
fused multiply-add is two) and the bytes it must move at least.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

import torch
import triton
import triton.language as tl

from scotopic.backends import cuda_backend
from scotopic.settings import JunctionMatchingSettings, make_settings
from scotopic.stages.junctions.fit import bin_planes, fit_fields, to_planes
from scotopic.stages.patch_costs import build_patch_costs, make_view, scale_costs
from scotopic.stages.sgm import jump_penalties

# Floating-point operations of one pixel evaluation, counted in the kernels (RGB): four lines, two soft steps, sums.
SEARCH_FLOP, COUPLED_FLOP = 72, 83
DESCRIBE_FLOP, MAPS_FLOP = 64 + 150, 74
COST_FLOP = 9  # of one pixel, channel and candidate disparity: three differences, squared and added


@triton.jit
def _multiply_add(out, rounds, BLOCK: tl.constexpr):
    """Eight independent chains of fused multiply-adds per element, nothing else."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = i.to(tl.float32) * 1e-9
    b, c, d, e, f, g, h = a + 1.0, a + 2.0, a + 3.0, a + 4.0, a + 5.0, a + 6.0, a + 7.0
    for _ in range(rounds):
        a = a * 0.999 + 0.001
        b = b * 0.999 + 0.001
        c = c * 0.999 + 0.001
        d = d * 0.999 + 0.001
        e = e * 0.999 + 0.001
        f = f * 0.999 + 0.001
        g = g * 0.999 + 0.001
        h = h * 0.999 + 0.001
    tl.store(out + i, a + b + c + d + e + f + g + h)


def median_ms(work: Callable[[], object], repeats: int = 9, inner: int = 5) -> float:
    """Return the median time of ``work`` by device events; recorded as a graph, so that launches are not in it."""
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=side):
        for _ in range(inner):
            work()
    times = []
    for _ in range(repeats):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) / inner)
    return statistics.median(times)


def ceilings() -> dict[str, float]:
    """Measure what the GPU can do: TFLOP/s of float32 outside the matrix units, and GB/s of a copy."""
    programs, block, rounds = 132 * 64, 256, 4096
    out = torch.empty(programs * block, device="cuda")
    milliseconds = median_ms(lambda: _multiply_add[(programs,)](out, rounds, BLOCK=block, num_warps=4))
    tflops = programs * block * rounds * 8 * 2 / milliseconds / 1e9
    source = torch.rand(2**29, device="cuda")
    target = torch.empty_like(source)
    copied = 2 * source.numel() * 4
    # Multiplied by one, so that a kernel copies and not the copy engine.
    milliseconds = median_ms(lambda: torch.mul(source, 1.0, out=target))
    return {"fp32_tflops": tflops, "copy_gb_per_s": copied / milliseconds / 1e6}


def time_kernels(left: Any, right: Any, preset: str, disparities: int) -> dict[str, Any]:
    """Time every kernel of a preset on one pair, both views in a launch, with the share of the ceilings it reaches."""
    settings = make_settings(preset, max_disparity=disparities)
    assert isinstance(settings, JunctionMatchingSettings)
    backend, fit, matching = cuda_backend(), settings.junctions, settings.matching
    images = [torch.as_tensor(image, device="cuda").float() / 255 for image in (left, right)]
    planes = to_planes(backend, images, fit)
    small = bin_planes(backend, planes, fit.binning) if fit.binning > 1 else planes
    field = backend.new_fit(small, fit)
    field.search(0.0, 0.0)
    field.rebuild(0, 0.0, 0.0)
    start = field.parameters.clone()
    patches, pixels = start[..., 0].numel(), field.size**2
    reach = -(-field.size // field.stride)

    def again(work: Callable[[], object]) -> Callable[[], object]:
        def run() -> None:
            field.parameters.copy_(start)
            work()

        return run

    image_bytes, map_bytes = small.numel() * 4, field.boundary_map.numel() * 4
    tried = patches * 8 * fit.candidates * pixels
    rows: dict[str, Any] = {
        "search, alone": (again(lambda: field.search(0.0, 0.0)), tried, SEARCH_FLOP, image_bytes),
        "search, coupled": (
            again(lambda: field.search(0.3, 0.05)), tried, COUPLED_FLOP, 2 * image_bytes + map_bytes
        ),
        "describe + Adam": (
            again(lambda: field.describe(1, 0.3, 0.05)), patches * pixels, DESCRIBE_FLOP, 2 * image_bytes + map_bytes
        ),
        "maps": (
            lambda: field.draw(), small[:, 0].numel() * reach**2, MAPS_FLOP, image_bytes + map_bytes
        ),
    }  # fmt: skip
    fields = fit_fields(backend, images, fit)
    views = [make_view(backend, image, field) for image, field in zip(images, fields, strict=True)]
    cells = fields[0].parameters[..., 0].numel() * disparities
    for view, other, name in ((*views, "left"), (*reversed(views), "right")):
        volume_bytes = 4 * cells
        rows[f"costs {name}"] = (
            lambda v=view, o=other, n=name: build_patch_costs(backend, v, o, matching, is_left=n == "left"),
            cells * fit.patch_size**2 * planes.shape[1], COST_FLOP, volume_bytes + image_bytes,
        )  # fmt: skip
    scaled = scale_costs(backend, build_patch_costs(backend, *views, matching, is_left=True), matching)
    penalties = jump_penalties(backend, fields[0], matching)
    rows["paths, 8 directions"] = (
        lambda: backend.aggregate(scaled, penalties, matching.p1),
        8 * cells,
        6,
        cells * (8 * 2 + 2 * 8 * 4),
    )
    limits = ceilings()
    return {
        name: {
            "ms": (ms := median_ms(work)),
            "evaluations_g_per_s": evaluations / ms / 1e6,
            "fp32_share": evaluations * flop / ms / 1e9 / limits["fp32_tflops"],
            "bandwidth_share": moved / ms / 1e6 / limits["copy_gb_per_s"],
        }
        for name, (work, evaluations, flop, moved) in rows.items()
    } | {"ceilings": limits}
