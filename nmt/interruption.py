"""A clean end of training on Ctrl-C, SIGTERM or a closed terminal: after an update, between its batches, or at once within a validation."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any, Self

NAMES = ("SIGINT", "SIGTERM", "SIGHUP")  # not every system has all of them


def heard(*names: str) -> list[int]:
    """The numbers of those signals that this system has and that are not ignored, as nohup has SIGHUP ignored."""
    numbers = [number for name in names if (number := getattr(signal, name, None))]
    return [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]


class Interrupted(BaseException):
    """A signal asked training to end, and the state is saved.

    It derives from BaseException, as KeyboardInterrupt does, since nothing on the way out may swallow it.
    """

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number

    def __str__(self) -> str:
        return signal.Signals(self.number).name


class Signals:
    """Takes note of signals; a context manager that leaves their handlers as they were."""

    def __init__(self) -> None:
        self.number: int | None = None
        self._raise = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        self._before = {number: signal.signal(number, self._note) for number in heard(*NAMES)}
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def check(self) -> None:
        """Raises Interrupted if a signal has come."""
        if self.number is not None:
            raise Interrupted(self.number)

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """A signal that comes within the block, or has come before it, raises Interrupted there."""
        try:
            self._raise = True
            self.check()
            yield
        finally:
            self._raise = False

    def _note(self, number: int, _: FrameType | None) -> None:
        self.number = number
        if self._raise:
            raise Interrupted(number)
