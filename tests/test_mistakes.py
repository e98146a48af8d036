"""Whatever is typed or fed: the right result, or exit code 2 and one line that names the setting or the file."""

import bz2
import copy
import functools
import gzip
import types
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import pytest
import torch
from hydra import compose, initialize_config_dir
from hydra._internal.core_plugins.file_config_source import FileConfigSource
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import OmegaConf
from toy_corpus import sentences, write_pairs

from nmt.arguments import path_settings, quote_path
from nmt.checkpoint import digest
from nmt.cli import VERBS, main
from nmt.config import PATH
from nmt.errors import ConfigError
from nmt.schema import Filled, Range, config_dir, load, settings

Told = pytest.CaptureFixture[str]
Mistake = Callable[[list[str]], str]

DATA = ["data.name=x", "data.src_lang=en", "data.tgt_lang=de", "data.train=[/no/such]", "data.valid=[/no/such]"]
GIVEN = {  # what makes a verb complete, so that one wrong setting is the only mistake
    "prepare": DATA,
    "train": DATA,
    "evaluate": ["data=files", *DATA, "checkpoint=/no/such.pt", "split=test"],
    "translate": ["checkpoint=/no/such.pt", "input=/dev/null"],
    "average": ["checkpoints=/no/such.pt", "output=x.pt"],
    "info": ["checkpoint=/no/such.pt"],
    "check-data": ["data=files", *DATA],
    "verify-resume": DATA,
}


@pytest.fixture(scope="module", autouse=True)
def remembered() -> Iterator[None]:
    """Let Hydra parse each of our YAML files once: that is most of what a command that is refused takes."""
    read = functools.cache(FileConfigSource.load_config)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FileConfigSource, "load_config", lambda self, path: copy.deepcopy(read(self, path)))
        yield


@pytest.fixture
def mistake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Told) -> Mistake:
    """Run a command that must be refused, in a folder that must stay empty; gives what it said."""
    monkeypatch.chdir(tmp_path)

    def run(arguments: list[str]) -> str:
        capsys.readouterr()
        before = _files(tmp_path)
        code = main(arguments)
        told = capsys.readouterr()
        assert (code, told.out) == (2, ""), (arguments, told)
        assert told.err.startswith("nmt: ") and told.err.count("\n") == 1 and told.err.endswith("\n"), (arguments, told.err)
        assert _files(tmp_path) == before, arguments
        return told.err

    return run


def _files(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name != ".lock"}


# What can be typed for a setting, by the type that it has.
TYPED = {
    str: ["some", "a b"],
    int: ["3"],
    float: ["1.5", "3"],
    bool: ["true"],
    list: ["[1]", "[[1,2]]"],
    dict: ["{a:1}"],
    type(None): ["null"],
}
NEVER = ["nan", "inf", "-inf", "???"]
PARSER = OverridesParser.create()


def parts(hint: Any) -> Iterator[Any]:
    """The plain types, marks and choices that a type hint is made of."""
    if get_origin(hint) in (Annotated, Union, types.UnionType):
        for part in get_args(hint):
            yield from parts(part)
    else:
        yield hint


def wrong(hint: Any) -> list[str]:
    """Values of every kind that a setting does not take."""
    kinds = list(parts(hint))
    if PATH in kinds:  # the name of a file is taken as it is typed
        filled = list in map(get_origin, kinds) or any(isinstance(kind, Filled) for kind in kinds)
        return [*([""] if filled else []), *([] if type(None) in kinds else ["null"])]
    right = {value for kind in kinds for value in TYPED.get(get_origin(kind) or kind, [])}
    found = [value for values in TYPED.values() for value in values if value not in right]
    for limit in (kind for kind in kinds if isinstance(kind, Range)):
        found += [f"{limit.low:.17g}" if limit.above else f"{limit.low - 1:.17g}", "-1e30"]
        found += ["1" + 400 * "0"] if limit.high == float("inf") else [f"{limit.high * 1.5:.17g}", str(int(limit.high) + 1)]
    return [*found, *NEVER]


CASES = list({(key, str(hint)): (verb, key, hint) for verb in reversed(VERBS) for key, hint in settings(VERBS[verb][0]).items()}.values())


