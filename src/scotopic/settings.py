"""Every setting of every stage, and the presets that fix them.

A match has one :class:`Settings` object. Each pipeline has a class of its own, made of one part per stage, so that it
holds exactly what the pipeline uses: :class:`JunctionMatchingSettings` (presets ``paper`` and ``fast``) and
:class:`EvidenceMatchingSettings` (preset ``best``). Presets are values, not code paths: ``fast`` runs through the same
functions as ``paper``.

About ten settings are meant for users (:func:`public_settings`). The others are internal constants of their stage; they
can be set by name all the same, with :func:`make_settings` or ``--set``. What a setting means stands beside its
default; :func:`describe_settings` returns it.
"""

from __future__ import annotations

import dataclasses
import math
import warnings
from dataclasses import dataclass, field, fields
from numbers import Real
from typing import Any, NamedTuple, Self

from scotopic.errors import PARAMETERS, SettingsError, did_you_mean, nearest_names

LARGEST_PENALTY = 1_000_000  #: ``P1`` and ``P2``: path costs are 32-bit integers
SMALLEST, LARGEST = 1e-6, 10**9  #: of every setting without limits of its own; powers of more leave float32
LARGEST_LENGTH = 1000  #: of blurs and windows, px: time and memory grow with them


def setting(default: Any, meaning: str, low: float = SMALLEST, high: float = LARGEST, *, public: bool = False) -> Any:
    """Declare a setting: its default, what it means, its range, and if it is for users."""
    return field(default=default, metadata={"meaning": meaning, "low": low, "high": high, "public": public})


def require(name: str, value: object, is_valid: bool, expected: str) -> None:
    """Raise :class:`SettingsError` unless a setting is valid."""
    if not is_valid:
        raise SettingsError(f"The setting {name} must be {expected}, not {value!r}.")


class Part:
    """The settings of one stage: a dataclass that checks the range of each number."""

    def __post_init__(self) -> None:
        for each in fields(self):  # type: ignore[arg-type]
            value, low, high = getattr(self, each.name), each.metadata["low"], each.metadata["high"]
            if value is None or isinstance(value, bool):
                continue
            require(each.name, value, low <= value <= high, f"between {low} and {high}")


