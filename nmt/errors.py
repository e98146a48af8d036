"""What ends a command: three kinds of mistake that a user can make, and a training that fails. It is said in one line; exit code 2."""

import re

CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")
SURROGATE = re.compile("[\ud800-\udfff]")  # in text that is no Unicode, such as the name of a file that is no UTF-8


class NmtError(Exception):
    """A mistake in what the user gave. The message names the file or key, the value, what is allowed, and the way out."""


class ConfigError(NmtError):
    """A setting is unknown, of the wrong type, out of its range, or contradicts another one."""


class DataError(NmtError):
    """A text file is missing, not text, not aligned with its other side, or cannot be written."""


class CheckpointError(NmtError):
    """A checkpoint is missing, incomplete, damaged, or of another format."""


class UnreadableError(CheckpointError):
    """A checkpoint is there, and cannot be read now: the system or the memory does not allow it."""


class TrainingError(NmtError):
    """A training diverged, or does not fit into memory; what it saved last is whole."""


def escaped(text: str) -> str:
    """Text of whatever origin as a terminal may show it: control characters, which could steer it, are written out, such as "\\x1b"."""
    return CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


def lack_of_memory(error: Exception) -> str:
    """What to say where memory or Python's stack is not enough, for which PyTorch has exceptions of several kinds; else an empty text."""
    if isinstance(error, RecursionError):
        return "lists or groups are nested too deeply in what was given"
    if not isinstance(error, MemoryError) and not re.search("out of memory|can't allocate memory", str(error)):
        return ""
    asked = re.search(r"(?i)allocate ([\d.]+ \w+)", str(error))
    told = f"out of memory ({asked[1]} more were asked for)" if asked else "out of memory"
    return f"{told}: use a smaller model, batches.max_tokens or decode.batch_size"
