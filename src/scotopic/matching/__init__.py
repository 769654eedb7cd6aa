"""Cost volumes, boundary-aware semi-global matching, left-right check, confidence."""

from scotopic.matching.consistency import Reason, check_views, spread_over_pixels
from scotopic.matching.cost_volume import View, cost_volume, scale_volume
from scotopic.matching.sgm import aggregate, jump_penalties, select

__all__ = [
    "Reason",
    "View",
    "aggregate",
    "check_views",
    "cost_volume",
    "jump_penalties",
    "scale_volume",
    "select",
    "spread_over_pixels",
]
