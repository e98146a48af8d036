"""A checkpoint: one file of tensors and plain data that `torch.load(weights_only=True)` opens, with a digest over all of it."""

import dataclasses
import hashlib
import io
import pickle
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from nmt.config import TrainConfig
from nmt.data.lines import did_you_mean
from nmt.errors import CheckpointError, NmtError, UnreadableError, lack_of_memory
from nmt.files import writing
from nmt.schema import complete, load
from nmt.tokenizer import Tokenizer

FORMAT = 1


@dataclass(frozen=True)
class Checkpoint:
    """What a run has reached.

    `training` is what only a resumed run needs (optimizer, schedule, position in the data, random states, best so far) and is empty
    in best.pt; `about` holds facts for people: step, epoch, seconds, scores, versions, statistics.
    """

    config: TrainConfig
    src_tokenizer: Tokenizer
    tgt_tokenizer: Tokenizer
    model: dict[str, Tensor]
    about: dict[str, Any]
    training: dict[str, Any] = field(default_factory=dict)


def save_checkpoint(path: str | Path, checkpoint: Checkpoint, before: Path | None = None) -> None:
    """Write a checkpoint, whole or not at all; what it replaces is called `before` from then on, where that is given.

    Raises:
        DataError: the file cannot be written; the previous one, if any, is untouched.
    """
    content: dict[str, Any] = {
        "format": FORMAT,
        "config": dataclasses.asdict(checkpoint.config),
        "src_tokenizer": _to_tensor(checkpoint.src_tokenizer.model),
        "tgt_tokenizer": _to_tensor(checkpoint.tgt_tokenizer.model),
        "model": on_cpu(checkpoint.model),
        "about": checkpoint.about,
        "training": checkpoint.training,
    }
    content["digest"] = digest(content)
    buffer = io.BytesIO()  # torch.save seeks; a pipe or a full disk shall fail in one place only
    torch.save(content, buffer)
    with writing(path, before) as file:
        file.write(buffer.getbuffer())


def load_checkpoint(path: str | Path) -> Checkpoint:
    """Read a checkpoint on to the CPU and check it.

    Nothing in the file is executed: PyTorch's restricted loader takes tensors and plain data alone.

    Raises:
        CheckpointError: no such file, not a checkpoint, incomplete, damaged, of another format, or holding anything but plain data;
            UnreadableError where it cannot be read now.
    """
    content = _read(Path(path))
    if content.get("format") != FORMAT:
        raise CheckpointError(
            f"{path} has checkpoint format {content.get('format')!r}; this version reads {FORMAT}: use the version that wrote it"
        )
    if content.get("digest") != _digest_of(path, content):
        raise CheckpointError(
            f"{path} is damaged: its content does not agree with its digest; use another checkpoint of the run, or copy it again"
        )
    try:
        source, target = (Tokenizer(content[name].numpy().tobytes()) for name in ("src_tokenizer", "tgt_tokenizer"))
        config = load(TrainConfig, complete(TrainConfig, content["config"]))
        model, about, training = (content[name] for name in ("model", "about", "training"))
    except (NmtError, KeyError, AttributeError, TypeError, ValueError, RuntimeError) as error:
        raise CheckpointError(f"{path} cannot be used by this version: {error}") from error
    if not all(isinstance(part, dict) for part in (model, about, training)) or not all(isinstance(x, Tensor) for x in model.values()):
        raise CheckpointError(f"{path} is no checkpoint of this program: its model, about and training are not what they should be")
    return Checkpoint(config, source, target, model, about, training)


def load_checkpoints(paths: Sequence[str | Path]) -> list[Checkpoint]:
    """Read the checkpoints of an ensemble, or one alone; see `load_checkpoint`.

    Raises:
        CheckpointError: no path, a checkpoint that cannot be used, or two whose languages or tokenizers differ.
    """
    if not paths:
        raise CheckpointError("no checkpoint is named: give at least one")
    checkpoints = [load_checkpoint(path) for path in paths]
    for path, one in zip(paths, checkpoints, strict=True):
        if _task(one) != _task(checkpoints[0]):
            raise CheckpointError(f"{path} and {paths[0]} cannot translate together: their languages or their tokenizers differ")
    return checkpoints


def _task(checkpoint: Checkpoint) -> tuple[str | bytes, ...]:
    data = checkpoint.config.data
    return data.src_lang, data.tgt_lang, checkpoint.src_tokenizer.model, checkpoint.tgt_tokenizer.model


def outline(checkpoint: Checkpoint) -> Iterator[str]:
    """What a checkpoint is, in lines for people: its size, what is known about it, and its configuration."""
    parameters = sum(tensor.numel() for tensor in checkpoint.model.values())
    known = {"parameters": parameters, **checkpoint.about, **dataclasses.asdict(checkpoint.config)}
    for name, value in known.items():
        yield from _outline(name, value)


