"""The layout of the page and what happens when its parts are used; the work itself is in the other modules."""

import secrets
import time
from abc import ABCMeta
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import gradio as gr

from scotopic.app import html, inputs, work
from scotopic.app.session import Cancelled, Job, Session, Sessions
from scotopic.errors import InputError
from scotopic.settings import PRESETS

SIMULATE, RECORDED = "Simulate", "As recorded"
FULL = "So many visitors wait for a match that there is no room for more images. Drop it again in a few minutes."
FROM_FILE = "from the file"  #: unit of the baseline
_REPORT_SECONDS = 0.15  # between two looks at how far the work is
_WAITING_JOBS = 24  # that wait for the worker, or run, at a time; the others wait in Gradio's queue
_UNHEARD_SECONDS = 3.0  # a job to which nobody has listened for this long is dropped
_FOLDER = Path(__file__).parent
# In a narrow window the result lies below the form, and in any it may be scrolled away.
_SHOW_PANE = """() => {
  const top = document.querySelector("#pane").getBoundingClientRect().top;
  if (top < 0 || top > 0.6 * window.innerHeight) document.querySelector("#pane").scrollIntoView({block: "start"});
}"""
# Gradio gives all places for files one name; a screen reader should say which is which.
_NAME_UPLOADS = """() => new MutationObserver(() => {
  for (const button of document.querySelectorAll("label[data-testid='block-label'] ~ button[aria-label]")) {
    const label = button.parentElement.querySelector("label[data-testid='block-label']").textContent.trim();
    if (!button.ariaLabel.startsWith(label)) button.ariaLabel = `${label}: drop a file, or click`;
  }
}).observe(document.body, {childList: true, subtree: true})"""
# Gradio would hold a connection open for as long as a page is, to notice when it is closed. A browser has six for all
# of its pages, so a seventh page would wait for ever.
_SAY_GOODBYE = """() => {
  window.addEventListener("pagehide", () => {
    const views = document.querySelector("#views [data-session]");
    if (views) navigator.sendBeacon(`${views.dataset.session}/leave`);
  });
  window.addEventListener("pageshow", (event) => { if (event.persisted) window.location.reload(); });
}"""
_PLAIN: dict[str, Any] = {"js_on_load": None, "apply_default_css": False}  # HTML without a script


def _preprocess_clamped(self: Any, payload: float) -> Any:
    """Take a number beyond the ends of a slider, which can be typed, for its end, as the page then shows it."""
    return gr.Slider.preprocess(self, min(max(payload, self.minimum), self.maximum))


# Made without Gradio's own metaclass, which would write a stub file beside this one. It is drawn as Gradio's sliders.
_Slider: Any = ABCMeta.__new__(
    type(gr.Slider), "_Slider", (gr.Slider,), {"preprocess": _preprocess_clamped, "is_template": True}
)
_slider, _number = partial(_Slider, buttons=[]), partial(gr.Number, min_width=120)


def make_style() -> dict[str, Any]:
    """Return theme and CSS for ``launch``: the system's fonts, so that nothing is fetched from elsewhere."""
    fonts = ("system-ui", "-apple-system", "Segoe UI", "sans-serif")
    theme = gr.themes.Default(
        primary_hue="slate", neutral_hue="slate", font=fonts, font_mono=("ui-monospace", "monospace")
    )
    return {"theme": theme, "css": (_FOLDER / "style.css").read_text()}


def build(sessions: Sessions, worker: ThreadPoolExecutor) -> Any:
    """Return the page; ``worker`` is one thread that does all matching, one job after the other."""
    page = gr.Blocks(title="scotopic", analytics_enabled=False)
    with page:
        about = "Stereo depth from photon-starved image pairs, without learning."
        gr.HTML(f"<h1>scotopic</h1><p>{about}</p>", elem_id="title", **_PLAIN)
        with gr.Row(equal_height=False):
            with gr.Column(scale=2, min_width=320, elem_id="form"):
                form = _Form()
            with gr.Column(scale=4, min_width=320, elem_id="pane"):
                results = _Results()
        _Behavior(sessions, worker, form, results).attach(page)
    return page


