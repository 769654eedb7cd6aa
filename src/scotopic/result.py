"""The one result object: what was found, where, how sure, and why not elsewhere."""

import json
import os
import warnings
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any, Self, cast

import numpy as np
from numpy.typing import NDArray

from scotopic.backends import cpu_backend
from scotopic.backends.device import is_on_gpu, to_numpy, to_tensor
from scotopic.depth import disparity_uncertainty
from scotopic.errors import InputError, SettingsError
from scotopic.io import (
    atomic_path,
    claim_folder,
    read_npz,
    replaced_files,
    write_disparity,
    write_npz,
    write_pfm,
    write_png,
)
from scotopic.io.frames import FRAMES, frame_map_files
from scotopic.io.input_file import read_json, reading
from scotopic.settings import EvidenceMatchingSettings, JunctionMatchingSettings, Settings
from scotopic.stages.confidence import choose_threshold, estimate_deviation
from scotopic.stages.consistency import Reason as Reason
from scotopic.subpixel import nearest_pixel

Map = NDArray[np.float32]

FORMAT = 2  #: version of ``match.npz``; raised when its contents change, and older ones keep opening

_END = 4.0  # px before the end of a search range: at half size, as in the dark, there are two candidates
_SHORTEST_END = 3.0
# Of the disparities. On five scenes of Middlebury and InStereo2K, clean and at two photons, 21 to 95 % lay at the end
# of a range that was a third too short, at most 19 % at that of one that just reached, none where it went further.
_PILED = 0.2

#: The files that :meth:`Match.save` writes.
FILES = (
    "disparity.pfm",
    "disparity_all.pfm",
    "confidence.pfm",
    "disparity_color.png",
    "confidence.png",
    "mask.png",
    "boundaries.png",
    "colors.png",
    "preview.png",
    "match.npz",
    "report.json",
)