@functools.cache
def composed(verb: str) -> dict[str, Any]:
    """The settings of a verb as Hydra hands them on."""
    arguments = [quote_path(argument, path_settings(VERBS[verb][0])) for argument in GIVEN[verb]]
    with initialize_config_dir(version_base="1.3", config_dir=str(config_dir())):
        return OmegaConf.to_container(compose(verb, arguments), resolve=True)  # type: ignore[return-value]


@pytest.mark.parametrize(("verb", "key", "hint"), CASES, ids=[f"{verb}-{key}" for verb, key, _ in CASES])
def test_a_wrong_value_is_refused_by_the_name_of_its_setting(verb: str, key: str, hint: Any) -> None:
    for typed in wrong(hint):
        values = copy.deepcopy(composed(verb))
        group, _, name = key.rpartition(".")
        word = quote_path(f"{key}={typed}", path_settings(VERBS[verb][0]))
        (values[group] if group else values)[name] = PARSER.parse_override(word).value()
        with pytest.raises(ConfigError) as error:
            load(VERBS[verb][0], values)
        assert key in str(error.value) and "\n" not in str(error.value), typed


@pytest.mark.parametrize("number", range(0, len(CASES), 8))
def test_so_it_is_on_the_command_line(number: int, mistake: Mistake) -> None:
    verb, key, hint = CASES[number]
    others = [given for given in GIVEN[verb] if not given.startswith(f"{key}=")]
    values = [*wrong(hint), *([] if PATH in parts(hint) else ["'${nosuch}'", "'${oc.env:NO_SUCH_VARIABLE}'"])]
    if values:
        assert key in mistake([verb, *others, f"{key}={values[number % len(values)]}"])


def test_wrong_values_are_of_every_kind() -> None:
    assert {"1.5", "true", "[1]", "{a:1}", "null", "some", "0", "nan"} <= set(wrong(Annotated[int, Range(1)]))
    assert {"true", "null", "0", "1" + 400 * "0"} <= set(wrong(Annotated[float, Range(0, above=True)]))
    assert "some" in wrong(Literal["a", "b"]) and "null" not in wrong(int | None) and "3" not in wrong(str | int)
    assert sum(bool(wrong(hint)) for _, _, hint in CASES) > 100


# Files of every kind: their bytes, and what is said of them, or None where they are text like any other.
EN, DE = ("".join(f"{pair[side]}\n" for pair in sentences(30, seed=8)).encode() for side in (0, 1))
LINES = EN.split(b"\n")[:-1]


def with_line(line: bytes) -> bytes:
    return b"\n".join([*LINES[:3], line, *LINES[4:]]) + b"\n"


