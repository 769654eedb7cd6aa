"""Denoise both views, then match them by SGBM.

The strength of each denoiser follows the noise of the image, so that one setting serves every noise level of a sweep.
At the paper's noise (alpha 2, sigma 2; standard deviation about 0.44) non-local means gets ``h`` of about 60 in 8-bit
levels.
"""

from collections.abc import Callable

import numpy as np

from scotopic.evaluation.method import Map, Prediction
from scotopic.evaluation.methods.opencv import match_sgbm
from scotopic.evaluation.scene import Scene
from scotopic.io import as_image
from scotopic.optional import import_optional
from scotopic.preview import as_picture

NLM_STRENGTH = 0.53  #: ``h`` over the noise's standard deviation; weaker leaves holes, stronger flattens structure
TV_STRENGTH = 2.0  #: weight of the total variation over the noise's standard deviation
TV_TOLERANCE, TV_ITERATIONS = 1e-5, 300  #: scikit-image's default tolerance stops at such weights after a few steps


def predict_denoised_sgbm(
    denoise: Callable[[Map], Map], left: Map, right: Map, scene: Scene, max_disparity: int
) -> Prediction:
    """Denoise both views of a noisy pair, then match them by SGBM."""
    views = [denoise(as_image(view, name)) for view, name in ((left, "left"), (right, "right"))]
    return match_sgbm(views[0], views[1], max_disparity)


def estimate_noise(image: Map) -> float:
    """Return the standard deviation of an image's noise, mean over its channels.

    The mask gives 0 on an image that is linear along either axis, so what remains of most scenes is noise.

    References
    ----------
    Immerkaer, "Fast noise variance estimation", Computer Vision and Image Understanding 64(2), 1996.
    """
    import cv2

    mask = np.array([[1, -2, 1], [-2, 4, -2], [1, -2, 1]], np.float32)
    planes = (np.ascontiguousarray(image[:, :, c]) for c in range(image.shape[2]))
    responses = [np.abs(cv2.filter2D(plane, -1, mask)).mean() for plane in planes]
    # The mask's weights have the norm 6, and a normal variable the mean magnitude sqrt(2 / pi).
    return float(np.sqrt(np.pi / 2) / 6 * np.mean(responses))


def denoise_nlm(image: Map) -> Map:
    """Denoise by OpenCV's non-local means, in Lab for color: patches of 7 px, searched over 21 px."""
    import cv2

    strength = NLM_STRENGTH * 255 * estimate_noise(image)
    pixels = as_picture(image)
    if pixels.ndim == 2:
        found = cv2.fastNlMeansDenoising(pixels, None, strength, 7, 21)
    else:
        blue_first = np.ascontiguousarray(pixels[:, :, ::-1])
        found = cv2.fastNlMeansDenoisingColored(blue_first, None, strength, strength, 7, 21)[:, :, ::-1]
    return (found.reshape(image.shape) / np.float32(255)).astype(np.float32)


def denoise_tv(image: Map) -> Map:
    """Denoise by total variation (Chambolle's algorithm of scikit-image)."""
    restoration = import_optional("skimage.restoration", "bench", "method tv+sgbm")
    weight = TV_STRENGTH * estimate_noise(image)
    if weight == 0:  # a division by it follows
        return image
    found = restoration.denoise_tv_chambolle(
        image, weight=weight, eps=TV_TOLERANCE, max_num_iter=TV_ITERATIONS, channel_axis=-1
    )
    return np.asarray(np.clip(found, 0, 1), np.float32)


def denoise_wavelet(image: Map) -> Map:
    """Denoise by soft BayesShrink thresholds on scikit-image's wavelets, which need PyWavelets."""
    restoration = import_optional("skimage.restoration", "bench", "method wavelet+sgbm")
    import_optional("pywt", "bench", "method wavelet+sgbm")
    # Our estimate of the noise rather than its own, so that all denoisers here start from the same.
    found = restoration.denoise_wavelet(image, sigma=estimate_noise(image), wavelet="db2", channel_axis=-1)
    return np.asarray(np.clip(found, 0, 1), np.float32)


#: Denoisers by name: an image ``(H, W, C)`` in [0, 1] in, the same out.
DENOISERS: dict[str, Callable[[Map], Map]] = {"nlm": denoise_nlm, "tv": denoise_tv, "wavelet": denoise_wavelet}
#: Distributions that a denoiser uses, beside NumPy and OpenCV.
DENOISER_LIBRARIES = {"tv": ("scikit-image",), "wavelet": ("scikit-image", "PyWavelets")}
