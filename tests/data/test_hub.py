"""Data sets of splits: local folders of every format, names on the hub, and what is said where there is none or no network."""

import http.server
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import urllib.parse
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import datasets
import pytest
from toy_corpus import sentences

from nmt.cli import main
from nmt.config import DataConfig, FilterConfig, PrepareConfig, TokenizerConfig
from nmt.data import hub
from nmt.data import prepare as prepare_module
from nmt.data.corpus import absolute, find_files, read_pairs
from nmt.data.prepare import prepare
from nmt.errors import ConfigError, DataError

PAIRS = {split: sentences(count, seed) for split, count, seed in (("train", 60, 1), ("validation", 9, 2), ("test", 7, 3))}
COMMIT = "0123456789" * 4


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty cache of the library, no network, and nothing remembered."""
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(datasets.config, "HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "*")  # a proxy would answer for the hub
    hub._from_hub.cache_clear()
    yield tmp_path / "cache"
    hub._from_hub.cache_clear()


def config(path: str | Path, **changes: Any) -> DataConfig:
    data = DataConfig("set", "en", "de", str(path), None, None, ["train"], ["validation"], ["test"], "translation", None, None, "data")
    return replace(data, **changes)


def nested(pairs: list[tuple[str, str]]) -> list[dict[str, Any]]:
    return [{"translation": {"en": src, "de": tgt}} for src, tgt in pairs]


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix in (".parquet", ".csv"):
        table = datasets.Dataset.from_list(rows)
        (table.to_parquet if path.suffix == ".parquet" else table.to_csv)(path)
    else:
        path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for split, pairs in PAIRS.items():
        write(tmp_path / f"my set/{split}.jsonl", nested(pairs))
    return tmp_path / "my set"


@pytest.mark.parametrize("ending", ["jsonl", "parquet", "json"])
def test_a_folder_of_nested_rows(tmp_path: Path, ending: str) -> None:
    for split, pairs in PAIRS.items():
        write(tmp_path / f"set=(1), ä/{split}.{ending}", nested(pairs))
    data = config(tmp_path / "set=(1), ä")
    assert {split: list(read_pairs([split], data)) for split in PAIRS} == PAIRS
    assert find_files(["test"], data) == [(tmp_path / f"set=(1), ä/test.{ending}",)]


@pytest.mark.parametrize("ending", ["jsonl", "parquet", "csv"])
def test_a_folder_of_plain_columns(tmp_path: Path, ending: str) -> None:
    for split, pairs in PAIRS.items():
        write(tmp_path / f"set/{split}.{ending}", [{"id": i, "en": src, "Deutsch": tgt} for i, (src, tgt) in enumerate(pairs)])
    data = config(tmp_path / "set", field=None, tgt_field="Deutsch")
    assert {split: list(read_pairs([split], data)) for split in PAIRS} == PAIRS
    assert list(read_pairs(["test"], replace(data, src_field="Deutsch", tgt_field="en"))) == [(tgt, src) for src, tgt in PAIRS["test"]]


def test_shards_subfolders_and_packed_files(tmp_path: Path) -> None:
    for part in (0, 1):
        write(tmp_path / f"set/data/train-0000{part}-of-00002.jsonl", nested(PAIRS["train"][30 * part : 30 * part + 30]))
    write(tmp_path / "folders/train/a.jsonl", nested(PAIRS["train"]))
    write(tmp_path / "folders/valid/b.jsonl", nested(PAIRS["validation"]))
    subprocess.run(["gzip", "-r", str(tmp_path / "set"), str(tmp_path / "folders")], check=True)
    for name, count in (("set", 2), ("folders", 1)):
        assert list(read_pairs(["train"], config(tmp_path / name))) == PAIRS["train"]
        assert len(find_files(["train"], config(tmp_path / name))[0]) == count
    assert list(read_pairs(["validation"], config(tmp_path / "folders"))) == PAIRS["validation"]


def test_parts_of_splits(folder: Path) -> None:
    train, test = PAIRS["train"], PAIRS["test"]
    data = config(folder)
    assert list(read_pairs(["train[50:]", "test"], data)) == train[50:] + test
    assert list(read_pairs(["train[:10%]+test[-1:]"], data)) == train[:6] + test[-1:]
    assert [file.name for file in find_files(["train[:10%]+test[-1:]"], data)[0]] == ["train.jsonl", "test.jsonl"]


def test_odd_text_arrives_as_it_is(tmp_path: Path) -> None:
    pairs = [("a\u2028b\r", " \t"), ("😀\x00\x85", "null"), ("", "NaN")]
    for ending in ("jsonl", "parquet"):
        write(tmp_path / ending / f"train.{ending}", nested(pairs))
        assert list(read_pairs(["train"], config(tmp_path / ending))) == pairs
    (tmp_path / "csv").mkdir()
    (tmp_path / "csv/train.csv").write_text('en,de\nnull,NA\n"a, b", \n,x\n', encoding="utf-8")
    assert list(read_pairs(["train"], config(tmp_path / "csv", field=None))) == [("null", "NA"), ("a, b", " "), ("", "x")]


@pytest.mark.parametrize(
    ("row", "changes", "message"),
    [
        ({"translation": {"en": "x", "de": "y\nz"}}, {}, "split train, row 2: the text of 'translation.de' holds a newline"),
        ({"translation": {"en": None, "de": "y"}}, {}, "row 2: the value of 'translation.en' is null, not a string"),
        ({"translation": {"en": "x", "fr": "z"}}, {}, "row 2: "),
        (None, {"tgt_lang": "fr"}, "row 1: there is no key 'translation.fr', but 'en', 'de'; name the keys by data.field"),
        (None, {"field": None}, "row 1: there is no key 'en', but 'translation'"),
    ],
)
def test_rows_are_checked_as_those_of_a_file(tmp_path: Path, row: Any, changes: dict[str, Any], message: str) -> None:
    write(tmp_path / "set/train.jsonl", nested([("good", "gut")]) + ([row] if row else []))
    with pytest.raises(DataError) as error:
        list(read_pairs(["train"], config(tmp_path / "set", **changes)))
    assert message in str(error.value) and "\n" not in str(error.value)


def test_numbers_and_dates_are_no_text(tmp_path: Path) -> None:
    write(tmp_path / "set/train.csv", [{"en": 1, "de": "x"}])
    with pytest.raises(DataError, match="row 1: the value of 'en' is 1, not a string"):
        list(read_pairs(["train"], config(tmp_path / "set", field=None)))


@pytest.mark.parametrize(
    ("split", "message"),
    [
        ("dev", "has no split 'dev'; it has train, validation, test"),
        ("train[:5]+dev[:3]", "has no split 'dev'; it has train, validation, test"),
        ("train[:x]", "Unrecognized instruction format: train[:x]"),
        ("train[500:]", "no data"),
    ],
)
def test_a_split_that_does_not_exist(folder: Path, split: str, message: str) -> None:
    with pytest.raises(DataError) as error:
        list(read_pairs([split], config(folder)))
    assert message in str(error.value) and str(folder) in str(error.value) and "\n" not in str(error.value)


def test_what_is_no_data_set(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken/train.jsonl").write_text('{"translation": {"en": "x"\n')
    for path, message in (
        (folder / "train.jsonl", "is a file: name the folder that holds it"),
        (tmp_path / "nothing", "there is no such folder"),
        ("", "there is no such folder"),
        ("./here", "there is no such folder"),
        (tmp_path / "empty", "cannot read data.path="),
        (tmp_path / "broken", "cannot read data.path="),
    ):
        with pytest.raises(DataError) as error:
            list(read_pairs(["train"], config(path)))
        assert message in str(error.value) and str(path) in str(error.value) and "\n" not in str(error.value)
    with pytest.raises(ConfigError, match=r"data\.revision=main: .* is a local folder"):
        list(read_pairs(["train"], config(folder, revision="main")))
    with pytest.raises(ConfigError, match=r"an item is the name of a split"):
        list(read_pairs([["a", "b"]], config(folder)))
    with pytest.raises(DataError, match="'nosuch'"):
        list(read_pairs(["train"], config(folder, config="nosuch")))


def test_folders_become_absolute_and_names_stay(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder.parent)
    assert absolute(config("my set")) == config(folder)
    assert absolute(config("someone/my-set")) == config("someone/my-set")


def prepare_config(data: DataConfig, tmp_path: Path) -> PrepareConfig:
    return PrepareConfig(
        replace(data, folder=str(tmp_path / "data")),
        FilterConfig(max_pieces=100, max_ratio=5.0, drop_copies=True, drop_duplicates=False),
        TokenizerConfig("bpe", joint=True, vocab_size=310, character_coverage=1.0, byte_fallback=True, sample_lines=1000, seed=1),
    )


@pytest.fixture
def writes(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Counts how often a corpus is really written."""
    calls: list[Path] = []
    real = prepare_module._write
    monkeypatch.setattr(prepare_module, "_write", lambda folder, *rest: (calls.append(folder), real(folder, *rest)))
    return calls


