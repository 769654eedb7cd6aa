"""The data sets that can be opened, each read from the layout in which it is published."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from scotopic.depth import read_calibration
from scotopic.errors import InputError
from scotopic.evaluation.datasets import files, sequences
from scotopic.evaluation.datasets.files import CALIBRATION, MASK, Place, existing, first_existing, read_truth
from scotopic.evaluation.protocol import Recording
from scotopic.io.disparity import KITTI_SCALE


@dataclass(frozen=True, kw_only=True)
class DatasetKind:
    """A data set that can be opened, with a folder for each scene; other layouts override `find`, `read`, `files`."""

    title: str
    #: Of the protocol, relative to full size: the paper's for Middlebury 2014 and InStereo2K, ours for the others.
    scale: float
    layout: str  #: the folders and files that are expected, in words
    views: tuple[str, str] = ("im0.png", "im1.png")
    truth: tuple[str, ...]  #: names that the left truth may have; of several the first that exists is read
    right_truth: tuple[str, ...] = ()
    truth_is_optional: bool = False
    #: PNG files of truth hold disparity times this, in so many bits; ``None`` for disparity in px of full size.
    divisor: float | None = KITTI_SCALE
    bits: int = 16
    #: Names of the sizes in which the data set is published, each with its share of full size.
    sizes: Mapping[str, float] = field(default_factory=lambda: {"full": 1.0})
    folders: Mapping[str, float] = field(default_factory=dict)  #: names of folders that tell the size, with it
    full_size_endings: tuple[str, ...] = ()  #: of the names of scenes that are published at full size only
    #: Least and most px of the width of full size, by the name of the scene; ``""`` for all others.
    full_width: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    part: str = ""  #: folder of the whole data set in which the scenes are that are taken
    is_clean: bool = True  #: whether the noise of its images can be neglected
    #: Whether truth is a few points: those are then scored alone, and coverage is the share of them that is answered.
    has_sparse_truth: bool = False
    has_frames: bool = False  #: whether a scene is a sequence

    def find(self, folder: Path, stated: float | None, scale: float) -> list[Place]:
        """Return the scenes in a folder, given the size on disk if the user states it, and the scale that is wanted.

        The folder holds those of :attr:`folders`, or is one of them, or is a folder of scenes of unknown size, which
        then follows from their width. Of several sizes the stated one is taken, or else the smallest that need not be
        enlarged to `scale`; none if the stated one is missing.
        """
        if (folder / self.part).is_dir():
            folder = folder / self.part
        inside = {self.folders[entry.name]: entry for entry in files.subfolders(folder) if entry.name in self.folders}
        # The absolute path, since "." has no telling name. A single scene lies in the folder that has one.
        absolute = folder.resolve()
        size = self.folders.get(absolute.name, self.folders.get(absolute.parent.name)) if stated is None else stated
        if inside:
            enough = [each for each in inside if each >= scale * (1 - 1e-6)]
            size = min(enough, default=max(inside)) if stated is None else stated
            if size not in inside:
                return []
            folder = inside[size]
        scenes = files.scene_folders(folder, self.is_scene)
        return [Place(files.scene_name(scene), scene, size) for scene in scenes]

    def is_scene(self, folder: Path) -> bool:
        """Whether a folder holds a scene, which may be broken."""
        return files.holds_any(folder, (*self.views, *self.truth, *self.right_truth))

    def read(self, place: Place) -> Recording:
        """Read one scene as it lies on disk."""
        return self.read_views(place, place.folder / self.views[0], place.folder / self.views[1])

    def read_views(self, place: Place, left_file: Path, right_file: Path) -> Recording:
        """Read one scene whose views lie in these files.

        Where both views see a point is known from ``mask0nocc.png``, else from a truth of the right view.
        """
        folder = place.folder
        left, right = files.read_pair(left_file, right_file)
        size = place.size or self.measure(place, left.shape[1])
        divisor = self.divisor or round(1 / size)
        file, other = first_existing(folder, *self.truth), first_existing(folder, *self.right_truth)
        if file is None and self.truth_is_optional:
            truth, other = np.full(left.shape[:2], np.nan, np.float32), None
        else:
            truth = read_truth(file or folder / self.truth[-1], left, divisor, self.bits)
        visible = files.read_visible(folder / MASK, left)
        if visible is None and other is not None:
            visible = files.visible_in_both(truth, read_truth(other, right, divisor, self.bits))
        calibration, max_disparity = files.read_calib_beside(folder, left)
        return Recording(left, right, truth, visible, calibration, size, max_disparity)

    def files(self, place: Place) -> list[Path]:
        """Return the files that :meth:`read` may read of a scene, as far as they are there.

        Results of a benchmark are computed again when the content of one of them changes.
        """
        names = (*self.views, *self.truth, *self.right_truth, MASK, CALIBRATION)
        return existing(place.folder, *names)

    def measure(self, place: Place, width: int) -> float:
        """Return the size of a scene over full size, by its name or the width of its images.

        Raises :class:`InputError` if the width fits none of the sizes.
        """
        if len(self.sizes) == 1 or place.name.endswith(self.full_size_endings):
            return 1.0
        low, high = self.full_width.get(place.name, self.full_width[""])
        for size in self.sizes.values():
            if low * size <= width <= high * size:
                return size
        raise InputError(
            f"The images in {str(place.folder)!r} are {width} px wide, which fits none of the sizes "
            f"{', '.join(self.sizes)} (full size is {low:g} to {high:g} px). State the size, or name the folder of "
            f"scenes {', '.join(self.folders)}."
        )


class _Kitti2015(DatasetKind):
    """A data set with one folder for each kind of file; its names are those of the folders."""

    def find(self, folder: Path, stated: float | None, scale: float) -> list[Place]:
        """Return the scenes. A name in any folder is one: if a file is missing elsewhere, the scene is broken."""
        files.subfolders(folder)  # raises if it cannot be read
        training = folder / "training"
        root = training if training.is_dir() else folder
        # _10 is the frame with truth, _11 the next one.
        found = (file for part in (*self.views, *self.truth) for file in (root / part).glob("*_10.png"))
        return [Place(name, root) for name in sorted({file.stem for file in found})]

    def read(self, place: Place) -> Recording:
        """Read one scene as it lies on disk."""
        root, file = place.folder, f"{place.name}.png"
        left, right = files.read_pair(root / self.views[0] / file, root / self.views[1] / file)
        truth = read_truth(root / self.truth[0] / file, left)
        visible = calibration = None
        if (root / "disp_noc_0").is_dir():
            visible = np.isfinite(read_truth(root / "disp_noc_0" / file, left))
        if (root / "calib_cam_to_cam").is_dir():
            calibration = read_calibration(root / "calib_cam_to_cam" / f"{place.name.removesuffix('_10')}.txt")
            calibration = replace(calibration, width=left.shape[1], height=left.shape[0])
        return Recording(left, right, truth, visible, calibration)

    def files(self, place: Place) -> list[Path]:
        """Return the files of a scene, one in each folder."""
        names = [f"{part}/{place.name}.png" for part in (*self.views, *self.truth, "disp_noc_0")]
        return existing(place.folder, *names, f"calib_cam_to_cam/{place.name.removesuffix('_10')}.txt")


_OWN_SUFFIXES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".ppm", ".pgm", ".pfm")
_OWN_VIEWS = (("im0", "im1"), ("left", "right"))
_OWN_NAMES = [view + suffix for views in _OWN_VIEWS for view in views for suffix in _OWN_SUFFIXES]


class _OwnPairs(DatasetKind):
    """The user's own pairs, whose views may have several names and formats."""

    def is_scene(self, folder: Path) -> bool:
        """Whether a folder holds a view."""
        return files.holds_any(folder, _OWN_NAMES)

    def read(self, place: Place) -> Recording:
        """Read one scene as it lies on disk."""
        found = [
            [existing(place.folder, *(view + each for each in _OWN_SUFFIXES)) for view in views] for views in _OWN_VIEWS
        ]
        lefts, rights = ([each for pair in found if all(pair) for each in pair[side]] for side in (0, 1))
        left, right = files.first_of(lefts), files.first_of(rights)
        if left is not None and right is not None:
            return self.read_views(place, left, right)
        raise InputError(
            f"{str(place.folder)!r} holds no complete pair. Add the missing view of im0 and im1, or of left and right "
            f"({', '.join(_OWN_SUFFIXES)})."
        )

    def files(self, place: Place) -> list[Path]:
        """Return the files of a scene, under any of the names that they may have."""
        return [*existing(place.folder, *_OWN_NAMES), *super().files(place)]


