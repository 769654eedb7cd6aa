"""The methods of the benchmark, each under a short spec.

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
``stream:PRESET``            fusion of the frames of a sequence; ``+mean``, ``+flow``, ``+oracle`` align them otherwise
                             (:mod:`~scotopic.evaluation.methods.streams`)
``odometry:orb|sift``        OpenCV's features and PnP, for the poses of a sequence alone
``network:NAME``             a network whose recipe ships: ``hitnet``, ``ffdnet+hitnet``, ``mccnn+sgm``; ``ffdnet`` and
                             ``bias-free-unet``, then SGBM; ``network:NAME=FOLDER`` says where its model is
``onnx:FILE.toml``           a network exported to ONNX, by a recipe (:mod:`~scotopic.evaluation.methods.recipes`)
``external:NAME=DIR``        disparity maps made by anything (:mod:`~scotopic.evaluation.methods.external`)
===========================  ========================================================================================
"""

from functools import partial

from scotopic.backends.device import resolve_device
from scotopic.errors import SettingsError, did_you_mean
from scotopic.evaluation.method import Method, Predict
from scotopic.evaluation.methods import external, ours, streams
from scotopic.evaluation.methods.classical import predict_classical
from scotopic.evaluation.methods.denoise import DENOISER_LIBRARIES, DENOISERS, predict_denoised_sgbm
from scotopic.evaluation.methods.networks import find_network, load_network
from scotopic.evaluation.methods.odometry import FEATURES, predict_poses
from scotopic.evaluation.methods.opencv import predict_bm, predict_clean_sgbm, predict_sgbm
from scotopic.settings import PRESETS

__all__ = ["METHODS", "get_method", "method_specs"]

#: Every method that needs no file, by its spec.
METHODS: dict[str, Predict] = {
    f"scotopic:{text}": ours.method_of(text)
    for preset in PRESETS
    for text in (preset, *(f"{preset}+{ablation}" for ablation in ours.ablations_of(preset)))
} | {
    "opencv:sgbm": predict_sgbm,
    "opencv:bm": predict_bm,
    **{f"{name}+sgbm": partial(predict_denoised_sgbm, denoise) for name, denoise in DENOISERS.items()},
    "classical": predict_classical,
    "classical+subpixel": partial(predict_classical, subpixel=True),
    "clean+sgbm": predict_clean_sgbm,
    **{f"odometry:{name}": partial(predict_poses, name) for name in FEATURES},
}
_LIBRARIES: dict[str, tuple[str, ...]] = {
    "classical": ("numba",),
    "classical+subpixel": ("numba",),
    **{f"{name}+sgbm": libraries for name, libraries in DENOISER_LIBRARIES.items()},
}


def method_specs() -> tuple[str, ...]:
    """Return every spec that needs no file of the user's."""
    return (*METHODS, *streams.method_specs())


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
        The folder of an external method, or the recipe of a network, is missing.

    Examples
    --------
    >>> get_method("opencv:sgbm").name
    'opencv-sgbm'
    """
    family, _, rest = spec.partition(":")
    name = spec.replace(":", "-")
    libraries = ("numba", "torch", "triton") if _own_device() == "cuda" else ("numba",)
    if family == "scotopic" and ("+" in rest or spec in METHODS):
        predict = METHODS[spec] if spec in METHODS else ours.method_of(rest)
        return Method(name, predict, ours.settings_of(predict), libraries=libraries, device=_own_device)
    if family == "stream":
        predict = streams.method_of(rest)
        return Method(name, predict, streams.settings_of(predict), libraries=libraries, device=_own_device)
    if spec in METHODS:
        return Method(name, METHODS[spec], libraries=_LIBRARIES.get(spec, ()))
    if family == "network":
        return find_network(rest)
    if family not in ("onnx", "external"):
        known = ", ".join((*METHODS, *streams.method_specs(), "network:NAME", "onnx:FILE.toml", "external:NAME=DIR"))
        raise SettingsError(f"There is no method {spec!r}.{did_you_mean(spec, METHODS)} Methods are {known}.")
    method = load_network(rest, get_method) if family == "onnx" else external.method_of(rest)
    if method.name in {known.replace(":", "-") for known in METHODS}:
        raise SettingsError(f"Method {spec!r} has the name {method.name!r}, which is taken. Give it another.")
    return method


def _own_device() -> str:
    return resolve_device("auto")