ODD = {
    "separators": (with_line("a\u2028b\u2029c\u0085d\x0be\x0cf\x1cg\x1dh\x1ei\rj".encode()), None),
    "crlf": (EN.replace(b"\n", b"\r\n"), None),
    "bom": (b"\xef\xbb\xbf" + EN, None),
    "boms": (with_line(b"\xef\xbb\xbf"), None),
    "blank": (b"\n \n\t\r\n" + EN + b"\xe3\x80\x80\n\n", None),
    "only-newlines": (b"\n" * 5, None),
    "nul": (b"\0\0\0\0\n" + with_line(b"a\0b\0"), None),
    "controls": (with_line(bytes(set(range(32)) - {10}) + b"\x7f"), None),
    "long": (with_line(b"The dog sees 7 cats. " * 4000), None),
    "long-word": (with_line(b"abcdefghijklmnopqrstuvwxyz" * 2000), None),
    "no-last-newline": (EN + b"The end", None),
    "latin1": (with_line("Männer".encode("latin-1")), "line 4, byte 2 of the line: 0xe4 is not valid UTF-8"),
    "surrogate": (with_line(b"a\xed\xa0\x80"), "line 4, byte 2 of the line: 0xed is not valid UTF-8"),
    "cut-character": (EN + b"\xe2\x82", "line 31, byte 1 of the line: 0xe2 is not valid UTF-8"),
    "utf-16": (EN.decode().encode("utf-16"), "is UTF-16 or UTF-32 text"),
    "packed": (gzip.compress(EN), "holds gzip-compressed bytes"),
    "pickle": (b"\x80\x05\x95\x10", "line 1, byte 1 of the line: 0x80 is not valid UTF-8"),
    "cut.gz": (gzip.compress(EN)[:-20], "cannot be unpacked as .gz"),
    "text.bz2": (EN, "cannot be unpacked as .bz2"),
    "whole.bz2": (bz2.compress(EN), None),
    "empty": (b"", "empty|no line of text|nothing to"),
}
FAST = ["decode.beam_size=1", "decode.max_length_ratio=0.1", "decode.max_length_extra=2", "decode.batch_size=256"]


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of odd files, and of one of other text with 30 lines, `other`, and one with 29, `short`."""
    folder = tmp_path_factory.mktemp("odd")
    for name, (content, _) in ODD.items():
        (folder / name).write_bytes(content)
    (folder / "other").write_bytes(DE)
    (folder / "short").write_bytes(b"".join(DE.splitlines(keepends=True)[1:]))
    return folder


def lines_in(path: Path) -> int:
    content = bz2.decompress(path.read_bytes()) if path.suffix == ".bz2" else path.read_bytes()
    return content.count(b"\n") + (not content.endswith(b"\n") and content != b"")


@pytest.mark.parametrize("name", ODD)
def test_odd_text(name: str, odd: Path, untrained: Path, mistake: Mistake, tmp_path: Path, capsys: Told) -> None:
    path, told = odd / name, ODD[name][1]
    translate = ["translate", f"checkpoint={untrained}", f"input={path}", "output=out", *FAST]
    score = ["evaluate", f"hyp={path}", f"ref={path}"]
    test = ["evaluate", f"checkpoint={untrained}", f"src={path}", f"ref={path}", *FAST]
    text = f"[[{path},{path}]]"
    small = ["tokenizer.vocab_size=300", "tokenizer.character_coverage=0.98", "filter.drop_duplicates=false", "filter.drop_copies=false"]
    prepare = ["prepare", "data.name=x", "data.src_lang=en", "data.tgt_lang=de", f"data.train={text}", f"data.valid={text}", *small]
    average, info = ["average", f"checkpoints={path}", "output=x.pt"], ["info", f"checkpoint={path}"]
    refused = [average, info] + ([score, test, prepare] if told else []) + ([translate] if told and name != "empty" else [])
    if name == "only-newlines":
        refused.append(prepare)
    for command in refused:
        said = mistake(command)
        assert str(path) in said or "no pair of data.train is left" in said
        if command not in (average, info) and told:
            assert any(part in said for part in told.split("|")), said
    for command in (translate, score, test, prepare):
        if command not in refused:
            assert main(command) == 0, capsys.readouterr().err
    if translate not in refused:
        out = (tmp_path / "out").read_bytes()
        assert out.count(b"\n") == lines_in(path) and (out == b"" or out.endswith(b"\n")) and out.decode() is not None


@pytest.fixture(scope="module")
def place(odd: Path, untrained: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Names for what the commands below are given."""
    folder, whole = tmp_path_factory.mktemp("place"), untrained.read_bytes()
    (folder / "folder").mkdir()
    (folder / "cut.pt").write_bytes(whole[:-500])
    (folder / "flipped.pt").write_bytes(whole[:9000] + bytes(byte ^ 255 for byte in whole[9000:9200]) + whole[9200:])
    (folder / "text.pt").write_text("no checkpoint\n" * 100)
    write_pairs(folder / "train", sentences(100, 1))
    write_pairs(folder / "valid", sentences(20, 2))
    names = {path.stem: str(path) for path in folder.iterdir()}
    texts = {"en": str(odd / "no-last-newline"), "de": str(odd / "other"), "short": str(odd / "short")}
    prefixes = {name: str(folder / name) for name in ("train", "valid", "data")}
    found = {**names, **texts, **prefixes, "model": str(untrained), "none": "/no/such"}
    assert main(["prepare", *TEXT.format(**found).split(" ")]) == 0
    return found