def test_a_folder_is_prepared_once_and_again_when_its_text_changes(folder: Path, tmp_path: Path, writes: list[Path]) -> None:
    settings = prepare_config(config(folder), tmp_path)
    first = prepare(settings)
    assert len(first.train) == 60 and first.valid == PAIRS["validation"] and first.statistics["revision"] is None
    assert prepare(settings).digest == first.digest and len(writes) == 1
    write(folder / "test.jsonl", nested(PAIRS["test"][1:]))
    assert prepare(settings).digest == first.digest and len(writes) == 2
    write(folder / "train.jsonl", nested(PAIRS["train"][1:]))
    second = prepare(settings)
    assert second.digest != first.digest and len(second.train) == 59
    write(folder / "train-2.jsonl", nested(PAIRS["train"][:1]))
    assert len(prepare(settings).train) == 60
    (folder / "train-2.jsonl").unlink()
    assert len(prepare(settings).train) == 59


def test_parts_of_one_split_are_other_corpora(folder: Path, tmp_path: Path) -> None:
    parts = [config(folder, train=[f"train[{part}]"], valid=["train[50:]"], test=[]) for part in (":40", "10:50")]
    first, second = (prepare(prepare_config(data, tmp_path)) for data in parts)
    assert first.folder != second.folder and first.digest != second.digest
    assert first.valid == second.valid == PAIRS["train"][50:]


