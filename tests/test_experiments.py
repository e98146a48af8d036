"""The scripts that train for published figures, on a corpus that trains in seconds; what they find is not judged here."""

import importlib
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from toy_corpus import Composer

from nmt.cli import main
from nmt.errors import ConfigError, DataError, NmtError
from nmt.schema import config_dir

sys.path.append(str(Path(__file__).parents[1] / "scripts"))
experiments, ablation, quality, published, long_sentences, bleu_over_time, joeynmt, tune_decoding = map(
    importlib.import_module,
    ("experiments", "ablation", "quality", "published", "long_sentences", "bleu_over_time", "joeynmt", "tune_decoding"),
)
REAL_NMT = experiments.nmt


@pytest.fixture
def multi30k(corpus: Path, tmp_path: Path) -> Path:
    """The small corpus under the names of Multi30k's files."""
    for path in corpus.iterdir():
        split, lang = path.name.split(".")
        shutil.copy(path, tmp_path / f"{experiments.MULTI30K[split]}.{lang}")
    return tmp_path


@pytest.fixture(autouse=True)
def calls(settings: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """The calls of `nmt`, which runs in this process and folder, and trains small models for a second."""
    kept = ("data", "run.name", "model=", "batches", "trainer")
    small = [setting for setting in settings if not setting.startswith(kept)]
    small += [
        "batches.max_tokens=1000",
        "trainer.max_steps=8",
        "trainer.valid_every_steps=4",
        "trainer.samples=0",
        "trainer.risk_after=null",
        "run.threads=1",
    ]
    small += ["decode.max_length_ratio=0.5", "decode.max_length_extra=4"]  # TER takes long for long nonsense
    calls: list[tuple[str, ...]] = []

    def nmt(*arguments: str, log: Path | None = None) -> None:
        calls.append(arguments)
        assert main([*arguments, *small] if arguments[0] == "train" else list(arguments)) == 0

    monkeypatch.chdir(tmp_path)
    for module in (experiments, ablation, quality, long_sentences):
        monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(experiments, "nmt", nmt)
    monkeypatch.setattr(experiments, "commit", lambda: "abc")
    (tmp_path / "scripts/results").mkdir(parents=True)
    (tmp_path / "configs").symlink_to(config_dir())
    return calls


class Moses:
    """What the scripts use of sacremoses, which is no dependency of the project: here it sets the full stop apart."""

    def __init__(self, lang: str) -> None:
        pass

    def normalize(self, text: str) -> str:
        return text

    def tokenize(self, text: str, return_str: bool) -> str:
        return text.replace(".", " .")


def run(monkeypatch: pytest.MonkeyPatch, module: Any, *arguments: object, code: int = 0) -> None:
    """The script as it is called on a command line, its jobs one after another in this thread: signals need the main one."""
    monkeypatch.setattr(sys, "argv", ["script", *map(str, arguments)])
    if hasattr(module, "in_lanes"):
        monkeypatch.setattr(module, "in_lanes", lambda jobs, lanes: (job() for job in jobs.values()))
    with pytest.raises(SystemExit) as ended:
        module.main()
    assert ended.value.code == code


@pytest.mark.parametrize(
    ("script", "arguments", "message"),
    [
        (
            "ablation",
            "nofolder base",
            "there is no file nofolder/train.en (there is no folder nofolder); train, val, test_2016_flickr are needed",
        ),
        ("ablation", ". base --lanes 0", "--lanes: '0': a whole number of at least 1 is expected"),
        ("ablation", ". base --seed -1", "--seed"),
        ("long_sentences", "nofolder", "there is no file nofolder/train.en"),
        ("long_sentences", ". --lanes 0", "--lanes: '0': a whole number of at least 1 is expected"),
        ("long_sentences", ". --minutes nan", "--minutes: 'nan': a number above 0 is expected"),
        ("quality", "tatoeba_en_fr nofolder --minutes 0.1", "nofolder/train.en"),
        ("quality", "tatoeba_en_fr . --minutes 0", "--minutes: '0': a number above 0 is expected"),
        ("quality", "ensemble nix.pt", "there is no checkpoint"),
        ("quality", "multi30k .", "-m pip install sacremoses"),
        ("bleu_over_time", "nix", "there is no checkpoint nix/last.pt"),
        ("tune_decoding", "nix.pt --beam 0", "--beam: '0': a whole number of at least 1 is expected"),
        ("tune_decoding", "nix.pt --json nofolder/x.json", "there is no folder"),
    ],
)
def test_a_mistake_is_one_line_and_code_2_and_leaves_nothing(
    script: str, arguments: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(published, "sacremoses", None)
    before = sorted(tmp_path.rglob("*"))
    run(monkeypatch, globals()[script], *arguments.split(), code=2)
    told = capsys.readouterr()
    assert message in told.err.strip().split("\n")[-1] and not told.out
    assert "usage:" in told.err or told.err.count("\n") == 1
    assert sorted(tmp_path.rglob("*")) == before


def test_a_folder_that_lacks_a_text_names_it(multi30k: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    (multi30k / "val.de").unlink()
    for module in (ablation, long_sentences):
        run(monkeypatch, module, multi30k, code=2)
        assert f"there is no file {multi30k}/val.de; did you mean" in capsys.readouterr().err


def test_bleu_over_time_says_what_is_missing(multi30k: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    experiments.train("mine", *experiments.data_settings("toy", multi30k, "en", "de", experiments.MULTI30K))
    monkeypatch.setattr(joeynmt, "PYTHON", multi30k / "none")
    run(monkeypatch, bleu_over_time, "runs/mine", code=2)
    assert capsys.readouterr().err.endswith(f"JoeyNMT is not there: {sys.executable} {joeynmt.__file__}\n")


def test_a_command_that_failed_says_its_last_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(experiments, "ROOT", Path(__file__).parents[1])
    monkeypatch.setattr(tune_decoding, "ROOT", tmp_path)
    run(monkeypatch, tune_decoding, "nix.pt", code=2)
    log = tmp_path / "runs/tune_decoding.log"
    told = f"nmt: there is no checkpoint {tmp_path}/nix.pt"
    assert capfd.readouterr().err == f"script: {told} (more in {log})\n" and log.read_text(encoding="utf-8") == f"{told}\n"
    with pytest.raises(SystemExit) as ended:  # without a log, the command has said it itself
        REAL_NMT("nosuchverb")
    assert ended.value.code == 2 and "there is no command 'nosuchverb'" in capfd.readouterr().err


def test_the_last_line_is_what_is_seen_last() -> None:
    assert experiments.last_line("one\n 3%|#  |\r 9%|## |\rnmt: two \n\n") == "nmt: two"
    assert experiments.last_line("\n") == "it failed without a word"


def test_a_run_has_the_commit_that_it_began_with(multi30k: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nmt, data = experiments.nmt, experiments.data_settings("toy", multi30k, "en", "de", experiments.MULTI30K)

    def failing(*arguments: str, log: Path | None = None) -> None:
        raise NmtError("no")

    monkeypatch.setattr(experiments, "nmt", failing)
    with pytest.raises(NmtError):
        experiments.train("mine", *data)
    assert not (multi30k / "runs/mine").exists()
    monkeypatch.setattr(experiments, "nmt", nmt)
    for commit in ("later", "latest"):
        monkeypatch.setattr(experiments, "commit", lambda commit=commit: commit)
        assert experiments.train("mine", *data)["commit"] == "later"


def test_lanes_give_every_result_and_name_what_failed(capsys: pytest.CaptureFixture[str]) -> None:
    jobs = {"one": lambda: 1, "two": lambda: 1 // 0, "three": lambda: 3}
    found = []
    with pytest.raises(NmtError, match="failed: two"):
        found += list(experiments.in_lanes({name: jobs[name] for name in ("one", "three")}, 2))
        found += list(experiments.in_lanes(jobs, 1))
    assert sorted(found) == [1, 3]
    assert "two FAILED: integer division" in capsys.readouterr().err


def test_a_row_takes_the_place_of_its_like() -> None:
    for name, seed, bleu in (("a", 1, 1.0), ("a", 2, 2.0), ("a", 1, 3.0)):
        experiments.put_row("rows.json", {"name": name, "seed": seed, "bleu": bleu}, ("name", "seed"))
    assert [row["bleu"] for row in experiments.read_rows("rows.json")] == [2.0, 3.0]
    experiments.put_row("rows.json", {"name": "a", "seed": 1, "models": []}, ("name", "seed", "models"))  # a key that others lack
    assert len(experiments.read_rows("rows.json")) == 3


def test_the_ablation_trains_each_row_once_and_tells_differences(
    multi30k: Path, calls: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(ablation, "BASE", ["model=small"])
    monkeypatch.setattr(ablation, "ROWS", {"base": ("nothing", []), "ema": ("an average", ["trainer.ema_decay=0.9"])})
    run(monkeypatch, ablation, multi30k, "base", "--passes", 1)
    run(monkeypatch, ablation, multi30k, "--passes", 1)
    assert [call[0] for call in calls] == ["train", "evaluate"] * 2  # base was not run again
    assert "test_2016_flickr" not in str([call for call in calls if call[0] == "evaluate"])
    run(monkeypatch, ablation, multi30k, "base", "--passes", 1, "--again")
    assert [call[0] for call in calls] == ["train", "evaluate"] * 3
    ema, base = experiments.read_rows("ablation.json")
    assert (base["name"], ema["name"], ema["settings"][-1]) == ("base", "ema", "trainer.ema_decay=0.9")
    for row in (base, ema):
        assert row["seed"] == 1 and row["passes"] == 1 and row["updates"] > 0 and row["minutes"] >= 0
        assert row["commit"] == "abc" and row["hardware"].startswith("1 core of") and row["signature"].startswith("nrefs:1")
        assert 0 <= row["bleu"] <= 100 and 0 <= row["greedy_valid"] <= 100
    capsys.readouterr()
    run(monkeypatch, ablation, "--table", "--passes", 1)
    shown = capsys.readouterr().out
    figures = f"{ema['bleu']:.1f} | {ema['bleu'] - base['bleu']:+.1f} | {ema['perplexity']:.2f} | 0"
    assert f"| ema | an average | `trainer.ema_decay=0.9` | {figures} | 1 | abc |" in shown
    monkeypatch.setitem(ablation.ROWS, "ema", ("an average", ["trainer.ema_decay=0.8"]))
    run(monkeypatch, ablation, "--table", "--passes", 1)
    assert "ema" not in capsys.readouterr().out  # it was measured with other settings


def test_the_rows_of_the_ablation_are_settings_that_exist(composed: Composer) -> None:
    configs = [composed(*ablation.settings_of(name, 3)) for name in ablation.ROWS]
    assert all(config.trainer.max_epochs == 3 and config.trainer.patience is None for config in configs)
    assert len({repr(config) for config in configs}) == len(configs)  # no row is another one


def test_a_row_of_the_results_is_scored_on_both_sets_and_in_the_published_measure(
    multi30k: Path, calls: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(published, "sacremoses", SimpleNamespace(MosesPunctNormalizer=Moses, MosesTokenizer=Moses))
    run(monkeypatch, quality, "multi30k", multi30k, "model.dropout=0", "--seed", 2, "--trial")
    assert "split=test" not in str(calls) and not experiments.read_rows("quality.json")
    run(monkeypatch, quality, "multi30k", multi30k, "model.dropout=0", "--seed", 2)
    run(monkeypatch, quality, "multi30k_published", multi30k)
    (cased, tokenized) = experiments.read_rows("quality.json")
    assert (cased["seed"], tokenized["seed"], cased["commit"]) == (2, 1, "abc")
    assert cased["command"].startswith("scripts/quality.py multi30k FOLDER model.")
    for split in ("valid", "test"):
        assert {"bleu", "bleu_signature", "chrf", "ter", "published"} <= cased[split].keys()
        assert tokenized[split].keys() == {"published", "published_signature"}
    text = (multi30k / "data/multi30k_published_text/train.de").read_text(encoding="utf-8")
    assert text.startswith("der ") and text.endswith(" .\n")

    assert cased["recipe"]["trainer"]["max_minutes"] == 60

    checkpoints = sorted(multi30k.glob("runs/quality/multi30k-*/best.pt"))
    run(monkeypatch, quality, "ensemble", *checkpoints, *checkpoints, "decode.beam_size=2")
    *_, ensemble = experiments.read_rows("quality.json")
    assert (ensemble["name"], ensemble["seed"]) == ("multi30k_ensemble", [2, 2])
    assert "decode.beam_size=2" in calls[-1] and calls[-1][0] == "evaluate"
    run(monkeypatch, quality, "ensemble", *checkpoints, "model.dropout=0.1", code=2)
    assert "model.dropout=0.1: the models of an ensemble are trained" in capsys.readouterr().err
    assert ensemble["test"]["bleu"] == pytest.approx(cased["test"]["bleu"], abs=1)  # twice the same model
    for _ in range(2):  # a trial is a row of its own, and the same trial again is that row
        run(monkeypatch, quality, "multi30k", multi30k, "model.dropout=0", "--seed", 2, "--minutes", 0.5)
        first, *_, trial = experiments.read_rows("quality.json")
        assert first == cased and trial["settings"] == ["experiment=multi30k_en_de", "trainer.max_minutes=0.5", "model.dropout=0"]
    assert len(experiments.read_rows("quality.json")) == 4
    capsys.readouterr()
    run(monkeypatch, quality, "table")
    rows = capsys.readouterr().out.split("\n")
    assert f"| {cased['test']['bleu']:.1f} | {cased['test']['chrf']:.1f} |" in rows[2]
    assert f"tokenised text |  |  |  | {tokenized['test']['published']:.1f} |" in rows[3]


def test_the_published_measure_needs_sacremoses_before_an_hour_of_training(
    multi30k: Path, calls: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(published, "sacremoses", None)
    with pytest.raises(ConfigError, match="-m pip install sacremoses"):
        published.moses(["text"], "de")
    run(monkeypatch, quality, "multi30k", multi30k, code=2)
    assert not calls


def test_the_published_measure_takes_tokens_as_they_stand() -> None:
    lines = ["ein mann mit &quot; hut &quot; .", "zwei hunde spielen im schnee ."]
    assert published.published_bleu(lines, lines)["published"] == pytest.approx(100)
    with pytest.raises(DataError, match="has 2 lines but the reference has 1"):
        published.published_bleu(lines, lines[:1])


def test_long_sentences_are_neighbours_in_order() -> None:
    sources, targets = [f"s{n} x" for n in range(40)], [f"t{n} y z" for n in range(40)]
    joined = long_sentences.join(sources, targets, seed=1)
    assert " ".join(src for src, _ in joined) == " ".join(sources)
    assert [src.replace("s", "t").replace("x", "y z") for src, _ in joined] == [tgt for _, tgt in joined]
    assert {len(src.split()) for src, _ in joined} == {2, 4, 6, 8, 10}
    longest = long_sentences.join(["w " * 25] * 9, ["w"] * 9, seed=1)
    assert {len(src.split()) for src, _ in longest} == {25, 50}


def test_bleu_by_length_is_of_the_sentences_of_that_length() -> None:
    sources = ["a b c d e"] * 20 + ["a b c d e f g h i j k"] * 20 + ["a " * 25] * 19
    points = long_sentences.by_length(sources, ["x"] * 20 + sources[20:], sources)
    assert [(point["words"], point["sentences"], round(point["bleu"])) for point in points] == [([1, 10], 20, 0), ([11, 20], 20, 100)]


def test_the_comparison_of_attentions_is_drawn(multi30k: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_sentences, "LEAST", 1)
    for attention in ("none", "dot"):  # a later call keeps the curves of an earlier one
        run(monkeypatch, long_sentences, multi30k, "--attention", attention, "--minutes", 1)
    rows = experiments.read_rows("long_sentences.json")
    assert [row["attention"] for row in rows] == ["none", "dot"]
    assert all(row["points"] and row["minutes"] <= 1 and row["bleu_signature"] for row in rows)
    assert (multi30k / "scripts/results/long_sentences.png").read_bytes().startswith(b"\x89PNG")


JOEYNMT = r'''#!PYTHON
import re, sys
from pathlib import Path

settings = Path(sys.argv[6]).read_text(encoding="utf-8")

def value(name):
    return re.search(rf"\b{name}: (.*)", settings)[1]

run = Path(value("model_dir"))
if sys.argv[5] == "translate":
    assert int(value("validation_freq")) > int(value("logging_freq"))
    assert value("load_model") == f"{run}/best.ckpt"
    print("a notice")
    for line in sys.stdin:
        print(line[:-1])
    sys.exit()
run.mkdir()
valid = Path(value("dev") + ".de").read_text(encoding="utf-8").split("\n")[:-1]
for update, part in ((900, 0), (1000, 5)):
    (run / f"{update}.hyps").write_text("".join(line[part:] + "\n" for line in valid), encoding="utf-8")
(run / "1.ckpt").write_text(f"every {value('validation_freq')} {value('dropout')}")
print("""@10:00,000 - INFO - joeynmt.training - EPOCH 1
@11:30,000 - INFO - joeynmt.prediction - Predicting 20 example(s)...
\rPredicting...:   0%|
@11:40,000 - INFO - joeynmt.prediction - Generation took 10.0000[sec].
@12:00,000 - INFO - joeynmt.training - EPOCH 2
@13:40,000 - INFO - joeynmt.prediction - Predicting 20 example(s)...
@15:00,000 - INFO - joeynmt.training - Interrupt at epoch 2""".replace("@", "2026-11-30 00:"))
'''


@pytest.fixture
def peer(multi30k: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program for JoeyNMT's Python that says and leaves what it does, and a run of ours beside which it is put."""
    program = multi30k / "joey/bin/python"
    program.parent.mkdir(parents=True)
    program.write_text(JOEYNMT.replace("PYTHON", sys.executable), encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setattr(joeynmt, "HOME", multi30k)
    monkeypatch.setattr(joeynmt, "PYTHON", program)
    monkeypatch.setattr(joeynmt, "SIZE", 250)
    experiments.train("mine", *experiments.data_settings("toy", multi30k, "en", "de", experiments.MULTI30K))
    return program


def test_bleu_over_time_is_drawn_beside_that_of_joeynmt(multi30k: Path, peer: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for every in (70, 80):  # what it trained is used again
        run(monkeypatch, bleu_over_time, "runs/mine", "--minutes", 5, "--every", every)
    assert [path.read_text(encoding="utf-8") for path in multi30k.glob("runs/toy-5-minutes-2-cores-dropout-0_3/1.ckpt")] == ["every 70 0.3"]
    (row,) = experiments.read_rows("bleu_over_time.json")
    assert row["corpus"] == "toy" and row["ours"]["test"] is None and "--every 80" in row["command"]
    assert len(row["ours"]["points"]) == 2 and row["ours"]["points"][0] < row["ours"]["points"][1]
    (early, whole), (late, cut) = row["JoeyNMT"]["points"]
    assert row["JoeyNMT"]["trained_minutes"] == 3.5 and row["JoeyNMT"]["hardware"].startswith("2 cores of ")
    assert early == pytest.approx(1.5) and late == pytest.approx(3.5)  # not the 10 seconds of its first validation
    assert whole == pytest.approx(100) and 10 < cut < 95
    assert row["JoeyNMT"]["test"]["bleu"] < 10  # it gave the English back
    assert (multi30k / "scripts/results/bleu_over_time.png").read_bytes().startswith(b"\x89PNG")


def test_what_joeynmt_did_not_finish_is_not_used(
    multi30k: Path, peer: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    peer.write_text(peer.read_text(encoding="utf-8").replace("Interrupt at epoch 2", "Killed"), encoding="utf-8")
    run(monkeypatch, bleu_over_time, "runs/mine", "--minutes", 5, code=2)
    assert "JoeyNMT ended before its time" in capsys.readouterr().err
    assert not experiments.read_rows("bleu_over_time.json") and not list(multi30k.glob("runs/*.finished"))


def test_joeynmt_reads_whole_batches_of_about_equal_lengths() -> None:
    pairs = [("a " * length, "b " * (length % 3)) for length in [*range(1, 131), *range(1, 131)]]
    batched = joeynmt.in_batches(list(pairs))
    assert len(batched) == 4 * joeynmt.BATCH and set(batched) <= set(pairs)
    for start in range(0, len(batched), joeynmt.BATCH):
        lengths = [pair[0].count(" ") for pair in batched[start : start + joeynmt.BATCH]]
        assert max(lengths) - min(lengths) <= joeynmt.BATCH // 2


def test_differences_are_between_rows_of_the_same_seed() -> None:
    rows = [("base", 1, 30.0), ("base", 2, 20.0), ("lr 0.004", 1, 31.0)]
    facts = {"perplexity": 5.0, "minutes": 1.0, "commit": "abc", "signature": "nrefs:1", "hardware": "1 core"}
    shown = ablation.table([{"name": name, "seed": seed, "bleu": bleu} | facts for name, seed, bleu in rows], 3)
    assert "| 25.0 |  |" in shown and "| 31.0 | +1.0 |" in shown
