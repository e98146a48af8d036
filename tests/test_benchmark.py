"""scripts/benchmark.py: its arithmetic, its textbook, and that every figure is there; what it measures is not judged here."""

import importlib
import sys
from argparse import Namespace
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from nmt.config import TrainConfig
from nmt.model.inference import Inference

SCRIPTS = Path(__file__).parents[1] / "scripts"
sys.path.append(str(SCRIPTS))  # stays: the process whose memory is measured gets it too
benchmark, training, parts, scaling, textbook, decoding = map(
    importlib.import_module,
    ("benchmark", "benchmark_training", "benchmark_parts", "benchmark_scaling", "textbook", "benchmark_decoding"),
)
SMALL = {"embedding_size": 8, "encoder_size": 8, "decoder_size": 12, "attention_size": 8, "readout_size": 8}


@pytest.fixture
def small() -> TrainConfig:
    config: TrainConfig = benchmark.settings("peers")
    return replace(config, model=replace(config.model, **SMALL), tokenizer=replace(config.tokenizer, vocab_size=340))


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "GEMM", (8, 8, 8))
    monkeypatch.setattr(parts, "TYPICAL", (4, 5))
    monkeypatch.setattr(benchmark, "SENTENCES", 20)
    monkeypatch.setattr(decoding, "LATENCY_SENTENCES", 3)


def test_an_update_at_the_peers_sizes_costs_63_gflop() -> None:
    config = benchmark.settings("peers")
    batch = training.random_batch(64, 15, 8000)
    flop = training.arithmetic(config.model, 8000, batch)
    assert sum(flop.values()) == pytest.approx(63e9, rel=0.01)
    assert flop["vocabulary"] == 6 * 960 * 512 * (512 + 256 + 1024 + 8000)
    shorter = replace(batch, tgt_lengths=batch.tgt_lengths - 5, tokens=batch.tokens - 5 * 64)  # 5 positions of padding
    assert training.arithmetic(config.model, 8000, shorter)["vocabulary"] == pytest.approx(flop["vocabulary"] * 2 / 3)
    deeper = training.arithmetic(replace(config.model, cell="conditional", transitions=2, encoder_layers=2), 8000, batch)
    assert deeper["unroll"] - flop["unroll"] == 6 * 960 * 3 * (3 * 512 * 512)  # three more GRUs that read a state
    assert deeper["encoder"] - flop["encoder"] == 6 * 960 * 2 * 3 * 512 * (1024 + 512)


def test_the_default_sizes_are_those_of_base_yaml_without_dropout() -> None:
    config = benchmark.settings("default")
    assert config.model.readout == "maxout" and config.model.dropout == 0


@pytest.mark.parametrize("readout", ["tanh", "maxout"])
def test_the_textbook_learns_and_ignores_padding(small: TrainConfig, readout: str) -> None:
    config = replace(small, model=replace(small.model, readout=readout))
    system, batch = training.build_system("textbook", config, 40, 0), training.random_batch(8, 6, 40)
    wider = replace(batch, **{name: torch.nn.functional.pad(getattr(batch, name), (0, 3)) for name in ("src", "tgt_in", "tgt_out")})
    before = system.loss(batch).item()
    assert system.loss(wider).item() == pytest.approx(before, rel=1e-5)
    for _ in range(60):
        system.update(batch)
    assert system.loss(batch).item() < before - 0.5


def test_every_figure_of_a_run_is_there(small: TrainConfig, corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmark, "peak_memory_mb", lambda *_: 1.0)
    text = benchmark.read_corpus(corpus, "en", "de", small.tokenizer, 1)
    assert all(len(batch.src) == 20 for batch in text.batches) and len(text.batches) == 10 and 0 <= text.padding < 0.2
    figures = benchmark.measure(small, text, 2, 3)
    for system in ("fp32", "bf16", "textbook"):
        keys = ("tokens_per_second", "fraction_of_limit", "peak_memory_mb")
        assert all(figures["train"][system][key] > 0 for key in keys) and len(figures["train"][system]["quartiles"]) == 2
    for how in ("greedy", "beam5"):
        for precision in ("fp32", "auto"):
            one = figures["decode"][how][precision]
            assert one["tokens_per_second"] == pytest.approx(3 * one["sentences_per_second"])  # forced to 3 tokens
    assert figures["latency_ms"] > 0 and figures["padding"] == text.padding and figures["gemm_gflops"] > 0
    assert set(figures["train"]["fp32"]["parts"]) == {"encoder", "unroll", "vocabulary", "optimizer"}
    assert all(word in benchmark.table(figures) for word in ("textbook", "beam5", "vocabulary", "GFLOP/s"))
    assert {"machine", "sizes", "commit", "command"} == set(benchmark.about(Namespace(scaling=False, sizes="peers")))


def test_natural_length_ends_with_the_end_symbol_or_the_limit(small: TrainConfig, corpus: Path) -> None:
    text = benchmark.read_corpus(corpus, "en", "de", small.tokenizer, 1)
    model = training.build_system("fp32", small, text.tokenizer.vocab_size, text.tokenizer.pad_id).model.eval()
    inference = Inference(model, torch.float32)
    lines = text.lines[:4]
    limit = sum(2 * len(ids) + 11 for ids in text.tokenizer.encode(lines))
    texts, tokens = decoding.translate(inference, text.tokenizer, lines, small.decode, 2, None)
    assert len(texts) == 4 and 4 <= tokens <= limit
    assert decoding.translate(inference, text.tokenizer, lines, small.decode, 2, 7)[1] == 28


def test_memory_is_that_of_another_process(small: TrainConfig) -> None:
    weighed = training.peak_memory_mb("textbook", small, 40, 0, [training.random_batch(4, 5, 40)] * 2)
    assert 50 < weighed < 5000


def test_a_corpus_that_is_none_is_said_in_one_line(corpus: Path, tmp_path: Path, small: TrainConfig) -> None:
    for name, lines in (("train.en", 3), ("train.de", 2)):
        (tmp_path / name).write_text("x\n" * lines, encoding="utf-8")
    with pytest.raises(benchmark.DataError, match=r"train.en has 3 lines, train.de has 2"):
        benchmark.read_corpus(tmp_path, "en", "de", small.tokenizer, 1)


@pytest.mark.parametrize(("given", "message"), [("--corpus nofolder", "there is no file nofolder/train.en"), ("--updates 0", "at least 1")])
def test_a_mistake_on_the_command_line_is_one_line_and_code_2(
    given: str, message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["benchmark.py", *given.split()])
    with pytest.raises(SystemExit) as ended:
        benchmark.main()
    assert ended.value.code == 2 and message in capsys.readouterr().err.strip().split("\n")[-1]


def test_scaling_varies_one_size_at_a_time_and_is_drawn(small: TrainConfig, tmp_path: Path) -> None:
    base = {"length": 4, "batch": 2, "vocabulary": 20, "hidden": 8}
    measured = scaling.measure_scaling(small, {"length": (4, 8), "hidden": (8, 16)}, base)
    assert [point["value"] for point in measured["hidden"]] == [8, 16]
    assert measured["length"][0] | {"value": 8} == measured["hidden"][0]  # the base is measured once
    assert measured["length"][1]["fp32"] > 0 and "times faster" in scaling.scaling_table(measured)
    for name in ("a.svg", "b.svg", "c.png"):
        scaling.draw_scaling(tmp_path / name, measured)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    assert (tmp_path / "c.png").read_bytes().startswith(b"\x89PNG")
