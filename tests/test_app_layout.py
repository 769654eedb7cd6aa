"""The web page in Chromium: what is in sight on a laptop and a phone, what is said where, and the keyboard alone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from app_chromium import choose, chromium, open_page
from app_server import Served, serve
from app_visitors import SMALL

import scotopic
from scotopic.app.inputs import OWN, OWN_CLIP
from scotopic.demo import render_sway
from scotopic.io import write_png
from scotopic.sensor import to_uint8

pytest.importorskip("gradio", reason="needs the extra app: pip install 'scotopic[app]'")

LAPTOP, PHONE = (1366, 650), (390, 844)  # a desktop has more room than either
CONTROLS = "#form input:not([type=file]), #form button, #form summary"
FOCUSED = """() => {
  const focused = document.activeElement, ring = focused.type === "radio" ? focused.closest("label") : focused;
  const style = getComputedStyle(ring);
  return [focused.id || focused.value || focused.className, style.outlineStyle, parseFloat(style.outlineWidth)];
}"""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serve(tmp_path_factory.mktemp("app") / "tmp") as running:
        yield running


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as launched:
        yield launched


@pytest.fixture
def page(browser: Any, served: Served) -> Iterator[Any]:
    """The page, just opened on a laptop."""
    opened = open_page(browser, served.url, *LAPTOP)
    yield opened
    opened.context.close()


@pytest.fixture(scope="module")
def views(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a pair, and a file that is not an image."""
    folder, scene = tmp_path_factory.mktemp("views"), scotopic.render_scene(96, 64)
    for side in ("left", "right"):
        write_png(folder / f"{side}.png", to_uint8(getattr(scene, side)))
    (folder / "text.png").write_bytes(b"not an image at all")
    return folder


def upload(page: Any, side: str, path: Path) -> None:
    page.locator(f"#{side} input[type=file]").set_input_files(path)
    page.wait_for_function(f"/{path.name}/.test(document.querySelector('#views').textContent)")


def hidden_controls(page: Any) -> list[str]:
    """Return the controls that are not wholly in sight, without scrolling: outside the window, or behind others."""
    return page.eval_on_selector_all(
        CONTROLS,
        """parts => parts.filter(part => {
          const box = part.getBoundingClientRect();
          const over = document.elementFromPoint(box.x + box.width / 2, box.bottom - 1);
          const seen = part.closest("label")?.contains(over) || part.contains(over);
          return !(box.top >= 0 && box.bottom <= window.innerHeight && box.right <= window.innerWidth && seen);
        }).map(part => part.outerHTML.slice(0, 120))""",
    )


def test_all_controls_are_in_sight_on_a_laptop(page: Any, views: Path) -> None:
    assert hidden_controls(page) == []

    choose(page, OWN)
    for side in ("left", "right"):
        upload(page, side, views / f"{side}.png")
    page.locator("#noise").get_by_label("Simulate").check()
    page.wait_for_selector("#photons")
    assert hidden_controls(page) == []

    page.locator("#noise").get_by_label("As recorded").check()
    page.wait_for_selector("#photons", state="detached")
    upload(page, "left", views / "text.png")
    assert hidden_controls(page) == []


