"""A stream of pairs fused over time: how the rig moved, and the light of earlier pairs added to the present one.

:mod:`~scotopic.fusion.motion` finds the motion between pairs, :mod:`~scotopic.fusion.warp` looks at earlier pairs
from the present one, :mod:`~scotopic.fusion.velocity` finds what moves by itself, :mod:`~scotopic.fusion.window`
averages what they show alike, :mod:`~scotopic.fusion.tracker` keeps the last pairs of a stream, and
:mod:`~scotopic.fusion.burst` turns all frames of a burst into one answer.
"""
