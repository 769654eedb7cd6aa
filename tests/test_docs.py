"""The documentation: its links lead somewhere, its code runs, and the built site shows what it should."""

from __future__ import annotations

import importlib.util
import json
import math
import os
import re
import shlex
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import numpy as np
import pytest
from rooms import room
from typer.core import TyperGroup
from typer.main import get_command

import scotopic
from scotopic.cli import app
from scotopic.io import write_png
from scotopic.sensor import to_uint8

ROOT = Path(__file__).parent.parent
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
NEEDED = ("mkdocs", "material", "mkdocstrings", "mkdocstrings_handlers.python")

_FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"^(<!-- not run -->\n)?```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)\s]+)")
WIDTH, HEIGHT = 176, 96
TERMINAL = 80  # columns; a cell of a table cannot be wrapped, so long texts are lists


def title(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks(page: Path) -> list[str]:
    """Return the Python of a page that is meant to run: all but what is marked ``<!-- not run -->``."""
    return [code for mark, code in _CODE.findall(page.read_text()) if not mark]


def commands(page: Path) -> list[str]:
    """Return the lines of a page that a reader can copy into a terminal, if they call ``scotopic``."""
    return re.findall(r"^    (?:.*&& )?(scotopic [a-z].*)$", page.read_text(), re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=title)
def test_links_between_pages_lead_to_files(page: Path) -> None:
    for link in _LINK.findall(_FENCE.sub("", page.read_text())):
        parts = urlsplit(link)
        if not parts.scheme and parts.path:
            assert (page.parent / unquote(parts.path)).exists(), f"{title(page)}: {link}"


@pytest.mark.parametrize("page", PAGES, ids=title)
def test_tables_can_be_read_in_a_terminal(page: Path) -> None:
    rows = [line for line in _FENCE.sub("", page.read_text()).splitlines() if line.startswith("|")]

    assert [row for row in rows if len(row) > TERMINAL] == []


def prepare() -> dict[str, Any]:
    """Write the files that the pages mention to the current folder; return the names of what a reader has."""
    scene = room(WIDTH, HEIGHT)
    pair = scotopic.simulate_pair(scene.left, scene.right, photons=8, read_noise=2)
    for name, view in zip(("left", "right"), pair, strict=True):
        write_png(f"{name}.png", to_uint8(view))
        np.save(f"{name}.npy", np.packbits(np.random.default_rng(0).random((32, HEIGHT, WIDTH)) < 0.3, axis=2))
    camera = f"[{WIDTH} 0 {(WIDTH - 1) / 2}; 0 {WIDTH} {HEIGHT / 2}; 0 0 1]"
    Path("calib.txt").write_text(
        f"cam0={camera}\ncam1={camera}\ndoffs=0\nbaseline=100\nwidth={WIDTH}\nheight={HEIGHT}\n"
    )
    Path("out/frames").mkdir(parents=True)
    nothing = np.zeros((HEIGHT, WIDTH), np.uint8)
    np.savez("out/frames/000000.npz", disparity=np.float32(nothing), confidence=np.float32(nothing), reason=nothing)
    camera_noise = scotopic.sensor.Sensor(photons=400, read_noise=3, black=0.1, steps=255)
    levels = {"dark_stack": 0.0, "stack_1": 0.2, "stack_2": 0.5, "stack_3": 0.8}
    stacks = {
        name: np.rint(255 * camera_noise.simulate(np.full((2, 64, 64), level), seed)).astype(np.uint8)
        for seed, (name, level) in enumerate(levels.items())
    }
    return {"width": WIDTH, "height": HEIGHT, "pairs": [pair], **stacks}


@pytest.mark.usefixtures("quick_presets")
@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)], ids=title)
def test_the_code_of_a_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = prepare()

    for number, code in enumerate(blocks(page), start=1):  # as one program: a block may use what an earlier one defined
        exec(compile(code, f"{title(page)}, block {number}", "exec"), names)


@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)], ids=title)
def test_the_commands_of_a_page_are_understood(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    known = get_command(app)
    assert isinstance(known, TyperGroup)

    for line in commands(page):
        name, *words = shlex.split(line, comments=True)[1:]
        assert name in known.commands, f"{title(page)}: {line}"
        try:
            known.commands[name].make_context(name, words)  # only reads the words
        except Exception as error:  # of the library below typer, which is not the same in all versions of typer
            pytest.fail(f"{title(page)}: {line}: {error}")


def test_there_is_code_to_run() -> None:
    assert sum(len(blocks(page)) for page in PAGES) > 10


class _Page(HTMLParser):
    """Collects the places that can be linked to, links, what a browser would fetch, the text, and blocks of code.

    Text is as a reader sees it: highlighting puts tags between the characters of one word of code.
    """

    def __init__(self, html: str) -> None:
        super().__init__()
        self.places: set[str] = {""}
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.text = ""
        self.code: list[str] = []
        self._is_code = False
        self.feed(html)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = {name: value for name, value in attributes if value is not None}
        self.places |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if "src" in given:
            self.fetched.append(given["src"])
        if tag == "link" and given.get("rel") in ("stylesheet", "icon"):
            self.fetched.append(given["href"])
        if tag == "pre":
            self._is_code = True
            self.code.append("")

    def handle_endtag(self, tag: str) -> None:
        self._is_code = self._is_code and tag != "pre"

    def handle_data(self, data: str) -> None:
        self.text += data
        if self._is_code:
            self.code[-1] += data

    @property
    def markers(self) -> list[str]:
        """What stands for something else and should not be seen: snippets, also as a formatter splits them, tables."""
        return re.findall(r"-\s*-\s*8\s*<\s*-\s*-.*|<!--.*?-->", self.text)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, _Page]:
    try:
        missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    except ModuleNotFoundError as error:
        missing = [str(error.name)]
    if missing:
        pytest.skip(f"needs {', '.join(missing)}: pip install 'scotopic[docs]'")
    folder = tmp_path_factory.mktemp("site").resolve()
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return {path: _Page(path.read_text()) for path in folder.rglob("*.html") if path.name != "404.html"}


