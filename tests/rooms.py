"""The rendered room, rendered once for all tests that look at it."""

from __future__ import annotations

from functools import cache

from scotopic.demo import Scene, render_scene


@cache
def room(width: int = 384, height: int = 256, seed: int = 0) -> Scene:
    """Return the scene of :func:`scotopic.render_scene`, whose arrays cannot be written to."""
    scene = render_scene(width, height, seed)
    for name in ("left", "right", "disparity_left", "disparity_right", "visible_left", "visible_right"):
        getattr(scene, name).flags.writeable = False
    return scene
