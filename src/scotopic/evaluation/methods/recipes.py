"""Recipes: how a network in an ONNX file is fed, as a small TOML file::

    model = "igev.onnx"        # beside this file, or anywhere
    kind = "stereo"            # "stereo", "features" (then SGM), "denoiser" (then SGBM), "completion"
    name = "IGEV++"            # in the table; the file's own name without it

    layout = "NCHW"            # or "NHWC"
    channels = "RGB"           # or "BGR", "gray"
    gray_weights = [0.299, 0.587, 0.114]  # of red, green and blue in gray; their plain mean without it
    range = [0, 255]           # what black and white become
    normalize = "fixed"        # "image": each image to mean 0 and standard deviation 1
    mean = [0.0]               # then subtracted, and divided by std: one value, or one per channel
    std = [1.0]
    multiple = 32              # sides are padded to multiples of it, on the right and below
    padding = "edge"           # by replication, or "reflect"
    output = "disparity"       # which output; the first without it

    denoiser = "ffdnet"        # run on the images first: a recipe of kind "denoiser" that ships, or a TOML file, or
                               # "nlm", "tv", "wavelet"; not for kind "denoiser"
    stretch = true             # then what the sensor records of black and white becomes black and white again

    views = "separate"         # stereo: two inputs; "stacked": one input, the right view's channels after the left's
    sign = 1                   # stereo, completion: -1 where the network gives x_right - x_left
    scale = 1.0                # ... the output times this is in px
    confidence = "certainty"   # ... an output with the confidence of each pixel (optional)
    p1 = 0.3                   # features: penalties of SGM in units of the inner product of two features
    p2 = 1.5
    noise_input = "value"      # denoiser: the noise's standard deviation is a second input (1, 1, 1, 1), in units of
                               # the range; "channel": the last channel of the image; without it the network is blind
    max_noise = 75             # ... of 255 levels: what it was trained for. Noisier images are darkened until it fits
    sparse = "scotopic:paper"  # completion: the method whose answers are completed

Only ``model`` and ``kind`` must be there, ``p1`` and ``p2`` for features. Defaults: RGB, NCHW, [0, 255], no padding, no
denoiser (completion: nlm), two inputs.

Recipes that ship (``network:NAME``) name a model that does not ship. It is looked for in the folder that is given
(``network:NAME=FOLDER``); otherwise where ``SCOTOPIC_NETWORKS`` points, in ``networks`` where ``SCOTOPIC_DATA`` points,
and in ``../shared/networks``.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scotopic.errors import InputError, ScotopicError, SettingsError
from scotopic.evaluation import toml_files as toml
from scotopic.evaluation.methods.denoise import DENOISER_LIBRARIES, DENOISERS
from scotopic.evaluation.methods.external import NAME
from scotopic.onnx_model import model_files

RECIPES = Path(__file__).parent.parent / "recipes"  #: the recipes that ship with the package
LEVELS = 255  #: ``max_noise`` is in these, as the papers on denoisers have it

_IS_WEIGHTS = (
    lambda value: toml.list_of(toml.NUMBER)[0](value) and len(value) == 3 and abs(sum(value) - 1) < 1e-3,
    "three numbers whose sum is 1",
)
_CHECKS: dict[str, toml.Check] = {
    "model": toml.TEXT,
    "kind": toml.one_of("stereo", "features", "denoiser", "completion"),
    "name": (
        lambda value: isinstance(value, str) and NAME.fullmatch(value) is not None,
        "letters, digits, blanks and ._+-, beginning with a letter or digit",
    ),
    "layout": toml.one_of("NCHW", "NHWC"),
    "channels": toml.one_of("RGB", "BGR", "gray"),
    "gray_weights": _IS_WEIGHTS,
    "range": (
        lambda value: toml.list_of(toml.NUMBER)[0](value) and len(value) == 2 and value[0] != value[1],
        "two different numbers, for black and white",
    ),
    "normalize": toml.one_of("fixed", "image"),
    "mean": toml.list_of(toml.NUMBER),
    "std": toml.list_of((lambda value: toml.is_number(value) and value != 0, "a number other than 0")),
    "multiple": toml.whole(1, 4096),
    "padding": toml.one_of("edge", "reflect"),
    "output": toml.TEXT,
    "denoiser": toml.TEXT,
    "stretch": (lambda value: isinstance(value, bool), "true or false"),
    "views": toml.one_of("separate", "stacked"),
    "sign": toml.one_of(1, -1),
    "scale": toml.POSITIVE,
    "confidence": toml.TEXT,
    "p1": toml.POSITIVE,
    "p2": toml.POSITIVE,
    "noise_input": toml.one_of("value", "channel"),
    "max_noise": toml.POSITIVE,
    "sparse": toml.TEXT,
}
#: Keys that only some kinds have.
_KINDS: dict[str, tuple[str, ...]] = {
    "denoiser": ("stereo", "features", "completion"),
    "stretch": ("stereo", "features", "completion"),
    "views": ("stereo",),
    "p1": ("features",),
    "p2": ("features",),
    "noise_input": ("denoiser",),
    "max_noise": ("denoiser",),
}


@dataclass(frozen=True)
class Recipe:
    """The content of the TOML file; see the head of this module."""

    model: Path
    kind: str
    name: str
    layout: str = "NCHW"
    channels: str = "RGB"
    gray_weights: tuple[float, ...] = (1 / 3, 1 / 3, 1 / 3)
    range: tuple[float, ...] = (0.0, 255.0)
    normalize: str = "fixed"
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)
    multiple: int = 1
    padding: str = "edge"
    output: str | None = None
    denoiser: Recipe | str | None = None  #: another recipe, or a name in :data:`DENOISERS`
    stretch: bool = False
    views: str = "separate"
    sign: int = 1
    scale: float = 1.0
    confidence: str | None = None
    p1: float = 0.0
    p2: float = 0.0
    noise_input: str | None = None
    max_noise: float | None = None
    sparse: str = "scotopic:paper"

    @property
    def planes(self) -> int:
        """Number of channels of the network's image."""
        return 1 if self.channels == "gray" else 3

    @property
    def settings(self) -> str:
        """All of it as text, without the folders that the models lie in."""
        inner = self.denoiser.settings if isinstance(self.denoiser, Recipe) else self.denoiser
        return repr({**vars(self), "model": self.model.name, "denoiser": inner})

    @property
    def models(self) -> list[Path]:
        """The files of its network, and of the network that denoises before it."""
        return model_files(self.model) + (self.denoiser.models if isinstance(self.denoiser, Recipe) else [])

    @property
    def libraries(self) -> tuple[str, ...]:
        """The distributions that it uses."""
        denoiser = self.denoiser if isinstance(self.denoiser, str) else ""
        return ("onnxruntime", "onnxruntime-gpu", "numba", *DENOISER_LIBRARIES.get(denoiser, ()))


