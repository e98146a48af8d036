"""The commands from end to end, as a user types them, on a corpus that trains in seconds."""

import bz2
import contextlib
import functools
import gzip
import io
import json
import lzma
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import pytest
from toy_corpus import sentences

from nmt import Translator
from nmt.cli import main

LEARNING = [
    "trainer.max_steps=200", "trainer.valid_every_steps=100", "batches.max_tokens=1000", "optimizer.lr=0.01", "scheduler.warmup_steps=10",
    "model.dropout=0", "model.encoder_size=32", "model.decoder_size=64", "model.embedding_size=32", "model.attention_size=32",
]  # fmt: skip


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory, settings: list[str]) -> Iterator[Path]:
    """A folder in which `nmt train` was run: runs/test/best.pt."""
    folder = tmp_path_factory.mktemp("workplace")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert main(["train", *settings, *LEARNING]) == 0
        yield folder


@pytest.fixture(autouse=True)
def inside(workplace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(workplace)


def lines(path: str | Path) -> list[str]:
    text = Path(path).read_bytes().decode("utf-8")
    assert text == "" or text.endswith("\n")
    return text.split("\n")[:-1]


def test_training_leaves_a_readable_folder(workplace: Path) -> None:
    assert {"best.pt", "last.pt", "metrics.jsonl"} <= {path.name for path in (workplace / "runs/test").iterdir()}
    assert not (workplace / "outputs").exists()


def test_one_line_out_for_each_line_in(corpus: Path) -> None:
    source = ["", *lines(corpus / "test.en"), "   ", "\u2003", "a\u2028b \x85 c\rd", "</s> <unk> ▁ <0x0A>", "x" * 3000, "日本 🎉"]
    Path("in.txt").write_bytes("".join(line + "\n" for line in source).encode())
    assert main(["translate", "checkpoint=runs/test/best.pt", "input=in.txt", "output=out.txt"]) == 0
    out = lines("out.txt")
    assert len(out) == len(source)
    assert [not line for line in out[:1] + out[21:23]] == [True, True, True]
    assert main(["translate", "checkpoint=runs/test/best.pt", "input=in.txt", "output=one.txt", "decode.batch_size=1"]) == 0
    assert lines("one.txt") == out


def test_a_pipe_gives_what_a_file_gives(corpus: Path) -> None:
    source = (corpus / "test.en").read_bytes()
    command = [sys.executable, "-m", "nmt", "translate", "checkpoint=runs/test/best.pt"]
    piped = subprocess.run(command, input=source, capture_output=True, check=True).stdout
    assert main([*command[3:], f"input={corpus / 'test.en'}", "output=file.txt"]) == 0
    assert piped == Path("file.txt").read_bytes()


@pytest.mark.parametrize("more", ["", "output=/dev/stdout", "format=jsonl stream=true workers=2 decode.batch_size=16"])
def test_a_reader_that_leaves_is_no_error(more: str) -> None:
    translate = f"{sys.executable} -m nmt translate checkpoint=runs/test/best.pt decode.beam_size=1 {more}"
    command = f"yes 'The dog sees the cat.' | head -3000 | {translate} | head -1"
    told = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert told.stdout.count("\n") == 1 and told.stderr == ""


@pytest.mark.parametrize(("closed", "told"), [("<&-", "standard input is closed: give input=FILE"), (">&-", "standard output is closed")])
def test_a_closed_stream_is_said_in_one_line(closed: str, told: str) -> None:
    command = f"{sys.executable} -m nmt translate checkpoint=runs/test/best.pt {closed}"
    ended = subprocess.run(["bash", "-c", command], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert ended.returncode == 2 and told in ended.stderr and ended.stderr.count("\n") == 1


def test_a_closed_stderr_is_no_error(corpus: Path) -> None:
    command = f"{sys.executable} -m nmt translate checkpoint=runs/test/best.pt input={corpus / 'test.en'} output=quiet.txt 2>&-"
    assert subprocess.run(["bash", "-c", command], capture_output=True).returncode == 0
    assert len(lines("quiet.txt")) == 20


def test_no_lines_give_no_lines(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    Path("empty.txt").write_bytes(b"")
    assert main(["translate", "checkpoint=runs/test/best.pt", "input=empty.txt", "output=empty.out"]) == 0
    assert Path("empty.out").read_bytes() == b""


def test_jsonl_has_scores_and_distinct_alternatives(corpus: Path) -> None:
    arguments = [f"input={corpus / 'test.en'}", "output=out.jsonl", "format=jsonl", "nbest=3"]
    assert main(["translate", "checkpoint=runs/test/best.pt", *arguments]) == 0
    rows = [json.loads(line) for line in lines("out.jsonl")]
    assert len(rows) == 20
    for row in rows:
        assert {"text", "score", "tokens", "alignment", "nbest"} <= row.keys()
        texts = [one["text"] for one in row["nbest"]]
        scores = [one["score"] for one in row["nbest"]]
        assert texts[0] == row["text"] and scores[0] == row["score"]
        assert len(set(texts)) == len(texts) <= 3 and scores == sorted(scores, reverse=True)


def test_a_picture_for_each_line_that_is_not_blank(corpus: Path) -> None:
    Path("some.txt").write_text("\n".join(["The dog sees the big cat.", "", "日本 $x$ \t!", " ", *lines(corpus / "test.en")[:2]]) + "\n")
    arguments = ["translate", "checkpoint=runs/test/best.pt", "input=some.txt", "output=some.out"]
    assert main([*arguments, "attention=new/folder (1)"]) == 0
    assert sorted(path.name for path in Path("new/folder (1)").iterdir()) == ["0001.png", "0003.png", "0005.png", "0006.png"]
    assert main([*arguments, "attention=svg", "attention_format=svg"]) == 0
    assert {path.suffix for path in Path("svg").iterdir()} == {".svg"}


def test_a_folder_for_pictures_is_checked_before_the_model_is_loaded(capsys: pytest.CaptureFixture[str]) -> None:
    Path("file").write_text("x")
    assert main(["translate", "checkpoint=none.pt", "input=file", "attention=file"]) == 2
    assert "cannot make the folder file: file exists; give another attention=" in capsys.readouterr().err


def test_samples_depend_on_the_seed_and_the_line_alone(corpus: Path) -> None:
    sampled = ["translate", "checkpoint=runs/test/best.pt", f"input={corpus / 'test.en'}", "decode.temperature=1.5"]
    changes = [(), ("decode.batch_size=3",), ("decode.seed=2",), ("decode.top_k=1", "decode.batch_size=7")]
    for number, more in enumerate(changes):
        assert main([*sampled, *more, f"output=sample{number}.txt"]) == 0
    first, batched, reseeded, greedy = (lines(f"sample{number}.txt") for number in range(4))
    assert first == batched and first != reseeded and first != greedy
    assert main([*sampled[:3], "decode.beam_size=1", "output=greedy.txt"]) == 0
    assert lines("greedy.txt") == greedy
    assert main([*sampled, "format=jsonl", "nbest=9", "output=sample.jsonl"]) == 0
    for row in map(json.loads, lines("sample.jsonl")):
        texts = [one["text"] for one in row["nbest"]]
        assert row["text"] == texts[0] and len(set(texts)) == len(texts) <= 9
    assert main([*sampled[:3], "decode.top_k=5"]) == 2


def test_evaluate_in_its_ways_gives_the_same_score(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", "checkpoint=runs/test/best.pt", "split=test", "output=test.json"]) == 0
    table = capsys.readouterr().out
    assert "BLEU" in table and "chrF" in table and "TER" in table and "version:" in table
    report = json.loads(Path("test.json").read_text())
    assert {"bleu", "chrf", "ter", "perplexity", "length_ratio", "empty", "unfinished", "seconds", "precision"} <= report.keys()
    assert len(lines("test.hyp")) == 20
    files = [f"src={corpus / 'test.en'}", f"ref={corpus / 'test.de'}"]
    assert main(["evaluate", "checkpoint=runs/test/best.pt", *files, "output=again.json"]) == 0
    assert main(["evaluate", "hyp=test.hyp", files[1], "output=third.json"]) == 0
    data = ["data=files", "data.name=other", "data.src_lang=en", "data.tgt_lang=de", "data.train=[]", "data.valid=[]"]
    other = [*data, f"data.test={corpus / 'test'}", "split=test", "output=fourth.json"]
    assert main(["evaluate", "checkpoint=runs/test/best.pt", *other]) == 0
    Path("reference.de.gz").write_bytes(gzip.compress((corpus / "test.de").read_bytes()))
    assert main(["evaluate", "hyp=test.hyp", "ref=reference.de.gz", "output=test.hyp.json"]) == 0  # no test.hyp.hyp beside it
    assert not Path("test.hyp.hyp").exists() and main(["evaluate", "hyp=test.hyp", files[1], "output=test.json"]) == 0
    for name in ("again.json", "third.json", "fourth.json", "test.hyp.json"):
        found = json.loads(Path(name).read_text())
        assert [found[name] for name in ("bleu", "chrf", "ter")] == [report[name] for name in ("bleu", "chrf", "ter")]
    assert report["bleu"] > 20


@pytest.mark.parametrize(
    ("ending", "opener", "stream"),
    [(".gz", gzip.open, "false"), (".gz", gzip.open, "true"), (".bz2", bz2.open, "false"), (".xz", lzma.open, "false")],
)
def test_a_translation_is_packed_as_its_name_says(corpus: Path, ending: str, opener: Callable[[str], IO[bytes]], stream: str) -> None:
    command = ["translate", "checkpoint=runs/test/best.pt", f"input={corpus / 'test.en'}", "decode.beam_size=1"]
    assert main([*command, "output=plain.txt"]) == main([*command, f"output=packed{ending}", f"stream={stream}"]) == 0
    with opener(f"packed{ending}") as file:
        assert file.read() == Path("plain.txt").read_bytes()


def test_checkpoints_translate_together(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    both, files = "checkpoint=[runs/test/best.pt,runs/test/last.pt]", f"input={corpus / 'test.en'}"
    assert main(["evaluate", both, "split=test", "output=both.json"]) == 0
    assert "perplexity" not in capsys.readouterr().out
    assert json.loads(Path("both.json").read_text())["perplexity"] is None
    assert main(["translate", both, files, "output=both.txt"]) == main(["translate", both, files, "output=shared.txt", "workers=2"]) == 0
    assert lines("both.hyp") == lines("both.txt") == lines("shared.txt")


def test_a_folder_may_have_a_name_that_is_no_text(corpus: Path, settings: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(corpus, "text\udcff")
    data = [f"data.{split}=text\udcff/{split}" for split in ("train", "valid", "test")]
    train = ["train", *settings, *data, "data.folder=data\udcff", "run.name=odd"]
    assert main([*train, "trainer.max_steps=6"]) == main(train) == 0  # and it goes on
    assert main(["evaluate", "checkpoint=runs/odd/best.pt", "split=test", "output=odd\udcff.json"]) == 0
    assert main(["check-data", *data, *(word for word in settings if re.match("data(=|.name|.src|.tgt)", word)), "json=true"]) in (0, 1)
    Path("runs/odd/last.pt").rename("last\udcff.pt")
    assert main(["info", "checkpoint=last\udcff.pt"]) == 0


def test_info_says_what_a_checkpoint_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", "checkpoint=runs/test/best.pt"]) == 0
    told = capsys.readouterr().out
    assert all(word in told for word in ("parameters", "step", "bleu", "encoder_size: 32", "torch", "src_lang: en"))


def test_the_mean_of_checkpoints_is_a_checkpoint(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["average", "checkpoints=[runs/test/best.pt,runs/test/last.pt]", "output=mean, (1).pt"]) == 0
    assert "mean, (1).pt is the mean of 2 checkpoints" in capsys.readouterr().err
    assert main(["info", "checkpoint=mean, (1).pt"]) == 0
    assert "averaged: ['runs/test/best.pt', 'runs/test/last.pt']" in capsys.readouterr().out
    assert main(["evaluate", "checkpoint=mean, (1).pt", "split=test"]) == 0
    assert main(["average", "checkpoints=runs/test/last.pt", "output=small.pt"]) == 0
    assert Path("small.pt").stat().st_size < Path("runs/test/last.pt").stat().st_size
    assert main(["average", "checkpoints=[runs/test/best.pt,none.pt]", "output=never.pt"]) == 2
    assert "there is no checkpoint none.pt" in capsys.readouterr().err and not Path("never.pt").exists()


def test_the_python_interface(corpus: Path) -> None:
    translator = Translator.load("runs/test/best.pt", device="cpu")
    texts = translator.translate(["The dog sees the big cat.", "", "The man hears the red bird."])
    assert len(texts) == 3 and texts[1] == "" and texts[0]


def test_decoding_settings_come_from_the_checkpoint_and_can_be_given(corpus: Path) -> None:
    arguments = ["translate", "checkpoint=runs/test/best.pt", f"input={corpus / 'test.en'}", "output=cut.txt"]
    assert main([*arguments, "decode.max_length_ratio=0.01", "decode.max_length_extra=1"]) == 0
    assert max(len(line.split()) for line in lines("cut.txt")) <= 3
    assert main([*arguments, "decode.beam_size=0"]) == 2


def test_multirun_makes_a_folder_a_job(settings: list[str], workplace: Path) -> None:
    assert main(["train", *settings, "run.name=sweep", "trainer.max_steps=2", "--multirun", "optimizer.lr=0.1,0.01"]) == 0
    folders = [path.parent for path in (workplace / "runs/sweep").rglob("last.pt")]
    assert len(folders) == 2 and any("optimizer.lr=0.1" in folder.name for folder in folders)


def test_an_experiment_of_ones_own(settings: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    Path("mine/experiment").mkdir(parents=True, exist_ok=True)
    Path("mine/experiment/slow.yaml").write_text("# @package _global_\noptimizer:\n  eps: 0.125\n")
    assert main(["train", *settings, "--config-dir", "mine", "experiment=slow", "--cfg", "job"]) == 0
    assert "eps: 0.125" in capsys.readouterr().out
    Path("mine/experiment/slow.yaml").write_text("optimizer:\n  eps: 0.125\n")
    assert main(["train", *settings, "--config-dir", "mine", "experiment=slow"]) == 2
    assert "the first line of the file of experiment=slow has to be: # @package _global_" in capsys.readouterr().err


@pytest.mark.parametrize("ending", [".tsv", ".jsonl"])
def test_tables_train_as_files_do(settings: list[str], ending: str) -> None:
    for name, seed in (("train", 1), ("valid", 2)):
        rows = [f"{en}\t{de}" if ending == ".tsv" else json.dumps({"en": en, "de": de}) for en, de in sentences(200, seed)]
        Path(name + ending).write_text("".join(row + "\n" for row in rows), encoding="utf-8")
    data = [f"data.train=[train{ending}]", f"data.valid=[valid{ending}]", "data.test=[]", f"data.name=table{ending}"]
    assert main(["train", *settings, *data, f"run.name=table{ending}", "trainer.max_steps=1"]) == 0


def test_several_processes_give_what_one_gives(corpus: Path) -> None:
    source = [
        *lines(corpus / "test.en"),
        "",
        "x" * 3000,
        "日本 🎉",
        "</s> <unk> ▁",
        "a\x00\rb\u2028c",
        "\u0301\u202e\ue000\u0378",
        "...",
    ] * 8
    Path("many.txt").write_bytes("".join(f"{line}\n" for line in source).encode())
    arguments = ["translate", "checkpoint=runs/test/best.pt", "input=many.txt", "decode.batch_size=16", "format=jsonl", "nbest=2"]
    assert main([*arguments, "output=one.jsonl"]) == 0
    assert main([*arguments, "output=two.jsonl", "workers=2"]) == 0
    assert len(lines("two.jsonl")) == len(source)
    for one, two in zip(map(json.loads, lines("one.jsonl")), map(json.loads, lines("two.jsonl")), strict=True):
        assert one["text"] == two["text"] and one["alignment"] == two["alignment"]
        assert one["score"] == pytest.approx(two["score"], abs=1e-5)


def test_a_mistake_that_a_process_finds_is_one_line(capfd: pytest.CaptureFixture[str]) -> None:
    arguments = ["translate", "checkpoint=runs/test/best.pt", "output=never.txt", "workers=2"]
    Path("few.txt").write_text("The dog sees the cat.\n")
    assert main([*arguments, "input=few.txt", "format=jsonl", "nbest=9"]) == 2
    told = capfd.readouterr().err
    assert "nbest" in told and told.count("\n") == 1
    Path("late.txt").write_bytes(b"The dog sees the cat.\n" * 300 + b"bad \xff line\n")
    assert main([*arguments, "input=late.txt"]) == 2
    told = capfd.readouterr().err
    assert "late.txt" in told and "line 301" in told and told.count("\n") == 1 and not Path("never.txt").exists()
    assert main([*arguments, "input=few.txt", "attention=pictures"]) == 2
    assert "workers=2: the pictures" in capfd.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_all_processes_without_a_word(number: signal.Signals) -> None:
    command = [sys.executable, "-m", "nmt", "translate", "checkpoint=runs/test/best.pt", "workers=2", "decode.beam_size=1"]
    command += ["decode.batch_size=16"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    # A shell's background job would hand down that SIGINT is ignored; as a user starts it, it is not.
    heed = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    process = subprocess.Popen(command, start_new_session=True, preexec_fn=heed, **pipes)  # type: ignore[call-overload]
    process.stdin.write(b"The dog sees the cat.\n" * 1000)
    process.stdin.flush()
    assert process.stdout.readline().endswith(b"\n")
    if number == signal.SIGINT:
        os.killpg(process.pid, number)  # as a terminal does
    else:
        process.send_signal(number)
    _, told = process.communicate(timeout=20)
    assert (process.returncode, told) == (128 + number, b"")
    deadline = time.monotonic() + 10
    while members(process.pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not members(process.pid)


def members(group: int) -> list[str]:
    """The processes of a group that have not ended; where nobody asks for those that have, as in some containers, they stay listed."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it ends just now
            name, told = path.read_text(encoding="utf-8").rsplit(")", 1)
            state, _, of = told.split()[:3]
            found += [name] if of == str(group) and state not in "ZX" else []
    return found


def test_the_bar_knows_how_many_lines_there_are(corpus: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["translate", "checkpoint=runs/test/best.pt", f"input={corpus / 'test.en'}", "output=bar.txt"]
    assert main(arguments) == 0
    assert not capsys.readouterr().err
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    assert main(arguments) == 0
    assert "20/20" in capsys.readouterr().err


def test_bad_text_stops_translation_with_its_line_and_leaves_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    Path("bad.txt").write_bytes(b"good\nbad \xff line\n")
    assert main(["translate", "checkpoint=runs/test/best.pt", "input=bad.txt", "output=never.txt"]) == 2
    told = capsys.readouterr().err
    assert "bad.txt" in told and "line 2" in told and not Path("never.txt").exists()


def test_stdin_is_text_too(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\xff\n")))
    assert main(["translate", "checkpoint=runs/test/best.pt"]) == 2
    assert "stdin" in capsys.readouterr().err
