"""Field of junctions of one image: parameters, boundary map, color map."""

from scotopic.junctions.fit import Junctions, fit_junctions

__all__ = ["Junctions", "fit_junctions"]
