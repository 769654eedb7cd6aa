"""The rows of the benchmark table, each under a short spec.

===========================  ========================================================================================
spec                         what it is
===========================  ========================================================================================
``scotopic:PRESET``          ours; ``+fixed-p2``, ``+non-symmetric`` and ``+mask-right`` after it switch to an ablation;
                             after ``best``: ``+no-cross``, ``+no-junctions``, ``+one-patch-size``, ``+global-units``,
                             ``+no-planes``, ``+no-groups``, ``+no-surfaces``
``opencv:sgbm|bm``           OpenCV's semi-global and block matching on the noisy pair
``nlm|tv|wavelet+sgbm``      a denoiser on both views, then SGBM
``classical``                blur, windowed SSD, per-pixel SGM, left-right check; ``classical+subpixel`` refines it
``clean+sgbm``               SGBM on the clean pair: the ceiling, not a competitor
``onnx:FILE.toml``           a network exported to ONNX (:mod:`~scotopic.evaluation.methods.networks`)
``external:NAME=DIR``        disparity maps made by anything (:mod:`~scotopic.evaluation.methods.external`)
===========================  ========================================================================================
"""

from __future__ import annotations

from collections.abc import Callable

from scotopic.errors import SettingsError
from scotopic.evaluation.method import Method
from scotopic.evaluation.methods.classical import Classical
from scotopic.evaluation.methods.denoise import DENOISERS, DenoisedSgbm
from scotopic.evaluation.methods.external import External
from scotopic.evaluation.methods.networks import load_network
from scotopic.evaluation.methods.opencv import BlockMatching, CleanSgbm, Sgbm
from scotopic.evaluation.methods.ours import Ours, ablations_of
from scotopic.evaluation.methods.reported import REPORTED, Reported
from scotopic.settings import PRESETS

__all__ = ["REPORTED", "Reported", "get_method", "method_specs"]

_FAMILIES = ("onnx:FILE.toml", "external:NAME=DIR")


def method_specs() -> tuple[str, ...]:
    """Return every spec that needs no file of the user's."""
    return tuple(_registry())


def get_method(spec: str) -> Method:
    """Return the method that a spec names.

    Parameters
    ----------
    spec
        As in the table of :mod:`scotopic.evaluation.methods`. Ablations may be combined:
        ``scotopic:fast+fixed-p2+mask-right``.

    Returns
    -------
    Method
        Its ``name`` is the spec with ``:`` as ``-``, so that it can name files; a network and an external folder have
        the name that they were given.

    Raises
    ------
    SettingsError
        There is no such method, or the settings of a network cannot be used.
    InputError
        The folder of an external method is missing.

    Examples
    --------
    >>> get_method("opencv:sgbm").name
    'opencv-sgbm'
    """
    registry = _registry()
    if spec in registry:
        return registry[spec]()
    family, colon, rest = spec.partition(":")
    if colon and family == "scotopic" and "+" in rest:
        return _ours(rest)
    method: Method
    if colon and family == "onnx":
        method = load_network(rest, get_method)
    elif colon and family == "external":
        method = External.from_spec(rest)
    else:
        raise SettingsError(
            f"method: found {spec!r}, expected one of {', '.join((*registry, *_FAMILIES))}; choose one of these"
        )
    if method.name in {known.replace(":", "-") for known in registry}:
        raise SettingsError(f"method {spec!r}: found the name {method.name!r}, which is taken; give it another")
    return method


def _registry() -> dict[str, Callable[[], Method]]:
    """Return what builds each method that needs no file, by spec."""
    known: dict[str, Callable[[], Method]] = {}
    for preset in PRESETS:
        known[f"scotopic:{preset}"] = lambda preset=preset: _ours(preset)  # type: ignore[misc]
        for ablation in ablations_of(preset):
            text = f"{preset}+{ablation}"
            known[f"scotopic:{text}"] = lambda text=text: _ours(text)  # type: ignore[misc]
    known["opencv:sgbm"] = Sgbm
    known["opencv:bm"] = BlockMatching
    for denoiser in DENOISERS:
        known[f"{denoiser}+sgbm"] = lambda denoiser=denoiser: DenoisedSgbm(denoiser)  # type: ignore[misc]
    known["classical"] = Classical
    known["classical+subpixel"] = lambda: Classical(subpixel=True)
    known["clean+sgbm"] = CleanSgbm
    return known


def _ours(text: str) -> Ours:
    preset, *ablations = text.split("+")
    return Ours(preset, tuple(ablations))