def shipped_recipes() -> list[str]:
    """Return the names of the recipes that ship with the package."""
    return sorted(path.stem for path in RECIPES.glob("*.toml"))


def shipped_recipe(name: str, folder: str | None = None) -> Recipe:
    """Return a recipe that ships, its model found in `folder` or in the usual places.

    Raises :class:`InputError` if the model is in none of them; the message names them.
    """
    return _read(RECIPES / f"{name}.toml", network_folders(folder))


def network_folders(folder: str | None = None) -> list[Path]:
    """Return where models are looked for: in `folder` alone if it is given."""
    if folder is not None:
        return [Path(folder)]
    places = [Path(os.environ["SCOTOPIC_NETWORKS"])] if os.environ.get("SCOTOPIC_NETWORKS") else []
    if os.environ.get("SCOTOPIC_DATA"):
        places.append(Path(os.environ["SCOTOPIC_DATA"]) / "networks")
    return [*places, Path("..") / "shared" / "networks"]


def read_recipe(file: Path) -> Recipe:
    """Read and check a TOML file of the user's, whose model is beside it or anywhere.

    Raises :class:`InputError` if the file is missing or not TOML, and :class:`SettingsError` if it has an unknown key
    or a value that makes no sense, or names a model that is not there.
    """
    return _read(file, None)


