"""Damaged files, some hundreds of each kind: refused by name, or read as they stand, and nothing else happens.

``SCOTOPIC_FUZZ=10000 pytest tests/test_calibration_fuzz.py`` runs as many of each kind.
"""

import os
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from calibration_files import (
    HEIGHT,
    KITTI_OBJECT,
    KITTI_RAW,
    MIDDLEBURY,
    PLAIN,
    ROS_LEFT,
    ROS_RIGHT,
    WIDTH,
    damaged,
    example_rig,
    no_hang,
    rectified_rig,
    store,
)

from scotopic.depth import Calibration, read_calibration
from scotopic.errors import InputError
from scotopic.io import read_pfm, write_pfm

COUNT = int(os.environ.get("SCOTOPIC_FUZZ", "300"))


def put(path: Path, content: bytes) -> Path:
    path.unlink(missing_ok=True)  # some file systems take milliseconds to rewrite a file, and make a new one at once
    path.write_bytes(content)
    return path


def numbers(text: str) -> list[float]:
    return [float(word) for word in re.split(r"[\s;,\[\]]+", text) if word]


def only(pattern: str, text: str) -> str:
    """The one place where a pattern stands: what is there twice must have been refused."""
    found = re.findall(pattern, text, re.MULTILINE | re.DOTALL)
    assert len(found) == 1, (pattern, found)
    return str(found[0])


# --- what each kind says, read another way --------------------------------------------------------------------------


def middlebury_says(text: str) -> dict[str, float]:
    camera = numbers(only(r"^[ \v\f]*cam0\s*=\s*\[([^\n]*)\]", text))
    doffs = re.findall(r"^[ \v\f]*doffs\s*=([^\n]*)$", text, re.MULTILINE)
    other = re.findall(r"^[ \v\f]*cam1\s*=\s*\[([^\n]*)\]", text, re.MULTILINE)
    offset = float(doffs[0]) if doffs else numbers(other[0])[2] - camera[2]
    baseline = float(only(r"^[ \v\f]*baseline\s*=([^\n]*)$", text)) / 1000
    return {"fx": camera[0], "cx": camera[2], "cy": camera[5], "baseline": baseline, "doffs": offset}


def kitti_says(text: str) -> dict[str, float]:
    raw = re.search(r"^\s*P_rect_", text, re.MULTILINE) is not None
    left, right = (
        np.reshape(numbers(only(rf"^\s*{name}\s*:([^\n]*)$", text)), (3, 4))
        for name in (("P_rect_02", "P_rect_03") if raw else ("P2", "P3"))
    )
    return projections_say(left, right)


def projections_say(left: np.ndarray, right: np.ndarray) -> dict[str, float]:
    place = [np.linalg.inv(each[:, :3]) @ each[:, 3] for each in (left, right)]
    return {
        "fx": left[0, 0],
        "cx": left[0, 2],
        "cy": left[1, 2],
        "baseline": place[0][0] - place[1][0],
        "doffs": right[0, 2] - left[0, 2],
    }


def plain_says(text: str) -> dict[str, float]:
    lines = [re.split(r"[\s=:]+", line.split("#")[0].strip()) for line in text.split("\n")]
    lines = [words for words in lines if words != [""]]
    if len(lines) == 2 and lines[0][0] == "fx" and lines[0][1] == "cx":
        lines = lines[1:]
    if len(lines) == 1:
        words = lines[0]
        values = dict(zip(("fx", "cx", "cy", "baseline", "doffs"), map(float, words[:5]), strict=True))
        unit = words[5] if len(words) > 5 else "m"
    else:
        values = {words[0]: float(words[1]) for words in lines}
        unit = next((words[2] for words in lines if len(words) > 2), "m")
    values["baseline"] *= {"m": 1, "cm": 0.01, "mm": 0.001}[unit]
    return {name: values[name] for name in ("fx", "cx", "cy", "baseline", "doffs")}


def without_comments(text: str) -> str:
    return re.sub(r"(^|(?<= ))#[^\n]*", "", text, flags=re.MULTILINE)


def yaml_matrix(key: str, text: str) -> list[float]:
    return numbers(
        only(rf"^['\"]?{key}['\"]? *:(?:(?!^\S).)*?data['\"]? *:[^\[\n]*\[([^\]]*)\]", without_comments(text))
    )


def opencv_yaml_says(text: str) -> dict[str, float]:
    if not re.search(r"^['\"]?P[12]\b", text, re.MULTILINE):  # cut off before them: the cameras alone are whole too
        return opencv_cameras_say(text)
    return projections_say(*(np.reshape(yaml_matrix(key, text), (3, 4)) for key in ("P1", "P2")))


