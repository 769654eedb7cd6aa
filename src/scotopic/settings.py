"""Every setting of every stage, and the presets that fix them.

A match has one :class:`Settings` object. Each pipeline has a class of its own, made of one part per stage, so that it
holds exactly what the pipeline uses: :class:`JunctionMatchingSettings` (presets ``paper`` and ``fast``) and
:class:`EvidenceMatchingSettings` (preset ``best``). Presets are values, not code paths: ``fast`` runs through the same
functions as ``paper``.

About ten settings are meant for users (:func:`public_settings`). The others are internal constants of their stage; they
can be set by name all the same, with :func:`make_settings` or ``--set``.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
import warnings
from dataclasses import dataclass, field, fields
from typing import Any, Self

from scotopic.errors import SettingsError


def setting(default: Any, low: float | None = None, high: float = math.inf, *, public: bool = False) -> Any:
    """Declare a setting: its default, its range of values (above 0 without ``low``), and whether it is for users."""
    return field(default=default, metadata={"low": low, "high": high, "public": public})


def require(name: str, value: object, is_valid: bool, expected: str) -> None:
    """Raise :class:`SettingsError` unless a setting is valid."""
    if not is_valid:
        raise SettingsError(f"The setting {name} must be {expected}, not {value!r}.")


class Part:
    """The settings of one stage: a dataclass that checks the range of each number."""

    def __post_init__(self) -> None:
        for each in fields(self):  # type: ignore[arg-type]
            value, low, high = getattr(self, each.name), each.metadata.get("low"), each.metadata.get("high", math.inf)
            if value is None or isinstance(value, bool):
                continue
            if low is None:
                limits = "a finite number above 0" if high == math.inf else f"above 0 and at most {high}"
                require(each.name, value, 0 < value <= high and value < math.inf, limits)
                continue
            limits = f"between {low} and {high}" if high < math.inf else f"a finite number of at least {low}"
            require(each.name, value, low <= value <= high and abs(value) < math.inf, limits)


@dataclass(frozen=True)
class JunctionSettings(Part):
    """How a field of junctions is fitted (:mod:`scotopic.stages.junctions`).

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
        Every how many refinement steps a search step replaces a gradient step.
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

    patch_size: int = setting(40, low=2, public=True)
    stride: int = setting(8, low=1, public=True)
    search_steps: int = setting(30, low=0)
    refine_steps: int = setting(1000, low=0)
    search_every: int = setting(50, low=1)
    candidates: int = setting(31, low=1)
    vertex_range: float = setting(3.0, low=0)
    boundary_weight: float = setting(0.5, low=0)
    color_weight: float = setting(0.1, low=0)
    angle_rate: float = setting(0.003, low=0)
    vertex_rate: float = setting(0.03, low=0)
    binning: int = setting(1, low=1)
    tile: int = setting(256, low=1)
    tile_margin: int = setting(8, low=0)

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
    """What every pipeline's matching needs (:mod:`scotopic.stages.sgm`).

    Parameters
    ----------
    min_disparity, max_disparity
        Candidates are ``min_disparity <= d < max_disparity``, in pixels; ``min_disparity`` may be negative. With
        ``max_disparity`` left at ``None`` it is 128, or the image's width if that is less.
    p1, p2
        Penalties of semi-global matching: for a change of disparity by one candidate, and by more.
    left_right_threshold
        The two views agree where their disparities differ by less than this, in pixels.
    min_confidence
        Drop pixels whose confidence is below this (0: none).
    """

    min_disparity: int = setting(0, low=-math.inf, public=True)
    max_disparity: int | None = setting(None, low=-math.inf, public=True)
    p1: int = setting(20, low=0, high=1_000_000, public=True)
    p2: int = setting(200, low=0, high=1_000_000, public=True)
    left_right_threshold: float = setting(1.0, low=0, public=True)
    min_confidence: float = setting(0.0, low=0, high=1, public=True)

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
    """How patches are matched and what is kept (:mod:`scotopic.stages.patch_costs`, ``sgm``, ``consistency``).

    Parameters
    ----------
    reconstruction_weight
        ``lr``, the weight of reconstruction against reconstruction.
    symmetric
        ``False`` keeps only the first cost term (the paper's non-symmetric ablation).
    p2_min, p2_decay
        ``P2 = max(p2 exp(-p2_decay S), p2_min)`` with ``S`` the strongest boundary in a patch.
    adaptive_p2
        ``False`` uses ``p2`` everywhere (the paper's fixed-P2 ablation).
    volume_range
        The costs are scaled to ``0 .. volume_range`` and floored.
    boundary_threshold
        A pixel is kept where the left boundary map is above this.
    mask_right
        Also ask for a boundary in the right view (the paper's equation; its experiments do not).
    """

    reconstruction_weight: float = setting(2.0, low=0)
    symmetric: bool = True
    p2_min: int = setting(50, low=0, high=1_000_000)
    p2_decay: float = setting(2.0, low=0)
    adaptive_p2: bool = True
    volume_range: int = setting(1024, low=1, high=32767)
    boundary_threshold: float = setting(0.1, low=0, high=1, public=True)
    mask_right: bool = False


