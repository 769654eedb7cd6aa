"""Image operations on the CPU: OpenCV's filters and NumPy."""

import cv2
import numpy as np

from scotopic.backends.gaussian import gaussian_kernel
from scotopic.backends.protocol import Floats


class CpuImages:
    """Implements the image operations of :class:`~scotopic.backends.protocol.Backend`."""

    def blur(self, image: np.ndarray, sigma: float) -> np.ndarray:
        kernel = gaussian_kernel(sigma)
        out = cv2.sepFilter2D(image, -1, kernel, kernel, borderType=cv2.BORDER_REFLECT_101)
        return np.asarray(out, np.float32).reshape(image.shape)

    def blur_views(self, views: np.ndarray, sigma: float) -> np.ndarray:
        return np.stack([self.blur(view, sigma) for view in views])

    def halve(self, image: np.ndarray) -> np.ndarray:
        for axis, length in enumerate(image.shape[:2]):
            if length % 2:
                image = np.concatenate([image, np.take(image, [length - 1], axis=axis)], axis=axis)
        total = image[::2, ::2] + image[1::2, ::2] + image[::2, 1::2] + image[1::2, 1::2]
        return np.asarray(total * np.float32(0.25))

    def resize_linear(self, values: np.ndarray, factor: int) -> np.ndarray:
        size = (values.shape[1] * factor, values.shape[0] * factor)
        return np.asarray(cv2.resize(values, size, interpolation=cv2.INTER_LINEAR))

    def window_range(self, values: np.ndarray, reach: int) -> tuple[np.ndarray, np.ndarray]:
        window = np.ones((2 * reach + 1, 2 * reach + 1), np.uint8)
        return np.asarray(cv2.erode(values, window)), np.asarray(cv2.dilate(values, window))

    def quantile(self, values: np.ndarray, q: float) -> float:
        return float(np.quantile(values, q))

    def second_moments(self, views: np.ndarray) -> Floats:
        # Written out, here and below: a product of matrices adds in an order that depends on its threads.
        channels = views.shape[-1]
        total = np.zeros((channels, channels))
        for image in views:
            for i in range(channels):
                for j in range(i, channels):
                    total[i, j] += np.mean(image[..., i] * image[..., j], dtype=np.float64) / len(views)
                    total[j, i] = total[i, j]
        return total

    def mix_channels(self, image: np.ndarray, matrix: Floats) -> np.ndarray:
        rows, columns = matrix.shape
        sums = [sum(image[..., i] * np.float32(matrix[i, j]) for i in range(rows)) for j in range(columns)]
        return np.stack(sums, axis=-1).astype(np.float32)

    def nearest_marked(self, marks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        width = marks.shape[1]
        columns = np.arange(width)
        before = np.maximum.accumulate(np.where(marks, columns, -1), axis=1)
        after = np.minimum.accumulate(np.where(marks, columns, width)[:, ::-1], axis=1)[:, ::-1]
        return before, after

    def inner_products(self, one: np.ndarray, other: np.ndarray) -> np.ndarray:
        # Not a product of matrices, for the same reason.
        return np.asarray(np.einsum("in,jn->ij", one, other, dtype=np.float64, casting="same_kind"))