@dataclass(frozen=True, eq=False)
class Match:
    """Result of matching a stereo pair; all maps are ``(H, W)``, of the left view unless they say otherwise.

    Attributes
    ----------
    disparity
        float32 pixels, ``x_right = x_left - d``; NaN where there is none.
    disparity_all
        The disparity of every pixel, before masking.
    right_disparity
        The same of the right view.
    confidence
        float32 in [0, 1], also of pixels that were not kept. With ``preset="best"`` the probability that the disparity
        is within 1 px of the truth (see :mod:`scotopic.stages.confidence`); with the others how clearly one disparity
        won, times how well the two views agree, which ranks pixels (see :mod:`scotopic.stages.consistency`).
    reason
        uint8 :class:`Reason`: why a pixel has no disparity, 0 where it has one.
    left_image, right_image
        The pair as it was matched, ``(H, W, C)`` float32.
    left_boundaries, right_boundaries
        Global boundary maps, in [0, 1].
    left_colors, right_colors
        Global color maps, ``(H, W, C)``.
    settings
        Every constant that was used.
    timings
        Seconds per stage.
    completed
        The disparity of every pixel from the callable or network that :func:`scotopic.match` was given as ``fill``;
        ``None`` without one.
    denoised
        Both views, denoised, at the size at which ``best`` matched them; ``None`` with other presets, and not saved.
    pose, pose_covariance
        Of a stream that is fused: 4 x 4, takes points of this left camera to the first one's, in meters with a
        calibration, in baselines without; and 6 x 6, the covariance of a twist after it, translation first, rotation in
        radians. It is infinite after a cut. ``None`` without fusion, as the following.
    frames
        How many pairs the light of each left pixel comes from, a float: 0 where a pair shows nothing, 1 after a cut.
        The brightest counts as one, darker ones as less; in a burst, the reference and brighter ones count as one.
    fused_left, fused_right
        The images that were matched, as recorded values in the exposure of the brightest frame, ``(H, W, C)``.
    burst_poses
        Of a burst: ``(N, 4, 4)``, takes points of each frame's left camera to the reference's, in the unit of the pose;
        NaN for frames that were not used. ``None`` of anything else.
    """

    disparity: Map
    disparity_all: Map
    right_disparity: Map
    confidence: Map
    reason: NDArray[np.uint8]
    left_image: Map
    right_image: Map
    left_boundaries: Map
    right_boundaries: Map
    left_colors: Map
    right_colors: Map
    settings: Settings
    timings: dict[str, float] = field(default_factory=dict)
    completed: Map | None = None
    denoised: tuple[Map, Map] | None = None
    pose: NDArray[np.float64] | None = None
    pose_covariance: NDArray[np.float64] | None = None
    frames: Map | None = None
    fused_left: Map | None = None
    fused_right: Map | None = None
    burst_poses: NDArray[np.float64] | None = None

    @classmethod
    def from_arrays(cls, settings: Settings, timings: dict[str, float], **arrays: object) -> Self:
        """Return a match of a device's own arrays. Tensors are typed as the NumPy arrays that they behave like."""
        return cls(**cast(dict[str, Any], arrays), settings=settings, timings=timings)

    def __repr__(self) -> str:
        height, width = self.reason.shape
        disparities = self.settings.matching
        return (
            f"Match({width} x {height} px, {self.settings.preset}, disparities {disparities.min_disparity} to "
            f"{disparities.max_disparity}, {100 * self.coverage:.1f} % covered, {sum(self.timings.values()):.2f} s)"
        )

    @cached_property
    def filled(self) -> Map:
        """A disparity for every pixel: kept ones as they are, planes between boundaries elsewhere; or ``completed``.

        Computed when it is first asked for, on the CPU (see :mod:`scotopic.stages.filling`).
        """
        from scotopic.stages.filling import fill_between_boundaries

        if self.completed is not None:
            return self.completed
        if is_on_gpu(self.reason):
            return self.to_numpy().filled
        return fill_between_boundaries(self.disparity, self.disparity_all, self.confidence, self.left_boundaries)

    @cached_property
    def deviation(self) -> Map:
        """Standard deviation of the disparity, px, on the CPU; NaN where there is none.

        That of ``best`` goes with the confidence, and covers: about nine errors in ten are smaller, and nineteen in
        twenty smaller than two of it. That of ``paper`` and ``fast`` is estimated from how far the two views differ,
        and is a lower bound (:func:`scotopic.depth.disparity_uncertainty`).
        """
        if is_on_gpu(self.reason):
            return self.to_numpy().deviation
        if isinstance(self.settings, JunctionMatchingSettings):
            patch_size = self.settings.junctions.patch_size
            return disparity_uncertainty(self.disparity_all, self.right_disparity, patch_size)
        return np.where(np.isnan(self.disparity_all), np.float32(np.nan), estimate_deviation(self.confidence))

    @property
    def left_colours(self) -> Map:
        """Deprecated: use :attr:`left_colors`."""
        return _renamed(self.left_colors, "left_colours", "left_colors")

    @property
    def right_colours(self) -> Map:
        """Deprecated: use :attr:`right_colors`."""
        return _renamed(self.right_colors, "right_colours", "right_colors")

    @property
    def mask(self) -> NDArray[np.bool_]:
        """Where there is a disparity."""
        kept: NDArray[np.bool_] = self.reason == int(Reason.OK)
        return kept

    @property
    def coverage(self) -> float:
        """Share of the pixels that have a disparity, in [0, 1]."""
        height, width = self.reason.shape
        return int(self.mask.sum()) / int(height * width)

    def doubt_range(self) -> str | None:
        """Return what to tell the user if disparities pile up at the end of the search range, or ``None``.

        What is nearer than the range reaches is matched at its end, and looks sure: costs fall up to there, and what
        would be better has not been tried. Where the range reaches far enough, hardly any disparity lies at its end.
        """
        width = self.reason.shape[1]
        matching = self.settings.matching.for_width(width)
        first, last = matching.min_disparity, matching.disparities.stop
        end = min(_END, (last - first) / 4)
        is_telling = end >= _SHORTEST_END and end < last < width  # disparities about 0 are those of what is far
        if is_on_gpu(self.reason) or not is_telling:
            return None
        share = int((self.disparity >= last - end).sum()) / max(int(self.mask.sum()), 1)
        if share < _PILED:
            return None
        return (
            f"{100 * share:.0f} % of the disparities are within {end:g} px of the end of the search range, {last}. "
            "Where something is nearer than that they are wrong, and look sure: raise the maximum disparity."
        )

    @classmethod
    def empty(cls, left: Map, right: Map, settings: Settings, reason: Reason) -> Self:
        """Return a match that found nothing, everywhere for the same reason, as NumPy arrays."""
        left, right = to_numpy(left, right)
        shape = left.shape[:2]
        nowhere, nothing = (np.full((3, *shape), value, np.float32) for value in (np.nan, 0))
        return cls(
            disparity=nowhere[0],
            disparity_all=nowhere[1],
            right_disparity=nowhere[2],
            confidence=nothing[0],
            reason=np.full(shape, reason, np.uint8),
            left_image=left,
            right_image=right,
            left_boundaries=nothing[1],
            right_boundaries=nothing[2],
            left_colors=left.copy(),
            right_colors=right.copy(),
            settings=settings,
        )

    def masked(self, left: NDArray[np.bool_] | None, right: NDArray[np.bool_] | None) -> Self:
        """Return the match, as NumPy arrays, without the pixels that are masked in one of the views, ``(H, W)`` each.

        A pixel loses its disparity if it is masked itself, or its partner in the right view is.
        """
        if left is None and right is None:
            return self
        found = self.to_numpy()
        hidden = np.zeros(found.reason.shape, np.bool_) if left is None else left.copy()
        if right is not None:
            width = right.shape[1]
            column = nearest_pixel(np.arange(width) - np.nan_to_num(found.disparity_all)).astype(np.intp)
            partner = np.take_along_axis(right, np.clip(column, 0, width - 1), axis=1)
            hidden |= partner & np.isfinite(found.disparity_all) & (column >= 0) & (column < width)
        return replace(
            found,
            disparity=np.where(hidden, np.float32(np.nan), found.disparity),
            confidence=np.where(hidden, np.float32(0), found.confidence),
            reason=np.where(hidden, np.uint8(Reason.MASKED), found.reason),
        )._with_surest()

    def _with_surest(self) -> Self:
        """Return the match with the surest pixels that are not masked, where hardly any is sure.

        Masked pixels have been matched too, and may have been the surest of the picture.
        """
        if not isinstance(self.settings, EvidenceMatchingSettings):
            return self
        least, share = self.settings.matching.min_confidence, self.settings.score.sparse_share
        lowest = choose_threshold(cpu_backend(), self.confidence, least, share)
        if lowest == least:
            return self
        has_any = ~np.isin(self.reason, (Reason.MASKED, Reason.NO_STRUCTURE))
        kept = has_any & (self.confidence >= lowest)
        return replace(
            self,
            disparity=np.where(kept, self.disparity_all, self.disparity),
            reason=np.where(kept, np.uint8(Reason.OK), self.reason),
        )

    def to_numpy(self) -> Self:
        """Return the match with NumPy arrays, copied from the GPU if they are there."""
        return self.to_device("cpu")

    def to_device(self, device: str) -> Self:
        """Return the match with the arrays of a device: NumPy's on ``"cpu"``, torch tensors on ``"cuda"``."""
        names = [name for name in (*ARRAYS, *FUSED_ARRAYS) if getattr(self, name) is not None]
        arrays = [getattr(self, name) for name in names]
        moved = to_numpy(*arrays) if device == "cpu" else [to_tensor(array) for array in arrays]
        return replace(self, **dict(zip(names, moved, strict=True)))  # type: ignore[arg-type]

    def report(self) -> dict[str, Any]:
        """Return what ``report.json`` holds: version, size, settings, timings, coverage and the reasons' shares."""
        from scotopic import __version__

        if is_on_gpu(self.reason):
            return self.to_numpy().report()
        height, width, channels = self.left_image.shape
        return {
            "scotopic": __version__,
            "format": FORMAT,
            "width": width,
            "height": height,
            "channels": channels,
            "values": "as recorded, over the format's full scale; no linearization",
            "coverage": self.coverage,
            "mean_confidence_kept": float(self.confidence[self.mask].mean()) if self.mask.any() else None,
            "reasons": {reason.name.lower(): float((self.reason == reason).mean()) for reason in Reason},
            "settings": self.settings.as_dict(),
            "timings_seconds": self.timings,
            "total_seconds": sum(self.timings.values()),
        }

    def save(self, folder: str | PathLike[str], *, overwrite: bool = False) -> Path:
        """Write the files of :data:`FILES` into a folder, all in one step.

        Whenever the process is killed, the folder holds the earlier results or these, whole
        (:mod:`scotopic.io.replacement`). Everything but the timings in ``report.json`` is the same, byte for byte, for
        the same input and settings.

        Raises :class:`OutputError` if the folder cannot be written or already holds results.

        Parameters
        ----------
        folder
            Created if it is missing.
        overwrite
            Replace a match that is already there: all files that its ``report.json`` lists. What other commands have
            written, such as a simulated pair, stays, except for files of the same names.
        """
        target = claim_folder(folder, FILES, overwrite)
        earlier = listed_files(target) if os.path.isfile(target / "match.npz") else []
        with replaced_files(target, earlier) as stage:
            self.write_files(stage)
        return target

    def write_files(self, folder: Path, preview: NDArray[np.uint8] | None = None) -> None:
        """Write the files of :data:`FILES` into an existing folder; `preview` in place of the usual one, if given."""
        from scotopic.preview import as_picture, draw_maps, draw_preview

        if is_on_gpu(self.reason):
            self.to_numpy().write_files(folder, preview)
            return
        for name, values in (("disparity", self.disparity), ("disparity_all", self.disparity_all)):
            write_disparity(folder / f"{name}.pfm", values)
        write_pfm(folder / "confidence.pfm", self.confidence)
        write_png(folder / "boundaries.png", as_picture(self.left_boundaries))
        write_png(folder / "colors.png", as_picture(self.left_colors))
        for name, picture in draw_maps(self).items():
            write_png(folder / f"{name}.png", picture)
        write_png(folder / "preview.png", draw_preview(self) if preview is None else preview)
        arrays = {name: getattr(self, name) for name in ARRAYS if name != "disparity"}  # which follows from the others
        for name in ("completed", *POSES, *FUSED_ARRAYS):
            if getattr(self, name) is not None:
                arrays[name] = getattr(self, name)
        write_npz(folder / "match.npz", {"settings": json.dumps(self.settings.as_dict()), **arrays}, FORMAT)
        with atomic_path(folder / "report.json") as path:
            path.write_text(json.dumps({**self.report(), "files": list(FILES)}, indent=2) + "\n")

    @classmethod
    def load(cls, folder: str | PathLike[str]) -> Self:
        """Read a match that :meth:`save` wrote, by its folder or the ``match.npz`` in it.

        Raises :class:`InputError` if there is none, or it cannot be read.
        """
        path = Path(folder) if os.path.isfile(folder) else Path(folder) / "match.npz"
        arrays = read_npz(path)
        with reading(path, "a complete match.npz of scotopic", "Match the pair again."):
            version = int(arrays.pop("format"))
            if version > FORMAT:
                raise InputError(
                    f"{path} was written by a newer version (format {version}). Upgrade scotopic to read it."
                )
            try:
                settings = Settings.from_dict(json.loads(str(arrays.pop("settings"))))
            except SettingsError as error:
                raise ValueError(error) from error
            for old in [name for name in arrays if name.endswith("_colours")]:  # as earlier versions spelled it
                arrays[old.replace("colours", "colors")] = arrays.pop(old)
            _check_arrays(arrays)
            disparity = np.where(arrays["reason"] == Reason.OK, arrays["disparity_all"], np.float32(np.nan))
            maps = cast(dict[str, Any], arrays)
            return cls(disparity=disparity, settings=settings, timings=_read_timings(path.parent), **maps)