@dataclass(frozen=True)
class JunctionSettings(Part):
    """How a field of junctions is fitted (:mod:`scotopic.stages.junctions`)."""

    patch_size: int = setting(40, "R, pixels along the side of a patch", low=2, high=1024, public=True)
    stride: int = setting(8, "pixels from one patch to the next", low=1, public=True)
    search_steps: int = setting(
        30, "search steps at the start, without coupling; patches at rest are left out", 0, 10_000
    )
    refine_steps: int = setting(
        1000, "steps after that, in which lb and lc rise from zero to their full weight", 0, 1_000_000
    )
    search_every: int = setting(50, "every how many refinement steps a search step replaces a gradient step", low=1)
    candidates: int = setting(31, "offsets tried for each parameter in a search step", 1, 1000)
    vertex_range: float = setting(3.0, "the vertex is searched this far around its place, in patch half-sides", 0, 100)
    boundary_weight: float = setting(0.5, "lb at the end of the refinement", low=0)
    color_weight: float = setting(0.1, "lc at the end of the refinement", low=0)
    angle_rate: float = setting(0.003, "Adam's learning rate for angles", low=0, high=10)
    vertex_rate: float = setting(0.03, "Adam's learning rate for vertices", low=0, high=10)
    binning: int = setting(1, "fit on pixels averaged binning x binning; divides patch_size and stride", low=1)
    tile: int = setting(256, "largest number of patches along a side fitted in one piece; bounds the memory", low=1)
    tile_margin: int = setting(8, "patches around a tile, fitted with it and dropped; none without refinement", low=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        require("stride", self.stride, self.stride <= self.patch_size, f"at most patch_size, {self.patch_size}")
        divides = self.patch_size % self.binning == 0 and self.stride % self.binning == 0
        expected = f"a divisor of patch_size, {self.patch_size}, and of stride, {self.stride}"
        require("binning", self.binning, divides, expected)
        expected = f"at most half of patch_size, {self.patch_size}"
        require("binning", self.binning, self.patch_size // self.binning >= 2, expected)


@dataclass(frozen=True)
class MatchingSettings(Part):
    """What every pipeline's matching needs (:mod:`scotopic.stages.sgm`)."""

    min_disparity: int = setting(0, "first disparity to search, px; may be negative", low=-LARGEST, public=True)
    max_disparity: int | None = setting(
        None, "the search ends below this, px; 128, or the image's width if that is less", low=-LARGEST, public=True
    )
    p1: int = setting(20, "P1, penalty for a change of disparity by one candidate", 0, LARGEST_PENALTY, public=True)
    p2: int = setting(200, "P2, penalty for a larger change", 0, LARGEST_PENALTY, public=True)
    left_right_threshold: float = setting(
        1.0, "the views agree where their disparities differ by less than this, px", low=0, public=True
    )
    min_confidence: float = setting(0.0, "drop pixels of a confidence below this (0: none)", low=0, high=1, public=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_disparity is not None and self.max_disparity <= self.min_disparity:
            raise SettingsError(
                f"max_disparity ({self.max_disparity}) must be above min_disparity ({self.min_disparity})."
            )

    def for_width(self, width: int) -> Self:
        """Return the settings with the disparity range fixed for an image of this width."""
        last = self.max_disparity
        if last is None:
            last = max(min(128, width), self.min_disparity + 1)
        if max(abs(self.min_disparity), last) > width:
            raise SettingsError(
                f"The disparity range {self.min_disparity} to {last} does not fit images {width} px wide. Lower "
                "max_disparity (or |min_disparity|)."
            )
        return dataclasses.replace(self, max_disparity=last)

    @property
    def disparities(self) -> range:
        """The candidates, once :meth:`for_width` has fixed the range."""
        assert self.max_disparity is not None
        return range(self.min_disparity, self.max_disparity)


@dataclass(frozen=True)
class PatchMatchingSettings(MatchingSettings):
    """How patches are matched and what is kept (:mod:`scotopic.stages.patch_costs`, ``sgm``, ``consistency``)."""

    reconstruction_weight: float = setting(2.0, "lr, weight of reconstruction against reconstruction", low=0)
    symmetric: bool = setting(True, "false keeps the first cost term only (the paper's non-symmetric ablation)")
    p2_min: int = setting(
        50, "P2 = max(p2 exp(-p2_decay S), p2_min), S the strongest boundary", low=0, high=LARGEST_PENALTY
    )
    p2_decay: float = setting(2.0, "how fast P2 falls with the strongest boundary in a patch", low=0)
    adaptive_p2: bool = setting(True, "false uses p2 everywhere (the paper's fixed-P2 ablation)")
    volume_range: int = setting(1024, "costs are scaled to 0 .. volume_range and floored", low=1, high=32767)
    boundary_threshold: float = setting(
        0.1, "a pixel is kept where the left boundary map is above this", low=0, high=1, public=True
    )
    mask_right: bool = setting(
        False, "also ask for a boundary in the right view (the paper's equation; its experiments do not)"
    )


@dataclass(frozen=True)
class NoiseSettings(Part):
    """How the pair's noise is estimated and stabilized (:mod:`scotopic.stages.noise`)."""

    stabilize_above: float = setting(
        2.0, "stabilize images whose noise variance differs by more than this factor between dark and bright"
    )
    quiet_quantile: float = setting(0.2, "quantile of the finest band's local energy that counts as quiet", high=1)
    correlated_factor: float = setting(
        2.0, "noise counts as correlated where the quiet energy exceeds the expected noise by this factor"
    )


@dataclass(frozen=True)
class DescriptionSettings(Part):
    """How large the patches are that junctions are fitted to (:func:`scotopic.stages.resolution.adapt_patches`)."""

    full_patch_noise: float = setting(0.44, "noise, white being 1, from which on patches have their full size", low=0)
    full_patch_snr: float = setting(0.02, "signal-to-noise ratio of the images up to which they do too", low=0)
    smallest_patch: float = setting(0.42, "smallest patch, as a fraction of patch_size", high=1)


@dataclass(frozen=True)
class ResolutionSettings(Part):
    """Which sizes images are matched at (:mod:`scotopic.stages.resolution`)."""

    full_size_snr: float = setting(
        3.0, "do without denoising where the finest band's median signal-to-noise ratio is above this", low=0
    )
    noise_floor_quantile: float = setting(0.02, "quantile of the local energy that counts as noise there", high=1)
    max_cells: int = setting(
        2**26, "halve images until the volume has at most this many cells; bounds the memory", 1, 2**40, public=True
    )
    max_snr: float = setting(100.0, "largest signal-to-noise ratio that windows, penalties and weights adapt to")


@dataclass(frozen=True)
class DenoisingSettings(Part):
    """How the color maps are denoised in the dark (:mod:`scotopic.stages.denoising`)."""

    group_count: int = setting(16, "similar patches that are filtered together: 16, 32 or 64")
    group_reach: int = setting(12, "how far apart they may be, px", low=1, high=32)
    group_rounds: int = setting(2, "how often; 0 leaves the filter out", low=0, high=16)
    group_share: float = setting(0.5, "share of the filtered images in the denoised color maps", high=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        # A patch in a corner has this many places around it, itself among them.
        places = (self.group_reach + 1) ** 2
        is_valid = self.group_count in (16, 32, 64) and self.group_count <= places
        expected = f"16, 32 or 64, and at most {places}, the places within group_reach = {self.group_reach}"
        require("group_count", self.group_count, is_valid, expected)


@dataclass(frozen=True)
class ChannelSettings(Part):
    """What is compared between the views (:mod:`scotopic.stages.channels`). Lengths are in working pixels."""

    finest_scale: float = setting(1.0, "s of the finest band G(s) - G(band_ratio s)", 0.25, LARGEST_LENGTH)
    scales: int = setting(4, "number of bands, each twice as coarse as the one before", low=1, high=8)
    band_ratio: float = setting(4.0, "how wide a band is: coarse structure is what survives noise", 1.1, 16)
    band_misfit: float = setting(0.05, "fraction of a band that differs between views: reflections, slants", low=0)
    band_window: float = setting(3.0, "smallest window of a band's costs", high=LARGEST_LENGTH)
    junction_weight: float = setting(0.35, "weight of junctions against junctions", low=0)
    junction_window: float = setting(1.0, "window of junctions against junctions", high=LARGEST_LENGTH)
    junction_highpass: float = setting(4.0, "structure coarser than this is left out there", 0.25, LARGEST_LENGTH)
    junction_error: float = setting(0.2, "fraction of a color map's variance that is error", high=1)
    cross_weight: float = setting(1500.0, "weight of image against junctions and the reverse", low=0)
    cross_window: float = setting(3.0, "window of image against junctions", high=LARGEST_LENGTH)
    cross_highpass: float = setting(8.0, "structure coarser than this is left out there", 0.25, LARGEST_LENGTH)
    image_weight: float = setting(
        1000.0, "weight of image against image, times the signal-to-noise ratio (its square below 1)", low=0
    )
    local_units: bool = setting(True, "measure the noise that goes with the signal where it is, not over the image")

    def __post_init__(self) -> None:
        super().__post_init__()
        width = self.band_ratio * 2 ** (self.scales - 1)
        most = LARGEST_LENGTH / width
        expected = f"at most {most:g}, since band_ratio 2^(scales - 1) = {width:g} times it is the coarsest blur"
        require("finest_scale", self.finest_scale, self.finest_scale <= most, expected)


@dataclass(frozen=True)
class ColorSettings(Part):
    """Colors of denoised images as evidence (:mod:`scotopic.stages.color_costs`). Lengths are in working pixels."""

    color_contrast: float = setting(0.01, "difference of colors, white being 1, that costs half as much as any")
    color_noise: float = setting(0.5, "smallest such difference, in standard deviations of the noise", low=0)
    color_window: float = setting(2.0, "window of the costs of colors", high=LARGEST_LENGTH)
    color_snr: float = setting(
        0.3, "signal-to-noise ratio of the images from which on colors count as much as all coarse evidence"
    )
    color_share: float = setting(2.0, "weight of colors beside the census", low=0)


@dataclass(frozen=True)
class FineSettings(Part):
    """Fine evidence, and what changes where it is used (:mod:`scotopic.stages.census`). Lengths are in fine pixels."""

    fine_snr: float = setting(1.0, "use fine evidence where the images' signal-to-noise ratio is above this", low=0)
    census_contrast: float = setting(0.02, "difference of two pixels, white being 1, that counts as an edge")
    census_noise: float = setting(1.25, "smallest such difference, in standard deviations of the noise", low=0)
    census_falloff: float = setting(
        4.0, "difference, in units of that one, at which a neighbor counts a third", low=0.01, high=1e6
    )
    fine_window: float = setting(1.0, "window of the fine costs", high=LARGEST_LENGTH)
    # 7 is enough for groups of 64, the most that DenoisingSettings allows.
    fine_group_reach: int = setting(8, "how far apart patches that are filtered together may be", low=7, high=32)
    correlated_p1: float = setting(
        2.0,
        "how many times P1 is larger for denoised images whose noise is correlated between pixels",
        low=0.01,
        high=100,
    )
    fine_p2: int = setting(1600, "P2 where there is fine evidence, in place of p2", low=1, high=LARGEST_PENALTY)
    edge_contrast: float = setting(0.01, "difference of neighboring pixels, white being 1, that halves P2")
    edge_noise: float = setting(0.3, "smallest such difference, in standard deviations of the noise", low=0)
    fine_tau: float = setting(0.7, "largest jump of disparity within a local plane")


@dataclass(frozen=True)
class VolumeSettings(Part):
    """How costs become integers for semi-global matching (:mod:`scotopic.stages.sgm`)."""

    cost_steps: int = setting(32, "integer steps per unit of the volume's spread; p1 and p2 are in them", 1, 1024)


class PlaneSettings(NamedTuple):
    """One kind of local planes through disparities (:mod:`scotopic.stages.surfaces`)."""

    sigma: float  #: reach, working px
    tau: float  #: largest jump of disparity within a surface
    ridge: float  #: regularization of the slopes
    rounds: int  #: how often the planes are fitted, each time to the result of the last


@dataclass(frozen=True)
class VoteSettings(Part):
    """Votes of like colors on clear images (:mod:`scotopic.stages.votes`). Lengths are in pixels of the image."""

    vote_count: int = setting(128, "pixels that vote on a pixel; 0 leaves the votes out", low=0, high=1024)
    vote_gap: float = setting(10.0, "nearest of them: closer ones share its own mistakes", 0, LARGEST_LENGTH)
    vote_reach: float = setting(120.0, "farthest of them", high=LARGEST_LENGTH)
    vote_contrast: float = setting(0.02, "difference of colors, white being 1, at which a vote counts 0.6 times")
    vote_weight: float = setting(1.0, "weight of the votes beside the other costs", low=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        require("vote_reach", self.vote_reach, self.vote_reach >= self.vote_gap, f"at least vote_gap, {self.vote_gap}")


@dataclass(frozen=True)
class SurfaceSettings(Part):
    """Planes to solve the left view along again, and planes through the answer (:mod:`scotopic.stages.surfaces`)."""

    surface_sigma: float = setting(
        16.0, "reach of the wide planes that the left view is solved along", high=LARGEST_LENGTH
    )
    surface_tau: float = setting(2.0, "largest jump of disparity within such a surface")
    surface_ridge: float = setting(20.0, "regularization of its slopes")
    surface_passes: int = setting(1, "how often the left view is solved again", 0, 100)
    plane_sigma: float = setting(8.0, "reach of the local planes through the last answer", high=LARGEST_LENGTH)
    plane_tau: float = setting(1.5, "largest jump of disparity within a local plane")
    plane_ridge: float = setting(60.0, "regularization of its slopes")
    plane_rounds: int = setting(2, "how often planes are fitted, each time to the result of the last", 0, 100)
    subpixel_reach: float = setting(
        2.0, "reach of the refinement between candidates; 0 leaves it out", 0, LARGEST_LENGTH
    )

    @property
    def wide(self) -> PlaneSettings:
        """The planes along which the left view is solved again."""
        return PlaneSettings(self.surface_sigma, self.surface_tau, self.surface_ridge, self.plane_rounds)

    @property
    def local(self) -> PlaneSettings:
        """The planes through the last answer."""
        return PlaneSettings(self.plane_sigma, self.plane_tau, self.plane_ridge, self.plane_rounds)


@dataclass(frozen=True)
class ScoreSettings(Part):
    """The score that the confidence is read from (:mod:`scotopic.stages.confidence`, which also has the calibration).

    Neighbors err together, and one with a small margin speaks against all around it: hence the geometric mean.
    """

    lr_slack: float = setting(0.5, "left-right difference that says nothing, px: both views are noisy", low=0)
    confidence_blur: float = setting(1.0, "blur of the margins", high=LARGEST_LENGTH)
    confidence_reach: float = setting(4.0, "reach of the geometric mean of the blurred margins", high=LARGEST_LENGTH)
    confidence_floor: float = setting(0.1, "what lifts the margins before their mean")
    inner_share: float = setting(
        0.5, "weight of the margin inside the edges of the picture; 0 leaves it out", low=0, high=1
    )
    inner_contrast: float = setting(
        0.12, "difference of neighbors, in standard deviations of the noise, at which a jump costs half there"
    )
    sparse_share: float = setting(
        0.025, "keep the surest pixels up to this share of the picture where fewer reach min_confidence", low=0, high=1
    )


@dataclass(frozen=True)
class Settings:
    """All settings of one match: the parts that every pipeline has.

    Attributes
    ----------
    preset
        Which preset they began as.
    junctions, matching
        Settings of the junctions and of the matching.
    """

    preset: str = "paper"
    junctions: JunctionSettings = field(default_factory=JunctionSettings)
    matching: MatchingSettings = field(default_factory=MatchingSettings)

    def as_dict(self) -> dict[str, Any]:
        """Return the settings as plain nested dictionaries."""
        return dataclasses.asdict(self)

    @staticmethod
    def from_dict(values: dict[str, Any]) -> Settings:
        """Rebuild settings from :meth:`as_dict`, of this version or an earlier one."""
        values = dict(values)
        preset = str(values.pop("preset"))
        base = PRESETS[preset] if preset in PRESETS else JunctionMatchingSettings()
        given = {current_name(name): value for part in values.values() for name, value in (part or {}).items()}
        # Earlier versions had one part "evidence", and parts held settings that their pipeline did not use.
        homes = part_of_settings(base)
        known = {*homes, *_DROPPED, *(name for each in PRESETS.values() for name in part_of_settings(each))}
        for name in given.keys() - known:
            raise SettingsError(_unknown(name, base))
        used = {name: value for name, value in given.items() if name in homes}
        return dataclasses.replace(replace_by_name(base, used), preset=preset)


@dataclass(frozen=True)
class JunctionMatchingSettings(Settings):
    """Settings of :mod:`scotopic.pipelines.junction_matching`: patches are matched (``paper``, ``fast``)."""

    matching: PatchMatchingSettings = field(default_factory=PatchMatchingSettings)


@dataclass(frozen=True)
class EvidenceMatchingSettings(Settings):
    """Settings of :mod:`scotopic.pipelines.evidence_matching`: every pixel is matched (``best``)."""

    noise: NoiseSettings = field(default_factory=NoiseSettings)
    description: DescriptionSettings = field(default_factory=DescriptionSettings)
    resolution: ResolutionSettings = field(default_factory=ResolutionSettings)
    denoising: DenoisingSettings = field(default_factory=DenoisingSettings)
    channels: ChannelSettings = field(default_factory=ChannelSettings)
    colors: ColorSettings = field(default_factory=ColorSettings)
    fine: FineSettings = field(default_factory=FineSettings)
    volume: VolumeSettings = field(default_factory=VolumeSettings)
    votes: VoteSettings = field(default_factory=VoteSettings)
    surfaces: SurfaceSettings = field(default_factory=SurfaceSettings)
    score: ScoreSettings = field(default_factory=ScoreSettings)


# Two search steps on binned pixels leave most patches at rest; the few coupled steps after them take longer strides
# toward a smaller lb, which keeps the paper's coverage. docs/performance.md has the measurements.
_FEW_STEPS = JunctionSettings(
    search_steps=2,
    refine_steps=60,
    search_every=30,
    candidates=13,
    boundary_weight=0.25,
    angle_rate=0.01,
    vertex_rate=0.1,
    binning=2,
)

# What is matched is filtered after the fit, so that fewer steps and candidates do. docs/performance.md has these too.
_FEWER_STEPS = dataclasses.replace(_FEW_STEPS, patch_size=28, refine_steps=40, search_every=20, candidates=11)

PRESETS: dict[str, Settings] = {
    "paper": JunctionMatchingSettings("paper"),
    "fast": JunctionMatchingSettings("fast", _FEW_STEPS),
    # P1 = 1.625 and P2 = 32.5 in units of the volume's spread, in steps of 1/32 of it.
    "best": EvidenceMatchingSettings("best", _FEWER_STEPS, MatchingSettings(p1=52, p2=1040, min_confidence=0.5)),
}

#: Names of settings in earlier versions.
_OLD_NAMES = {
    "colour_weight": "color_weight",
    "stabilise_above": "stabilize_above",
    "largest_clarity": "max_snr",
    "junction_high": "junction_highpass",
    "cross_high": "cross_highpass",
    "quiet_share": "quiet_quantile",
    "white_factor": "correlated_factor",
    "evidence_steps": "cost_steps",
    "agreement_slack": "lr_slack",
}

#: Settings of earlier versions that are gone. Most are constants of the calibration now; junctions are fitted once,
#: coarse evidence is not added to fine evidence, and the reach of the score is the same for both.
_DROPPED = (
    "confidence_power",
    "confidence_top",
    "confidence_middle",
    "confidence_slope",
    "fits",
    "largest_patch",
    "coarse_decay",
    "fine_reach",
)


def current_name(name: str) -> str:
    """Return the present name of a setting of an earlier version."""
    return _OLD_NAMES.get(name, name)


def part_of_settings(settings: Settings) -> dict[str, str]:
    """Return for each setting's name the part of the settings that it is in."""
    parts = [each.name for each in fields(settings) if each.name != "preset"]
    return {each.name: part for part in parts for each in fields(getattr(settings, part))}


def public_settings(settings: Settings) -> dict[str, Any]:
    """Return the settings that are meant for users, by name."""
    return {each.name: each.value for each in describe_settings(settings) if each.is_public}


class SettingDescription(NamedTuple):
    """One setting: the stage's part that it is in, its name, value and meaning, and whether it is meant for users."""

    part: str
    name: str
    value: Any
    meaning: str
    is_public: bool


def describe_settings(settings: Settings) -> list[SettingDescription]:
    """Return every setting with what it means, in the order of the stages."""
    return [
        SettingDescription(
            part, each.name, getattr(owner, each.name), each.metadata["meaning"], each.metadata["public"]
        )
        for part in dict.fromkeys(part_of_settings(settings).values())
        for owner in [getattr(settings, part)]
        for each in fields(owner)
    ]


def make_settings(preset: str | Settings = "best", /, **overrides: Any) -> Settings:
    """Return the settings of a preset with some of them replaced by name.

    Parameters
    ----------
    preset
        A name in :data:`PRESETS`, or settings to start from.
    **overrides
        Any setting of the preset's pipeline.

    Raises
    ------
    SettingsError
        The preset or a setting is unknown, the pipeline does not use a setting, or a value has the wrong type or range.

    Examples
    --------
    >>> make_settings("paper", max_disparity=64).matching.max_disparity
    64
    """
    return replace_by_name(_find_preset(preset), overrides)


def settings_for(function: str, preset: str | Settings, overrides: dict[str, Any]) -> Settings:
    """As :func:`make_settings`, for a function whose own parameters (:data:`PARAMETERS`) may have been meant."""
    return replace_by_name(_find_preset(preset), overrides, function)


def _find_preset(preset: str | Settings) -> Settings:
    if isinstance(preset, Settings):
        return preset
    if not isinstance(preset, str) or preset not in PRESETS:
        hint = did_you_mean(str(preset), PRESETS)
        raise SettingsError(f"There is no preset {preset!r}.{hint} Choose one of {', '.join(PRESETS)}.")
    return PRESETS[preset]


def replace_by_name(settings: Settings, overrides: dict[str, Any], function: str | None = None) -> Settings:
    """Return settings with some of them replaced by name, as a `function` was given them; they are checked."""
    homes = part_of_settings(settings)
    changes: dict[str, dict[str, Any]] = {}
    for given, value in overrides.items():
        name = current_name(given)
        if name != given:
            warnings.warn(f"The setting {given} is now called {name}.", DeprecationWarning, stacklevel=4)
        if name in _DROPPED and isinstance(settings, EvidenceMatchingSettings):
            warnings.warn(f"The setting {name} is gone, and has no effect.", DeprecationWarning, stacklevel=4)
            continue
        if name not in homes:
            raise SettingsError(_unknown(name, settings, function))
        part = getattr(settings, homes[name])
        kind = next(each.type for each in fields(part) if each.name == name)
        changes.setdefault(homes[name], {})[name] = _convert(name, value, str(kind))
    parts = {part: dataclasses.replace(getattr(settings, part), **values) for part, values in changes.items()}
    return dataclasses.replace(settings, **parts)


def _unknown(name: str, settings: Settings, function: str | None = None) -> str:
    """Return what to say of a setting that these settings do not have, given to a function if there is one."""
    own = part_of_settings(settings)
    owners: dict[str, list[str]] = {}
    for preset, base in PRESETS.items():
        for each in part_of_settings(base):
            owners.setdefault(each, []).append(preset)
    if name in owners:
        belongs = f"It belongs to {' and '.join(owners[name])}."
        return f"The preset {settings.preset!r} does not use the setting {name!r}. {belongs}"
    others = [each for each, names in PARAMETERS.items() if name in names] if function else []
    if others:
        return f"{function} does not take {name!r}, a parameter of {' and '.join(others)}. Leave it out."
    near = [
        f"{each!r} of {' and '.join(owners[each])}" if each in owners and each not in own else repr(each)
        for each in nearest_names(name, dict.fromkeys([*own, *owners, *PARAMETERS.get(function or "", ())]))
    ]
    hint = f" Did you mean {' or '.join(near)}?" if near else ""
    known = ", ".join(sorted(public_settings(settings)))
    return f"There is no setting {name!r}.{hint} The usual ones of {settings.preset!r} are {known}."


def _convert(name: str, given: object, kind: str) -> object:
    """Return ``given`` as the setting's type; numbers may come as strings from the command line."""
    if given is None or (isinstance(given, str) and given == "None" and "None" in kind):
        require(name, given, "None" in kind, f"a value of type {kind}")
        return None
    if kind == "bool":
        words = {"true": True, "false": False, "1": True, "0": False, "yes": True, "no": False}
        known = words.get(str(given).lower())
        require(name, given, known is not None, "true or false")
        return known
    is_whole = kind.startswith("int")
    value: Any = given.item() if getattr(given, "shape", None) == () else given  # type: ignore[attr-defined]
    try:
        number = math.nan if isinstance(value, bool) or not isinstance(value, str | Real) else float(value)  # or bytes
        converted = int(number) if is_whole else number
    except (ValueError, OverflowError):
        number = converted = math.nan
    require(name, given, converted == number, "a whole number" if is_whole else "a number")
    return converted
