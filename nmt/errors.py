"""What ends a command: three kinds of mistake that a user can make, and a training that fails. It is said in one line; exit code 2."""


class NmtError(Exception):
    """A mistake in what the user gave. The message names the file or key, the value, what is allowed, and the way out."""


class ConfigError(NmtError):
    """A setting is unknown, of the wrong type, out of its range, or contradicts another one."""


class DataError(NmtError):
    """A text file is missing, not text, not aligned with its other side, or cannot be written."""


class CheckpointError(NmtError):
    """A checkpoint is missing, incomplete, damaged, or of another format."""


class TrainingError(NmtError):
    """A training diverged, or does not fit into memory; what it saved last is whole."""
