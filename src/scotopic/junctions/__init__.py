"""Field of junctions of one image: parameters, boundary map, colour map."""

from scotopic.junctions.fit import Junctions, fit_junctions

__all__ = ["Junctions", "fit_junctions"]