def test_the_text_decides_and_not_where_it_lies(folder: Path, tmp_path: Path) -> None:
    first = prepare(prepare_config(config(folder), tmp_path))
    shutil.copytree(folder, tmp_path / "elsewhere")
    assert prepare(prepare_config(config(tmp_path / "elsewhere"), tmp_path)).digest == first.digest


def test_a_mistake_leaves_no_folder(folder: Path, tmp_path: Path) -> None:
    for changes in ({"test": ["tset"]}, {"tgt_lang": "fr"}):
        with pytest.raises(DataError):
            prepare(prepare_config(config(folder, **changes), tmp_path))
    with pytest.raises(ConfigError, match=r"belong to data\.path="):
        prepare(prepare_config(replace(config(folder), path=None, config="en-de", train=["x"]), tmp_path))
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("name", ["my set.py", "script.py"])
def test_a_program_among_the_data_is_not_run(folder: Path, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, Any]] = []
    real = datasets.load_dataset_builder
    monkeypatch.setattr(datasets, "load_dataset_builder", lambda *names, **more: asked.append(more) or real(*names, **more))
    (folder / name).write_text(f"open({str(tmp_path / 'mark')!r}, 'w')")
    try:
        assert list(read_pairs(["test"], config(folder))) == PAIRS["test"]
    except DataError as error:
        assert "scripts are no longer supported" in str(error) and "\n" not in str(error)
    assert asked and not any("trust_remote_code" in more for more in asked) and not (tmp_path / "mark").exists()
    sources = Path(hub.__file__).parents[1].rglob("*.py")
    assert not any("trust_remote_code" in source.read_text(encoding="utf-8") for source in sources)