class _Form:
    """The left column: what to match, and how. It fits a laptop's window, 1366 x 650 px, without scrolling."""

    def __init__(self) -> None:
        first = next(iter(inputs.ROOMS))
        sources = [(name.partition(" (")[0], name) for name in (*inputs.ROOMS, inputs.OWN, inputs.OWN_CLIP)]
        self.source = gr.Radio(sources, value=first, label="Pair", elem_id="source")
        with gr.Row(visible=False, elem_id="own") as self.own:
            self.left = gr.File(label="Left image", height=60, min_width=130, elem_id="left")
            self.right = gr.File(label="Right image", height=60, min_width=130, elem_id="right")
        with gr.Row(visible=False, elem_id="clip") as self.clip:
            drop = partial(gr.File, file_count="multiple", height=60, min_width=130)
            self.left_clip = drop(label="Left frames", elem_id="left-clip")
            self.right_clip = drop(label="Right frames", elem_id="right-clip")
        self.views = gr.HTML(elem_id="views", **_PLAIN)
        self.swap = gr.Button("⇄ Swap left and right", size="sm", visible=False, elem_id="swap")
        with gr.Accordion("Calibration, for depth in meters", open=False, visible=False) as self.geometry:
            self.calibration = gr.File(
                label="Calibration file (two for ROS)", file_count="multiple", height=60, elem_id="calibration"
            )
            self.calibration_note = gr.HTML(elem_id="calibration-note", **_PLAIN)
            self.forget = gr.Button("Remove the calibration", size="sm", visible=False, elem_id="forget")
            self.unit = gr.Radio([FROM_FILE, "m", "cm", "mm"], value=FROM_FILE, label="Unit of the baseline")
            self.rectify = gr.Checkbox(label="Rectify the pair first (needs both cameras)")
            with gr.Row():
                self.focal = _number(None, label="Focal length fx, px", info="without a file", minimum=0)
                self.baseline = _number(None, label="Baseline B, m", info="without a file", minimum=0, step=0.01)
        noises = [("Simulate low light", SIMULATE), (RECORDED, RECORDED)]
        self.noise = gr.Radio(noises, value=SIMULATE, label="Noise", elem_id="noise")
        with gr.Row(elem_id="darkness") as self.darkness:
            self.photons = _slider(
                0.5, 20, 2, step=0.5, label="Photons", info="per pixel at white", min_width=150, elem_id="photons"
            )
            self.read_noise = _slider(
                0, 5, inputs.READ_NOISE, step=0.1, label="Read noise", info="sensor, in photons", min_width=150,
                elem_id="read-noise",
            )  # fmt: skip
        self.preset = gr.Radio([*reversed(PRESETS)], value="best", label="Preset", elem_id="preset")
        with gr.Row(elem_id="range"):
            last, otherwise = inputs.ROOMS[first].max_disparity, "128"
            self.first = _number(0, label="Minimum disparity, px", precision=0, elem_id="first")
            self.last = _number(last, label="Maximum disparity, px", precision=0, elem_id="last", placeholder=otherwise)
        gr.HTML(html.HELP, elem_id="help", **_PLAIN)
        with gr.Row(elem_id="run"):  # stays in sight in a low window
            self.match = gr.Button("Match", variant="primary", elem_id="match", min_width=120)
            self.cancel = gr.Button("Cancel", interactive=False, elem_id="cancel", min_width=120)

    @property
    def values(self) -> list[Any]:
        """The components whose values :func:`_make_request` takes, in its order."""
        return [
            self.source, self.noise, self.photons, self.read_noise, self.preset, self.first, self.last, self.focal,
            self.baseline, self.unit, self.rectify,
        ]  # fmt: skip


class _Results:
    """The right column: how far the work is, errors and warnings, and the result."""

    def __init__(self) -> None:
        self.status = gr.HTML(html.EMPTY, elem_id="status", **_PLAIN)
        with gr.Column(visible=False, elem_id="results") as self.all:
            self.coverage = gr.HTML(elem_id="coverage", **_PLAIN)
            self.threshold = _slider(0, 1, 0, step=0.01, label="Hide pixels with confidence below", elem_id="threshold")
            with gr.Tabs():
                with gr.Tab("Maps"):
                    self.viewer = self._scripted("viewer")
                with gr.Tab("3-D"):
                    self.cloud = self._scripted("cloud")
                with gr.Tab("Compare"):
                    self.compare = gr.Button("Compare with OpenCV SGBM", elem_id="compare", size="md")
                    self.comparison = gr.HTML(elem_id="comparison", **_PLAIN)
                with gr.Tab("Download"):
                    self.files = gr.HTML(elem_id="files", **_PLAIN)

    @staticmethod
    def _scripted(name: str) -> Any:
        template, script = ((_FOLDER / f"{name}.{ending}").read_text() for ending in ("html", "js"))
        return gr.HTML(html_template=template, js_on_load=script, apply_default_css=False, elem_id=name)


