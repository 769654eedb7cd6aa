"""The matching's steps on the CPU, explained in the modules that they come from."""

from scotopic.matching.consistency import check_views, spread_over_pixels
from scotopic.matching.cost_volume import cost_volume, scale_volume
from scotopic.matching.sgm import aggregate, jump_penalties, select

__all__ = [
    "aggregate",
    "check_views",
    "cost_volume",
    "jump_penalties",
    "scale_volume",
    "select",
    "spread_over_pixels",
]