def listed_files(folder: Path) -> list[str]:
    """Return the files that the results in a folder consist of, as their ``report.json`` lists them.

    Those of a video's single frames are in a folder of their own, and not listed one by one.
    """
    try:
        report = read_json(folder / "report.json", "report")
        found, is_video = report["files"], "video" in report
    except (InputError, KeyError, TypeError):  # there is none, or it is of something else
        return []
    frames = [f"{FRAMES}/{name}" for name in frame_map_files(folder / FRAMES)] if is_video else []
    names = [name for name in found if isinstance(name, str)] if isinstance(found, list) else []
    plain = [name for name in names if name == os.path.basename(name) and not name.startswith(".")]
    return [*(name for name in plain if "\0" not in name and os.path.isfile(folder / name)), *frames]


def _renamed(value: Map, old: str, new: str) -> Map:
    warnings.warn(f"Match.{old} is now called {new}.", DeprecationWarning, stacklevel=3)
    return value


#: The maps and images of a match of a fused stream.
FUSED_ARRAYS = ("frames", "fused_left", "fused_right")
#: Where the cameras of a fused stream or a burst were.
POSES = ("pose", "pose_covariance", "burst_poses")
#: The maps and images that every match has.
ARRAYS = tuple(
    f.name
    for f in fields(Match)
    if f.name not in ("settings", "timings", "completed", "denoised", *POSES, *FUSED_ARRAYS)
)


