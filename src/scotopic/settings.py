"""Every constant of the method, under the paper's symbols, and the presets that fix them.

Presets are values, not code paths: ``fast`` runs through the same functions as ``paper``.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field, fields
from typing import Any

from scotopic.errors import SettingsError


def _require(name: str, value: object, good: bool, expected: str) -> None:
    if not good:
        raise SettingsError(f"setting {name!r}: found {value!r}, expected {expected}; change it or leave it out")


@dataclass(frozen=True)
class JunctionSettings:
    """How a field of junctions is fitted (METHOD section 1).

    Parameters
    ----------
    patch_size
        ``R``, pixels along the side of a patch.
    stride
        Pixels from one patch to the next.
    search_steps
        Search steps at the start, without coupling between patches. Patches at rest are not searched again, so a large
        number costs little.
    refine_steps
        Steps after that, in which ``lb`` and ``lc`` rise from zero to their full weight.
    search_every
        Every how many refinement steps a search step stands in for a gradient step.
    candidates
        Offsets tried for each parameter in a search step.
    vertex_range
        The vertex is searched over ``[-vertex_range, vertex_range]`` around its place (patch half-sides).
    boundary_weight, color_weight
        ``lb`` and ``lc`` at the end of the refinement.
    angle_rate, vertex_rate
        Adam's learning rates.
    binning
        Fit on pixels averaged ``binning x binning``: a quarter of the work at 2. Divides ``patch_size`` and ``stride``.
    tile
        Largest number of patches along a side that are fitted in one piece; bounds the working memory.
    tile_margin
        Patches around a tile that are fitted with it and dropped. Without refinement steps patches are independent,
        no margin is needed and tiles are exact.
    """

    patch_size: int = 40
    stride: int = 8
    search_steps: int = 30
    refine_steps: int = 1000
    search_every: int = 50
    candidates: int = 31
    vertex_range: float = 3.0
    boundary_weight: float = 0.5
    color_weight: float = 0.1
    angle_rate: float = 0.003
    vertex_rate: float = 0.03
    binning: int = 1
    tile: int = 256
    tile_margin: int = 8

    def __post_init__(self) -> None:
        for name in ("stride", "search_every", "candidates", "binning", "tile"):
            _require(name, getattr(self, name), getattr(self, name) >= 1, "at least 1")
        for name in ("search_steps", "refine_steps", "tile_margin"):
            _require(name, getattr(self, name), getattr(self, name) >= 0, "at least 0")
        for name in ("vertex_range", "boundary_weight", "color_weight", "angle_rate", "vertex_rate"):
            _require(name, getattr(self, name), 0 <= getattr(self, name) < float("inf"), "a finite number from 0 up")
        _require("patch_size", self.patch_size, self.patch_size >= 2, "at least 2")
        _require("stride", self.stride, self.stride <= self.patch_size, f"at most patch_size = {self.patch_size}")
        divides = self.patch_size % self.binning == 0 and self.stride % self.binning == 0
        _require(
            "binning", self.binning, divides, f"a divisor of patch_size {self.patch_size} and stride {self.stride}"
        )
        _require("binning", self.binning, self.patch_size // self.binning >= 2, "at least 2 binned pixels per patch")


@dataclass(frozen=True)
class MatchingSettings:
    """How the two fields are matched (METHOD sections 2 to 4).

    Parameters
    ----------
    min_disparity, max_disparity
        Candidates are ``min_disparity <= d < max_disparity``, in pixels; ``min_disparity`` may be negative. With
        ``max_disparity`` left at ``None`` it is 128, or the image's width if that is less.
    reconstruction_weight
        ``lr``, the weight of reconstruction against reconstruction.
    symmetric
        ``False`` keeps only the first cost term (the paper's non-symmetric ablation).
    p1, p2, p2_min, p2_decay
        ``P1`` and ``P2 = max(p2 exp(-p2_decay S), p2_min)`` with ``S`` the strongest boundary in a patch.
    adaptive_p2
        ``False`` uses ``p2`` everywhere (the paper's fixed-P2 ablation).
    volume_range
        The costs are scaled to ``0 .. volume_range`` and floored.
    boundary_threshold
        A pixel is kept where the left boundary map is above this.
    left_right_threshold
        ... and where the two views' disparities differ by less than this, in pixels.
    mask_right
        Also ask for a boundary in the right view (the paper's equation; its experiments do not).
    min_confidence
        Also drop pixels whose confidence is below this (0: none).
    """

    min_disparity: int = 0
    max_disparity: int | None = None
    reconstruction_weight: float = 2.0
    symmetric: bool = True
    p1: int = 20
    p2: int = 200
    p2_min: int = 50
    p2_decay: float = 2.0
    adaptive_p2: bool = True
    volume_range: int = 1024
    boundary_threshold: float = 0.1
    left_right_threshold: float = 1.0
    mask_right: bool = False
    min_confidence: float = 0.0

    def __post_init__(self) -> None:
        if self.max_disparity is not None and self.max_disparity <= self.min_disparity:
            raise SettingsError(
                f"disparity range: found {self.min_disparity} to {self.max_disparity}, expected max_disparity above "
                "min_disparity; swap or widen them"
            )
        for name in ("p1", "p2", "p2_min"):
            _require(name, getattr(self, name), 0 <= getattr(self, name) <= 1_000_000, "between 0 and 1000000")
        _require("volume_range", self.volume_range, 1 <= self.volume_range <= 32767, "between 1 and 32767")
        for name in ("reconstruction_weight", "p2_decay", "left_right_threshold"):
            _require(name, getattr(self, name), 0 <= getattr(self, name) < float("inf"), "a finite number from 0 up")
        for name in ("boundary_threshold", "min_confidence"):
            _require(name, getattr(self, name), 0 <= getattr(self, name) <= 1, "between 0 and 1")

    def for_width(self, width: int) -> MatchingSettings:
        """Return the settings with the disparity range fixed for an image of this width."""
        resolved = self.max_disparity
        if resolved is None:
            resolved = max(min(128, width), self.min_disparity + 1)
        if max(abs(self.min_disparity), resolved) > width:
            raise SettingsError(
                f"disparity range: found {self.min_disparity} to {resolved} for images {width} px wide, expected a "
                "range within the width; lower max_disparity (or |min_disparity|)"
            )
        return dataclasses.replace(self, max_disparity=resolved)


@dataclass(frozen=True)
class EvidenceSettings:
    """How the evidence for each disparity of each pixel is gathered (``preset="best"``; see :mod:`scotopic.evidence`).

    Lengths are in working pixels, which are twice as large as the images' where it is dark. The constants were chosen
    by ablation (``docs/best.md``); those of the calibration come from rendered scenes alone.

    Parameters
    ----------
    fits, smallest_patch, largest_patch
        Junctions are fitted so many times, with patches of evenly spaced sizes between these parts of ``patch_size``
        (20, 28, 36 and 44 px of 40): the mean of the color maps is closer to the clean image than any of them. One fit
        uses ``patch_size`` itself.
    stabilize_above
        Images are transformed to even noise where its variance differs by more than this factor between dark and
        bright.
    full_size_snr
        Images are matched at full size where the median signal over noise of the finest band is above this; otherwise
        at half size, where nothing is lost and four pixels stand for one.
    max_cells
        Images are halved further until the volume has at most so many cells, which bounds the memory at about 10 bytes
        each.
    group_count, group_reach, group_rounds, group_share
        In the dark the junctions' color maps are joined, by this share, with the images filtered in groups of so many
        (16, 32 or 64) like patches at most so far apart, in so many rounds (:mod:`scotopic.evidence.groups`).
    finest_scale, scales, band_ratio
        Bands ``G(s) - G(band_ratio s)`` at so many scales ``s``, each twice the one before. Wide bands: coarse
        structure is what survives.
    band_misfit
        Part of a band's signal that never repeats between the views: reflections, and what slants do to a window.
    band_window
        Smallest window of a band's costs.
    junction_weight, junction_window, junction_high, junction_error
        Junctions against junctions: weight and window of the costs, what is coarser than ``junction_high`` left out.
        The part ``junction_error`` of a color map's variance is error, here and in the cross terms.
    cross_weight, cross_window, cross_high
        Image against junctions and the reverse.
    image_weight, largest_clarity
        Image against image, where signal and noise are alike. It fades with the square of their ratio, the clarity,
        below 1, and grows with it above, up to ``largest_clarity``; with its root the penalties ``p1`` and ``p2`` fall.
    local_units
        Measure the part of the noise that goes with the signal where it is, not over the whole image.
    quiet_share, white_factor
        Where the quietest share of the finest band has this many times the noise expected, noise is not white, and each
        band's is measured there.
    evidence_steps
        Whole numbers per unit of the volume's spread; ``p1`` and ``p2`` of this preset are in these steps.
    surface_sigma, surface_tau, surface_ridge, surface_passes
        The left view is solved again along wide planes through the first answer, so many times: reach, largest jump
        within a surface, ridge on the slopes.
    plane_sigma, plane_tau, plane_ridge, plane_rounds
        Local planes through the last answer: the same, and rounds.
    agreement_slack
        Disagreement of the views, in pixels, that says nothing: both are noisy to this degree.
    confidence_blur, confidence_reach, confidence_floor
        The score is the geometric mean over ``confidence_reach`` of the blurred sureness, lifted by the floor:
        neighbors err together, and one that is unsure speaks against all.
    confidence_power, confidence_top, confidence_middle, confidence_slope
        Calibration: with the score times ``unit^power``, ``top / (1 + (middle / score)^slope)``; see
        ``benchmarks/calibrate.py``.
    """

    fits: int = 4
    smallest_patch: float = 0.5
    largest_patch: float = 1.1
    stabilize_above: float = 2.0
    full_size_snr: float = 1.0
    max_cells: int = 2**26
    group_count: int = 16
    group_reach: int = 12
    group_rounds: int = 2
    group_share: float = 0.5
    finest_scale: float = 1.0
    scales: int = 4
    band_ratio: float = 4.0
    band_misfit: float = 0.05
    band_window: float = 3.0
    junction_weight: float = 0.35
    junction_window: float = 1.0
    junction_high: float = 4.0
    junction_error: float = 0.2
    cross_weight: float = 1500.0
    cross_window: float = 3.0
    cross_high: float = 8.0
    image_weight: float = 1000.0
    largest_clarity: float = 100.0
    local_units: bool = True
    quiet_share: float = 0.2
    white_factor: float = 2.0
    evidence_steps: int = 32
    surface_sigma: float = 16.0
    surface_tau: float = 2.0
    surface_ridge: float = 20.0
    surface_passes: int = 1
    plane_sigma: float = 8.0
    plane_tau: float = 1.5
    plane_ridge: float = 60.0
    plane_rounds: int = 2
    agreement_slack: float = 0.5
    confidence_blur: float = 1.0
    confidence_reach: float = 4.0
    confidence_floor: float = 0.1
    confidence_power: float = 0.5
    confidence_top: float = 0.99
    confidence_middle: float = 117.0
    confidence_slope: float = 0.64

    def __post_init__(self) -> None:
        shares = ("junction_error", "quiet_share", "confidence_top", "group_share")
        counts = {
            "fits": 1,
            "scales": 1,
            "max_cells": 1,
            "group_count": 16,
            "group_reach": 1,
            "group_rounds": 0,
            "evidence_steps": 1,
            "surface_passes": 0,
            "plane_rounds": 0,
        }
        may_be_zero = (
            "confidence_power",
            "full_size_snr",
            "band_misfit",
            "junction_weight",
            "cross_weight",
            "image_weight",
            "agreement_slack",
        )
        for each in fields(self):
            name, value = each.name, getattr(self, each.name)
            if name in counts:
                _require(name, value, counts[name] <= value < 2**40, f"at least {counts[name]}")
            elif name in shares:
                _require(name, value, 0 < value <= 1, "above 0 and at most 1")
            elif name in may_be_zero:
                _require(name, value, 0 <= value < float("inf"), "a finite number from 0 up")
            elif name != "local_units":
                _require(name, value, 0 < value < float("inf"), "a finite number above 0")
        _require("evidence_steps", self.evidence_steps, self.evidence_steps <= 1024, "at most 1024")
        _require("band_ratio", self.band_ratio, self.band_ratio > 1, "above 1")
        _require("scales", self.scales, self.scales <= 8, "at most 8")
        _require("group_reach", self.group_reach, self.group_reach <= 32, "at most 32")
        # A patch in a corner has this many places around it, itself among them.
        places = (self.group_reach + 1) ** 2
        expected = f"16, 32 or 64, at most {places}, the places within group_reach = {self.group_reach}"
        _require(
            "group_count", self.group_count, self.group_count in (16, 32, 64) and self.group_count <= places, expected
        )

    def of_surfaces(self) -> EvidenceSettings:
        """Return the settings with the surfaces' planes in the place of the local ones."""
        return dataclasses.replace(
            self, plane_sigma=self.surface_sigma, plane_tau=self.surface_tau, plane_ridge=self.surface_ridge
        )

    def patch_sizes(self, junctions: JunctionSettings) -> list[int]:
        """Return the patch sizes of the fits: whole binned pixels, no smaller than the stride."""
        if self.fits == 1:
            return [junctions.patch_size]
        step = (self.largest_patch - self.smallest_patch) / (self.fits - 1)
        parts = [self.smallest_patch + k * step for k in range(self.fits)]
        smallest = max(junctions.stride, 2 * junctions.binning)
        sizes = {round(part * junctions.patch_size / junctions.binning) * junctions.binning for part in parts}
        return sorted({max(size, smallest) for size in sizes})


@dataclass(frozen=True)
class Settings:
    """All settings of one match.

    Attributes
    ----------
    preset
        Which preset they began as.
    junctions, matching
        Of the stages that every preset has.
    evidence
        Of the per-pixel evidence; ``None`` for presets that match patches.
    """

    preset: str = "paper"
    junctions: JunctionSettings = field(default_factory=JunctionSettings)
    matching: MatchingSettings = field(default_factory=MatchingSettings)
    evidence: EvidenceSettings | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the settings as plain nested dictionaries."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Settings:
        """Rebuild settings from :meth:`as_dict`; also as it was before there was any ``evidence``."""
        evidence = values.get("evidence")
        return cls(
            str(values["preset"]),
            JunctionSettings(**values["junctions"]),
            MatchingSettings(**values["matching"]),
            None if evidence is None else EvidenceSettings(**evidence),
        )


# Two search steps on binned pixels leave most patches at rest; the few coupled steps after them take longer strides
# toward a smaller lb, which keeps the paper's coverage. docs/performance.md has the measurements.
_FEW_STEPS = JunctionSettings(
    search_steps=2,
    refine_steps=60,
    search_every=20,
    candidates=19,
    boundary_weight=0.25,
    angle_rate=0.01,
    vertex_rate=0.1,
    binning=2,
)

PRESETS: dict[str, Settings] = {
    "paper": Settings("paper"),
    "fast": Settings("fast", _FEW_STEPS),
    # P1 = 1.3 and P2 = 26 in units of the volume's spread, in steps of 1/32 of it.
    "best": Settings(
        "best",
        _FEW_STEPS,
        MatchingSettings(p1=52, p2=1040, adaptive_p2=False, min_confidence=0.3),
        EvidenceSettings(),
    ),
}


def make_settings(preset: str = "paper", /, **overrides: Any) -> Settings:
    """Return the settings of a preset with some of them replaced by name.

    Parameters
    ----------
    preset
        A name in :data:`PRESETS`.
    **overrides
        Fields of :class:`JunctionSettings` and :class:`MatchingSettings`.

    Raises
    ------
    SettingsError
        Unknown preset or name, or a value of the wrong kind or range.

    Examples
    --------
    >>> make_settings("paper", max_disparity=64).matching.max_disparity
    64
    """
    if not isinstance(preset, str) or preset not in PRESETS:
        raise SettingsError(f"preset: found {preset!r}, expected one of {', '.join(PRESETS)}; choose one of these")
    base = PRESETS[preset]
    parts: dict[str, Any] = {"junctions": base.junctions, "matching": base.matching}
    if base.evidence is not None:
        parts["evidence"] = base.evidence
    homes = {f.name: part for part, value in parts.items() for f in fields(value)}
    unknown = [name for name in overrides if name not in homes]
    if unknown:
        raise SettingsError(f"setting: found {unknown[0]!r}, expected one of {', '.join(sorted(homes))}")
    for part, value in parts.items():
        chosen = {name: given for name, given in overrides.items() if homes[name] == part}
        defaults = {f.name: getattr(value, f.name) for f in fields(value)}
        kinds = {f.name: _kind(f.default) for f in fields(value)}
        parts[part] = dataclasses.replace(
            value, **{name: _converted(name, given, kinds[name], defaults[name]) for name, given in chosen.items()}
        )
    return Settings(preset, **parts)


def _kind(default: object) -> type:
    """Return the type of a setting, by its default (``max_disparity`` is an integer or ``None``)."""
    return int if default is None else type(default)


def _converted(name: str, given: object, kind: type, default: object) -> object:
    """Return ``given`` as the setting's type; numbers may come as strings from the command line."""
    if given is None:
        _require(name, given, default is None, f"a value of type {kind.__name__}")
        return None
    if kind is bool:
        words = {"true": True, "false": False, "1": True, "0": False, "yes": True, "no": False}
        known = words.get(str(given).lower())
        _require(name, given, known is not None, "true or false")
        return known
    try:
        number = float(given)  # type: ignore[arg-type]
        whole = int(number) if kind is int else number
    except (TypeError, ValueError, OverflowError):
        number = whole = float("nan")
    expected = "a whole number" if kind is int else "a number"
    _require(name, given, not isinstance(given, bool) and whole == number, expected)
    return whole