def on_cpu(model: Mapping[str, Tensor], copy: bool = False) -> dict[str, Tensor]:
    """The tensors on the CPU; those that share their memory, as tied weights do, still share it, so that a file holds it once.

    Args:
        model: weights by name.
        copy: whether those that are there already are copied too.
    """
    moved: dict[tuple[int, torch.Size, torch.dtype], Tensor] = {}
    keys = {name: (tensor.data_ptr(), tensor.shape, tensor.dtype) for name, tensor in model.items()}
    for name, tensor in model.items():
        if keys[name] not in moved:
            moved[keys[name]] = tensor.detach().to("cpu", copy=copy)
    return {name: moved[key] for name, key in keys.items()}


def digest(content: Mapping[str, Any]) -> str:
    """SHA-256 over every tensor, number, string and name in a checkpoint, but the digest itself."""
    sha = hashlib.sha256()
    _feed(sha, {name: value for name, value in content.items() if name != "digest"})
    return sha.hexdigest()


def _digest_of(path: str | Path, content: Mapping[str, Any]) -> str:
    try:
        return digest(content)
    except (TypeError, ValueError, RuntimeError) as error:  # the restricted loader takes more kinds of values than are ever written
        raise CheckpointError(f"{path} is no checkpoint of this program: it holds more than dense tensors and plain data") from error


def _outline(name: str, value: Any, indent: str = "") -> Iterator[str]:
    """Nested facts, one a line."""
    if not isinstance(value, dict):
        yield f"{indent}{name}: {value}"
        return
    yield f"{indent}{name}:"
    for key, item in value.items():
        yield from _outline(key, item, indent + "  ")


def _feed(sha: "hashlib._Hash", value: Any) -> None:
    if isinstance(value, Tensor):
        sha.update(f"tensor {value.dtype} {tuple(value.shape)}".encode())
        sha.update(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    elif isinstance(value, Mapping):
        sha.update(f"dict {len(value)}".encode())
        for key in value:
            _feed(sha, key)
            _feed(sha, value[key])
    elif isinstance(value, list | tuple):
        sha.update(f"list {len(value)}".encode())
        for item in value:
            _feed(sha, item)
    elif value is None or isinstance(value, bool | int | float | str):
        sha.update(f"{type(value).__name__} {value!r}".encode())
    else:
        raise TypeError(f"a checkpoint holds tensors and plain data, not {type(value).__name__}")


def _read(path: Path) -> dict[str, Any]:
    try:
        there = path.exists()
    except OSError as error:  # its name is too long
        raise UnreadableError(f"cannot read checkpoint {path}: {error.strerror}") from error
    if not there:
        others = sorted(other.name for other in path.parent.glob("*.pt")) if path.parent.is_dir() else []
        near = f"; {path.parent} has {', '.join(others)}" if others and path.name[0] != "[" else did_you_mean(path)
        raise CheckpointError(f"there is no checkpoint {path}{near}")
    if path.is_dir():
        raise CheckpointError(f"{path} is a folder: name a file in it, such as {path / 'best.pt'}")
    if not path.is_file():
        raise CheckpointError(f"{path} is no regular file (a pipe, perhaps), which reading a checkpoint needs: save it to a file first")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns of foreign pickles before it refuses them; one line from us is enough
            content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # the restricted unpickler has no exception of its own for what is wrong in the bytes it reads
        raise _what_is_wrong(path, error) from error
    if not isinstance(content, dict) or "format" not in content:
        raise CheckpointError(f"{path} is no checkpoint of this program: it does not say its format")
    return content


def _what_is_wrong(path: Path, error: Exception) -> CheckpointError:
    if isinstance(error, OSError) and error.errno:  # which says nothing about the bytes
        return UnreadableError(f"cannot read checkpoint {path}: {error.strerror}")
    if lack_of_memory(error):
        return UnreadableError(f"cannot read checkpoint {path}: out of memory")
    with path.open("rb") as file:
        start = file.read(2)
    if start != b"PK":  # what PyTorch writes is a zip archive
        return CheckpointError(f"{path} is no checkpoint of this program: it is not a PyTorch file")
    if isinstance(error, pickle.UnpicklingError):
        return CheckpointError(f"{path} is no checkpoint of this program: it is damaged, or holds more than tensors and plain data")
    return CheckpointError(f"{path} is incomplete or damaged: use another checkpoint of the run, or copy it again")


def _to_tensor(data: bytes) -> Tensor:
    return torch.frombuffer(bytearray(data), dtype=torch.uint8)