@dataclass(frozen=True)
class NoiseSettings(Part):
    """How the pair's noise is estimated and stabilized (:mod:`scotopic.stages.noise`).

    Parameters
    ----------
    stabilize_above
        Images are variance-stabilized where the noise variance differs by more than this factor between dark and
        bright.
    quiet_quantile, correlated_factor
        Noise counts as correlated between pixels where this quantile of the finest band's local energy exceeds the
        expected noise by this factor; then each band's noise is measured there.
    """

    stabilize_above: float = 2.0
    quiet_quantile: float = setting(0.2, high=1)
    correlated_factor: float = 2.0


@dataclass(frozen=True)
class ResolutionSettings(Part):
    """Which working size images are matched at (:mod:`scotopic.stages.resolution`).

    Parameters
    ----------
    full_size_snr
        Images are matched at full size where the median signal-to-noise ratio of the finest band is above this;
        otherwise at half size, where nothing is lost and four pixels stand for one.
    max_cells
        Images are halved further until the volume has at most this many cells, which bounds the memory.
    max_snr
        The signal-to-noise ratio that windows, penalties and weights adapt to is capped at this.
    """

    full_size_snr: float = setting(1.0, low=0)
    max_cells: int = setting(2**26, low=1, high=2**40, public=True)
    max_snr: float = 100.0