class _Behavior:
    """What happens when a part of the page is used; failures become sentences where they belong."""

    def __init__(self, sessions: Sessions, worker: ThreadPoolExecutor, form: _Form, results: _Results) -> None:
        self._sessions, self._worker = sessions, worker
        self._form, self._results = form, results

    def attach(self, page: Any) -> None:
        """Connect the parts with what they do."""
        form, results = self._form, self._results
        # Cheap requests do not wait in the queue of the matcher.
        at_once: dict[str, Any] = {"queue": False, "show_progress": "hidden", "api_visibility": "private"}
        chosen = [
            form.own, form.clip, form.swap, form.geometry, form.views, form.noise, form.darkness, form.last,
            results.status,
        ]  # fmt: skip
        form.source.input(self._choose_source, form.source, chosen, **at_once)
        page.load(self._show_views, form.source, form.views, **at_once)
        for script in (_NAME_UPLOADS, _SAY_GOODBYE):
            page.load(None, js=script, **at_once)
        form.noise.change(lambda noise: gr.update(visible=noise == SIMULATE), form.noise, form.darkness, **at_once)
        drops = {
            (inputs.OWN, "left"): form.left,
            (inputs.OWN, "right"): form.right,
            (inputs.OWN_CLIP, "left"): form.left_clip,
            (inputs.OWN_CLIP, "right"): form.right_clip,
        }
        for (source, side), drop in drops.items():
            receive = self._receiver(source, side)
            drop.upload(receive, drop, [drop, form.views, results.status], preprocess=False, **at_once)
        form.swap.click(self._swap, form.source, [form.views, results.status], **at_once)
        recalibrated = [form.calibration_note, form.forget, results.viewer, results.cloud, results.files]
        form.calibration.upload(
            self._receive_calibration, [form.calibration, *form.values], [form.calibration, *recalibrated],
            preprocess=False, **at_once,
        )  # fmt: skip
        form.forget.click(self._forget_calibration, form.values, recalibrated, **at_once)
        for part in (form.unit, form.focal, form.baseline):
            part.change(self._recalibrate, form.values, recalibrated, trigger_mode="always_last", **at_once)

        # Many may wait for the one worker, so that each can see whether anybody still waits for it.
        queue: dict[str, Any] = {"concurrency_limit": _WAITING_JOBS, "concurrency_id": "matcher"}
        outcome = [
            form.match, form.cancel, results.status, results.all, results.coverage, results.threshold,
            results.viewer, results.cloud, results.comparison, results.files,
        ]  # fmt: skip
        # Two steps: the first is answered while the second still waits in the queue, so that waiting can be cancelled
        # too. Gradio's own cancelling is not used: it can only stop listening to a job, and may then block the next.
        clicked = form.match.click(self._queue, None, [form.match, form.cancel, results.status], **at_once)
        answered = clicked.then(
            self._match, form.values, outcome, api_name="match", show_progress="hidden", trigger_mode="multiple",
            **queue,
        )  # fmt: skip
        for event in (form.match.click, answered.then):
            event(None, js=_SHOW_PANE, **at_once)
        for number in (form.first, form.last):
            number.submit(None, js="() => document.querySelector('#match').click()", **at_once)
        form.cancel.click(self._cancel, None, [form.match, form.cancel, results.status], **at_once)
        moved: dict[str, Any] = {"trigger_mode": "always_last", **at_once}
        thresholded = [results.coverage, results.viewer, results.cloud, results.comparison]
        results.threshold.change(self._move_threshold, results.threshold, thresholded, **moved)
        results.compare.click(
            self._compare, None, results.comparison, api_visibility="private", show_progress="minimal", **queue
        )

    def _of(self, request: gr.Request) -> Session:
        # Without a key of its own a request gets a new session: no two visitors may share one called "None".
        return self._sessions.of(request.session_hash or secrets.token_hex(16))

    # --- the form ---

    def _show_views(self, source: str, request: gr.Request) -> str:
        return html.views(self._of(request), source)

    def _choose_source(self, source: str, request: gr.Request) -> list[Any]:
        session, room = self._of(request), inputs.ROOMS.get(source)
        pair, clip, own = (
            gr.update(visible=is_shown) for is_shown in (source == inputs.OWN, source == inputs.OWN_CLIP, room is None)
        )
        views, rest = html.views(session, source), _unless_busy(session)
        if room is None:
            return [pair, clip, own, own, views, RECORDED, gr.update(visible=False), None, rest]
        return [pair, clip, own, own, views, SIMULATE, gr.update(visible=True), room.max_disparity, rest]

    def _receiver(self, source: str, side: str) -> Callable[[Any, gr.Request], list[Any]]:
        def receive(payload: Any, request: gr.Request) -> list[Any]:
            session = self._of(request)
            uploads, limits = inputs.uploads_of(session, source), self._sessions.limits
            assert uploads is not None
            try:
                paths = inputs.find_uploads(payload, self._sessions.uploads)
                if source == inputs.OWN_CLIP:
                    inputs.receive_clip(session, side, paths, limits)
                else:
                    (path,) = paths
                    inputs.receive_view(session, side, path, limits)
                self._sessions.free_memory()
                if side not in uploads.views:
                    raise InputError(f"The {side} {uploads.kind} is not kept. {FULL}")
            except Exception as error:  # which stays in the place of the view until that is mended
                uploads.refuse(side, work.error_message(error))
            return [None, html.views(session, source), _unless_busy(session)]

        return receive

    def _swap(self, source: str, request: gr.Request) -> list[Any]:
        session = self._of(request)
        uploads = inputs.uploads_of(session, source)
        if uploads is not None:
            uploads.swap()
        note = _unless_busy(session)
        if isinstance(note, str) and session.outcome is not None and session.outcome.views:
            note = html.status("The views are swapped. The result is from before: press Match.") + note
        return [html.views(session, source), note]

    def _receive_calibration(self, request: gr.Request, payload: Any, *values: Any) -> list[Any]:
        session = self._of(request)
        try:
            paths = inputs.find_uploads(payload, self._sessions.uploads)
            names = inputs.receive_calibration(session, paths)
        except Exception as error:
            return [None, html.problem(error), gr.skip(), *3 * [gr.skip()]]
        return [None, *self._use_calibration(session, values, f"Calibration {names}")]

    def _forget_calibration(self, request: gr.Request, *values: Any) -> list[Any]:
        session = self._of(request)
        session.calibration_files = ()
        return self._use_calibration(session, values, "Without a file, the calibration")

    def _recalibrate(self, request: gr.Request, *values: Any) -> list[Any]:
        session = self._of(request)
        if session.outcome is None or not session.outcome.views:  # nothing to say before there is a result
            return 5 * [gr.skip()]
        return self._use_calibration(session, values, "The calibration")

    def _use_calibration(self, session: Session, values: Sequence[Any], title: str) -> list[Any]:
        """Use a new calibration for the result that is shown, or say that it is for the next match."""
        removable = gr.update(visible=bool(session.calibration_files))
        try:
            if not work.recalibrate(session, _make_request(values)):
                return [html.status(f"{title} will be used when you match."), removable, *3 * [gr.skip()]]
            note = html.status(f"{title} is used: depth and points of the result are computed anew.", "done")
            if session.outcome is not None and session.outcome.calibration is None:
                note = html.status("There is no calibration, so the result has no depth in meters.")
            state = html.viewer_state(session)
            return [note, removable, state, state, html.files(session)]
        except Exception as error:
            return [html.problem(error), removable, *3 * [gr.skip()]]

    # --- the matcher ---

    def _queue(self, request: gr.Request) -> list[Any]:
        job = Job()
        self._of(request).waiting.append(job)
        return [gr.update(interactive=False), gr.update(interactive=True), html.working(job)]

    def _match(self, request: gr.Request, *values: Any) -> Iterator[dict[Any, Any]]:
        form, results = self._form, self._results
        idle = {form.match: gr.update(interactive=True), form.cancel: gr.update(interactive=False)}
        session = self._of(request)
        job = session.begin()
        if job.cancelled:  # while it was waiting; the page has been told, and may have asked for another
            yield {results.status: gr.skip()}
            return
        yield {results.status: html.working(job)}
        try:
            wanted = _make_request(values)
            done = self._worker.submit(work.run, session, wanted, job, self._sessions.limits)
            shown = job.fused
            for note in _follow(done, job, partial(self._sessions.is_listening, request.session_hash)):
                is_newer = job.fused is not None and job.fused.frames > 0 and job.fused != shown
                shown = job.fused
                yield {results.status: note, **(self._show_result(session) if is_newer else {})}
            done.result()
            self._sessions.free_memory()
            yield {**idle, results.status: html.resting(session), **self._show_result(session)}
        except (Cancelled, CancelledError):
            # Again, although the button has said so: a last report of progress may have reached the page after that.
            yield {results.status: gr.skip() if session.waiting else html.cancelled(session)}
        except Exception as error:
            yield {**idle, results.status: html.failed(session, error)}
        finally:
            session.end(job)

    def _show_result(self, session: Session) -> dict[Any, Any]:
        """Return all that is shown of the session's result."""
        results = self._results
        outcome, state = work.result_of(session), html.viewer_state(session)
        return {
            results.all: gr.update(visible=True),
            results.coverage: html.paragraph(work.describe_coverage(session)),
            results.threshold: gr.update(value=session.threshold, maximum=work.largest_threshold(outcome)),
            results.viewer: state,
            results.cloud: state,
            results.comparison: "",
            results.files: html.files(session),
        }

    def _cancel(self, request: gr.Request) -> list[Any]:
        session = self._of(request)
        session.cancel()
        return [gr.update(interactive=True), gr.update(interactive=False), html.cancelled(session)]

    def _compare(self, request: gr.Request) -> str:
        session = self._of(request)
        try:
            return html.comparison(session, self._worker.submit(work.compare, session).result())
        except Exception as error:
            return html.problem(error)

    # --- the result ---

    def _move_threshold(self, threshold: float, request: gr.Request) -> list[Any]:
        session = self._of(request)
        try:
            work.set_threshold(session, threshold)
            state = html.viewer_state(session)
            stale = html.status("The threshold has changed; compare again.") if session.sgbm is not None else gr.skip()
            return [html.paragraph(work.describe_coverage(session)), state, state, stale]
        except Exception as error:
            return [html.problem(error), gr.skip(), gr.skip(), gr.skip()]