@pytest.fixture
def served(folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """Stands for a hub that holds someone/my-set: the folder's text. Lists what was asked for."""
    asked: list[tuple[Any, ...]] = []
    real = datasets.load_dataset_builder

    def load(path: str, name: str | None = None, revision: str | None = None) -> datasets.DatasetBuilder:
        asked.append((path, name, revision))
        if path != "someone/my-set":
            raise ValueError("Config name is missing.\nPlease pick one among ['a', 'b']")
        builder = real(str(folder))
        builder.hash = COMMIT
        return builder

    monkeypatch.setattr(datasets, "load_dataset_builder", load)
    monkeypatch.setattr(hub, "connect", lambda url, seconds: None)
    return asked


def test_a_name_is_downloaded_once_and_then_needs_no_hub(served: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = prepare_config(config("someone/my-set", config="default", revision=COMMIT), tmp_path)
    corpus = prepare(settings)
    assert served == [("someone/my-set", "default", COMMIT)]
    assert len(corpus.train) == 60 and corpus.valid == PAIRS["validation"] and corpus.statistics["revision"] == COMMIT
    hub._from_hub.cache_clear()
    monkeypatch.setattr(datasets, "load_dataset_builder", lambda *_, **__: pytest.fail("asked the hub again"))
    assert prepare(settings).digest == corpus.digest


def test_the_text_of_the_hub_decides(served: list[Any], folder: Path, tmp_path: Path) -> None:
    first = prepare(prepare_config(config("someone/my-set"), tmp_path))
    hub._from_hub.cache_clear()
    same = prepare(prepare_config(config("someone/my-set", revision="main"), tmp_path))
    assert same.folder != first.folder and same.digest == first.digest
    hub._from_hub.cache_clear()
    write(folder / "train.jsonl", nested(PAIRS["train"][1:]))
    other = prepare(prepare_config(config("someone/my-set", revision="v2"), tmp_path))
    assert other.digest != first.digest


def test_what_the_hub_says_is_one_line(served: list[Any]) -> None:
    with pytest.raises(DataError) as error:
        list(read_pairs(["train"], config("someone/other")))
    message = str(error.value)
    assert "data.path=someone/other" in message and "Please pick one among ['a', 'b']" in message and "\n" not in message
    assert "data.path=FOLDER" in message and "data=files" in message
    with pytest.raises(DataError, match="has no split 'dev'; it has train, validation, test"):
        list(read_pairs(["dev"], config("someone/my-set")))


def test_without_a_network_the_cache_is_enough(folder: Path, cache: Path, caplog: pytest.LogCaptureFixture) -> None:
    builder = datasets.load_dataset_builder(str(folder.rename(folder.with_name("my-set"))))
    builder.download_and_prepare()
    shutil.move(builder.cache_dir, cache / "someone___my-set/default/0.0.0" / COMMIT)
    with caplog.at_level("INFO"):
        assert list(read_pairs(["test"], config("someone/my-set"))) == PAIRS["test"]
    assert "http://127.0.0.1:9 cannot be reached" in caplog.text and COMMIT in caplog.text
    assert list(read_pairs(["test"], config("someone/my-set", revision=COMMIT))) == PAIRS["test"]
    with pytest.raises(DataError, match=rf"revision {COMMIT} of it, not data\.revision={'f' * 40}"):
        list(read_pairs(["test"], config("someone/my-set", revision="f" * 40)))


def test_a_hub_that_says_nothing_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "CONNECT_SECONDS", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setattr(datasets.config, "HF_ENDPOINT", f"http://127.0.0.1:{server.getsockname()[1]}")
        with pytest.raises(DataError, match=r"cannot be reached \(timed out\); give data=hub data\.path=FOLDER"):
            list(read_pairs(["train"], config("nobody/no-such-set")))


class Hub(http.server.BaseHTTPRequestHandler):
    """A hub that holds someone/my-set, the files of one folder, as much as the library asks for; and nothing else."""

    folder: Path

    def do_GET(self) -> None:
        path = urllib.parse.urlparse(self.path).path
        names = sorted(file.name for file in self.folder.iterdir())
        name = path.rpartition("/")[2]
        if path == "/":
            self.answer(200, b"")
        elif path.startswith("/api/datasets/someone/my-set/tree/"):
            self.answer(200, json.dumps([{"type": "file", "path": name, "size": 1, "oid": name} for name in names]).encode())
        elif path.startswith("/api/datasets/someone/my-set"):
            about = {"id": "someone/my-set", "sha": COMMIT, "siblings": [{"rfilename": name} for name in names]}
            self.answer(200, json.dumps(about).encode())
        elif not path.startswith("/datasets/someone/my-set/resolve/"):
            self.answer(404, b"", {"X-Error-Code": "RepoNotFound"})
        elif name in names:
            self.answer(200, (self.folder / name).read_bytes(), {"X-Repo-Commit": COMMIT, "ETag": f'"{name}"'})
        else:
            self.answer(404, b"", {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": COMMIT})

    do_HEAD = do_GET  # noqa: N815

    def answer(self, code: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(code)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def endpoint(folder: Path) -> Iterator[str]:
    """The address of a hub that holds someone/my-set."""
    Hub.folder = folder
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def run_prepare(endpoint: str, tmp_path: Path, *settings: str) -> "subprocess.CompletedProcess[str]":
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    environment |= {"HF_ENDPOINT": endpoint, "HF_HOME": str(tmp_path / "home"), "no_proxy": "*"}
    data = ["data=hub", "data.name=x", "data.src_lang=en", "data.tgt_lang=de", "data.field=translation", "tokenizer.vocab_size=310"]
    command = [sys.executable, "-m", "nmt", "prepare", *data, *settings]
    return subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment, timeout=250)


@pytest.mark.parametrize("reachable", [True, False])
def test_a_name_that_cannot_be_had_is_one_line_and_code_2(tmp_path: Path, endpoint: str, reachable: bool) -> None:
    server = endpoint if reachable else "http://127.0.0.1:9"
    told = run_prepare(server, tmp_path, "data.path=nobody/no-such-set")
    assert told.returncode == 2 and told.stdout == "" and told.stderr.count("\n") == 1, told.stderr
    assert ("doesn't exist on the Hub" if reachable else "cannot be reached") in told.stderr
    assert all(part in told.stderr for part in ("nobody/no-such-set", server, "data.path=FOLDER", "data=files"))
    assert not (tmp_path / "data").exists()


def test_a_name_is_downloaded_quietly(tmp_path: Path, endpoint: str) -> None:
    told = run_prepare(endpoint, tmp_path, "data.path=someone/my-set")
    assert told.returncode == 0 and told.stdout == "", told.stderr
    lines = told.stderr.split("\n")
    assert lines[0] == f"someone/my-set: revision {COMMIT}" and lines[1].startswith("learning 310 pieces from 60 pairs")
    assert not any("%" in line or "HTTP" in line for line in lines)
    again = run_prepare("http://127.0.0.1:9", tmp_path, "data.path=someone/my-set", "filter.max_pieces=90")
    assert again.returncode == 0 and "http://127.0.0.1:9 cannot be reached" in again.stderr and COMMIT in again.stderr


def test_from_a_folder_to_a_score(
    folder: Path, settings: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder.parent)
    data = ["data=hub", "data.name=local", "data.path=my set", "data.src_lang=en", "data.tgt_lang=de", "data.field=translation"]
    others = [setting for setting in settings if not setting.startswith("data")]
    train = ["train", *others, *data, "data.valid=train[50:]", "trainer.max_steps=1", "tokenizer.vocab_size=320"]
    assert main(train) == 0
    told = capsys.readouterr()
    assert told.out == "" and "Generating" not in told.err and "it/s" not in told.err
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert main(["evaluate", f"checkpoint={folder.parent / 'runs/test/last.pt'}", "split=test", "output=test.json"]) == 0
    assert json.loads(Path("test.json").read_text())["sentences"] == 7
    monkeypatch.chdir(folder.parent)
    capsys.readouterr()
    assert main([*train, "trainer.max_steps=2"]) == 0
    assert "going on with runs/test after update 1" in capsys.readouterr().err