@dataclass(frozen=True)
class DescriptionSettings(Part):
    """How many fields of junctions describe each view (:mod:`scotopic.pipelines.evidence_matching`).

    Parameters
    ----------
    fits, smallest_patch, largest_patch
        Junctions are fitted ``fits`` times, with patch sizes evenly spaced between these fractions of ``patch_size``
        (20, 28, 36 and 44 px of 40): the mean of the color maps is closer to the clean image than any of them. One fit
        uses ``patch_size`` itself.
    """

    fits: int = setting(4, low=1, high=64, public=True)
    smallest_patch: float = 0.5
    largest_patch: float = 1.1

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
class DenoisingSettings(Part):
    """How the color maps are denoised in the dark (:mod:`scotopic.stages.denoising`).

    Parameters
    ----------
    group_count, group_reach
        Each patch is filtered together with its ``group_count`` most similar patches (16, 32 or 64) within
        ``group_reach`` pixels.
    group_rounds
        How often; 0 leaves the filter out.
    group_share
        Share of the filtered images in the denoised color maps; the rest is the junctions'.
    """

    group_count: int = 16
    group_reach: int = setting(12, low=1, high=32)
    group_rounds: int = setting(2, low=0)
    group_share: float = setting(0.5, high=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        # A patch in a corner has this many places around it, itself among them.
        places = (self.group_reach + 1) ** 2
        is_valid = self.group_count in (16, 32, 64) and self.group_count <= places
        expected = f"16, 32 or 64, and at most {places}, the places within group_reach = {self.group_reach}"
        require("group_count", self.group_count, is_valid, expected)


@dataclass(frozen=True)
class ChannelSettings(Part):
    """What is compared between the views (:mod:`scotopic.stages.channels`). Lengths are in working pixels.

    Parameters
    ----------
    finest_scale, scales, band_ratio
        Bands ``G(s) - G(band_ratio s)`` at ``scales`` scales ``s``, each twice the one before. Wide bands: coarse
        structure is what survives noise.
    band_misfit
        Fraction of a band's signal that never repeats between the views: reflections, and what slants do to a window.
    band_window
        Smallest window of a band's costs.
    junction_weight, junction_window, junction_highpass, junction_error
        Junctions against junctions: weight and window of the costs; structure coarser than ``junction_highpass`` is
        left out. The fraction ``junction_error`` of a color map's variance is error, here and in the cross terms.
    cross_weight, cross_window, cross_highpass
        Image against junctions and the reverse.
    image_weight
        Image against image. Its weight goes with the square of the signal-to-noise ratio below 1 and with the ratio
        itself above.
    local_units
        Measure the part of the noise that goes with the signal where it is, not over the whole image.
    """

    finest_scale: float = 1.0
    scales: int = setting(4, low=1, high=8)
    band_ratio: float = 4.0
    band_misfit: float = setting(0.05, low=0)
    band_window: float = 3.0
    junction_weight: float = setting(0.35, low=0)
    junction_window: float = 1.0
    junction_highpass: float = 4.0
    junction_error: float = setting(0.2, high=1)
    cross_weight: float = setting(1500.0, low=0)
    cross_window: float = 3.0
    cross_highpass: float = 8.0
    image_weight: float = setting(1000.0, low=0)
    local_units: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        require("band_ratio", self.band_ratio, self.band_ratio > 1, "above 1")


@dataclass(frozen=True)
class VolumeSettings(Part):
    """How costs become integers for semi-global matching (:mod:`scotopic.stages.sgm`).

    Parameters
    ----------
    cost_steps
        Integer steps per unit of the volume's spread; ``p1`` and ``p2`` of ``best`` are in these steps.
    """

    cost_steps: int = setting(32, low=1, high=1024)


@dataclass(frozen=True)
class PlaneSettings:
    """One kind of local planes through disparities (:mod:`scotopic.stages.surfaces`).

    Parameters
    ----------
    sigma
        Reach, in working pixels.
    tau
        Largest jump of disparity within a surface.
    ridge
        Regularization of the slopes.
    rounds
        How often the planes are fitted, each time to the result of the last.
    """

    sigma: float
    tau: float
    ridge: float
    rounds: int


@dataclass(frozen=True)
class SurfaceSettings(Part):
    """Planes to solve the left view along once more, and planes through the answer (:mod:`scotopic.stages.surfaces`).

    Parameters
    ----------
    surface_sigma, surface_tau, surface_ridge, surface_passes
        The left view is solved ``surface_passes`` more times along wide planes; see :class:`PlaneSettings`.
    plane_sigma, plane_tau, plane_ridge, plane_rounds
        Local planes through the last answer.
    """

    surface_sigma: float = 16.0
    surface_tau: float = 2.0
    surface_ridge: float = 20.0
    surface_passes: int = setting(1, low=0)
    plane_sigma: float = 8.0
    plane_tau: float = 1.5
    plane_ridge: float = 60.0
    plane_rounds: int = setting(2, low=0)

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

    Parameters
    ----------
    lr_slack
        Left-right difference, in pixels, that says nothing: both views are noisy to this degree.
    confidence_blur, confidence_reach, confidence_floor
        The score is the geometric mean over ``confidence_reach`` of the blurred margin, lifted by the floor:
        neighbors err together, and one with a small margin speaks against all.
    """

    lr_slack: float = setting(0.5, low=0)
    confidence_blur: float = 1.0
    confidence_reach: float = 4.0
    confidence_floor: float = 0.1


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
    volume: VolumeSettings = field(default_factory=VolumeSettings)
    surfaces: SurfaceSettings = field(default_factory=SurfaceSettings)
    score: ScoreSettings = field(default_factory=ScoreSettings)


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
    "paper": JunctionMatchingSettings("paper"),
    "fast": JunctionMatchingSettings("fast", _FEW_STEPS),
    # P1 = 1.625 and P2 = 32.5 in units of the volume's spread, in steps of 1/32 of it.
    "best": EvidenceMatchingSettings("best", _FEW_STEPS, MatchingSettings(p1=52, p2=1040, min_confidence=0.3)),
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

#: Settings of earlier versions that are constants of the calibration now.
_DROPPED = ("confidence_power", "confidence_top", "confidence_middle", "confidence_slope")


def current_name(name: str) -> str:
    """Return the present name of a setting of an earlier version."""
    return _OLD_NAMES.get(name, name)


def part_of_settings(settings: Settings) -> dict[str, str]:
    """Return for each setting's name the part of the settings that it is in."""
    parts = [each.name for each in fields(settings) if each.name != "preset"]
    return {each.name: part for part in parts for each in fields(getattr(settings, part))}


def public_settings(settings: Settings) -> dict[str, Any]:
    """Return the settings that are meant for users, by name."""
    homes = part_of_settings(settings)
    return {
        each.name: getattr(getattr(settings, part), each.name)
        for part in dict.fromkeys(homes.values())
        for each in fields(getattr(settings, part))
        if each.metadata.get("public")
    }


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
    if isinstance(preset, Settings):
        return replace_by_name(preset, overrides)
    if not isinstance(preset, str) or preset not in PRESETS:
        raise SettingsError(f"There is no preset {preset!r}. Choose one of {', '.join(PRESETS)}.")
    return replace_by_name(PRESETS[preset], overrides)


def replace_by_name(settings: Settings, overrides: dict[str, Any]) -> Settings:
    """Return settings with some of them replaced by name; the arguments are checked."""
    homes = part_of_settings(settings)
    changes: dict[str, dict[str, Any]] = {}
    for given, value in overrides.items():
        name = current_name(given)
        if name != given:
            warnings.warn(f"The setting {given} is now called {name}.", DeprecationWarning, stacklevel=4)
        if name not in homes:
            raise SettingsError(_unknown(name, settings))
        part = getattr(settings, homes[name])
        kind = next(each.type for each in fields(part) if each.name == name)
        changes.setdefault(homes[name], {})[name] = _convert(name, value, str(kind))
    parts = {part: dataclasses.replace(getattr(settings, part), **values) for part, values in changes.items()}
    return dataclasses.replace(settings, **parts)


def _unknown(name: str, settings: Settings) -> str:
    """Return what to say of a setting that these settings do not have."""
    owners = [preset for preset, base in PRESETS.items() if name in part_of_settings(base)]
    if owners:
        return (
            f"The preset {settings.preset!r} does not use the setting {name!r}. It belongs to {' and '.join(owners)}."
        )
    near = difflib.get_close_matches(name, part_of_settings(settings), n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    known = ", ".join(sorted(public_settings(settings)))
    return f"There is no setting {name!r}.{hint} The usual ones of {settings.preset!r} are {known}."


def _convert(name: str, given: object, kind: str) -> object:
    """Return ``given`` as the setting's type; numbers may come as strings from the command line."""
    if given is None or (given == "None" and "None" in kind):
        require(name, given, "None" in kind, f"a value of type {kind}")
        return None
    if kind == "bool":
        words = {"true": True, "false": False, "1": True, "0": False, "yes": True, "no": False}
        known = words.get(str(given).lower())
        require(name, given, known is not None, "true or false")
        return known
    is_whole = kind.startswith("int")
    try:
        number = float(given)  # type: ignore[arg-type]
        converted = int(number) if is_whole else number
    except (TypeError, ValueError, OverflowError):
        number = converted = float("nan")
    is_number = not isinstance(given, bool) and converted == number
    require(name, given, is_number, "a whole number" if is_whole else "a number")
    return converted