def _unless_busy(session: Session) -> Any:
    """Return what stands above the result at rest, or nothing new while there is progress to be seen."""
    return gr.skip() if session.is_busy else html.resting(session)


def _make_request(values: Sequence[Any]) -> inputs.Request:
    """Return the choices in the form, from the values of :attr:`_Form.values`; an empty number is ``None``."""
    source, noise, photons, read_noise, preset, first, last, focal, baseline, unit, rectify = values
    return inputs.Request(
        source=source,
        photons=None if noise == RECORDED else float(photons or 0),
        read_noise=float(read_noise or 0),
        preset=preset,
        min_disparity=None if first is None else int(first),
        max_disparity=None if last is None else int(last),
        focal_length=float(focal) if focal else None,
        baseline=float(baseline) if baseline else None,
        unit=None if unit == FROM_FILE else unit,
        rectify_first=bool(rectify),
    )


def _follow(done: Future[Any], job: Job, is_listening: Callable[[], bool]) -> Iterator[str]:
    """Yield the progress of the work until it ends; stop the work if nobody listens any more."""
    last, heard = "", time.monotonic()
    try:
        while not done.done():
            now = time.monotonic()
            heard = now if is_listening() else heard
            if now - heard > _UNHEARD_SECONDS:
                raise Cancelled
            try:
                done.exception(timeout=_REPORT_SECONDS)
            except TimeoutError:
                note = html.working(job)
                if note != last:
                    last = note
                    yield note
    finally:
        if not done.done():
            job.cancel()
            done.cancel()