MINE = "data.name=x data.src_lang=en data.tgt_lang=de data.train={train} data.valid={valid} data.folder={data}"
MINE = f"{MINE} tokenizer.vocab_size=310 model=tiny run.device=cpu"
TEXT = MINE.removesuffix(" model=tiny run.device=cpu")
LONG_NAME = 300 * "n"
BY_HAND = {
    # translate
    "translate checkpoint={model} input={none}": "there is no file /no/such",
    "translate checkpoint={model} input={folder}": "is a folder, not a text file",
    "translate checkpoint={model} input={de}/x": "cannot read",
    f"translate checkpoint={{model}} input={LONG_NAME}": "ile name too long",
    "translate checkpoint={model} input={de} output={folder}": "is a folder: name a file to write",
    "translate checkpoint={model} input={de} output={folder} stream=true": "is a folder: name a file to write",
    "translate checkpoint={model} input={de} output=no/out": "there is no folder",
    "translate checkpoint={model} input={de} output=no/out stream=true": "there is no folder",
    "translate checkpoint={model} input={de} output={text}/out": "there is no folder",
    "translate checkpoint={model} input={de} output=": "output = '': expected text that is not empty or null",
    "translate checkpoint={model} input={de} output={model}": "would be written over",
    f"translate checkpoint={LONG_NAME} input={{de}}": "cannot read checkpoint nnn",
    "translate checkpoint={model} input={de} attention={text}": "cannot make the folder",
    "translate checkpoint={model} input={de} output={de} stream=true": "would be written over",
    "translate checkpoint={model} input={de} output={de}": "would be written over",
    "translate {model} {de}": "settings are given by name, such as checkpoint=…",
    "translate checkpoint={model} --input {de}": "did you mean input=…?",
    "translate checkpoint=[{model},b.pt input={de}": "the list is not closed by ]",
    f"prepare {TEXT} data.train=[corpus/train,corpus/more": "the list is not closed by ]",
    "translate checkpoint={model} input={de} output=x.xz stream=true": "stream=true: x.xz would be packed in blocks",
    "translate checkpoint={model} input={de} nbest=2": "nbest=2 needs format=jsonl",
    "translate checkpoint={model} input={de} nbest=9 format=jsonl": "nbest = 9 is more than decode.beam_size",
    "translate checkpoint={model} input={de} workers=2 attention=x": "workers=2: the pictures",
    "translate checkpoint={model} input={de} decode.top_k=3": "decode.top_k=3 is for sampling",
    "translate checkpoint={model} input={de} decode.beam_sise=3": "did you mean decode.beam_size?",
    "translate checkpoint={model} input={de} +decode.beam_sise=3": "did you mean decode.beam_size?",
    "translate checkpoint={model} input={de} model.dropout=0": "model.dropout",
    "translate checkpoint={none} input={de}": "there is no checkpoint /no/such",
    "translate checkpoint={folder} input={de}": "is a folder: name a file in it",
    "translate checkpoint={cut} input={de}": "incomplete or damaged",
    "translate checkpoint={flipped} input={de}": "damaged",
    "translate checkpoint={text} input={de}": "is no checkpoint of this program",
    "translate checkpoint=[{model},{text}] input={de}": "is no checkpoint of this program",
    "translate checkpoint=[] input={de}": "no checkpoint is named",
    f"translate checkpoint={1500 * '['}{1500 * ']'} input={{de}}": "nested too deeply",
    "translate checkpoint={model} input={de} decode=3": "there is no decode=3; there are checkpoint, default",
    "translate checkpoint={model} input={de} decode=null": "there is no decode=null",
    "translate checkpoint={model} input={de} run=3": "there is no run=3",
    # evaluate
    "evaluate": "evaluate needs checkpoint=",
    "evaluate hyp={de}": "hyp= needs ref=",
    "evaluate hyp={de} ref={none}": "there is no file /no/such",
    "evaluate hyp={de} ref={folder}": "is a folder, not a text file",
    "evaluate hyp={de} ref={short}": "has 30 lines but",
    "evaluate hyp={de} ref=[{de},{short}]": "has 30 lines but",
    "evaluate hyp={de} ref={de} checkpoint={model}": "neither checkpoint=",
    "evaluate hyp={de} ref={de} output=x.hyp": "name a .json file",
    "evaluate hyp={de} ref={de} output=x.json.gz": "the scores are not packed",
    "evaluate hyp={de} ref={de} output={folder}": "is a folder: name a file to write",
    "evaluate hyp={de} ref={de} output=no/x.json": "there is no folder",
    "evaluate hyp={de} ref={de} output=.": "output=. is a folder: name a .json file",
    "evaluate hyp={de} ref={short} output={short}": "would be written over",
    "evaluate hyp={de} ref=[[{de},{de}]]": "expected a list of text",
    "evaluate checkpoint={model} src={de} ref=[]": "what shall be evaluated?",
    "evaluate checkpoint={model} src={de} ref={de} output={model}": "would be written over",
    "evaluate checkpoint={model}": "what shall be evaluated?",
    "evaluate checkpoint={model} src={de}": "what shall be evaluated?",
    "evaluate checkpoint={model} src={de} ref={short}": "has 30 lines but",
    "evaluate checkpoint={model} src={de} ref={de} split=test": "what shall be evaluated?",
    "evaluate checkpoint={model} testset=wmt14/ful": "did you mean wmt14/full?",
    "evaluate checkpoint={text} split=test": "is no checkpoint of this program",
    "evaluate checkpoint={cut} src={de} ref={de}": "incomplete or damaged",
    "evaluate checkpoint={model} split=test data=files " + " ".join(DATA): "data.test=[] of x names no text",
    # average, info
    "average checkpoints={none} output=x.pt": "there is no checkpoint /no/such",
    "average checkpoints=[{model},{cut}] output=x.pt": "incomplete or damaged",
    "average checkpoints=[{model},[{model}]] output=x.pt": "one or more files are expected",
    "average checkpoints={model} output={model}": "would be written over",
    "average checkpoints={model} output={folder}": "is a folder: name a file to write",
    "average checkpoints={model} output=no/x.pt": "there is no folder",
    "info": "checkpoint is not set: give checkpoint=",
    "info checkpoint=": "checkpoint = '': expected text that is not empty",
    "info checkpoint={folder}": "is a folder: name a file in it",
    "info checkpoint={flipped}": "damaged",
    "info checkpoint=\udcff\udcfe": "there is no checkpoint",
    "info checkpoint=a\nb": "there is no checkpoint a; b",
    "info {model}": "settings are given by name, such as checkpoint=…",
    # prepare, train
    f"prepare {TEXT} data.train=[[{{de}},{{short}}]]": "has 30 lines but",
    f"prepare {TEXT} data.train={{folder}}": "is a folder: give the prefix",
    f"prepare {TEXT} data.train={{text}}": "neither .tsv nor .jsonl",
    f"prepare {TEXT} data.train=[]": "data.train is empty",
    f"prepare {TEXT} data.train=[[a,b,c]]": "an item is a prefix",
    f"prepare {TEXT} data.name=a/b": "data.name='a/b' is no folder name",
    f"prepare {TEXT} data.folder={{text}}": "give another data.folder=",
    f"prepare {TEXT} data.src_lang=de": "both sides are the same text: name two files",
    f"prepare {TEXT} data.name=2024": "data.name = 2024: expected text; a text that looks like one is given as 'data.name=",
    f"prepare {TEXT} data.config=x": "belong to data.path=",
    f"prepare {TEXT} data.path={{none}}": "there is no such folder, and a name on the hub is OWNER/NAME",
    f"train {MINE} data.valid={{none}}": "there is no file /no/such.en",
    f"train {MINE} run.folder={{text}}": "is no folder that can be written to",
    f"train {MINE} run.name=": "run.name = ''",
    f"train {MINE} run.name=\udcff": "is no UTF-8, which TensorBoard's files need",
    f"train {MINE} run.name=../x": "run.name = '../x'",
    f"train {MINE} run.name={LONG_NAME}": "ile name too long",
    f"train {MINE} optimizer.rho=0.9": "optimizer.rho=0.9",
    f"train {MINE} scheduler.factor=0.5": "scheduler.factor=0.5 is for scheduler=plateau",
    f"train {MINE} trainer.average=3": "trainer.average=3",
    f"train {MINE} model.tie=all tokenizer.joint=false": "model.tie=all needs one vocabulary",
    f"train {MINE} model=nosuch": "there is no model=nosuch; there are",
    f"train {MINE} model=null": "there is no model=null; there are base",
    f"train {MINE} model=tiny,small": "--multirun",
    f"train {MINE} ~trainer.max_steps": "'trainer.max_steps'",
    f"train {MINE} ~nothing": "nothing",
    f"train {MINE} ++a.b.c=3": "there is no setting a",
    f"train {MINE} ä=3": "ä",
    f"train {MINE} =3": "Config group override must be",
    f"train {MINE} trainer": "trainer",
    f"train {MINE} --config-dir {{none}}": "/no/such",
    f"train {MINE} --config-name nosuch": "nosuch",
    f"train {MINE} --cfg nonsense": "nonsense",
    f"train {MINE} --resolve": "--resolve",
    f"train {MINE} --experimental-rerun {{text}}": "not allowed",
    "nosuch": "there is no command 'nosuch'",
}


