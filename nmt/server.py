"""Whether a server answers, found out in a bounded time."""

import threading
import urllib.request


def connect(url: str, seconds: float) -> None:
    """See that a server answers; in a thread, since no time limit holds for looking up its name.

    Args:
        url: what is asked for; its content is not read.
        seconds: the limit for each step; the whole takes at most 10 seconds more.

    Raises:
        HTTPError: the server answers, but with an error.
        OSError: it does not answer in time, does not exist, or refuses.
        Exception: the address or the answer is malformed.
    """
    outcome: list[Exception] = [TimeoutError(f"no answer within {seconds + 10:g} seconds")]

    def attempt() -> None:
        try:
            with urllib.request.urlopen(url, timeout=seconds):
                outcome.clear()
        except Exception as error:
            outcome[:] = [error]

    thread = threading.Thread(target=attempt, daemon=True)
    thread.start()
    thread.join(seconds + 10)
    if outcome:
        raise outcome[0]
