"""OpenCV's XML storage, as keys and values. Document types and entities are refused: no calibration needs them."""

from __future__ import annotations

from typing import Any
from xml.parsers import expat

from scotopic.depth.files.text import TextFile
from scotopic.depth.files.tree import Node, Tree
from scotopic.errors import InputError

_DEPTH_LIMIT = 8


def parse_xml(file: TextFile) -> Tree:
    """Return what stands in ``<opencv_storage>``.

    Raises
    ------
    InputError
        It is no XML, or not such a storage; the line is named.
    """
    parser = expat.ParserCreate()
    top: Tree = {}
    stack: list[tuple[str, int, Tree, list[str]]] = []

    def refuse(found: str, expected: str) -> InputError:
        return file.problem(parser.CurrentLineNumber, found, expected, "write the file again")

    def start(name: str, attributes: dict[str, str]) -> None:
        if not stack and name != "opencv_storage":
            raise refuse(f"<{name[:40]}>", "<opencv_storage>")
        if len(stack) > _DEPTH_LIMIT:
            raise refuse("elements nested deeply", "a flat storage of matrices")
        stack.append((name, parser.CurrentLineNumber, {}, []))

    def text(data: str) -> None:
        if stack:
            stack[-1][3].append(data)

    def end(name: str) -> None:
        _, line, children, pieces = stack.pop()
        words = "".join(pieces).split()
        if children and words:
            raise refuse(f"both elements and text in <{name[:40]}>", "one of them")
        if not stack:
            top.update(children)
            return
        parent = stack[-1][2]
        if name == "_":  # an item of a list of lists; none of ours
            raise refuse("a list of elements", "matrices")
        if name in parent:
            raise refuse(f"<{name[:40]}> again after line {parent[name].line}", "each name once")
        # One word may be a number or a list of one; the reader of a matrix sees to it by its name.
        parent[name] = Node(line, children or (words if name == "data" or len(words) != 1 else words[0]))

    def doctype(*_: Any) -> None:
        raise refuse("a document type", "plain XML without one")

    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.CharacterDataHandler, parser.StartDoctypeDeclHandler = text, doctype
    try:
        parser.Parse("\n".join(file.lines).encode(), True)
    except expat.ExpatError as error:
        reason = expat.errors.messages.get(error.code, "damaged XML")
        raise file.problem(error.lineno, reason, "well-formed XML", "write the file again") from None
    return top