@pytest.fixture(scope="module")
def stacks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two stacks of eight frames, from cameras that sway."""
    folder, scenes = tmp_path_factory.mktemp("stacks"), [render_sway(number, 96, 64) for number in range(8)]
    for side in ("left", "right"):
        np.save(folder / f"{side}.npy", np.stack([to_uint8(getattr(scene, side)) for scene in scenes]))
    return folder


def test_two_stacks_are_fused_and_the_answer_sharpens_in_sight(page: Any, stacks: Path) -> None:
    choose(page, OWN_CLIP)
    page.wait_for_selector("#left-clip")
    assert page.query_selector("#left") is None
    for side in ("left", "right"):
        upload(page, f"{side}-clip", stacks / f"{side}.npy")
    assert "8 frames of 96 x 64 px" in page.inner_text("#views")
    page.locator("#noise").get_by_label("Simulate").check()
    page.wait_for_selector("#photons")
    assert hidden_controls(page) == []
    page.locator("#preset").get_by_label("fast").check()
    page.fill("#last input", "16")
    page.evaluate(
        """() => {  // notes the number of fused frames, where it stands, and which result is shown then
          window.said = [];
          new MutationObserver(() => {
            const said = document.querySelector("#status .sc-working span");
            const shown = document.querySelector(".sc-frame");
            if (said) window.said.push([said.innerText, said.getBoundingClientRect().bottom, shown?.dataset.stamp]);
          }).observe(document.querySelector("#pane"), {childList: true, subtree: true, attributes: true});
        }"""
    )

    page.click("#match")
    page.wait_for_selector("#status .sc-done")

    said = page.evaluate("window.said")
    counts = list(dict.fromkeys(int(text.split()[2]) for text, _, _ in said if text))
    assert counts == sorted(counts)
    assert len(counts) >= 2  # a quick machine does more than one between two looks of the page
    assert {text.split(" of ")[1] for text, _, _ in said if text} == {"8"}
    assert all(0 < bottom <= LAPTOP[1] for text, bottom, _ in said if text)
    assert len({stamp for _, _, stamp in said if stamp}) >= 2  # the maps were replaced on the way
    assert "Fused 8 of 8 frames" in page.inner_text("#status")
    for kind in ("fused", "frames"):
        page.click(f"#viewer [data-kind={kind}]")
        assert page.eval_on_selector(".sc-over", "image => image.decode().then(() => image.naturalWidth)") > 0
    page.get_by_role("tab", name="Download").click()
    with page.expect_download() as download:
        page.click("#files a[download='frames.pfm']")
    assert scotopic.io.read_pfm(download.value.path()).shape == (64, 96)


@pytest.mark.parametrize("window", [LAPTOP, PHONE], ids=["laptop", "phone"])
def test_progress_is_in_the_result_pane_and_in_sight(browser: Any, served: Served, window: tuple[int, int]) -> None:
    page = open_page(browser, served.url, *window)
    page.evaluate(
        """() => {  // notes all that the pane says, and where the bar is
          window.said = [];
          const pane = document.querySelector("#pane");
          new MutationObserver(() => {
            const bar = pane.querySelector("[role=progressbar]");
            window.said.push([pane.innerText, bar && bar.getBoundingClientRect().bottom]);
          }).observe(pane, {childList: true, subtree: true});
        }"""
    )
    choose(page, SMALL)
    page.wait_for_function("document.querySelector('#last input').value === '32'")

    page.locator("#preset").get_by_label("paper").check()  # takes long enough for the page to say how long

    page.click("#match")
    page.wait_for_function(r"window.said.some(([text]) => /Junctions[^]*left\s+Stage 1 of 6/.test(text))")

    said = page.evaluate("window.said")
    page.click("#cancel")
    page.wait_for_selector("#status :text('Cancelled')")
    texts = [text for text, _ in said]
    begun = next(k for k, text in enumerate(texts) if "Waiting in the queue" in text)
    assert not any("No result yet" in text for text in texts[begun:])
    bars = [bottom for text, bottom in said if "Stage 1 of 6" in text]
    assert all(0 < bottom <= window[1] for bottom in bars)
    page.context.close()


def test_the_error_of_an_upload_stays_until_it_is_mended(page: Any, views: Path) -> None:
    choose(page, OWN)
    upload(page, "left", views / "text.png")

    upload(page, "right", views / "right.png")
    page.locator("#preset").get_by_label("fast").check()
    page.locator("#last input").fill("16")
    page.click("#match")
    page.wait_for_selector("#status [role=alert]")
    for place in ("#views", "#status"):  # where it belongs, and where an answer was expected
        assert "'text.png' holds no readable image" in page.inner_text(place)

    upload(page, "left", views / "left.png")
    page.wait_for_selector("#status .sc-empty")
    assert page.locator("[role=alert]").count() == 0


def test_the_error_of_a_calibration_stays_until_it_is_mended(page: Any, views: Path, tmp_path: Path) -> None:
    choose(page, OWN)
    page.get_by_text("Calibration, for depth in meters").click()
    for number in range(3):
        (tmp_path / f"{number}.txt").write_text("96 47.5 31.5 0.25 0\n")
    drop = page.locator("#calibration input[type=file]")
    drop.set_input_files([tmp_path / f"{number}.txt" for number in range(3)])
    page.wait_for_selector("#calibration-note [role=alert]")

    upload(page, "left", views / "left.png")
    assert "3 calibration files are too many" in page.inner_text("#calibration-note")

    drop.set_input_files(tmp_path / "0.txt")
    page.wait_for_function("/0.txt will be used/.test(document.querySelector('#calibration-note').textContent)")
    page.click("#forget")
    page.wait_for_selector("#forget", state="detached")


def test_swapped_views_get_a_warning_and_the_button_swaps_them(page: Any, tmp_path: Path) -> None:
    scene = scotopic.render_scene(256, 192)
    for name, pixels in (("a.png", scene.right), ("b.png", scene.left)):  # the wrong way round
        write_png(tmp_path / name, to_uint8(pixels))
    choose(page, OWN)
    upload(page, "left", tmp_path / "a.png")
    upload(page, "right", tmp_path / "b.png")
    page.locator("#last input").fill("32")
    page.locator("#preset").get_by_label("fast").check()
    page.click("#match")
    page.wait_for_selector("#status .sc-done")
    warning = page.locator("#status .sc-warning")
    assert "swap" in warning.inner_text().lower()
    assert warning.get_attribute("role") == "status"
    assert warning.locator("svg").is_visible()
    red, green, blue, *_ = map(float, re.findall(r"[\d.]+", warning.evaluate("e => getComputedStyle(e).borderColor")))
    assert red > green > blue  # amber

    page.click("#swap")
    page.wait_for_function("/Left: b.png.*Right: a.png/s.test(document.querySelector('#views').textContent)")
    page.click("#match")
    # The first result is shown until the second is there.
    gone = "document.querySelector('#status .sc-done') && !document.querySelector('#status .sc-warning')"
    page.wait_for_function(gone)


def test_an_image_with_opaque_alpha_is_taken(page: Any, tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image", reason="comes with gradio")
    pixels = to_uint8(scotopic.render_scene(96, 64).left)
    image.fromarray(np.dstack([pixels, np.full(pixels.shape[:2], 255, np.uint8)])).save(tmp_path / "rgba.png")
    choose(page, OWN)

    upload(page, "left", tmp_path / "rgba.png")

    assert page.locator("#views img").count() == 1
    assert page.locator("[role=alert]").count() == 0


def test_the_maximum_disparity_says_how_to_choose_it(page: Any) -> None:
    assert "Maximum disparity" in page.inner_text("#last")
    assert "fx · B / Zmin" in page.inner_text("#help")

    page.click("#help summary")

    for part in ("focal length", "baseline", "nearest object", "80 px"):
        assert part in page.inner_text("#help")


def test_the_keyboard_alone_is_enough(page: Any) -> None:
    passed = []

    def tab_to(wanted: str) -> None:
        for _ in range(40):
            page.keyboard.press("Tab")
            name, style, width = page.evaluate(FOCUSED)
            assert (style, width > 1) == ("solid", True), f"{name} does not show that it has the focus"
            passed.append(name)
            if wanted in name:
                return
        raise AssertionError(f"{wanted} is not reached: {passed}")

    tab_to(SMALL)
    page.keyboard.press("Space")
    page.wait_for_function("document.querySelector('#last input').value === '32'")
    tab_to("fast")
    page.keyboard.press("Space")
    tab_to("match")
    page.keyboard.press("Enter")
    page.wait_for_selector("#status .sc-done")
    page.wait_for_selector("#viewer .sc-frame[data-stamp]")
    tab_to("sc-frame")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Shift+ArrowDown")
    # From the middle, (96, 64), one to the right and ten down.
    page.wait_for_function("/^Held: \\(97, 74\\)/.test(document.querySelector('.sc-reading').textContent)")
    page.keyboard.press("Escape")
    assert page.inner_text(".sc-reading").startswith("Point at")

    page.locator("#last input").focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("#status .sc-working")
    page.wait_for_selector("#status .sc-done")
