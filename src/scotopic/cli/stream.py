"""What ``video`` and ``burst`` share: two streams of frames, opened and made the views that are matched."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from scotopic.cli.calibrated import Cameras, read_cameras
from scotopic.depth import PairCheck, check_rectified
from scotopic.errors import InputError, SettingsError
from scotopic.fusion.stream import MOST
from scotopic.inputs import check_size
from scotopic.io import as_image
from scotopic.io.frames import Frame, StereoFrames, open_pairs
from scotopic.levels import Levels, given_levels, warn_of_given_levels, warn_of_given_white
from scotopic.sensor.stacks import open_stream
from scotopic.settings import Settings

ASSUMED_CAMERA = "focal length equal to the width, principal point in the middle; lengths in baselines"

# --- options that both have -----------------------------------------------------------------------------------------

Start = Annotated[int, typer.Option(min=0, help="Number of the first frame to match, counted from 0.")]
Count = Annotated[int | None, typer.Option(min=1, help="Match this many pairs; all by default.")]
Shortest = Annotated[bool, typer.Option("--shortest", help="End with the shorter of the two.")]
Kind = Annotated[str, typer.Option(help="What an .npy stack holds: counts or bit-planes, each plane a frame.")]
Group = Annotated[int, typer.Option(min=1, help="Sum this many planes of a stack into one frame.")]
White = Annotated[
    float | None,
    typer.Option(help="What becomes white: a stored value, photons per plane of counts or of bit planes."),
]
Fuse = Annotated[
    int | None,
    typer.Option(
        min=2, max=MOST, metavar="N", help="Match each pair with the light of the N - 1 before it, and find the motion."
    ),
]


@dataclass(frozen=True)
class Taken:
    """What is taken of two streams, and how their values are read."""

    start: int = 0
    count: int | None = None
    shortest: bool = False
    kind: str = "auto"
    group: int = 1
    white: float | None = None
    black: float | None = None
    bits: int | None = None
    width: int | None = None
    height: int | None = None
    bit_order: str | None = None
    unit: str | None = None
    rectify: bool = False

    @contextmanager
    def open(self, left: Path, right: Path, calib: Sequence[Path], settings: Settings) -> Iterator["Views"]:
        """Open two streams and their calibration; raise :class:`InputError` if they cannot be matched."""
        is_stack = self.kind != "auto"
        for name in ("black", "bits"):
            if is_stack and getattr(self, name) is not None:
                raise SettingsError(f"{name} is for images, and the frames are read as {self.kind}. Leave it out.")
        open_view = partial(
            open_stream,
            kind=self.kind,
            white=self.white if is_stack else None,
            group=self.group,
            width=self.width,
            height=self.height,
            bit_order=self.bit_order,
        )
        part = {"start": self.start, "count": self.count, "shortest": self.shortest}
        with open_pairs(left, right, open_view=open_view, **part) as pairs:  # type: ignore[arg-type]
            check_size(pairs.shape, settings.junctions.patch_size, pairs.left.title)
            white = None if is_stack else self.white
            levels = given_levels(self.black, white, self.bits, pairs.first[0].dtype)
            cameras = read_cameras(calib, self.unit, self.rectify, pairs.shape)
            views = Views(pairs, levels, cameras, settings)
            if is_stack and self.white is not None:
                views.unfit = warn_of_given_white(*views.first)
            yield views


class Views:
    """The pairs to match: recorded frames, scaled to given levels, then rectified.

    Attributes
    ----------
    pairs
        The frames as recorded.
    levels
        Those that were given, if any.
    cameras
        Calibration and rectification.
    shape
        Of every view, ``(height, width, channels)``.
    checked
        Whether the first pair looks like a rectified one.
    first
        The first pair of views.
    unfit
        What to tell the user if given levels do not fit the first pair.
    """

    def __init__(self, pairs: StereoFrames, levels: Levels | None, cameras: Cameras, settings: Settings) -> None:
        self.pairs, self.levels, self.cameras = pairs, levels, cameras
        self.first = self._prepare(*pairs.first)
        self.unfit = None if levels is None else warn_of_given_levels(*self.first)
        self.shape = np.atleast_3d(self.first[0]).shape
        self.checked: PairCheck = check_rectified(*self.first, min_disparity=settings.matching.min_disparity)

    def __iter__(self) -> Iterator[tuple[Frame, Frame]]:
        """Yield the views of each pair, once."""
        return (self._prepare(*pair) for pair in self.pairs)

    def _prepare(self, left: Frame, right: Frame) -> tuple[Frame, Frame]:
        if self.levels is not None:
            kind = self.pairs.first[0].dtype
            if not left.dtype == right.dtype == kind:
                raise InputError(
                    f"Frames hold {left.dtype} (left) and {right.dtype} (right) values, but the first holds {kind}, "
                    "and the levels given fit only that. Convert all frames to one type."
                )
            left, right = (
                self.levels.apply_clipped(as_image(each, name)) for each, name in ((left, "left"), (right, "right"))
            )
        return self.cameras.rectify(left, right)

    def assumptions(self) -> list[str]:
        """Return what was taken for granted about the frames, in words."""
        given = "the views are rectified" if self.cameras.rectifier is None else "the calibration is of these views"
        scale = "the format's full scale" if self.levels is None else "the levels given"
        recorded = f"values as recorded, over {scale}; no linearization, no rotation by metadata"
        return [
            f"{given}, and {self.pairs.pairing}",
            self.pairs.left.values or recorded,
        ]

    def report(self) -> dict[str, object]:
        """Return the entries of ``report.json`` about the input."""
        left, right = self.pairs.left, self.pairs.right
        height, width, channels = self.shape
        return {
            "left": {"path": left.path, "frames": left.total, "fps": left.fps},
            "right": {"path": right.path, "frames": right.total, "fps": right.fps},
            "width": width,
            "height": height,
            "channels": channels,
        }
