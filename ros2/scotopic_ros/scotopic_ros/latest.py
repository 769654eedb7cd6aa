"""A place for one thing: whoever is slow gets the latest, and what came before it is dropped."""

import threading
from typing import Generic, TypeVar

T = TypeVar("T")


class Latest(Generic[T]):
    """Hands things from one thread to another. A new one replaces the one that nobody has taken yet."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._item: T | None = None
        self._closed = False

    def put(self, item: T) -> bool:
        """Leave a thing; return whether it replaced one."""
        with self._changed:
            replaced, self._item = self._item is not None, item
            self._changed.notify()
            return replaced

    def take(self) -> T | None:
        """Wait for a thing and return it; ``None`` after :meth:`close`."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._item is not None)
            item, self._item = self._item, None
            return None if self._closed else item

    def close(self) -> None:
        """Let everybody who waits go home."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
