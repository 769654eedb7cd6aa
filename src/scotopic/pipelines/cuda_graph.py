"""Pipelines for a stream of pairs on a GPU.

**Recorded** as a CUDA graph (``paper``, ``fast``), with streams around it: upload, replay and download of three pairs
at a time. Recording fixes every address, so a pair is copied into the recording's input and its result out of the
recording's output, on the GPU, where that takes microseconds. Host copies go through page-locked memory on streams of
their own.

**In threads** (``best``). A pipeline that reads numbers back from the GPU on its way cannot be recorded as a whole, but
in pieces. While it waits for such a number, another thread launches the work of the next pair.
"""

import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import torch

from scotopic.backends import cuda_backend
from scotopic.backends.cuda.recordings import Recordings
from scotopic.backends.device import interpreted, is_on_gpu, torch_device
from scotopic.pipelines import run_pipeline
from scotopic.pipelines.memory import fit_to_memory
from scotopic.result import ARRAYS, Match
from scotopic.settings import JunctionMatchingSettings, Settings

_THREADS = 2
_LARGE = 2**21  # px of an image from which on its kernels take longer than launching them: one thread is enough
_RESULTS = tuple(name for name in ARRAYS if not name.endswith("_image"))


class GraphRunner:
    """A pipeline for pairs of one shape, ready to run again and again.

    Parameters
    ----------
    shape
        ``(height, width, channels)``.
    settings
        Fixed for this width.
    """

    def __init__(self, shape: tuple[int, int, int], settings: Settings) -> None:
        self._settings = fit_to_memory(settings, shape)
        self._direct = interpreted()  # Triton's interpreter knows neither graphs nor streams
        if self._direct:
            return
        self._graph: torch.cuda.CUDAGraph | None = None
        if isinstance(settings, JunctionMatchingSettings):
            self._download = torch.cuda.Stream()
            self._record(shape)
        else:
            threads = 1 if shape[0] * shape[1] >= _LARGE else _THREADS
            self._workers = ThreadPoolExecutor(threads, "scotopic-gpu", torch.cuda.set_device, (torch_device(),))
            self._local = threading.local()  # each worker's stream and recordings

    def _record(self, shape: tuple[int, int, int]) -> None:
        self._images = torch.zeros((2, *shape), dtype=torch.float32, device=torch_device())
        self._images[:, ::2] = 0.5  # any picture will do to compile the kernels and to record them
        self._upload, self._work = torch.cuda.Stream(), torch.cuda.Stream()
        self._slots = [_Slot(self._images) for _ in range(2)]
        self._count = 0
        with torch.cuda.stream(self._work):
            run_pipeline("cuda", list(self._images), self._settings, timed=False)
        torch.cuda.synchronize()
        self._graph = graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self._work):
            self._result = run_pipeline("cuda", list(self._images), self._settings, timed=False)

    def begin(self, images: list[Any]) -> Any:
        """Put a pair on its way; return the ticket to fetch its result with."""
        start = time.perf_counter()
        if self._direct:
            return run_pipeline("cuda", images, self._settings), is_on_gpu(images[0]), start
        if self._graph is None:
            made = torch.cuda.Event()
            made.record()  # what the caller's stream has to do before the images are there
            return self._workers.submit(self._match, images, made, start)
        slot = self._slots[self._count % len(self._slots)]
        self._count += 1
        on_gpu, caller = is_on_gpu(images[0]), torch.cuda.current_stream()
        with torch.cuda.stream(self._upload):
            self._upload.wait_event(slot.taken)
            if on_gpu:  # made on the caller's stream
                self._upload.wait_stream(caller)
            for place, image in zip(slot.images, images, strict=True):
                source = image if is_on_gpu(image) else torch.as_tensor(image).pin_memory()
                place.copy_(source, non_blocking=True)
            slot.ready.record()
        with torch.cuda.stream(self._work):
            self._work.wait_event(slot.ready)
            self._images.copy_(slot.images)
            slot.taken.record()
            self._graph.replay()
            # The next replay writes over the recording's result: this pair's goes to tensors of its own.
            found = {name: getattr(self._result, name).clone() for name in _RESULTS}
            slot.done.record()
        return self._result, *self._fetch(found, slot.done, on_gpu), start

    def _match(self, images: list[Any], made: Any, start: float) -> tuple[Match, dict[str, Any], Any, float]:
        """Match a pair on this thread's own stream."""
        local = self._local
        if not hasattr(local, "stream"):
            local.stream, local.recordings = torch.cuda.Stream(), Recordings()
        with torch.cuda.stream(local.stream), cuda_backend().recording(local.recordings):
            local.stream.wait_event(made)
            result = run_pipeline("cuda", images, self._settings, timed=False)
            found = {name: getattr(result, name) for name in _RESULTS}
            if not is_on_gpu(images[0]):
                found = {name: _to_host(tensor, local.stream) for name, tensor in found.items()}
            landed = torch.cuda.Event()
            landed.record()
        return result, found, landed, start

    def _fetch(self, found: dict[str, Any], done: Any, on_gpu: bool) -> tuple[dict[str, Any], Any]:
        """Put a result on its way to the host, unless it stays; return its arrays, and the event of their landing."""
        with torch.cuda.stream(self._download):
            self._download.wait_event(done)
            if not on_gpu:
                found = {name: _to_host(tensor, self._download) for name, tensor in found.items()}
            landed = torch.cuda.Event()
            landed.record()
        return found, landed

    def end(self, ticket: Any) -> Match:
        """Wait for a pair's result and return it, the images still the recording's own."""
        if self._direct:
            result: Match
            result, on_gpu, _ = ticket
            return result if on_gpu else result.to_numpy()
        like, found, landed, start = ticket.result() if isinstance(ticket, Future) else ticket
        landed.synchronize()
        for array in found.values():
            if array.is_cuda:  # the caller's from here on: not to be reused while its stream still reads it
                array.record_stream(torch.cuda.current_stream())
        arrays = {name: array if array.is_cuda else array.numpy() for name, array in found.items()}
        timings = {"from upload to download": time.perf_counter() - start}
        assert isinstance(like, Match)
        return replace(like, **arrays, timings=timings)


class _Slot:
    """Where one pair waits for its turn, with the events that keep the streams in step."""

    def __init__(self, like: torch.Tensor) -> None:
        self.images = torch.empty_like(like)
        self.ready, self.taken, self.done = (torch.cuda.Event() for _ in range(3))


def _to_host(tensor: torch.Tensor, stream: Any) -> torch.Tensor:
    host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
    host.copy_(tensor, non_blocking=True)
    tensor.record_stream(stream)  # not to be reused before it has been read
    return host