def opencv_xml_says(text: str) -> dict[str, float]:
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    return projections_say(
        *(np.reshape(numbers(only(rf"<{key}\b.*?<data\s*>(.*?)</data\s*>", text)), (3, 4)) for key in ("P1", "P2"))
    )


def opencv_q_says(text: str) -> dict[str, float]:
    q = np.reshape(yaml_matrix("Q", text), (4, 4))
    cy = -q[1, 3] / q[1, 1]
    return {"fx": q[2, 3], "cx": -q[0, 3], "cy": cy, "baseline": 1 / q[3, 2], "doffs": q[3, 3] / q[3, 2]}


def opencv_cameras_say(text: str) -> dict[str, float]:
    rig = {key: np.reshape(yaml_matrix(key, text), (3, 3)) for key in ("K1", "K2", "R")}
    rig.update({key: np.array([yaml_matrix(key, text)]) for key in ("D1", "D2")})
    turned = rectified_rig({**rig, "T": np.reshape(yaml_matrix("T", text), (3, 1))})
    return projections_say(turned["P1"], turned["P2"])


def ros_says(text: str) -> dict[str, float]:
    """Of the left file; the right one is whole."""
    pattern = r"^['\"]?projection_matrix['\"]? *:(?:(?!^\S).)*?data['\"]? *:[^\[\n]*\[([^\]]*)\]"
    left = np.reshape(numbers(only(pattern, without_comments(text))), (3, 4))
    right = np.array([[500.0, 0, 320, -60], [0, 500, 240, 0], [0, 0, 1, 0]])
    return projections_say(left, right)


ROS_MESSAGE = re.sub(
    r"  data: \[([^\]]*)\]",
    lambda found: "  data:\n" + "\n".join(f"  - {word.strip()}" for word in found[1].split(",")),
    ROS_LEFT.replace("distortion_model: plumb_bob", "distortion_model: ''"),
)


def ros_message_says(text: str) -> dict[str, float]:
    """The same with one number a line."""
    block = only(
        r"^projection_matrix *:(?:(?!^\S).)*?data *: *\n((?:\s*\n|\s*- [^\n]*\n|\s*- [^\n]*\Z)+)",
        without_comments(text),
    )
    left = np.reshape([float(word) for line in block.split("\n") for word in line.split()[1:]], (3, 4))
    return projections_say(left, np.array([[500.0, 0, 320, -60], [0, 500, 240, 0], [0, 0, 1, 0]]))


@pytest.fixture(scope="module")
def opencv_files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("opencv")
    rig = example_rig()
    everything = {**rig, **{key: value for key, value in rectified_rig(rig).items() if key != "Q"}}
    files = {
        suffix: store(folder / f"rig.{suffix}", image_width=WIDTH, image_height=HEIGHT, **everything).read_bytes()
        for suffix in ("yml", "xml")
    }
    files["Q"] = store(folder / "q.yml", Q=rectified_rig(rig)["Q"]).read_bytes()
    files["cameras"] = store(folder / "cameras.yml", **rig).read_bytes()
    return files


KINDS: dict[str, tuple[Callable[[dict[str, bytes]], bytes], Callable[[str], dict[str, float]]]] = {
    "middlebury": (lambda _: MIDDLEBURY.encode(), middlebury_says),
    "kitti raw": (lambda _: KITTI_RAW.encode(), kitti_says),
    "kitti object": (lambda _: KITTI_OBJECT.encode(), kitti_says),
    "plain": (lambda _: PLAIN.encode(), plain_says),
    "plain names": (lambda _: b"fx 500.5\ncx 320.25\ncy 240.75\nbaseline 12 cm\ndoffs 3.5\n", plain_says),
    "opencv yaml": (lambda files: files["yml"], opencv_yaml_says),
    "opencv xml": (lambda files: files["xml"], opencv_xml_says),
    "opencv Q": (lambda files: files["Q"], opencv_q_says),
    "opencv cameras": (lambda files: files["cameras"], opencv_cameras_say),
    "ros": (lambda _: ROS_LEFT.encode(), ros_says),
    "ros message": (lambda _: ROS_MESSAGE.encode(), ros_message_says),
}


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_calibrations_are_refused_or_read_as_they_stand(
    tmp_path: Path, opencv_files: dict[str, bytes], kind: str
) -> None:
    content_of, says = KINDS[kind]
    whole = content_of(opencv_files)
    second = [put(tmp_path / "right.yaml", ROS_RIGHT.encode())] if kind.startswith("ros") else []
    random = np.random.default_rng(sorted(KINDS).index(kind))
    accepted = refused = 0
    for _ in range(COUNT):
        content = damaged(random, whole)
        path = put(tmp_path / "calib.txt", content)
        try:
            with no_hang():
                found = read_calibration(path, *second, size=(WIDTH, HEIGHT))
        except InputError as error:
            check_refusal(error, path, *second)
            refused += 1
            continue
        text = content.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
        check_reading(found, says(text), content)
        accepted += 1
    # Both ways out must have been taken, or the damage was too little or too much to try anything.
    assert accepted > COUNT / 50
    assert refused > COUNT / 4


