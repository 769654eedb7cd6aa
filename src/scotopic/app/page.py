"""The layout of the page and what happens when its parts are touched; the work itself is elsewhere."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from html import escape
from pathlib import Path
from typing import Any

import gradio as gr

from scotopic.app import inputs, words, work
from scotopic.app.session import Cancelled, Job, Session, Sessions
from scotopic.settings import PRESETS

SIMULATE, RECORDED = "Simulate", "As recorded"
_REPORT_SECONDS = 0.15  # between two looks at how far the work is
_FOLDER = Path(__file__).parent
_PLAIN: dict[str, Any] = {"js_on_load": None, "apply_default_css": False}  # HTML that only says something


def look() -> dict[str, Any]:
    """Return how the page looks, for ``launch``: the system's fonts, so that nothing is fetched from elsewhere."""
    fonts = ("system-ui", "-apple-system", "Segoe UI", "sans-serif")
    theme = gr.themes.Default(
        primary_hue="slate", neutral_hue="slate", font=fonts, font_mono=("ui-monospace", "monospace")
    )
    return {"theme": theme, "css": (_FOLDER / "style.css").read_text()}


def build(sessions: Sessions, worker: ThreadPoolExecutor, delete_cache: tuple[int, int]) -> Any:
    """Return the page.

    Parameters
    ----------
    sessions
        Who visits it.
    worker
        One thread that does all matching, one job after the other.
    delete_cache
        Every how many seconds uploads are looked through, and how old an abandoned one may grow.
    """
    page = gr.Blocks(title="scotopic", analytics_enabled=False, delete_cache=delete_cache)
    with page:
        gr.HTML(
            "<h1>scotopic</h1><p>Stereo depth from photon-starved image pairs, without learning.</p>",
            elem_id="title",
            **_PLAIN,
        )
        with gr.Row(equal_height=False):
            with gr.Column(scale=2, min_width=320):
                form = _Form()
            with gr.Column(scale=5, min_width=320):
                results = _Results()
        _Behavior(sessions, worker, form, results).attach(page)
    return page


class _Form:
    """The left column: what to match, and how."""

    def __init__(self) -> None:
        first = next(iter(inputs.ROOMS))
        self.source = gr.Dropdown([*inputs.ROOMS, inputs.OWN], value=first, label="Pair", elem_id="source")
        with gr.Column(visible=False, elem_id="own") as self.own, gr.Row():
            self.left = gr.File(label="Left image", height=150, min_width=130, elem_id="left")
            self.right = gr.File(label="Right image", height=150, min_width=130, elem_id="right")
        self.views = gr.HTML(elem_id="views", **_PLAIN)
        with gr.Accordion("Calibration, for true depth", open=False, visible=False) as self.geometry:
            self.calibration = gr.File(
                label="Calibration file (two for ROS)", file_count="multiple", height=140, elem_id="calibration"
            )
            self.unit = gr.Radio(["by the file", "m", "cm", "mm"], value="by the file", label="Unit of baseline")
            self.rectify = gr.Checkbox(label="Rectify the pair first (needs both cameras)")
            with gr.Row():
                self.focal = gr.Number(
                    0, label="Focal length, px", info="0: the image's width", minimum=0, min_width=120
                )
                self.baseline = gr.Number(
                    0.1, label="Baseline, m", info="without a file", minimum=0, min_width=120, step=0.01
                )
        self.noise = gr.Radio([SIMULATE, RECORDED], value=SIMULATE, label="Noise", elem_id="noise")
        with gr.Group() as self.darkness:
            self.photons = gr.Slider(
                0.5, 20, 2, step=0.5, label="Photons per pixel at white", elem_id="photons", buttons=[]
            )
            self.read_noise = gr.Slider(
                0, 5, inputs.READ_NOISE, step=0.1, label="Read noise, photons", elem_id="read-noise", buttons=[]
            )
        self.preset = gr.Radio(list(PRESETS), value="best", label="Preset", elem_id="preset")
        with gr.Row():
            self.first = gr.Number(0, label="Least disparity, px", precision=0, min_width=120, elem_id="first")
            self.last = gr.Number(
                inputs.ROOMS[first].max_disparity,
                label="Search ends at, px",
                precision=0,
                min_width=120,
                elem_id="last",
                placeholder="128, or width",
            )
        with gr.Row():
            self.match = gr.Button("Match", variant="primary", elem_id="match", min_width=120)
            self.cancel = gr.Button("Cancel", interactive=False, elem_id="cancel", min_width=120)
        self.status = gr.HTML(elem_id="status", **_PLAIN)

    @property
    def asked(self) -> list[Any]:
        """The components that :func:`_request` takes, in its order."""
        return [
            self.source, self.noise, self.photons, self.read_noise, self.preset, self.first, self.last, self.focal,
            self.baseline, self.unit, self.rectify,
        ]  # fmt: skip


