"""The split of the scenes that we develop with: two halves that share no room, and nothing left out."""

from itertools import combinations

from reference_data import data_folder

from scotopic.evaluation.split import HALVES, split_scenes

KINDS = {"middlebury2014": "middlebury2014_q", "instereo2k": "instereo2k/test"}
ROOMS = (("Motorcycle", "MotorcycleE"), ("Piano", "PianoL"), ("Playtable", "PlaytableP"))


def test_the_halves_share_no_scene_and_are_equally_large() -> None:
    for kind in KINDS:
        tuning, checking = (split_scenes(half, kind) for half in HALVES)
        assert not set(tuning) & set(checking)
        assert len(tuning) == len(checking) == 5


def test_pairs_of_one_room_are_in_one_half() -> None:
    for half, room in ((half, room) for half in HALVES for room in ROOMS):
        scenes = split_scenes(half, "middlebury2014")
        assert all((a in scenes) == (b in scenes) for a, b in combinations(room, 2))


def test_instereo_is_split_by_the_order_of_the_names() -> None:
    assert max(split_scenes("tuning", "instereo2k")) < min(split_scenes("checking", "instereo2k"))


def test_every_scene_that_we_have_is_in_a_half() -> None:
    root = data_folder()
    for kind, folder in KINDS.items():
        there = {path.name for part in ("data", "more") for path in (root / part / folder).glob("*/")}
        assert there <= {scene for half in HALVES for scene in split_scenes(half, kind)}


def test_a_data_set_that_is_not_split_has_no_halves() -> None:
    assert split_scenes("tuning", "night") == ()