@pytest.mark.parametrize(
    "start", ["", "K1: ", "K1: [", "K1:\n", "cam0=", "P2: 1 ", "fx ", "<opencv_storage>", "%YAML:1.0\n"]
)
@pytest.mark.parametrize(
    "filling", [" ", "[", "[1]   ", "1", "- ", "- 1\n", "a", ":", "#", "'", "<a>", "a:\n ", "1,\n", "\n"]
)
def test_a_file_made_to_be_slow_is_refused_at_once(tmp_path: Path, start: str, filling: str) -> None:
    path = put(tmp_path / "calib.txt", (start + filling * 200_000)[:199_000].encode())  # as large as files may be

    with no_hang(3), pytest.raises(InputError):
        read_calibration(path)


def check_refusal(error: InputError, *paths: Path) -> None:
    """One line that names a file."""
    message = str(error)
    assert "\n" not in message
    assert any(repr(str(each)) in message for each in paths), message


def check_reading(found: Calibration, expected: dict[str, float], content: bytes) -> None:
    for name, value in expected.items():
        assert getattr(found, name) == pytest.approx(value, rel=1e-9, abs=1e-9), (name, content)


def whole_files(folder: Path) -> dict[str, str]:
    opencv = store(folder / "whole.yml", image_width=WIDTH, image_height=HEIGHT, **rectified_rig(example_rig()))
    plain = "fx 500.5\ncx 320.25\ncy 240.75\ndoffs 3.5\nbaseline 120 mm\n"
    block = "K: [1, 0, 0, 0, 1, 0, 0, 0, 1]\nP:\n" + "".join(
        f"- {n}\n" for n in (500, 0, 320, 0, 0, 500, 240, 0, 0, 0, 1, 0)
    )
    return {
        "middlebury": MIDDLEBURY, "kitti raw": KITTI_RAW, "kitti": KITTI_OBJECT, "plain": PLAIN, "named": plain,
        "opencv": opencv.read_text(), "ros": ROS_LEFT, "ros block": block,
    }  # fmt: skip


WHOLE = ("middlebury", "kitti raw", "kitti", "plain", "named", "opencv", "ros", "ros block")


@pytest.mark.parametrize("kind", WHOLE)
def test_a_file_that_is_cut_anywhere_is_refused_or_gives_the_same_numbers(tmp_path: Path, kind: str) -> None:
    content = whole_files(tmp_path)[kind]
    others = [put(tmp_path / "right.yaml", ROS_RIGHT.encode())] if kind.startswith("ros") else []
    if kind == "ros block":  # a message without its size, so both without
        others = [put(tmp_path / "right.yaml", content.replace("- 0\n- 0\n- 500", "- -60\n- 0\n- 500", 1).encode())]
    whole = read_calibration(put(tmp_path / "calib", content.encode()), *others)
    names = ("fx", "fy", "cx", "cy", "baseline", "doffs")
    refused = 0
    for end in range(len(content)):
        path = put(tmp_path / "calib", content[:end].encode())
        try:
            found = read_calibration(path, *others)
        except InputError as error:
            check_refusal(error, path, *others)
            refused += 1
            continue
        assert [getattr(found, name) for name in names] == [getattr(whole, name) for name in names], content[:end]
        assert found.width in (None, whole.width), content[:end]
        assert found.height in (None, whole.height), content[:end]
        assert not content[:end][-1].isalnum(), "it ends inside a word, which could have been longer"
    assert refused > len(content) / 4


# --- PFM ------------------------------------------------------------------------------------------------------------


def test_damaged_pfm_maps_are_refused_or_read_as_they_stand(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    path = tmp_path / "map.pfm"
    write_pfm(path, random.normal(size=(3, 4)).astype(np.float32))
    whole = path.read_bytes()
    accepted = refused = 0
    for _ in range(COUNT):
        content = damaged(random, whole[:14]) + whole[14:] if random.random() < 0.5 else damaged(random, whole)
        put(path, content)
        try:
            with no_hang():
                values = read_pfm(path)
        except InputError as error:
            check_refusal(error, path)
            refused += 1
            continue
        header = re.sub(rb"#[^\n]*\n", b" ", content[: len(content) - values.nbytes]).split()
        assert (int(header[2]), int(header[1])) == values.shape[:2]
        data = np.frombuffer(content[len(content) - values.nbytes :], "<f4" if float(header[3]) < 0 else ">f4")
        assert values.tobytes() == data.reshape(values.shape)[::-1].astype(np.float32).tobytes()
        accepted += 1
    assert accepted > COUNT / 50
    assert refused > COUNT / 4
