"""Processes that share a row of tasks: each takes the next one when it is free, and the answers come in the order of the tasks."""

import multiprocessing
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from queue import SimpleQueue
from typing import Any, TypeVar

from nmt.errors import NmtError, lack_of_memory

Task = TypeVar("Task")
Answer = TypeVar("Answer")
TASKS_AHEAD = 2  # for each process: one at work, one that waits


@contextmanager
def sharing(count: int, begin: Callable[[], Callable[[Task], Answer]]) -> Iterator[Callable[[Iterable[Task]], Iterator[Answer]]]:
    """Start processes, which end with the block, however it ends, and hold nothing when this process is killed.

    Args:
        count: how many.
        begin: called once in each process; what it returns is called there with each task. It, the tasks and the answers are pickled.

    Yields:
        a function from tasks to their answers, in order; tasks are taken as they are needed, a few ahead. It raises what a task raised
        of NmtError or OSError, and NmtError where a process ended, which has said its own error on stderr or was killed.
    """
    with _interrupts_ignored():  # a process inherits it: Ctrl-C is for this one, which ends the others
        started = [_start(begin) for _ in range(count)]
    idle: SimpleQueue[tuple[BaseProcess, Connection]] = SimpleQueue()
    for one in started:
        idle.put(one)
    threads = ThreadPoolExecutor(count)  # a thread waits for a process

    def ask(task: Task) -> Answer:
        one = idle.get()
        try:
            answer: Answer = _ask(*one, task)
            return answer
        finally:
            idle.put(one)

    def share(tasks: Iterable[Task]) -> Iterator[Answer]:
        asked: deque[Future[Answer]] = deque()
        for task in tasks:
            asked.append(threads.submit(ask, task))
            if len(asked) == TASKS_AHEAD * count:
                yield asked.popleft().result()
        while asked:
            yield asked.popleft().result()

    try:
        yield share
    finally:
        for process, _ in started:
            process.terminate()
            process.join()
        threads.shutdown(cancel_futures=True)


def _start(begin: Callable[[], Callable[[Any], object]]) -> tuple[BaseProcess, Connection]:
    context = multiprocessing.get_context("spawn")  # a fork would copy locks that other threads hold
    here, there = context.Pipe()
    process = context.Process(target=_serve, args=(there, begin), daemon=True)
    process.start()
    there.close()  # so that its end is noticed here
    return process, here


def _serve(connection: Connection, begin: Callable[[], Callable[[Any], object]]) -> None:
    """The life of a process: to answer until nobody asks."""
    work = None
    while True:
        try:
            task = connection.recv()
        except (EOFError, ConnectionError):  # the latter where an answer was not read before the asker ended
            return
        try:
            work = work or begin()
            answer: object = work(task)
        except (NmtError, OSError) as error:
            answer = error
        except (MemoryError, RuntimeError) as error:
            if not (told := lack_of_memory(error)):
                raise
            answer = NmtError(told)
        try:
            connection.send(answer)
        except ConnectionError:
            return


def _ask(process: BaseProcess, connection: Connection, task: object) -> Any:
    try:
        connection.send(task)
        answer = connection.recv()
    except (EOFError, ConnectionError) as error:
        process.join()
        code = process.exitcode or 0
        how = f"by signal {-code}: where memory is short, use fewer" if code < 0 else f"with code {code}"
        raise NmtError(f"one of the processes of workers= ended {how}") from error
    if isinstance(answer, Exception):
        raise answer
    return answer


@contextmanager
def _interrupts_ignored() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
