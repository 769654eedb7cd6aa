# ruff: noqa: N802 - the methods' names are OpenCV's
"""Scotopic behind the interface of OpenCV's stereo matchers: change one line of a program that uses ``cv2.StereoSGBM``.

>>> from scotopic.cv import StereoScotopic
>>> matcher = StereoScotopic.create(minDisparity=0, numDisparities=64)  # was cv2.StereoSGBM.create(...)
>>> matcher.getNumDisparities()
64

What OpenCV's parameters mean here:

===================  ==================================================================================================
minDisparity,        The search, ``minDisparity <= d < minDisparity + numDisparities``. Need not be divisible by 16.
numDisparities
disp12MaxDiff        If above 0: the two views may differ by less than so many pixels. Else by the preset's 1.
speckleWindowSize,   As in OpenCV: connected regions of up to so many pixels, within ``speckleRange`` px, are removed.
speckleRange
blockSize, P1, P2,   Kept and given back, without effect. They belong to OpenCV's own cost, whose scale is another;
preFilterCap,        taken over they would spoil results without a word. Scotopic's own (``patch_size``, ``p1``,
uniquenessRatio,     ``p2``, ``min_confidence`` ...) are settings of :func:`scotopic.match`, and can be given to
mode                 ``create``.
===================  ==================================================================================================
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from scotopic.errors import InputError, SettingsError
from scotopic.inputs import check_pair
from scotopic.io import as_image
from scotopic.result import Match
from scotopic.settings import make_settings

#: Disparities are stored in sixteenths of a pixel.
DISP_SHIFT, DISP_SCALE = 4, 16
_LARGEST = 2047  # px: what int16 holds in sixteenths


class StereoScotopic:
    """A stereo matcher with the methods of ``cv2.StereoMatcher`` and ``cv2.StereoSGBM``.

    Make one with :meth:`create`; see the module's documentation for what each parameter means here.
    """

    MODE_SGBM, MODE_HH, MODE_SGBM_3WAY, MODE_HH4 = range(4)
    DISP_SHIFT, DISP_SCALE = DISP_SHIFT, DISP_SCALE

    def __init__(self) -> None:
        self._minDisparity, self._numDisparities = 0, 128
        self._disp12MaxDiff, self._speckleWindowSize, self._speckleRange = 0, 0, 0
        self._blockSize, self._P1, self._P2 = 3, 0, 0
        self._preFilterCap, self._uniquenessRatio, self._mode = 0, 0, self.MODE_SGBM
        self._preset, self._device = "fast", "auto"
        self._settings: dict[str, Any] = {}
        self._match: Match | None = None

    @classmethod
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
        preset: str = "fast",
        device: str = "auto",
        **settings: Any,
    ) -> StereoScotopic:
        """Return a matcher; the positional parameters are those of ``cv2.StereoSGBM.create``, in its order.

        Parameters
        ----------
        minDisparity ... mode
            As of OpenCV; see the module's documentation.
        preset, device, **settings
            Of :func:`scotopic.match`.

        Raises
        ------
        SettingsError
            A parameter that makes no sense.
        """
        own = {"min_disparity", "max_disparity"} & settings.keys()
        if own:
            raise SettingsError(f"setting: found {min(own)!r}, expected minDisparity and numDisparities; use these")
        make_settings(preset, **settings)  # so that a mistake is reported here, not at the first pair
        matcher = cls()
        matcher._preset, matcher._device, matcher._settings = preset, device, dict(settings)
        for name, value in (
            ("MinDisparity", minDisparity), ("NumDisparities", numDisparities), ("BlockSize", blockSize), ("P1", P1),
            ("P2", P2), ("Disp12MaxDiff", disp12MaxDiff), ("PreFilterCap", preFilterCap),
            ("UniquenessRatio", uniquenessRatio), ("SpeckleWindowSize", speckleWindowSize),
            ("SpeckleRange", speckleRange), ("Mode", mode),
        ):  # fmt: skip
            getattr(matcher, f"set{name}")(value)
        return matcher

    def compute(self, left: Any, right: Any, disparity: Any = None) -> NDArray[np.int16]:
        """Match a rectified pair.

        Parameters
        ----------
        left, right
            8-bit gray ``(H, W)`` or BGR ``(H, W, 3)`` images of one size, as OpenCV reads them. 16-bit and float images
            in [0, 1] are taken as well.
        disparity
            An int16 array of that size to write the result to, as in OpenCV; any other is left alone.

        Returns
        -------
        ndarray of int16
            Disparity in sixteenths of a pixel, ``(minDisparity - 1) * 16`` where there is none.

        Raises
        ------
        ScotopicError
            The pair cannot be matched; the message says why.
        """
        from scotopic.api import match

        views = self._as_rgb(left, "left"), self._as_rgb(right, "right")
        width = views[0].shape[1]
        patch = make_settings(self._preset, **self._settings).junctions.patch_size
        check_pair(*views, patch, names="left and right image")
        # No pixel has a partner further away than the image is wide, so that end of the search is left out.
        first, last = max(self._minDisparity, -width), min(self._minDisparity + self._numDisparities, width)
        result = np.full(views[0].shape[:2], self._invalid, np.int16)
        if first < last:
            chosen = dict(self._settings)
            if self._disp12MaxDiff > 0:
                chosen["left_right_threshold"] = self._disp12MaxDiff
            found = match(*views, self._preset, self._device, min_disparity=first, max_disparity=last, **chosen)
            self._match = found.to_numpy()
            kept = self._match.mask
            result[kept] = np.rint(DISP_SCALE * self._match.disparity[kept]).astype(np.int16)
            self._remove_speckles(result)
        if isinstance(disparity, np.ndarray) and disparity.shape == result.shape and disparity.dtype == np.int16:
            disparity[:] = result
            return disparity
        return result

    def getMatch(self) -> Match | None:
        """Return the last :class:`scotopic.Match`: confidence, reasons and all; None before the first pair."""
        return self._match

    def getMinDisparity(self) -> int:
        """Return where the search begins, in px."""
        return self._minDisparity

    def setMinDisparity(self, minDisparity: int) -> None:
        """Set where the search begins, in px; may be negative."""
        self._minDisparity = _whole("minDisparity", minDisparity, -_LARGEST + 1, _LARGEST)

    def getNumDisparities(self) -> int:
        """Return how many disparities are searched."""
        return self._numDisparities

    def setNumDisparities(self, numDisparities: int) -> None:
        """Set how many disparities are searched."""
        self._numDisparities = _whole("numDisparities", numDisparities, 1, _LARGEST)

    def getDisp12MaxDiff(self) -> int:
        """Return by how much the two views may differ, in px; 0 or less: by the preset's."""
        return self._disp12MaxDiff

    def setDisp12MaxDiff(self, disp12MaxDiff: int) -> None:
        """Set by how much the two views may differ, in px; 0 or less: by the preset's."""
        self._disp12MaxDiff = _whole("disp12MaxDiff", disp12MaxDiff)

    def getSpeckleWindowSize(self) -> int:
        """Return the size in pixels up to which regions are removed."""
        return self._speckleWindowSize

    def setSpeckleWindowSize(self, speckleWindowSize: int) -> None:
        """Set the size in pixels up to which regions are removed; 0: none are."""
        self._speckleWindowSize = _whole("speckleWindowSize", speckleWindowSize)

    def getSpeckleRange(self) -> int:
        """Return by how much disparities within a region may differ, in px."""
        return self._speckleRange

    def setSpeckleRange(self, speckleRange: int) -> None:
        """Set by how much disparities within a region may differ, in px."""
        self._speckleRange = _whole("speckleRange", speckleRange)

    def getBlockSize(self) -> int:
        """Return what was set; without effect here."""
        return self._blockSize

    def setBlockSize(self, blockSize: int) -> None:
        """Keep OpenCV's block size; without effect here (``patch_size`` is a setting of scotopic)."""
        self._blockSize = _whole("blockSize", blockSize)

    def getP1(self) -> int:
        """Return what was set; without effect here."""
        return self._P1

    def setP1(self, P1: int) -> None:
        """Keep OpenCV's P1; without effect here (``p1`` is a setting of scotopic, on another scale)."""
        self._P1 = _whole("P1", P1)

    def getP2(self) -> int:
        """Return what was set; without effect here."""
        return self._P2

    def setP2(self, P2: int) -> None:
        """Keep OpenCV's P2; without effect here (``p2`` is a setting of scotopic, on another scale)."""
        self._P2 = _whole("P2", P2)

    def getPreFilterCap(self) -> int:
        """Return what was set; without effect here."""
        return self._preFilterCap

    def setPreFilterCap(self, preFilterCap: int) -> None:
        """Keep OpenCV's cap; without effect here: nothing is prefiltered."""
        self._preFilterCap = _whole("preFilterCap", preFilterCap)

    def getUniquenessRatio(self) -> int:
        """Return what was set; without effect here."""
        return self._uniquenessRatio

    def setUniquenessRatio(self, uniquenessRatio: int) -> None:
        """Keep OpenCV's ratio; without effect here (``min_confidence`` is a setting of scotopic)."""
        self._uniquenessRatio = _whole("uniquenessRatio", uniquenessRatio)

    def getMode(self) -> int:
        """Return what was set; without effect here."""
        return self._mode

    def setMode(self, mode: int) -> None:
        """Keep OpenCV's mode; without effect here: paths always come from eight directions."""
        self._mode = _whole("mode", mode, 0, 3)

    def getDefaultName(self) -> str:
        """Return the name of the algorithm."""
        return "StereoScotopic"

    def empty(self) -> bool:
        """Return False: there is always something to run."""
        return False

    def clear(self) -> None:
        """Forget the last match."""
        self._match = None

    @property
    def _invalid(self) -> int:
        return (self._minDisparity - 1) * DISP_SCALE

    def _as_rgb(self, image: Any, side: str) -> NDArray[np.float32]:
        if isinstance(image, str):
            raise InputError(f"{side} image: found the path {image!r}, expected an array; read it with cv2.imread")
        pixels = as_image(image, side)
        return np.ascontiguousarray(pixels[:, :, ::-1])  # OpenCV has blue first

    def _remove_speckles(self, disparity: NDArray[np.int16]) -> None:
        if self._speckleWindowSize > 0:
            import cv2

            cv2.filterSpeckles(disparity, self._invalid, self._speckleWindowSize, DISP_SCALE * self._speckleRange)


def _whole(name: str, value: Any, low: int = -(2**31), high: int = 2**31 - 1) -> int:
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or not low <= value <= high:
        raise SettingsError(f"{name}: found {value!r}, expected a whole number from {low} to {high}; change it")
    return int(value)