class _Results:
    """The right column: what came out."""

    def __init__(self) -> None:
        self.empty = gr.HTML(words.EMPTY, elem_id="empty", **_PLAIN)
        with gr.Column(visible=False, elem_id="results") as self.all:
            self.coverage = gr.HTML(elem_id="coverage", **_PLAIN)
            self.threshold = gr.Slider(
                0, 1, 0, step=0.01, label="Hide what is less sure than", elem_id="threshold", buttons=[]
            )
            with gr.Tabs():
                with gr.Tab("Look"):
                    self.viewer = gr.HTML(
                        html_template=(_FOLDER / "viewer.html").read_text(),
                        js_on_load=(_FOLDER / "viewer.js").read_text(),
                        apply_default_css=False,
                        elem_id="viewer",
                    )
                with gr.Tab("3-D"):
                    self.cloud = gr.HTML(
                        html_template=(_FOLDER / "cloud.html").read_text(),
                        js_on_load=(_FOLDER / "cloud.js").read_text(),
                        apply_default_css=False,
                        elem_id="cloud",
                    )
                with gr.Tab("Compare"):
                    self.compare = gr.Button("Compare with OpenCV SGBM", elem_id="compare", size="md")
                    self.comparison = gr.HTML(elem_id="comparison", **_PLAIN)
                with gr.Tab("Download"):
                    self.files = gr.HTML(elem_id="files", **_PLAIN)


class _Behavior:
    """What happens when a part of the page is touched; failures become sentences in the status line."""

    def __init__(self, sessions: Sessions, worker: ThreadPoolExecutor, form: _Form, results: _Results) -> None:
        self._sessions, self._worker = sessions, worker
        self._form, self._results = form, results

    def attach(self, page: Any) -> None:
        """Connect the parts with what they do."""
        form, results = self._form, self._results
        # Cheap answers do not wait in the line of the matcher.
        at_once: dict[str, Any] = {"queue": False, "show_progress": "hidden", "api_visibility": "private"}
        chosen = [form.own, form.geometry, form.views, form.noise, form.darkness, form.last]
        form.source.input(self._choose, form.source, chosen, **at_once)
        page.load(self._greet, form.source, form.views, **at_once)
        form.noise.change(self._lighten, form.noise, form.darkness, **at_once)
        for side, drop in (("left", form.left), ("right", form.right)):
            receive = self._receiver(side)
            drop.upload(receive, [form.source, drop], [drop, form.views, form.status], preprocess=False, **at_once)
        form.calibration.upload(
            self._calibrate, form.calibration, [form.calibration, form.status], preprocess=False, **at_once
        )

        line: dict[str, Any] = {"concurrency_limit": 1, "concurrency_id": "matcher"}
        outcome = [
            form.match, form.cancel, form.status, results.empty, results.all, results.coverage, results.threshold,
            results.viewer, results.cloud, results.comparison, results.files,
        ]  # fmt: skip
        # Two steps: the first is answered while the second still waits in line, so that waiting can be cancelled too.
        # Gradio's own cancelling is not used: it can only stop listening to a job, and may then block the next one.
        clicked = form.match.click(self._queue, None, [form.match, form.cancel, form.status], **at_once)
        clicked.then(
            self._match, form.asked, outcome, api_name="match", show_progress="hidden", trigger_mode="multiple", **line
        )
        form.cancel.click(self._cancel, None, [form.match, form.cancel, form.status], **at_once)
        moved: dict[str, Any] = {"trigger_mode": "always_last", **at_once}
        results.threshold.change(self._move, results.threshold, [results.coverage, results.viewer], **moved)
        results.threshold.release(self._settle, results.threshold, [results.cloud, results.comparison], **moved)
        results.compare.click(
            self._compare, None, [results.comparison, form.status], api_visibility="private", show_progress="minimal",
            **line,
        )  # fmt: skip
        page.unload(self._leave)

    def _of(self, request: gr.Request) -> Session:
        # Without a key of its own a request gets a session of its own: nobody may meet in one called "None".
        return self._sessions.of(request.session_hash or secrets.token_hex(16))

    # --- the form ---

    def _greet(self, source: str, request: gr.Request) -> str:
        return words.thumbnails(inputs.views(self._of(request), source))

    def _choose(self, source: str, request: gr.Request) -> list[Any]:
        simulated, last = inputs.suggestion(source)
        own = source == inputs.OWN
        return [
            gr.update(visible=own),
            gr.update(visible=own),
            words.thumbnails(inputs.views(self._of(request), source)),
            SIMULATE if simulated else RECORDED,
            gr.update(visible=simulated),
            last,
        ]

    def _lighten(self, noise: str) -> Any:
        return gr.update(visible=noise == SIMULATE)

    def _receiver(self, side: str) -> Callable[[str, Any, gr.Request], list[Any]]:
        def receive(source: str, payload: Any, request: gr.Request) -> list[Any]:
            session = self._of(request)
            try:
                (path,) = inputs.uploaded(payload, self._sessions.uploads)
                picture = inputs.receive(session, side, path, self._sessions.limits)
                self._sessions.make_room()
                said = words.status(f"{side.title()} image {picture.name}: {' x '.join(map(str, picture.size))} px.")
            except Exception as error:
                inputs.forget(session, side)
                said = words.status(work.sentence(error), kind="problem")
            return [None, words.thumbnails(inputs.views(session, source)), said]

        return receive

    def _calibrate(self, payload: Any, request: gr.Request) -> list[Any]:
        try:
            paths = inputs.uploaded(payload, self._sessions.uploads)
            names = inputs.receive_calibration(self._of(request), paths)
            return [None, words.status(f"Calibration {names} will be used.")]
        except Exception as error:
            return [None, words.status(work.sentence(error), kind="problem")]

    # --- the matcher ---

    def _queue(self, request: gr.Request) -> list[Any]:
        self._of(request).waiting.append(Job())
        return [
            gr.update(interactive=False),
            gr.update(interactive=True),
            words.status("Waiting for its turn", share=0),
        ]

    def _match(self, request: gr.Request, *values: Any) -> Iterator[dict[Any, Any]]:
        form, results = self._form, self._results
        idle = {form.match: gr.update(interactive=True), form.cancel: gr.update(interactive=False)}
        session = self._of(request)
        job = session.begin()
        if job.cancelled:  # while it was waiting; the page has been told, and may have asked for another
            yield {form.status: gr.skip()}
            return
        yield {form.status: words.status("Preparing the pair", share=0.0)}
        try:
            wanted = _request(*values)
            done = self._worker.submit(work.run, session, wanted, job, self._sessions.limits)
            for note in _follow(done, job):
                yield {form.status: note}
            outcome = done.result()
            self._sessions.make_room()
            seconds = sum(outcome.match.timings.values())
            yield {
                **idle,
                form.status: words.status(f"Matched in {seconds:.1f} s.", *outcome.warnings, kind="done"),
                results.empty: gr.update(visible=False),
                results.all: gr.update(visible=True),
                results.coverage: _paragraph(work.coverage_in_words(session)),
                results.threshold: gr.update(value=session.threshold, maximum=work.most_sure(outcome)),
                results.viewer: words.shown(session),
                results.cloud: words.shown(session),
                results.comparison: "",
                results.files: words.files(session),
            }
        except (Cancelled, CancelledError):
            # Once more than the button did: a last report of progress may have come to the page after that.
            yield {form.status: gr.skip() if session.waiting else words.status("Cancelled.")}
        except Exception as error:
            yield {**idle, form.status: words.status(work.sentence(error), kind="problem")}

    def _cancel(self, request: gr.Request) -> list[Any]:
        self._of(request).cancel()
        return [gr.update(interactive=True), gr.update(interactive=False), words.status("Cancelled.")]

    def _compare(self, request: gr.Request) -> list[Any]:
        session = self._of(request)
        try:
            rows = self._worker.submit(work.compare, session).result()
            return [words.comparison(session, rows), gr.skip()]
        except Exception as error:
            return [words.status(work.sentence(error), kind="problem"), gr.skip()]

    # --- looking ---

    def _move(self, threshold: float, request: gr.Request) -> list[Any]:
        session = self._of(request)
        try:
            work.set_threshold(session, threshold)
            return [_paragraph(work.coverage_in_words(session)), words.shown(session)]
        except Exception as error:
            return [words.status(work.sentence(error), kind="problem"), gr.skip()]

    def _settle(self, threshold: float, request: gr.Request) -> list[Any]:
        session = self._of(request)
        work.set_threshold(session, threshold)
        if session.outcome is None:
            return [gr.skip(), gr.skip()]
        stale = session.rival is not None
        return [words.shown(session), words.status("The mask has moved; compare again.") if stale else gr.skip()]

    def _leave(self, request: gr.Request) -> None:
        self._sessions.close(str(request.session_hash))


