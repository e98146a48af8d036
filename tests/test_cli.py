"""The command line: what it prints where, exit codes, any file name, and one clear line for each mistake."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hypothesis import given
from hypothesis import settings as example_settings
from hypothesis import strategies as st
from omegaconf import OmegaConf

from nmt.arguments import path_settings, quote_path, spell_out
from nmt.cli import VERBS, main

FILE_NAMES = st.text(st.characters(blacklist_characters="\0\n\r", blacklist_categories=["Cs"]), min_size=1, max_size=20)


def parsed(argument: str) -> object:
    """What a setting holds after Hydra has parsed it and OmegaConf resolved it."""
    override = OverridesParser.create().parse_override(argument)
    return OmegaConf.to_container(OmegaConf.create({"value": override.value()}), resolve=True)["value"]  # type: ignore[index,call-overload]


def is_quoted(name: str) -> bool:
    return name in ("null", "???") or name.startswith(("~/", "[")) or (len(name) > 1 and name[0] == name[-1] and name[0] in "\"'")


@given(FILE_NAMES.filter(lambda name: not is_quoted(name)))
@example_settings(deadline=None, max_examples=300)
def test_any_file_name_can_be_typed_as_it_is(name: str) -> None:
    assert parsed(quote_path(f"input={name}", path_settings(VERBS["translate"][0]))) == name
    assert parsed(quote_path(f"data.train={name}", path_settings(VERBS["train"][0]))) == [name]


@pytest.mark.parametrize(
    "name",
    ["a b=(c),ä日.txt", "${x}.txt", "\\${a\\\\${b}", "it's", 'say "hi"', "1e3", "true", "a,b", "(1)", "[x].txt", "{a: b}", "*", "a\\"],
)
def test_odd_names(name: str) -> None:
    assert parsed(quote_path(f"checkpoint={name}", path_settings(VERBS["info"][0]))) == name
    assert parsed(quote_path(f"checkpoint={name}", path_settings(VERBS["translate"][0]))) == [name]


@pytest.mark.parametrize("key", ["run.name", "run.folder", "data.folder", "data.path"])
def test_file_names_are_not_interpolated(key: str) -> None:
    assert parsed(quote_path(f"{key}=${{oc.env:HOME}}", path_settings(VERBS["train"][0]))) == "${oc.env:HOME}"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("[/a/train]", ["/a/train"]),
        ("[/a b/(1)/ä=train, /c/d]", ["/a b/(1)/ä=train", "/c/d"]),
        ("[[a.en,a.de],b]", [["a.en", "a.de"], "b"]),
        ("['a,b',c]", ["a,b", "c"]),
        ("[]", []),
        ("/a,b", ["/a,b"]),
    ],
)
def test_lists_of_files(value: str, expected: list[object]) -> None:
    assert parsed(quote_path(f"data.train={value}", path_settings(VERBS["train"][0]))) == expected


def test_only_file_names_are_quoted() -> None:
    paths = path_settings(VERBS["train"][0])
    assert quote_path("trainer.max_steps=3", paths) == "trainer.max_steps=3"
    assert quote_path("output=null", path_settings(VERBS["translate"][0])) == "output=null"
    assert quote_path("--multirun", paths) == "--multirun"
    assert not path_settings(VERBS["translate"][0])["input"] and path_settings(VERBS["prepare"][0])["data.valid"]


def test_data_sets_and_splits_can_be_typed_as_they_are() -> None:
    paths = path_settings(VERBS["prepare"][0])
    for value in ("bentrevett/multi30k", "/my set/(1), ä=x", "12345678", "1e10"):
        for key in ("data.path", "data.config", "data.revision"):
            assert parsed(quote_path(f"{key}={value}", paths)) == value
    assert parsed(quote_path("data.train=train[:1000]", paths)) == ["train[:1000]"]
    assert parsed(quote_path("data.train=[train[:1000],train[5%:]]", paths)) == ["train[:1000]", "train[5%:]"]


def test_what_is_on_or_off_has_a_short_form() -> None:
    assert spell_out("--json", VERBS["check-data"][0]) == "json=true"
    for argument in ("--json=1", "json", "--src", "--filter", "--multirun", "--help", "--cfg"):
        assert spell_out(argument, VERBS["check-data"][0]) == argument
    assert spell_out("--json", VERBS["info"][0]) == "--json"


def test_torchrun_trains_one_model(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "1")
    monkeypatch.setenv("RANK", "0")
    for mode in ("--multirun", "hydra.mode=MULTIRUN"):
        assert main(["train", *COMMON, mode, "optimizer.lr=0.1,0.2"]) == 2
        assert "--multirun: the processes of torchrun train one model" in capsys.readouterr().err


def test_a_dash_is_standard_input_and_output() -> None:
    assert [spell_out(word, VERBS["translate"][0]) for word in ("input=-", "output=-")] == ["input=null", "output=null"]
    assert spell_out("output=-", VERBS["average"][0]) == "output=-"


def write_sides(folder: Path, src: bytes, tgt: bytes) -> list[str]:
    (folder / "a b.en").write_bytes(src)
    (folder / "a b.de").write_bytes(tgt)
    return ["check-data", f"src={folder / 'a b.en'}", f"tgt={folder / 'a b.de'}"]


@pytest.mark.parametrize(
    ("src", "tgt", "code", "said"),
    [
        (b"a dog\n", b"ein Hund\n", 0, "prepare would take this text"),
        (b"a\xe2\x80\xa8dog\n\nx\n", b"ein Hund\ny\n\n", 0, "U+2028"),
        (b"a dog\na cat\n", b"ein Hund\n", 1, "has 2 lines but"),
        (b"a dog\n", b"ein H\xfcnd\n", 1, "line 1, byte 6 of the line"),
    ],
)
def test_checking_text(tmp_path: Path, capsys: pytest.CaptureFixture[str], src: bytes, tgt: bytes, code: int, said: str) -> None:
    arguments = write_sides(tmp_path, src, tgt)
    assert main(arguments) == code
    told = capsys.readouterr()
    assert said in told.out and not told.err
    assert main([*arguments, "--json"]) == code
    report = json.loads(capsys.readouterr().out)
    assert (report["verdict"] == "fine") == (code == 0) and report["splits"]["train"]["texts"][0]["files"][0] == str(tmp_path / "a b.en")


def test_checking_a_data_configuration(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_sides(tmp_path, b"a dog\nthe dog\n", b"ein Hund\nder Hund\n")
    data = ["data=files", "data.name=x", "data.src_lang=en", "data.tgt_lang=de", f"data.valid={tmp_path / 'a b'}"]
    assert main(["check-data", *data, f"data.train=[{tmp_path / 'a b'}]", "filter.drop_copies=false"]) == 0
    told = capsys.readouterr().out
    assert "train: 2 pairs" in told and "valid: 2 pairs" in told and "training holds 2 of its 2 source lines" in told
    assert {path.name for path in tmp_path.iterdir()} == {"a b.en", "a b.de"}  # nothing is written


def test_the_overview_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    told = capsys.readouterr()
    assert all(f"nmt {verb}" in told.out for verb in VERBS) and not told.err


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("nmt 0.")


def test_the_version_after_a_command_is_ours(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "--version"]) == 0
    assert capsys.readouterr().out.startswith("nmt 0.")


@pytest.mark.parametrize("arguments", [["--help"], ["translate", "--help"]])
def test_an_output_that_cannot_be_written_is_one_line(arguments: list[str]) -> None:
    with Path("/dev/full").open("wb") as full:
        told = subprocess.run([sys.executable, "-m", "nmt", *arguments], stdout=full, stderr=subprocess.PIPE, text=True)
    assert told.returncode == 2 and "no space left on device" in told.stderr and "Traceback" not in told.stderr


@pytest.mark.parametrize("verb", VERBS)
def test_help_has_examples_and_is_quick(verb: str) -> None:
    began = time.monotonic()
    told = subprocess.run([sys.executable, "-m", "nmt", verb, "--help"], capture_output=True, text=True, check=True)
    assert f"nmt {verb} " in told.stdout and "== Settings ==" in told.stdout
    assert time.monotonic() - began < 4  # two seconds are promised; a busy machine is borne with


@pytest.mark.parametrize(
    ("module", "heavy"),
    [
        ("nmt.cli", {"torch", "numpy", "hydra", "sacrebleu", "sentencepiece"}),
        ("nmt.pipeline", {"torch._dynamo", "datasets", "pandas", "pyarrow", "tensorboard", "matplotlib", "PIL", "sympy"}),
    ],
)
def test_what_takes_long_to_import_waits_until_it_is_needed(module: str, heavy: set[str]) -> None:
    code = f"import sys, {module}; print(*sys.modules)"
    imported = set(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split())
    assert module in imported and not imported & heavy


COMMON = ["data.name=x", "data.src_lang=en", "data.tgt_lang=de", "data.train=[/no/such]", "data.valid=[/no/such]"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["trian"], "there is no command 'trian'; did you mean train?"),
        (["train", "data=nosuch"], "there is no data=nosuch; there are files"),
        (["train", "model=smal"], "did you mean small?"),
        (["train", "modle=tiny"], "there is no setting modle; did you mean model?"),
        (["train", "experiments=quickstart"], "did you mean experiment?"),
        (["train", "lr=0.1"], "there is no setting lr; did you mean optimizer.lr?"),
        (["train", *COMMON, "trainer.max_stepz=3"], "there is no setting trainer.max_stepz; did you mean trainer.max_steps?"),
        (["train", *COMMON, "+trainer.max_stepz=3"], "there is no setting trainer.max_stepz; did you mean trainer.max_steps?"),
        (["train", *COMMON, "optimizer.lr=fast"], "optimizer.lr = 'fast': expected a number more than 0"),
        (["train", *COMMON, "optimizer.lr=-1"], "optimizer.lr = -1: expected a number more than 0"),
        (["train", *COMMON, "optimizer.lr="], "optimizer.lr = ''"),
        (["train", *COMMON, "trainer=3"], "there is no trainer=3; there are default"),
        (["train"], "data.name is not set: give data.name="),
        (["train", *COMMON, "precision=fp8"], "precision = 'fp8': expected one of auto, fp32, bf16, fp16"),
        (["train", *COMMON, "run.name=../x"], "run.name = '../x': a name for the run's folder"),
        (["train", *COMMON, "run.threads=100000"], "run.threads = 100000: expected a whole number at least 1 and at most 1024"),
        (["train", *COMMON, "tokenizer.vocab_size=99999999999999999999"], "at most 1e+06"),
        (["train", *COMMON, "decode.max_length_ratio=inf"], "decode.max_length_ratio = inf"),
        (["train", *COMMON, "tokenizer.vocab_size=null"], "tokenizer.vocab_size = null: expected a whole number"),
        (["prepare", *COMMON, "data.train=/usr"], "/usr is a folder: give the prefix of the files in it, such as /usr/train"),
        (["train", *COMMON], "/no/such"),
        (["prepare", *COMMON, "model=small"], "model"),
        (["translate", "x"], "x: settings are given by name, such as checkpoint=…"),
        (["translate", ""], "an empty word: settings are given by name"),
        (["translate"], "checkpoint is not set: give checkpoint="),
        (["translate", "checkpoint=/no/such.pt", "input=/dev/null"], "there is no checkpoint /no/such.pt"),
        (["translate", "checkpoint=[]", "input=/dev/null"], "no checkpoint is named"),
        (["translate", "checkpoint=[[a.pt,b.pt]]", "input=/dev/null"], "checkpoint = [['a.pt', 'b.pt']]: expected a list of text"),
        (["translate", "checkpoint=/no/such.pt", "nbest=2"], "nbest=2 needs format=jsonl"),
        (["translate", "checkpoint=/no/such.pt", "input=/no/file"], "/no/file"),
        (["translate", "checkpoint=/no/such.pt", "input=/dev/null", "output=/no/folder/x"], "there is no folder /no/folder"),
        (["evaluate"], "evaluate needs checkpoint="),
        (["evaluate", "hyp=/no/file"], "hyp= needs ref="),
        (["average", "output=x.pt"], "checkpoints is not set: give checkpoints="),
        (["average", "checkpoints=[/no/such.pt]"], "output is not set: give output="),
        (["average", "checkpoints=[]", "output=x.pt"], "checkpoints=[]: one or more files are expected"),
        (["average", "checkpoints=/no/such.pt", "output=x.pt"], "there is no checkpoint /no/such.pt"),
        (["info", "checkpoint=/"], "/ is a folder"),
        (["check-data"], "what shall be checked? Give src= and tgt="),
        (["check-data", "src=/no/such.en", "tgt=/no/such.de"], "there is no file /no/such.en"),
        (["check-data", "src=/usr", "tgt=/usr"], "/usr is a folder, not a text file"),
        (["check-data", "srcs=a"], "there is no setting srcs; did you mean src?"),
        (["check-data", "data=files", *COMMON], "there is no file /no/such.en"),
        (["chek-data"], "there is no command 'chek-data'; did you mean check-data?"),
        (["train", *COMMON, "no_equals_sign"], "no_equals_sign"),
        (["train", *COMMON, "--config-dir", "/no/such/folder"], "/no/such/folder"),
        (["train", "--nosuchflag"], "--nosuchflag"),
    ],
)
def test_a_mistake_is_one_clear_line_and_code_2(arguments: list[str], message: str, tmp_path: Path) -> None:
    told = subprocess.run([sys.executable, "-m", "nmt", *arguments], capture_output=True, text=True, cwd=tmp_path)
    assert told.returncode == 2, told.stderr
    assert message in told.stderr and "Traceback" not in told.stderr
    assert len(told.stderr.strip().split("\n")) <= 3 and not told.stdout
    assert not list(tmp_path.rglob("*.pt")) and not (tmp_path / "outputs").exists()
