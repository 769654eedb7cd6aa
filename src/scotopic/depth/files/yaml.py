"""The part of YAML that calibration files are written in, read strictly.

Keys with words, lists of numbers (``[1, 2]``, over several lines, or one ``- 1`` a line) and further keys indented
below them; that is all that OpenCV, ROS and people write. Not by ``cv2.FileStorage``: fed with damaged files it ends
the whole process (four of 600 mutated ones, OpenCV 5.0). Not by PyYAML: it would be a new dependency for every user,
and takes far more than this, such as ``1_000`` for a number and the later of two equal keys.
"""

from __future__ import annotations

import re

from scotopic.depth.files.text import TextFile
from scotopic.depth.files.tree import Node, Tree

_KEY = re.compile(
    r"(?P<indent> *)(?P<quote>['\"]?)(?P<key>[A-Za-z_][\w.\-/]*)(?P=quote) *:(?: +(?P<rest>.*)|)", re.ASCII
)
_ITEM = re.compile(r"(?P<indent> *)- +(?P<rest>.*)")  # with a space: "-1" is a number, not an item
_TAG = re.compile(r"!!?[\w.\-]+ *")
_DEPTH_LIMIT = 8


def parse_yaml(file: TextFile) -> Tree:
    """Return the keys of the file.

    Raises
    ------
    InputError
        It has something else in it; the line is named.
    """
    lines = _content(file)
    reader = _Reader(file, lines)
    tree = reader.mapping(0)
    if reader.position < len(lines):
        raise reader.problem(reader.position, "a key at this indentation")
    return tree


def _content(file: TextFile) -> list[tuple[int, str]]:
    """The lines that say something, numbered, without comments."""
    kept: list[tuple[int, str]] = []
    ended = False
    for number, text in enumerate(file.lines, 1):
        text = _without_comment(text).rstrip()
        if not text or (text.startswith("%YAML") and not kept):
            continue
        if text in ("---", "..."):
            ended = bool(kept)
            continue
        if ended:
            raise file.problem(number, "a second document", "one calibration in the file", "remove the others")
        if "\t" in text or "\0" in text:
            raise file.problem(number, "a tab or null character", "spaces", "replace it")
        kept.append((number, text))
    return kept


def _without_comment(text: str) -> str:
    quote = ""
    for place, character in enumerate(text):
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        elif character == "#" and (place == 0 or text[place - 1] == " "):
            return text[:place]
    return text


class _Reader:
    """Goes through the lines once."""

    def __init__(self, file: TextFile, lines: list[tuple[int, str]]) -> None:
        self.file, self.lines, self.position = file, lines, 0

    def problem(self, position: int, expected: str) -> Exception:
        number, text = self.lines[min(position, len(self.lines) - 1)]
        return self.file.problem(number, repr(text.strip()[:40]), expected, "correct it or write the file again")

    def mapping(self, depth: int) -> Tree:
        """Keys of one indentation, that of the first line."""
        found: Tree = {}
        indent: int | None = None
        while self.position < len(self.lines):
            number, text = self.lines[self.position]
            match = _KEY.fullmatch(text)
            own = len(text) - len(text.lstrip(" "))
            if indent is not None and own < indent:
                break
            if match is None or depth > _DEPTH_LIMIT or (indent is not None and own != indent):
                raise self.problem(self.position, "'key: value', indented like its neighbors")
            indent, key = own, match["key"]
            if key in found:
                raise self.file.problem(
                    number, f"{key!r} again after line {found[key].line}", "each key once", "remove one"
                )
            self.position += 1
            found[key] = Node(number, self._value(match["rest"] or "", indent, depth))
        return found

    def _value(self, rest: str, indent: int, depth: int) -> str | list[str] | Tree:
        rest = _TAG.sub("", rest, count=1) if rest.startswith("!") else rest
        if rest.startswith("["):
            return self._flow(rest)
        if rest.startswith(("{", "&", "*", "|", ">")):
            raise self.problem(self.position - 1, "a word, a list or one key a line")
        if rest:
            return rest[1:-1] if len(rest) > 1 and rest[0] == rest[-1] and rest[0] in "'\"" else rest
        if self.position == len(self.lines):
            return ""
        following = self.lines[self.position][1]
        own = len(following) - len(following.lstrip(" "))
        if following.lstrip(" ").startswith("-") and own >= indent and _ITEM.fullmatch(following):
            return self._items(own)
        return self.mapping(depth + 1) if own > indent else ""

    def _items(self, indent: int) -> list[str]:
        """One ``- value`` a line; rows of a matrix may be lists."""
        values: list[str] = []
        while self.position < len(self.lines):
            match = _ITEM.fullmatch(self.lines[self.position][1])
            if match is None or len(match["indent"]) != indent:
                break
            self.position += 1
            rest = match["rest"]
            if rest.startswith("["):
                values += self._flow(rest)
            elif rest.startswith("- ") or ":" in rest:
                raise self.problem(self.position - 1, "'- ' and one number")
            else:
                values.append(rest)
        return values

    def _flow(self, text: str) -> list[str]:
        """``[a, b, ...]``, perhaps over several lines, perhaps rows in brackets of their own."""
        start = self.position - 1
        parts, open_brackets = [text], text.count("[") - text.count("]")
        while open_brackets > 0:
            if self.position == len(self.lines) or _KEY.fullmatch(self.lines[self.position][1]):
                raise self.problem(start, "a list that ends with ']'")
            parts.append(self.lines[self.position][1].strip())
            open_brackets += parts[-1].count("[") - parts[-1].count("]")
            self.position += 1
        tokens = re.findall(r"[\[\],]|[^\[\],]+", " ".join(parts))
        return self._words([token.strip() for token in tokens if token.strip()], start)

    def _words(self, tokens: list[str], start: int) -> list[str]:
        """The words of a list, each followed by a comma or the end; rows count as if written one behind the other."""
        words: list[str] = []
        depth, wants_word = 0, True
        for place, token in enumerate(tokens):
            if token == "[":
                depth += 1
                fits = depth <= 2 and wants_word
            elif token == "]":
                depth -= 1
                # Nothing may follow the last bracket; a comma may stand before it.
                fits = depth > 0 or (depth == 0 and place == len(tokens) - 1)
                wants_word = False
            elif token == ",":
                fits, wants_word = not wants_word, True
            else:
                fits, wants_word = wants_word and depth > 0, False
                words.append(token)
            if not fits:
                raise self.problem(start, "numbers between '[' and ']', commas between them")
        return words
