"""Data sets of the Hugging Face hub, and local folders of the same shape, through the library `datasets`."""

import functools
import logging
import re
import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

from nmt.config import DataConfig
from nmt.errors import ConfigError, DataError, NmtError
from nmt.server import connect

log = logging.getLogger(__name__)

CONNECT_SECONDS = 10
CHUNK_ROWS = 10_000
HUB_NAME = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?")
COMMIT = re.compile(r"[0-9a-f]{40}")
WAY_OUT = "give data=hub data.path=FOLDER with .jsonl, .parquet or .csv files, or data=files with data.train=…"


def local_folder(data: DataConfig) -> Path | None:
    """The folder that data.path is, or None where it is a name on the hub.

    Raises:
        DataError: it is neither.
        ConfigError: a revision of a folder is asked for.
    """
    path = Path(data.path or "").expanduser()
    if data.path and path.is_dir():
        if data.revision is not None:
            raise ConfigError(f"data.revision={data.revision}: data.path={data.path} is a local folder, which has no revisions")
        return path.absolute()
    if path.is_file():
        raise DataError(f"data.path={data.path} is a file: name the folder that holds it, or give data=files data.train={data.path}")
    if not data.path or not HUB_NAME.fullmatch(data.path):
        raise DataError(f"data.path={data.path}: there is no such folder, and a name on the hub is OWNER/NAME")
    return None


def split_files(split: str, data: DataConfig) -> tuple[Path, ...]:
    """The files that a split of a local folder is read from; none where data.path is a name on the hub.

    Args:
        split: as `datasets` names splits and parts of them: "train", "train[:1000]", "train[:5%]+validation".
        data: data.path and data.config are read.

    Raises:
        ConfigError: the split is no text.
        DataError: the folder holds no data, or not this split.
    """
    folder = local_folder(data)
    if folder is None:
        return ()
    files: Mapping[str, list[str]] = _from_folder(folder, data.config).config.data_files
    return tuple(Path(file) for name in _names(split, files, data) for file in files[name])


def rows(split: str, data: DataConfig) -> Iterator[dict[str, Any]]:
    """The rows of a split (see `split_files`), columns by name. What comes from the hub is downloaded once, into the library's cache.

    Raises:
        ConfigError: the split is no text.
        DataError: the set cannot be downloaded or read, or has no such split; for a set that is in the cache no network is needed.
    """
    folder = local_folder(data)
    builder = _from_hub(data.path, data.config, data.revision) if folder is None else _from_folder(folder, data.config)
    with _one_line(f"cannot read data.path={data.path}"):
        builder.download_and_prepare()
        _names(split, builder.info.splits, data)
        for chunk in builder.as_dataset(split=split).iter(CHUNK_ROWS):
            yield from (dict(zip(chunk, values, strict=True)) for values in zip(*chunk.values(), strict=True))


def revision(data: DataConfig) -> str | None:
    """The commit that the text of a set on the hub is from; None for text that is not from there."""
    if data.path is None or local_folder(data) is not None:
        return None
    return str(_from_hub(data.path, data.config, data.revision).hash)


def _names(split: object, known: Collection[str], data: DataConfig) -> list[str]:
    """The names of the splits that "train[:1000]+validation" takes parts of."""
    if not isinstance(split, str):
        raise ConfigError(f"{split!r} in data.train, data.valid or data.test: with data.path= an item is the name of a split")
    names = [re.split(r"[\[(]", part)[0].strip() for part in split.split("+")]
    for name in names:
        if name not in known:
            raise DataError(
                f"data.path={data.path} has no split {name!r}; it has {', '.join(map(str, known))}: "
                "name those in data.train, data.valid and data.test (data.test=[] for none)"
            )
    return names


def _from_folder(folder: Path, config: str | None) -> Any:
    load = functools.partial(_library().load_dataset_builder, str(folder), config)
    with _one_line(f"cannot read data.path={folder}"):
        builder = load()
        is_csv = hasattr(builder.config, "keep_default_na")
        return load(keep_default_na=False) if is_csv else builder  # "null" and "NA" are text like any other


@functools.cache  # so that every pass over the text reads the same revision
def _from_hub(name: str, config: str | None, revision: str | None) -> Any:
    library, unreachable = _library(), None
    server = library.config.HF_ENDPOINT
    if not library.config.HF_HUB_OFFLINE:
        try:
            connect(server, CONNECT_SECONDS)
        except HTTPError:
            pass  # an answer
        except Exception as error:
            unreachable = f"{server} cannot be reached ({_reason(error)})"
            library.config.HF_HUB_OFFLINE = True  # the cache is looked at, and nothing is tried again and again
    here = f"data.path={name}: there is no such folder here, and"
    with _one_line(f"{here} {unreachable}" if unreachable else f"{here} {server} does not give it", WAY_OUT, reason=not unreachable):
        builder = library.load_dataset_builder(name, config, revision=revision)
        builder.download_and_prepare()
    if revision and COMMIT.fullmatch(revision) and builder.hash != revision:
        raise DataError(f"{here} the cache holds revision {builder.hash} of it, not data.revision={revision}, which cannot be fetched now")
    log.info("%s%s: revision %s", f"{unreachable}; from the cache, " if unreachable else "", name, builder.hash)
    return builder


def _library() -> Any:
    """`datasets`, which takes seconds to import; quiet but for errors, and progress bars on a terminal."""
    import datasets
    from huggingface_hub.utils.tqdm import disable_progress_bars

    for name in ("datasets", "huggingface_hub", "httpx", "httpx2"):
        logging.getLogger(name).setLevel(logging.ERROR)
    if not sys.stderr.isatty():
        datasets.disable_progress_bars()
        disable_progress_bars()
    return datasets


@contextmanager
def _one_line(what: str, way_out: str = "", reason: bool = True) -> Iterator[None]:
    """Make one line of whatever the library raises, which is exceptions of every kind."""
    try:
        yield
    except NmtError:
        raise
    except Exception as error:
        raise DataError(f"{what}{f': {_reason(error)}' if reason else ''}{f'; {way_out}' if way_out else ''}") from error


def _reason(error: BaseException) -> str:
    while error.__cause__ is not None:
        error = error.__cause__
    error = getattr(error, "reason", None) or error
    return " ".join(str(getattr(error, "strerror", None) or error).split())[:300] or type(error).__name__