class _Sequences(DatasetKind):
    """Frames of a moving rig: each scene is a whole sequence."""

    def is_scene(self, folder: Path) -> bool:
        """Whether a folder holds a sequence."""
        return sequences.is_sequence(folder)

    def read(self, place: Place) -> Recording:
        """Read all frames; what a pair is for other data sets is the first of them here."""
        sequence = sequences.read_sequence_again(place.folder)
        return Recording(*sequence.pairs[0], sequence.truth(0), calibration=sequence.calibration, sequence=sequence)

    def files(self, place: Place) -> list[Path]:
        """Return the files of all frames, calibration and poses."""
        return sequences.sequence_files(place.folder)


# Disparities of Middlebury 2005 and 2006 are always in px of full size: a half-size map is to be divided by 2, a
# third-size map by 3. Full size is 1240 to 1400 px wide, so the sizes do not overlap. There is no calibration:
# dmin.txt, the offset that was cropped away, does not say in px of which size it is.
_MIDDLEBURY_2006 = DatasetKind(
    title="Middlebury 2006",
    scale=1 / 3,
    layout=(
        "FullSize/, HalfSize/ or ThirdSize/ with <scene>/, or a folder of such <scene>/, each with view1.png "
        "view5.png disp1.png and optionally disp5.png"
    ),
    views=("view1.png", "view5.png"),
    truth=("disp1.png",),
    right_truth=("disp5.png",),
    divisor=None,
    bits=8,
    sizes={"full": 1.0, "half": 1 / 2, "third": 1 / 3},
    folders={"FullSize": 1.0, "HalfSize": 1 / 2, "ThirdSize": 1 / 3},
    full_width={"": (1200.0, 1450.0)},
)

