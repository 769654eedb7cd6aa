"""Files in and out: images, PFM maps, and writing that never leaves half a file behind."""

from scotopic.io.atomic import atomic_path, claim_folder
from scotopic.io.images import as_image, image_title, read_image, write_png
from scotopic.io.npz import read_npz
from scotopic.io.pfm import read_pfm, write_pfm

__all__ = [
    "as_image",
    "atomic_path",
    "claim_folder",
    "image_title",
    "read_image",
    "read_npz",
    "read_pfm",
    "write_pfm",
    "write_png",
]