def _request(
    source: str,
    noise: str,
    photons: float | None,
    read_noise: float | None,
    preset: str,
    first: float | None,
    last: float | None,
    focal: float | None,
    baseline: float | None,
    unit: str,
    rectify: bool,
) -> inputs.Request:
    """Return what the form says."""
    return inputs.Request(
        source=source,
        photons=None if noise == RECORDED else float(photons or 0),
        read_noise=float(read_noise or 0),
        preset=preset,
        min_disparity=None if first is None else int(first),
        max_disparity=None if last is None else int(last),
        focal_length=float(focal) if focal else None,
        baseline=0.1 if baseline is None else float(baseline),
        unit=None if unit == "by the file" else unit,
        rectify_first=bool(rectify),
    )


def _follow(done: Future[Any], job: Job) -> Iterator[str]:
    """Yield where the work is until it ends; if nobody listens any more, stop it."""
    share, said = 0.0, ""
    try:
        while not done.done():
            try:
                done.exception(timeout=_REPORT_SECONDS)
            except TimeoutError:
                share = work.overall(job.stage, job.share, share)
                note = words.status(_capital(job.stage), share=share)
                if note != said:
                    said = note
                    yield note
    finally:
        if not done.done():
            job.cancel()
            done.cancel()


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _paragraph(text: str) -> str:
    return f"<p>{escape(text)}</p>"
