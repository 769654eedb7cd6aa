"""What YAML and XML calibrations have in common: keys with numbers, words or further keys behind them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from scotopic.depth.calibration import Matrix
from scotopic.depth.files.text import TextFile


@dataclass(frozen=True)
class Node:
    """A value and the line where its key stands: one word, several, or further keys."""

    line: int
    value: str | list[str] | dict[str, Node]


Tree = dict[str, Node]


def matrix(file: TextFile, key: str, node: Node, *shapes: tuple[int, int]) -> Matrix:
    """Return a matrix: a list of numbers, or ``rows``, ``cols`` and ``data`` as OpenCV and ROS write them.

    Raises
    ------
    InputError
        It has none of `shapes`, says another shape than its data have, or holds what is not a number.
    """
    expected = " or ".join(f"{rows} x {columns}" for rows, columns in shapes)
    data, stated = node, None
    if isinstance(node.value, dict):
        for part in ("rows", "cols", "data"):
            if part not in node.value:
                raise file.problem(node.line, f"{key} without {part!r}", "rows, cols and data", "write the file again")
        others = [part for part in node.value if part not in ("rows", "cols", "dt", "data")]
        if others:
            raise file.problem(
                node.value[others[0]].line, f"{others[0]!r} in {key}", "a matrix alone", "write it again"
            )
        rows, columns = (_scalar(file, f"{key}.{part}", node.value[part]) for part in ("rows", "cols"))
        stated, data = (int(rows), int(columns)), node.value["data"]
        if stated not in shapes or (rows, columns) != stated:
            raise file.problem(node.line, f"{key} of {rows:g} x {columns:g}", expected, "write the file again")
    if not isinstance(data.value, list):
        raise file.problem(node.line, f"{key} without a list of numbers", expected, "write the file again")
    for shape in [stated] if stated else shapes:
        if len(data.value) == shape[0] * shape[1]:
            return file.numbers(data.line, key, data.value, len(data.value)).reshape(shape)
    raise file.problem(data.line, f"{len(data.value)} numbers in {key}", expected, "write the file again")


def vector(file: TextFile, key: str, node: Node, lengths: tuple[int, ...]) -> Matrix:
    """Return so many numbers, in a row or in a column."""
    shapes = [shape for length in lengths for shape in ((1, length), (length, 1))]
    return matrix(file, key, node, *shapes).reshape(-1)


def image_size(file: TextFile, tree: Mapping[str, Node]) -> tuple[int, int] | tuple[None, None]:
    """Return width and height, where the file has them under one of their usual names."""
    for names in (("image_width", "image_height"), ("width", "height"), ("imageWidth", "imageHeight")):
        if all(name in tree for name in names):
            width, height = (file.whole(tree[name].line, name, _words(file, name, tree[name])) for name in names)
            return width, height
    for name in ("image_size", "imageSize", "size"):
        if name in tree:
            words = _words(file, name, tree[name])
            file.numbers(tree[name].line, name, words, 2)
            width, height = (file.whole(tree[name].line, name, [word]) for word in words)
            return width, height
    return None, None


def _scalar(file: TextFile, key: str, node: Node) -> float:
    return float(file.numbers(node.line, key, _words(file, key, node), 1)[0])


def _words(file: TextFile, key: str, node: Node) -> list[str]:
    if isinstance(node.value, dict):
        raise file.problem(node.line, f"{key} with further keys", "numbers", "write the file again")
    return node.value if isinstance(node.value, list) else [node.value]
