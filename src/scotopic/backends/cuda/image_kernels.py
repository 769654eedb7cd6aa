"""Triton kernels of the image operations."""

import triton
import triton.language as tl


@triton.jit(do_not_specialize=["count", "length", "inner", "reach"])
def blur_along(
    source, out, weights, count, length, inner, reach, MIRRORED_OFTEN: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """Blur along the middle axis of ``(..., length, inner)``, mirrored at its ends without repeating them.

    Any axis of any array is the middle one if the sizes of the axes after it are multiplied, so nothing is copied.
    """
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    real = i < count
    place = ((i // inner) % length).to(tl.int32)
    start = i - place * inner.to(tl.int64)
    period = tl.maximum(2 * (length - 1), 1)
    total = tl.zeros((BLOCK,), tl.float32)
    for k in range(2 * reach + 1):
        there = place + (k - reach)
        # Back and forth where the window is wider than the axis.
        there = (there % period + period) % period if MIRRORED_OFTEN else tl.abs(there)
        there = tl.minimum(there, period - there)
        total += tl.load(weights + k) * tl.load(source + start + there * inner.to(tl.int64), mask=real, other=0.0)
    tl.store(out + i, total, mask=real)


@triton.jit(do_not_specialize=["count"])
def sum_products(image, out, count, CHANNELS: tl.constexpr, BLOCK: tl.constexpr):
    """Sums over a block of pixels of the products of up to 3 channels, the upper triangle row by row."""
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    real = i < count
    a = tl.load(image + i * CHANNELS, mask=real, other=0.0).to(tl.float64)
    b, c = a * 0, a * 0
    if CHANNELS > 1:
        b = tl.load(image + i * CHANNELS + 1, mask=real, other=0.0).to(tl.float64)
    if CHANNELS > 2:
        c = tl.load(image + i * CHANNELS + 2, mask=real, other=0.0).to(tl.float64)
    there = out + tl.program_id(0) * 6
    tl.store(there, tl.sum(a * a))
    tl.store(there + 1, tl.sum(a * b))
    tl.store(there + 2, tl.sum(a * c))
    tl.store(there + 3, tl.sum(b * b))
    tl.store(there + 4, tl.sum(b * c))
    tl.store(there + 5, tl.sum(c * c))


@triton.jit
def mix_channels(
    image, out, count, m00, m01, m02, m10, m11, m12, m20, m21, m22, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """``image @ matrix`` of up to 3 x 3 weights, which travel with the launch: copying them would wait for the GPU."""
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    real = i < count
    a = tl.load(image + i * ROWS, mask=real, other=0.0)
    x, y, z = a * m00, a * m01, a * m02
    if ROWS > 1:
        b = tl.load(image + i * ROWS + 1, mask=real, other=0.0)
        x, y, z = x + b * m10, y + b * m11, z + b * m12
    if ROWS > 2:
        c = tl.load(image + i * ROWS + 2, mask=real, other=0.0)
        x, y, z = x + c * m20, y + c * m21, z + c * m22
    tl.store(out + i * COLUMNS, x, mask=real)
    if COLUMNS > 1:
        tl.store(out + i * COLUMNS + 1, y, mask=real)
    if COLUMNS > 2:
        tl.store(out + i * COLUMNS + 2, z, mask=real)
