"""What the site takes from the package: tables, examples, and docstrings, rewritten from reST to Markdown."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import griffe

from scotopic.pipelines import stages_of
from scotopic.settings import PRESETS, describe_settings

_ROOT = Path(__file__).parent.parent
_RESULTS = _ROOT / "benchmarks" / "results"
_ROLE = re.compile(r":(?:class|func|meth|mod|attr|data|exc):`(~?)([\w.]+)(?: <[^>`]*>)?`")
_PROMPT = re.compile(r"^((?:>>> .*(?:\n|$)(?:(?!>>> ).+(?:\n|$))*)+)", re.MULTILINE)
_SOURCE_LINK = re.compile(r"\[([^\]]+)\]\((?:\.\./)+(?:src|examples|benchmarks|tests)/[^)]*\)")
_SECTION = re.compile(r"^\w[\w ]*\n---+$", re.MULTILINE)
_TABLE = re.compile(r"^(=+(?: +=+)+\n.*?\n=+(?: +=+)+)$", re.MULTILINE | re.DOTALL)


def presets_table() -> str:
    """Return all settings that the presets share and in which they differ, one column per preset."""
    values = {name: {each.name: each.value for each in describe_settings(s)} for name, s in PRESETS.items()}
    names = list(dict.fromkeys(name for preset in values.values() for name in preset))
    shared = [name for name in names if all(name in preset for preset in values.values())]
    differing = [name for name in shared if len({repr(preset[name]) for preset in values.values()}) > 1]
    rows = [[f"`{name}`", *(str(preset[name]) for preset in values.values())] for name in differing]
    return _table(["setting", *(f"`{name}`" for name in values)], rows)


def settings_table() -> str:
    """Return every setting of every pipeline, with the part that it is in, its default and its meaning."""
    found = {each.name: each for preset in ("best", "paper") for each in describe_settings(PRESETS[preset])}
    rows = [[each.part, f"`{each.name}`", str(each.value), each.meaning] for each in found.values()]
    return _table(["part", "setting", "default of `paper`, or of `best`", "meaning"], rows)


def stages_table() -> str:
    """Return the stages of ``best``, in order."""
    rows = [[f"`{stage.name}`", stage.summary] for stage in stages_of(PRESETS["best"])]
    return _table(["stage, in progress and timings", "what it does"], rows)


def results_table() -> str:
    """Return the measurements of each preset and of the published implementation, from ``benchmarks/results``."""
    reference, cpu, gpu = (json.loads((_RESULTS / f"{name}.json").read_text()) for name in ("reference", "cpu", "gpu"))
    published = reference["mean"]["published"]
    rows = [_errors("published code", published, cpu["published_cpu_seconds"], gpu["published_seconds"])]
    for name in PRESETS:
        if name in reference["mean"]:
            seconds = [file["presets"].get(name, {}).get("median_seconds", {}).get("total") for file in (cpu, gpu)]
            rows.append(_errors(f"`{name}`", reference["mean"][name]["errors"], *seconds))
    head = ["", "coverage, %", "W 19: EPE, px", "Bad-1, %", "Bad-3, %", "W 1: EPE, px", "two CPU cores, s", "H200, s"]
    return _table(head, rows)


def _errors(name: str, errors: dict[str, float], *seconds: float | None) -> list[str]:
    found = [errors[key] for key in ("coverage_percent", "W19 EPE", "W19 Bad-1", "W19 Bad-3", "W1 EPE")]
    times = ["" if value is None else f"{value:,.0f}" if value > 50 else f"{value:.2g}" for value in seconds]
    return [name, *(f"{value:.1f}" if value >= 5 else f"{value:.2f}" for value in found), *times]


def light_table(prefix: str = "") -> str:
    """Return coverage and errors over light, for color and gray, from ``benchmarks/results/camera.json``."""
    rows = []
    for row in _camera("light")["rows"]:
        cells = [cell for kind in ("color", "gray") for cell in _at_coverage(row[prefix + kind])]
        rows.append([str(row["photons"]), *cells])
    return _table(["photons", "color: coverage", "W 1", "W 19", "gray: coverage", "W 1", "W 19"], rows)


def recordings_table() -> str:
    """Return coverage and errors over ways to store an image, for each light."""
    tables = []
    for level in _camera("recordings")["levels"]:
        rows = [[name, *_at_coverage(row)] for name, row in level["rows"].items()]
        tables.append(_table([f"at {level['photons']} photons", "coverage", "W 1", "W 19"], rows))
    return "\n\n".join(tables)


def sizes_table() -> str:
    """Return time, in units of the first row, and memory over image sizes."""
    rows = _camera("size")["rows"]
    found = {(row["width"], row["height"], row["preset"]): row for row in rows}
    sizes = dict.fromkeys((row["width"], row["height"]) for row in rows)
    lines = [[f"{width} x {height}", f"{width * height / 1e6:.2f}"] for width, height in sizes]
    for line, size in zip(lines, sizes, strict=True):
        for preset in ("fast", "best"):
            row = found[*size, preset]
            line += [f"{row['cpu_seconds'] / rows[0]['cpu_seconds']:.1f}", f"{row['peak_memory_mib'] / 1024:.2f} GiB"]
    return _table(["size", "megapixels", "`fast`: time", "memory", "`best`: time", "memory"], lines)


def _camera(part: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((_RESULTS / "camera.json").read_text())[part]
    return found


def _at_coverage(errors: dict[str, float]) -> list[str]:
    """Return the coverage, and EPE and Bad-1 of both windows."""
    coverage = errors["coverage_percent"]
    windows = [(errors.get(f"{window} EPE"), errors.get(f"{window} Bad-1")) for window in ("W1", "W19")]
    shown = ["" if epe is None else f"{epe:.2f}, {bad:.0f}" for epe, bad in windows]
    return [f"{coverage:.1f} %" if coverage < 10 else f"{coverage:.0f} %", *shown]


def _table(head: list[str], rows: list[list[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows))


def example_scripts() -> str:
    """Return all examples as code, each folded under its name."""
    scripts = sorted((_ROOT / "examples").glob("*.py"))
    return "\n\n".join(
        f'??? example "{path.name}"\n\n' + "".join(f"    {line}".rstrip() + "\n" for line in _fence(path.read_text()))
        for path in scripts
    )


def _fence(code: str) -> list[str]:
    return ["```python", *code.splitlines(), "```"]


def split_parameters(docstring: str) -> str:
    """Return a docstring with one entry per parameter: for ``a, b`` the site would give both the default of ``a``."""
    head, found, rest = docstring.partition("Parameters\n----------\n")
    if not found:
        return docstring
    end = _SECTION.search(rest)
    body, rest = (rest[: end.start()], rest[end.start() :]) if end else (rest, "")
    entries = re.split(r"^(?=\S)", body, flags=re.MULTILINE)
    alone = []
    for entry in entries:
        title, _, words = entry.partition("\n")
        names, colon, kind = title.partition(" : ")
        alone += [f"{name}{colon}{kind}\n{words}" for name in names.split(", ")]
    return head + found + "".join(alone) + rest


def to_markdown(docstring: str) -> str:
    """Return a docstring with the roles, literal blocks and tables of reST in Markdown."""
    text = _ROLE.sub(lambda found: f"`{found[2].rpartition('.')[2] if found[1] else found[2]}`", docstring)
    text = _TABLE.sub(lambda found: f"``` {{ .text .wide }}\n{found[1].replace('``', '')}\n```", text)
    if "Examples\n---" not in text:  # in a section of examples the prompt is recognized
        text = _PROMPT.sub(r"```pycon\n\1```\n", text)
    return re.sub(r"::$", ":", text, flags=re.MULTILINE)


class Roles(griffe.Extension):
    """Rewrites docstrings as they are read. What an attribute means may also stand beside it, after ``#:``."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.is_attribute and not obj.docstring and "#:" in (beside := "".join(obj.lines[-1:])):
            obj.docstring = griffe.Docstring(beside.partition("#:")[2].strip(), parent=obj)
        if obj.docstring:
            obj.docstring.value = to_markdown(split_parameters(obj.docstring.value))


_INSERTED = {
    "<!-- table of presets -->": presets_table,
    "<!-- table of results -->": results_table,
    "<!-- table of stages -->": stages_table,
    "<!-- table of settings -->": settings_table,
    "<!-- table of light, real scenes -->": light_table,
    "<!-- table of light, rendered room -->": lambda: light_table("rendered "),
    "<!-- table of recordings -->": recordings_table,
    "<!-- table of sizes -->": sizes_table,
    "<!-- the scripts -->": example_scripts,
}


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Insert what a page asks for. Links to source files, which the site does not have, become plain text."""
    for marker, make in _INSERTED.items():
        if marker in markdown:
            markdown = markdown.replace(marker, make())
    return _SOURCE_LINK.sub(r"\1", markdown)