def _check_arrays(arrays: dict[str, NDArray[Any]]) -> None:
    """Raise ValueError unless the arrays of a file are of one size, and of the types that a match has."""
    reason = arrays["reason"]
    if reason.ndim != 2 or reason.dtype.kind != "u":
        raise ValueError(f"'reason' is {reason.dtype} of shape {reason.shape}")
    for name, values in arrays.items():
        if name in POSES or name == "reason":
            continue
        is_image = name.endswith(("_image", "_colors")) or name.startswith("fused_")
        shape = values.shape[:2] if is_image and values.ndim == 3 else values.shape
        if shape != reason.shape or is_image != (values.ndim == 3) or values.dtype.kind != "f":
            raise ValueError(f"{name!r} is {values.dtype} of shape {values.shape}, beside {reason.shape} of 'reason'")
    for name, shape in {"pose": (4, 4), "pose_covariance": (6, 6)}.items():
        if name in arrays and (arrays[name].shape != shape or arrays[name].dtype.kind != "f"):
            raise ValueError(f"{name!r} is {arrays[name].dtype} of shape {arrays[name].shape}")


def _read_timings(folder: Path) -> dict[str, float]:
    """Return the timings of the run, which live in the report so that the maps' file is reproducible."""
    try:
        report = read_json(folder / "report.json", "a report")
        return {str(name): float(seconds) for name, seconds in report["timings_seconds"].items()}
    except (InputError, ValueError, KeyError, AttributeError, TypeError, OverflowError):
        return {}
