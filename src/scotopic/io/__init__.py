"""Files in and out: images, maps, points, and writing that never leaves half a file behind."""

from scotopic.io.atomic import atomic_path, claim_file, claim_folder
from scotopic.io.depth import read_depth_png, write_depth_png
from scotopic.io.disparity import (
    read_disparity,
    read_kitti_png,
    read_tiff,
    write_disparity,
    write_kitti_png,
    write_submission,
    write_tiff,
)
from scotopic.io.images import as_image, image_title, read_image, write_png
from scotopic.io.npz import read_npz, write_npz
from scotopic.io.pfm import read_pfm, write_pfm
from scotopic.io.ply import write_ply
from scotopic.io.replacement import replaced_files

__all__ = [
    "as_image", "atomic_path", "claim_file", "claim_folder", "image_title", "read_depth_png", "read_disparity",
    "read_image", "read_kitti_png", "read_npz", "read_pfm", "read_tiff", "replaced_files", "write_depth_png",
    "write_disparity", "write_kitti_png", "write_npz", "write_pfm", "write_ply", "write_png", "write_submission",
    "write_tiff",
]  # fmt: skip
