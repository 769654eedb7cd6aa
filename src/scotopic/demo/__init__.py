"""A stereo pair made by code, to try the method on without any files."""

from scotopic.demo.scene import Scene, render_scene

__all__ = ["Scene", "render_scene"]
