# ruff: noqa: N802, N815 - the names of the methods are OpenCV's
"""Scotopic behind the interface of OpenCV's stereo matchers: change one line of a program that uses ``cv2.StereoSGBM``.

>>> from scotopic.cv import StereoScotopic
>>> matcher = StereoScotopic.create(minDisparity=0, numDisparities=64)  # was cv2.StereoSGBM.create(...)
>>> matcher.getNumDisparities()
64

It matches with the preset ``best``; ``create(..., preset="fast")`` takes a fraction of the time. What OpenCV's
parameters mean here:

===================  ==================================================================================================
minDisparity,        The search range, ``minDisparity <= d < minDisparity + numDisparities``. Need not be divisible by
numDisparities       16.
disp12MaxDiff        If above 0: the two views must agree to less than this many pixels, instead of the preset's 1. The
                     preset ``best`` has no such limit: it keeps pixels by their confidence (``min_confidence``).
speckleWindowSize,   As in OpenCV: connected regions of up to this many pixels, within ``speckleRange`` px, are removed.
speckleRange
blockSize, P1, P2,   Stored and returned, without effect. They belong to OpenCV's own matching cost, which has another
preFilterCap,        scale. Scotopic's own (``patch_size``, ``p1``, ``p2``, ``min_confidence`` ...) are settings of
uniquenessRatio,     :func:`scotopic.match`, and can be given to ``create``.
mode
===================  ==================================================================================================

A ``UserWarning`` names the parameters that were set and have no effect, once for each matcher.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scotopic.api import match
from scotopic.errors import InputError, SettingsError, lists_parameters
from scotopic.inputs import check_pair
from scotopic.io import as_image
from scotopic.io.masks import pixel_mask, with_mask
from scotopic.result import Match
from scotopic.settings import PRESETS, JunctionMatchingSettings, make_settings, settings_for

#: Disparities are stored in sixteenths of a pixel.
DISP_SHIFT, DISP_SCALE = 4, 16
_LARGEST = 2047  # px: what int16 holds in sixteenths
_DEFAULTS = {
    "minDisparity": 0, "numDisparities": 128, "blockSize": 3, "P1": 0, "P2": 0, "disp12MaxDiff": 0, "preFilterCap": 0,
    "uniquenessRatio": 0, "speckleWindowSize": 0, "speckleRange": 0, "mode": 0,
}  # fmt: skip
_WITHOUT_EFFECT = {"blockSize", "P1", "P2", "preFilterCap", "uniquenessRatio", "mode"}
_RANGES = {"minDisparity": (-_LARGEST + 1, _LARGEST), "numDisparities": (1, _LARGEST), "mode": (0, 3)}


def _make_accessors(
    name: str, meaning: str
) -> tuple[Callable[[StereoScotopic], int], Callable[[StereoScotopic, int], None]]:
    """Return the methods that read and set one of OpenCV's parameters."""

    def get(self: StereoScotopic) -> int:
        return self._parameters[name]

    def set_(self: StereoScotopic, value: int) -> None:
        self._set(**{name: value})

    get.__doc__, set_.__doc__ = f"Return {name}: {meaning}.", f"Set {name}: {meaning}."
    return get, set_