def _read(file: Path, folders: Sequence[Path] | None, must_be: str | None = None) -> Recipe:
    """Read a recipe, of a certain kind; its model is in one of the folders, or named relative to the file."""
    what = f"The recipe {str(file)!r}"
    values = {"name": file.stem} | toml.read_toml(file, "The recipe")
    if values.get("channels") == "grey":  # as it was spelled before
        values["channels"] = "gray"
    toml.check_keys(what, values, list(_CHECKS), required=("model", "kind"))
    toml.check_values(what, values, _CHECKS)
    if must_be is not None and values["kind"] != must_be:
        raise SettingsError(f"{what} is of kind {values['kind']!r} instead of {must_be!r}.")
    _check_kind(what, values)
    chosen: dict[str, Any] = {
        key: tuple(map(float, value)) if isinstance(value, list) else value for key, value in values.items()
    }
    chosen["model"] = _find_model(what, file, chosen["model"], folders)
    if "denoiser" in chosen:
        chosen["denoiser"] = _find_denoiser(what, file, chosen["denoiser"], folders)
    recipe = Recipe(**chosen)
    for key in ("mean", "std"):
        count = len(getattr(recipe, key))
        if count not in (1, recipe.planes):
            raise SettingsError(
                f"{what}: {key!r} must have 1 or {recipe.planes} values for channels {recipe.channels!r}, not {count}."
            )
    return recipe


def _check_kind(what: str, values: dict[str, Any]) -> None:
    """Raise :class:`SettingsError` if a key does not belong to the kind, or one that does is missing."""
    kind = values["kind"]
    for key, kinds in _KINDS.items():
        if key in values and kind not in kinds:
            raise SettingsError(f"{what}: {key!r} is for kind {' or '.join(kinds)}, not {kind}. Leave it out.")
    if kind == "features":
        toml.check_keys(what, values, list(_CHECKS), required=("p1", "p2"))
    if "max_noise" in values and "noise_input" not in values:
        raise SettingsError(f"{what}: 'max_noise' needs 'noise_input', the way in which the network is told the noise.")
    if values.get("normalize") == "image" and ("mean" in values or "std" in values or kind == "denoiser"):
        raise SettingsError(
            f"{what}: 'normalize' = \"image\" takes mean and std from the image, which a denoiser could not undo. "
            "Leave out one or the other."
        )


def _find_model(what: str, file: Path, model: str, folders: Sequence[Path] | None) -> Path:
    if folders is None:
        path = file.parent / model
        if not os.path.isfile(path):  # false also for names that no file can have
            raise SettingsError(
                f"{what}: 'model' names {str(path)[:200]!r}, which is not there. Paths are relative to the recipe."
            )
        return path.resolve()
    for folder in folders:
        if os.path.isfile(folder / model):
            return (folder / model).resolve()
    looked = " or ".join(repr(str(folder.absolute())) for folder in folders)
    raise InputError(
        f"The network {model!r} of method 'network:{file.stem}' is not in {looked}. Networks do not ship with the "
        f"package: set SCOTOPIC_NETWORKS to the folder that holds it, or say network:{file.stem}=FOLDER."
    )


def _find_denoiser(what: str, file: Path, denoiser: str, folders: Sequence[Path] | None) -> Recipe | str:
    """Return another recipe of kind "denoiser", or the name of a denoiser that is no network."""
    if denoiser in DENOISERS:
        return denoiser
    try:
        if denoiser.endswith(".toml"):
            return _read(file.parent / denoiser, None, "denoiser")
        if denoiser in shipped_recipes():
            return _read(RECIPES / f"{denoiser}.toml", folders or network_folders(), "denoiser")
        known = ", ".join((*DENOISERS, *shipped_recipes()))
        raise SettingsError(f"Denoisers are {known}, or a TOML file.")
    except ScotopicError as error:
        kind = InputError if isinstance(error, InputError) else SettingsError
        raise kind(f"{what}: 'denoiser' names {denoiser!r}, which cannot be used. {error}") from error