@pytest.mark.parametrize("command", BY_HAND)
def test_other_mistakes(command: str, place: dict[str, str], mistake: Mistake) -> None:
    told = mistake([word.format(**place) for word in command.split(" ")])
    assert any(part in told for part in BY_HAND[command].split("|")), told


def changed(model: Path, path: Path, change: Callable[[dict[str, Any]], object]) -> str:
    """A copy of a checkpoint with other content and the digest that belongs to it, as somebody can make who means harm."""
    content = torch.load(model, weights_only=True)
    change(content)
    with suppress(TypeError, ValueError, RuntimeError):  # of what cannot have one
        content["digest"] = digest(content)
    torch.save(content, path)
    return str(path)


def config(**groups: Any) -> Callable[[dict[str, Any]], object]:
    return lambda content: [content["config"][name].update(values) for name, values in groups.items()]


def weights(**tensors: Any) -> Callable[[dict[str, Any]], object]:
    return lambda content: content["model"].update(tensors)


EVIL = {
    "config is a number": (lambda content: content.update(config=5), "a configuration is a group of settings, not int"),
    "config is a list": (lambda content: content.update(config=[["data", 1]]), "a configuration is a group of settings, not list"),
    "group is text": (lambda content: content["config"].update(model="x"), "model = 'x': a group of settings is expected"),
    "target": (config(model={"_target_": "os.system"}), "there is no setting model._target_"),
    "target on top": (lambda content: content["config"].update(_target_="os.system"), "there is no setting _target_"),
    "number for a name": (lambda content: content["config"]["model"].update({5: 5}), "there is no setting model.5"),
    "interpolation": (config(model={"encoder_size": "${oc.env:HOME}"}), "model.encoder_size = '${oc.env:HOME}': expected a whole number"),
    "tensor": (config(model={"dropout": torch.zeros(3)}), "model.dropout = tensor([0., 0., 0.]): expected a number"),
    "nan": (config(model={"dropout": float("nan")}), "model.dropout = nan"),
    "huge": (config(model={"encoder_size": 10**30}), "model.encoder_size = 1000000"),
    "many layers": (config(model={"encoder_layers": 10**9}), "model.encoder_layers = 1000000000"),
    "too large for any memory": (config(model={"encoder_size": 100_000}), "do not fit its configuration: encoder."),
    "other size": (config(model={"readout_size": 8}), "do not fit its configuration: decoder."),
    "missing tensor": (lambda content: content["model"].popitem(), "is missing; use another checkpoint"),
    "extra tensor": (weights(extra=torch.zeros(1)), "there is no extra in such a network"),
    "no tensors": (lambda content: content["model"].update(dict.fromkeys(content["model"], 1)), "its model, about and training are not"),
    "about is text": (lambda content: content.update(about="x"), "its model, about and training are not"),
    "a set": (lambda content: content["about"].update(seen={1, 2}), "more than dense tensors and plain data"),
    "a sparse tensor": (weights(extra=torch.ones(2, 2).to_sparse()), "more than dense tensors and plain data"),
    "a long number": (lambda content: content["about"].update(step=10**5000), "is no checkpoint of this program"),
    "whole numbers": (lambda content: content["model"].update({n: t.long() for n, t in content["model"].items()}), "torch.int64"),
    "tokenizer is text": (lambda content: content.update(src_tokenizer="x"), "cannot be used by this version"),
    "tokenizer is noise": (
        lambda content: content.update(tgt_tokenizer=torch.arange(99).byte()),
        "should be a SentencePiece model are none",
    ),
    "tokenizer is cut": (lambda content: content.update(src_tokenizer=content["src_tokenizer"][:-700]), "SentencePiece model"),
}