class StereoScotopic:
    """A stereo matcher with the methods of ``cv2.StereoMatcher`` and ``cv2.StereoSGBM``.

    Make one with :meth:`create`; the documentation of this module says what each parameter means here.
    """

    MODE_SGBM, MODE_HH, MODE_SGBM_3WAY, MODE_HH4 = range(4)
    DISP_SHIFT, DISP_SCALE = DISP_SHIFT, DISP_SCALE

    def __init__(self) -> None:
        self._parameters = dict(_DEFAULTS)
        self._warned: set[str] = set()
        self._preset, self._device = "best", "auto"
        self._settings: dict[str, Any] = {}
        self._match: Match | None = None

    @classmethod
    @lists_parameters
    def create(
        cls,
        minDisparity: int = 0,
        numDisparities: int = 128,
        blockSize: int = 3,
        P1: int = 0,
        P2: int = 0,
        disp12MaxDiff: int = 0,
        preFilterCap: int = 0,
        uniquenessRatio: int = 0,
        speckleWindowSize: int = 0,
        speckleRange: int = 0,
        mode: int = 0,
        *,
        preset: str = "best",
        device: str = "auto",
        **settings: Any,
    ) -> StereoScotopic:
        """Return a matcher; the positional parameters are those of ``cv2.StereoSGBM.create``, in its order.

        Parameters
        ----------
        minDisparity ... mode
            As in OpenCV; see the documentation of this module.
        preset, device, **settings
            As for :func:`scotopic.match`.

        Raises
        ------
        SettingsError
            A parameter is out of range, or a setting unknown.
        """
        parameters = {name: value for name, value in locals().items() if name in _DEFAULTS}
        own = {"min_disparity", "max_disparity"} & settings.keys()
        if own:
            raise SettingsError(f"{min(own)!r} is set by minDisparity and numDisparities here. Use these instead.")
        settings_for("StereoScotopic.create", preset, settings)  # so that a mistake is reported at once
        matcher = cls()
        matcher._preset, matcher._device, matcher._settings = preset, device, dict(settings)
        matcher._set(**parameters)
        return matcher

    def compute(self, left: Any, right: Any, disparity: Any = None) -> NDArray[np.int16]:
        """Match a rectified pair.

        Parameters
        ----------
        left, right
            8-bit gray ``(H, W)`` or BGR ``(H, W, 3)`` images of one size, as OpenCV reads them. 16-bit images and
            float images in [0, 1] are accepted too.
        disparity
            An int16 array of that size to write the result to, as in OpenCV; any other is ignored.

        Returns
        -------
        ndarray of int16
            Disparity in sixteenths of a pixel, ``(minDisparity - 1) * 16`` where there is none.

        Raises
        ------
        ScotopicError
            The pair cannot be matched; the message says why.
        """
        self._match = None  # not that of an earlier pair, should there be none of this one
        if isinstance(disparity, np.ndarray) and not disparity.flags.writeable:
            raise InputError("The array for the disparity is read-only. Give one that can be written to, or none.")
        views = _as_rgb(left, "left"), _as_rgb(right, "right")
        masks = pixel_mask(left), pixel_mask(right)
        given = self._parameters
        width = views[0].shape[1]
        check_pair(*views, make_settings(self._preset, **self._settings).junctions.patch_size, "left and right image")
        # No pixel has a partner farther away than the image is wide, so the range ends there.
        first, last = max(given["minDisparity"], -width), min(given["minDisparity"] + given["numDisparities"], width)
        invalid = (given["minDisparity"] - 1) * DISP_SCALE
        result = np.full(views[0].shape[:2], invalid, np.int16)
        if last - 1 > _LARGEST:
            raise SettingsError(
                f"Disparities up to {last - 1} px do not fit: int16 holds {_LARGEST} px in sixteenths. Lower "
                "minDisparity or numDisparities, or use scotopic.match."
            )
        if first < last:
            settings = dict(self._settings)
            if given["disp12MaxDiff"] > 0 and self._has_left_right_limit:
                settings["left_right_threshold"] = given["disp12MaxDiff"]
            pair = with_mask(views[0], masks[0]), with_mask(views[1], masks[1])
            found = match(*pair, self._preset, self._device, min_disparity=first, max_disparity=last, **settings)
            self._match = found.to_numpy()
            kept = self._match.mask
            result[kept] = np.rint(DISP_SCALE * self._match.disparity[kept]).astype(np.int16)
            if given["speckleWindowSize"] > 0:
                import cv2

                cv2.filterSpeckles(result, invalid, given["speckleWindowSize"], DISP_SCALE * given["speckleRange"])
        if isinstance(disparity, np.ndarray) and disparity.shape == result.shape and disparity.dtype == np.int16:
            disparity[:] = result
            return disparity
        return result

    getMinDisparity, setMinDisparity = _make_accessors("minDisparity", "start of the search range, px")
    getNumDisparities, setNumDisparities = _make_accessors("numDisparities", "length of the search range, px")
    getDisp12MaxDiff, setDisp12MaxDiff = _make_accessors("disp12MaxDiff", "how far the views may disagree, px")
    getSpeckleWindowSize, setSpeckleWindowSize = _make_accessors("speckleWindowSize", "size of removed regions, pixels")
    getSpeckleRange, setSpeckleRange = _make_accessors("speckleRange", "disparity range within a region, px")
    getBlockSize, setBlockSize = _make_accessors("blockSize", "without effect; see the setting patch_size")
    getP1, setP1 = _make_accessors("P1", "without effect; see the setting p1, which has another scale")
    getP2, setP2 = _make_accessors("P2", "without effect; see the setting p2, which has another scale")
    getPreFilterCap, setPreFilterCap = _make_accessors("preFilterCap", "without effect; nothing is prefiltered")
    getUniquenessRatio, setUniquenessRatio = _make_accessors("uniquenessRatio", "without effect; see min_confidence")
    getMode, setMode = _make_accessors("mode", "without effect; paths always come from eight directions")

    def getMatch(self) -> Match | None:
        """Return the :class:`scotopic.Match` of the last pair, with confidence and reasons.

        ``None`` before the first pair, and if the last one could not be matched or the search lies outside of it.
        """
        return self._match

    def getDefaultName(self) -> str:
        """Return the name of the algorithm."""
        return "StereoScotopic"

    def empty(self) -> bool:
        """Return False, as OpenCV's matchers do."""
        return False

    def clear(self) -> None:
        """Forget the last match."""
        self._match = None

    @property
    def _has_left_right_limit(self) -> bool:
        return isinstance(PRESETS[self._preset], JunctionMatchingSettings)

    def _set(self, **values: Any) -> None:
        """Check and store parameters; warn once about those that have no effect here."""
        changed = [name for name, value in values.items() if value != self._parameters[name]]
        for name, value in values.items():
            low, high = _RANGES.get(name, (-(2**31), 2**31 - 1))
            if not isinstance(value, int | np.integer) or isinstance(value, bool) or not low <= value <= high:
                raise SettingsError(f"{name} is {value!r}, but must be a whole number from {low} to {high}.")
            self._parameters[name] = int(value)
        idle = _WITHOUT_EFFECT if self._has_left_right_limit else _WITHOUT_EFFECT | {"disp12MaxDiff"}
        named = [name for name in changed if name in idle and name not in self._warned]
        if named:
            self._warned.update(named)
            where = f"in StereoScotopic with preset {self._preset!r}"
            warnings.warn(f"Without effect {where}: {', '.join(named)}. See help(scotopic.cv).", stacklevel=3)


def _as_rgb(image: Any, side: str) -> NDArray[np.float32]:
    if image is None:
        raise InputError(f"The {side} image is None, as cv2.imread returns for a file that it cannot read. Check it.")
    if isinstance(image, str | os.PathLike):  # a file that we read has red first
        raise InputError(f"The {side} image is given as the path {os.fspath(image)!r}. Read it with cv2.imread.")
    return np.ascontiguousarray(as_image(image, side)[:, :, ::-1])  # OpenCV has blue first