def test_the_site_has_a_page_for_each_of_ours(site: dict[Path, _Page]) -> None:
    assert len(site) == len(list((ROOT / "docs").rglob("*.md")))


def test_every_link_of_the_site_resolves(site: dict[Path, _Page]) -> None:
    for path, page in site.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            assert target.exists(), f"{path}: {link}"
            assert target not in site or unquote(parts.fragment) in site[target].places, f"{path}: {link}"


def test_the_site_fetches_nothing_from_elsewhere(site: dict[Path, _Page]) -> None:
    for path, page in site.items():
        for link in page.fetched:
            assert not urlsplit(link).netloc, f"{path}: {link}"
            assert (path.parent / unquote(urlsplit(link).path)).exists(), f"{path}: {link}"


def test_docstrings_appear_without_marks_of_another_markup(site: dict[Path, _Page]) -> None:
    for path in site:
        if "api" in path.parts:
            assert not re.search(r":(class|func|meth|mod|attr|data):", path.read_text()), path


def test_the_examples_are_shown_with_their_code(site: dict[Path, _Page]) -> None:
    (page,) = [page for path, page in site.items() if path.parent.name == "examples"]

    for script in (ROOT / "examples").glob("*.py"):
        assert script.read_text().strip() in [code.strip() for code in page.code], script


def test_no_page_shows_a_marker_in_place_of_what_it_stands_for(site: dict[Path, _Page]) -> None:
    for path, page in site.items():
        assert page.markers == [], path
        assert "<!-- table of" not in path.read_text(), path


@pytest.mark.parametrize(
    "html",
    [
        '<p>--8&lt;-- "CHANGELOG.md"</p>',
        # After a formatter, highlighted as Python.
        '<pre><span class="o">--</span><span class="mi">8</span> <span class="o">&lt;</span> <span class="o">--</span>'
        '<span class="s2">"examples/panels.py"</span></pre>',
        "<pre><code>&lt;!-- table of presets --&gt;</code></pre>",
    ],
)
def test_markers_are_found_in_whatever_way_they_are_shown(html: str) -> None:
    assert len(_Page(html).markers) == 1


def test_no_block_of_code_is_empty(site: dict[Path, _Page]) -> None:
    for path, page in site.items():
        assert all(code.strip() for code in page.code), path
    assert sum(len(page.code) for page in site.values()) > 50


def test_the_presets_and_their_results_are_taken_from_the_package(site: dict[Path, _Page]) -> None:
    (page,) = [path for path in site if path.parent.name == "presets"]
    cells = re.findall(r"<t[dh]>(?:<code>)?(\w+)(?:</code>)?</t[dh]>", page.read_text())

    assert {*scotopic.PRESETS, "refine_steps", "boundary_weight"} <= set(cells)


def test_the_worked_example_of_a_search_range_is_right() -> None:
    page = (ROOT / "docs" / "camera.md").read_text()
    fx = 1280 / (2 * math.tan(math.radians(70 / 2)))
    largest = fx * 0.12 / 1.0

    assert f"# {fx:.0f} px" in page
    assert f"# {largest:.0f} px" in page
    assert f"--max-disparity {math.ceil(1.1 * largest)}" in page
    assert f"# {5**2 / (fx * 0.12):.2f} m of depth" in page


def test_errors_over_light_stand_beside_their_coverage(site: dict[Path, _Page]) -> None:
    (page,) = [path for path in site if path.parent.name == "camera"]
    rows = re.findall(r"<tr>\s*(.*?)\s*</tr>", page.read_text(), re.DOTALL)
    shown = [re.sub(r"<[^>]+>\s*", "|", row).replace("||", "|") for row in rows]
    measured = json.loads((ROOT / "benchmarks" / "results" / "camera.json").read_text())

    answered = [row for row in measured["light"]["rows"] if row["color"]["coverage_percent"] > 0]
    assert len(answered) > 4
    for row in answered:
        figures = [row["color"][name] for name in ("W1 EPE", "W1 Bad-1", "W19 EPE", "W19 Bad-1")]
        coverage = row["color"]["coverage_percent"]
        cells = [f"{coverage:.1f} %" if coverage < 10 else f"{coverage:.0f} %"]
        cells += [f"{figures[0]:.2f}, {figures[1]:.0f}", f"{figures[2]:.2f}, {figures[3]:.0f}"]
        assert any(text.startswith(f"|{row['photons']}|{'|'.join(cells)}|") for text in shown), row
