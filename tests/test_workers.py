"""Work shared by processes: answers in order, a few tasks ahead and no more, and no process outlives its use or hides its error."""

import functools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nmt.errors import DataError, NmtError
from nmt.workers import sharing


def squarer(slow: int) -> Callable[[int], tuple[int, int]]:
    """Squares numbers, those that `slow` divides after a while, and says which process did it."""

    def square(number: int) -> tuple[int, int]:
        time.sleep(0.02 if number % slow == 0 else 0)
        return number**2, os.getpid()

    return square


def failing(error: Callable[[int], object]) -> Callable[[int], object]:
    return lambda number: error(number) if number == 3 else number


def refuse(number: int) -> None:
    raise DataError(f"line {number} is no text")


def stumble(number: int) -> None:
    raise ValueError(f"a mistake in the program, {number}")


def exhaust(number: int) -> None:
    raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 99 bytes")


def die(number: int) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def is_running(process: int) -> bool:
    """Whether there is such a process; one that has ended and waits to be asked for counts too."""
    return Path(f"/proc/{process}").exists()


def works_on(process: int) -> bool:
    """Whether a process has not ended; where nobody asks for it, as in some containers, it may be there for ever."""
    try:
        return "State:\tZ" not in Path(f"/proc/{process}/status").read_text(encoding="utf-8")
    except OSError:
        return False


def test_answers_come_in_order_from_all_processes() -> None:
    with sharing(2, functools.partial(squarer, 3)) as share:
        answers = list(share(range(50)))
        assert [square for square, _ in answers] == [number**2 for number in range(50)]
        processes = {process for _, process in answers}
        assert len(processes) == 2 and os.getpid() not in processes
        assert list(share([])) == []
    assert not any(map(is_running, processes))


def test_tasks_are_taken_a_few_ahead() -> None:
    taken: list[int] = []

    def tasks() -> Iterator[int]:
        for number in range(1_000_000):
            taken.append(number)
            yield number

    with sharing(2, functools.partial(squarer, 1)) as share:
        for number, (square, _) in enumerate(share(tasks())):
            assert square == number**2 and len(taken) <= number + 4
            if number == 20:
                break


@pytest.mark.parametrize(
    ("error", "kind", "told"),
    [
        (refuse, DataError, "line 3 is no text"),
        (exhaust, NmtError, "out of memory .99 bytes more were asked for."),
        (stumble, NmtError, "ended with code 1"),
        (die, NmtError, "ended by signal 9"),
    ],
)
def test_an_error_comes_out_where_the_answer_is_due(
    error: Callable[[int], object], kind: type[Exception], told: str, capfd: pytest.CaptureFixture[str]
) -> None:
    answers = []
    with pytest.raises(kind, match=told), sharing(2, functools.partial(failing, error)) as share:
        for answer in share(range(100)):
            answers.append(answer)
    assert answers == [0, 1, 2]
    assert ("a mistake in the program, 3" in capfd.readouterr().err) == (error is stumble)


def test_processes_end_when_their_parent_is_killed() -> None:
    code = (
        "import functools, itertools, nmt.workers, test_workers\n"
        "if __name__ == '__main__':\n"
        "    with nmt.workers.sharing(2, functools.partial(test_workers.squarer, 1)) as share:\n"
        "        for _, process in share(itertools.count()):\n"
        "            print(process, flush=True)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    assert parent.stdout and parent.stderr
    processes = {int(parent.stdout.readline()) for _ in range(20)}
    parent.kill()
    _, told = parent.communicate()
    deadline = time.monotonic() + 10
    while any(map(works_on, processes)) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert len(processes) == 2 and not any(map(works_on, processes)) and "Traceback" not in told