_OWN_PAIRS = _OwnPairs(
    title="own pairs",
    scale=1.0,
    layout=(
        "a folder for each pair, or one such folder, with im0 and im1 or left and right (PNG, JPEG, TIFF, PPM, "
        "PFM), and optionally truth as disp0.pfm or disp.pfm (inf unknown) or disp0.png or disp.png (16-bit, "
        "disparity x 256, 0 unknown), disp1.pfm or disp1.png of the right view, mask0nocc.png, calib.txt"
    ),
    truth=("disp0.pfm", "disp.pfm", "disp0.png", "disp.png"),
    right_truth=("disp1.pfm", "disp1.png"),
    truth_is_optional=True,
    is_clean=False,
)

_SEQUENCES = _Sequences(title="sequences", scale=1.0, layout=sequences.LAYOUT, truth=(), has_frames=True)

#: The data sets that can be opened, each with its title, the scale of its protocol and its layout in words.
DATASETS: Mapping[str, DatasetKind] = {
    # Scenes of 2014 are 2300 to 3000 px wide at full size; the widest is less than twice the narrowest, so the three
    # sizes do not overlap. The two layouts crop differently, hence the margin; high must stay below twice low.
    "middlebury2014": DatasetKind(
        title="Middlebury 2014",
        scale=0.2,
        layout=(
            "<scene>-perfect/ and <scene>-imperfect/ (full size), or trainingF/, trainingH/ or trainingQ/ with "
            "<scene>/ of the evaluation SDK, or a folder of such <scene>/, each with im0.png im1.png, disp0.pfm or "
            "disp0GT.pfm, and optionally mask0nocc.png, disp1.pfm, calib.txt"
        ),
        truth=("disp0GT.pfm", "disp0.pfm"),
        right_truth=("disp1GT.pfm", "disp1.pfm"),
        sizes={"full": 1.0, "half": 0.5, "quarter": 0.25},
        folders={"trainingF": 1.0, "trainingH": 0.5, "trainingQ": 0.25},
        full_size_endings=("-perfect", "-imperfect"),
        # Two older, smaller scenes of the SDK are known by their names.
        full_width={"": (1900.0, 3300.0), "ArtL": (1300.0, 1400.0), "Teddy": (1750.0, 1850.0)},
    ),
    "middlebury2005": replace(_MIDDLEBURY_2006, title="Middlebury 2005"),
    "middlebury2006": _MIDDLEBURY_2006,
    # Indoor scenes, 1080 x 860, with dense truth of both views. One well-known loader divides by 1024: wrong.
    "instereo2k": DatasetKind(
        title="InStereo2K",
        scale=0.5,
        layout=(
            "test/<scene>/, or a folder of such <scene>/, each with left.png right.png left_disp.png (16-bit, "
            "disparity x 100, 0 unknown) and optionally right_disp.png"
        ),
        part="test",
        views=("left.png", "right.png"),
        truth=("left_disp.png",),
        right_truth=("right_disp.png",),
        divisor=100,
    ),
    # Gray pairs indoors and outdoors, with truth by laser scanner. Images and truth are two archives,
    # two_view_training and two_view_training_gt.
    "eth3d": DatasetKind(
        title="ETH3D two-view",
        scale=1.0,
        layout=(
            "<scene>/ with im0.png im1.png disp0GT.pfm and optionally mask0nocc.png, calib.txt (both archives of the "
            "training set unpacked into one folder)"
        ),
        truth=("disp0GT.pfm",),
    ),
    # Streets by day, with sparse truth by LIDAR, and cars filled in from models. disp_occ_0 has all points, disp_noc_0
    # only those that the right view sees too.
    "kitti2015": _Kitti2015(
        title="KITTI 2015",
        scale=1.0,
        layout=(
            "training/ (or that folder itself) with image_2/ image_3/ disp_occ_0/ of files <scene>_10.png (truth "
            "16-bit, disparity x 256, 0 unknown), and optionally disp_noc_0/ and calib_cam_to_cam/"
        ),
        views=("image_2", "image_3"),
        truth=("disp_occ_0",),
    ),
    # Real pairs of the night, with sparse truth by LIDAR, which is about 1 px accurate. Their noise is their own, and
    # nobody knows it. The pair that we have is from Oxford RobotCar (Maddern et al., "1 Year, 1000 km: The Oxford
    # RobotCar Dataset", 2017).
    "night": replace(
        _OWN_PAIRS,
        title="night street",
        layout=(
            "<scene>/ with im0.png im1.png and disp0.png (LIDAR: 16-bit, disparity x 256, 0 unknown), or truth as for "
            "own pairs"
        ),
        has_sparse_truth=True,
    ),
    "folder": _OWN_PAIRS,
    "sequence": _SEQUENCES,
    # A car by day: real frames and poses, of its own scale of motion; so a plan can give it light of its own.
    "kitti_sequence": replace(_SEQUENCES, title="KITTI sequence"),
}