@pytest.mark.parametrize("name", EVIL)
def test_a_checkpoint_that_was_made_to_harm_is_refused(name: str, untrained: Path, place: dict[str, str], mistake: Mistake) -> None:
    change, told = EVIL[name]
    path = changed(untrained, untrained.with_name("evil.pt"), change)
    assert told in mistake(["translate", f"checkpoint={path}", f"input={place['de']}", "output=x"])
    assert told in mistake(["average", f"checkpoints=[{path}]", "output=x.pt"])
    assert told in mistake(["evaluate", f"checkpoint={path}", f"src={place['de']}", f"ref={place['de']}"])


class Runs:
    """A pickle that makes a file when it is loaded."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[..., object], tuple[Path]]:
        return Path.touch, (self.path,)


@pytest.mark.parametrize("verb", ["translate", "evaluate", "average", "info"])
def test_no_command_runs_what_a_checkpoint_holds(
    verb: str, untrained: Path, place: dict[str, str], mistake: Mistake, tmp_path: Path, capsys: Told
) -> None:
    mark, evil = tmp_path / "mark", tmp_path / "runs/x/last.pt"
    evil.parent.mkdir(parents=True)
    torch.save(torch.load(untrained, weights_only=True) | {"about": Runs(mark)}, evil)
    torch.load(evil, weights_only=False)
    assert mark.exists(), "it would"
    mark.unlink()
    commands = {
        "translate": f"checkpoint={evil} input={place['de']}",
        "evaluate": f"checkpoint={evil} split=test",
        "average": f"checkpoints=[{place['model']},{evil}] output=x.pt",
        "info": f"checkpoint={evil}",
    }
    assert "is no checkpoint of this program" in mistake([verb, *commands[verb].split(" ")])
    assert main(["train", *MINE.format(**place).split(" ")]) == 2
    assert "is no checkpoint of this program" in capsys.readouterr().err.splitlines()[-1] and not mark.exists()


def test_what_a_checkpoint_says_is_taken_as_it_stands(
    untrained: Path, tmp_path: Path, capsys: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/of-nobody-else")
    text = "${oc.env:HOME}"
    path = changed(untrained, tmp_path / "plain.pt", config(data={"name": text, "train": [text]}, run={"name": text, "folder": text}))
    assert main(["info", f"checkpoint={path}"]) == 0
    told = capsys.readouterr().out
    assert f"name: {text}" in told and f"train: ['{text}']" in told and "/home/of-nobody-else" not in told


def test_what_a_checkpoint_says_does_not_steer_the_terminal(untrained: Path, tmp_path: Path, capsys: Told) -> None:
    evil = "\x1b]0;title\x07 \x9b2J\r\nstep: 9"
    path = changed(untrained, tmp_path / "plain.pt", lambda content: content["about"].update({evil: evil}))
    assert main(["info", f"checkpoint={path}"]) == 0
    told = capsys.readouterr().out
    assert not {"\x1b", "\x07", "\x9b", "\r"} & set(told) and "\\x1b]0;title\\x07" in told and "\nstep: 9" not in told
    path = changed(untrained, tmp_path / "evil.pt", config(model={evil: 3}))
    assert main(["info", f"checkpoint={path}"]) == 2
    told = capsys.readouterr().err
    assert "\x1b" not in told and "there is no setting model.\\x1b]0;title" in told and told.count("\n") == 1
