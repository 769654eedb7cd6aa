"""The real night street: errors at LIDAR points, and whether the LIDAR agrees with what the images show.

    python benchmarks/night.py --data ../shared/data --json benchmarks/results/night.json --out docs/images/night.png

Two independent methods, ``preset="best"`` and OpenCV's SGBM, are compared with the LIDAR and with each other. Where
both find the same disparity and the LIDAR another one, the LIDAR is off, and no matcher can come closer to it. The
pair: Maddern et al., "1 Year, 1000 km: The Oxford RobotCar Dataset", 2017.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

import scotopic

FOLDER = Path("night") / "robotcar_nighttime_00001"
CANDIDATES = 128
ROAD = 500  # rows from here on are road, in this picture
Map = NDArray[np.float32]


def main() -> None:
    """Match, compare, print, draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    left, right = (
        cv2.cvtColor(cv2.imread(str(arguments.data / FOLDER / name)), cv2.COLOR_BGR2RGB)
        for name in ("im0.png", "im1.png")
    )
    lidar = cv2.imread(str(arguments.data / FOLDER / "disp0.png"), cv2.IMREAD_UNCHANGED).astype(np.float32) / 256
    lidar[lidar == 0] = np.nan
    match = scotopic.match(left, right, max_disparity=CANDIDATES)
    others = {f"SGBM {name}": sgbm(left, right, *how) for name, how in SGBM.items()}
    found = {"best": by_confidence(match, lidar), **{n: at_its_own_points(d, match, lidar) for n, d in others.items()}}
    found["offset"] = offsets(match, others["SGBM block 5"], lidar)
    print(json.dumps(found, indent=1))
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=1) + "\n")
    if arguments.out:
        draw(match, others["SGBM block 5"], lidar, arguments.out)


#: Block size, root of the intensity, colors.
SGBM = {"block 5": (5, False, False), "block 9": (9, False, False), "block 9, root, colors": (9, True, True)}


def sgbm(left: NDArray[np.uint8], right: NDArray[np.uint8], block: int, root: bool, colors: bool) -> Map:
    """Return OpenCV's answer with its usual penalties, NaN where it has none."""
    channels = 3 if colors else 1
    matcher = cv2.StereoSGBM_create(
        0, CANDIDATES, block, 8 * channels * block**2, 32 * channels * block**2, 1, 63, 10, 100, 2
    )
    views = [np.rint(np.sqrt(v / 255) * 255).astype(np.uint8) if root else v for v in (left, right)]
    views = views if colors else [cv2.cvtColor(v, cv2.COLOR_RGB2GRAY) for v in views]
    found = matcher.compute(*views).astype(np.float32) / 16
    return np.where(found > 0, found, np.float32(np.nan))


def errors(disparity: Map, lidar: Map) -> dict[str, float]:
    """Return the errors where there is a disparity, with the share of the LIDAR points that these are."""
    off = (disparity - lidar)[np.isfinite(disparity) & np.isfinite(lidar)]
    return {
        "points": round(100 * off.size / int(np.isfinite(lidar).sum()), 1),
        "epe": round(float(np.abs(off).mean()), 3),
        "bad3": round(100 * float((np.abs(off) > 3).mean()), 1),
        "median offset": round(float(np.median(off)), 2),
    }


def by_confidence(match: scotopic.Match, lidar: Map) -> list[dict[str, float]]:
    """Return the errors of the most certain shares of the points."""
    confidence = match.confidence[np.isfinite(lidar)]
    limits = [float(np.quantile(confidence, 1 - share)) for share in (0.39, 0.45, 0.52, 0.75, 1.0)]
    return [errors(np.where(match.confidence >= limit, match.disparity_all, np.nan), lidar) for limit in limits]


def at_its_own_points(other: Map, match: scotopic.Match, lidar: Map) -> dict[str, Any]:
    """Return another method's errors, and ours where it answers."""
    ours = np.where(np.isfinite(other), match.disparity_all, np.float32(np.nan))
    return {"it": errors(other, lidar), "best at the same points": errors(ours, lidar)}


def offsets(match: scotopic.Match, other: Map, lidar: Map) -> dict[str, Any]:
    """Return by how much the methods differ from each other, and from the LIDAR, where they agree to 3 px."""
    row = np.arange(len(lidar))[:, None]
    agree = np.isfinite(lidar) & (np.abs(match.disparity_all - other) < 3)
    table = {}
    for name, part in (("facades", agree & (row < ROAD)), ("road", agree & (row >= ROAD))):
        table[name] = {
            "points": int(part.sum()),
            "best - SGBM": round(float(np.median((match.disparity_all - other)[part])), 2),
            "best - LIDAR": round(float(np.median((match.disparity_all - lidar)[part])), 2),
            "SGBM - LIDAR": round(float(np.median((other - lidar)[part])), 2),
        }
    return table


def draw(match: scotopic.Match, other: Map, lidar: Map, path: Path) -> None:
    """Draw our disparity and confidence, and both methods' offsets at the LIDAR points. None of it is the data."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 2, figsize=(13, 8.6), layout="constrained")
    shown = axes[0, 0].imshow(match.disparity_all, cmap="turbo", vmin=0, vmax=70)
    figure.colorbar(shown, ax=axes[0, 0], label="px", shrink=0.8)
    axes[0, 0].set_title("best: disparity, every pixel")
    shown = axes[0, 1].imshow(match.confidence, cmap="viridis", vmin=0, vmax=1)
    figure.colorbar(shown, ax=axes[0, 1], shrink=0.8)
    axes[0, 1].set_title("best: confidence")
    y, x = np.nonzero(np.isfinite(lidar))
    for axis, name, disparity in ((axes[1, 0], "best", match.disparity_all), (axes[1, 1], "SGBM, block 5", other)):
        off = (disparity - lidar)[y, x]
        known = np.isfinite(off)
        dots = axis.scatter(x[known], y[known], c=off[known], s=0.3, cmap="coolwarm", vmin=-5, vmax=5)
        axis.set(xlim=(0, lidar.shape[1]), ylim=(lidar.shape[0], 0), aspect="equal", facecolor="0.15")
        axis.set_title(f"{name} less LIDAR, {100 * known.mean():.0f} % of the points")
        figure.colorbar(dots, ax=axis, label="px", shrink=0.8)
    for axis in axes.flat:
        axis.set(xticks=[], yticks=[])
    figure.savefig(path, dpi=80)


if __name__ == "__main__":
    main()
