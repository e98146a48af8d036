"""Checkpoints: what goes in comes out; what is damaged, foreign or malicious is refused in one line."""

import dataclasses
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from toy_corpus import sentences

from nmt.checkpoint import Checkpoint, digest, load_checkpoint, load_checkpoints, save_checkpoint
from nmt.config import TrainConfig
from nmt.errors import CheckpointError, DataError
from nmt.tokenizer import train_tokenizers


@pytest.fixture
def checkpoint(composed: Callable[..., TrainConfig]) -> Checkpoint:
    config = composed()
    tokenizer, _ = train_tokenizers(*zip(*sentences(200, 1), strict=True), config.tokenizer)
    model = {"weight": torch.arange(6.0).view(2, 3), "half": torch.ones(3, dtype=torch.bfloat16), "number": torch.tensor(3)}
    training = {"step": 3, "names": ["a", None, True], "nested": {0: (0.9, 0.98)}, "empty": torch.zeros(0)}
    return Checkpoint(config, tokenizer, tokenizer, model, {"step": 3}, training)


def test_everything_comes_back(checkpoint: Checkpoint, tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "a.pt", checkpoint)
    back = load_checkpoint(tmp_path / "a.pt")
    assert back.config == checkpoint.config and back.about == checkpoint.about
    assert back.src_tokenizer.model == checkpoint.src_tokenizer.model
    assert back.model.keys() == checkpoint.model.keys()
    assert all(
        torch.equal(back.model[name], tensor) and back.model[name].dtype == tensor.dtype for name, tensor in checkpoint.model.items()
    )
    assert digest(back.training) == digest(checkpoint.training)


def test_plain_torch_opens_it(checkpoint: Checkpoint, tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "a.pt", checkpoint)
    content = torch.load(tmp_path / "a.pt", weights_only=True)
    assert content["src_tokenizer"].dtype == torch.uint8
    assert content["config"]["model"]["encoder_size"] == 16


# What the first checkpoints know.
FIRST = {
    "data": "name src_lang tgt_lang path config revision train valid test field src_field tgt_field folder",
    "filter": "max_pieces max_ratio drop_copies drop_duplicates",
    "tokenizer": "type joint vocab_size character_coverage byte_fallback sample_lines seed",
    "model": "embedding_size encoder_size decoder_size attention attention_size initial_state readout readout_size initialization "
    "init_scale dropout",
    "optimizer": "name lr beta1 beta2 rho eps weight_decay clip_norm",
    "scheduler": "name warmup_steps factor patience min_lr",
    "batches": "max_tokens accumulate",
    "trainer": "max_steps max_epochs max_minutes patience metric valid_every_steps valid_beam_size save_every_steps log_every_steps keep "
    "label_smoothing samples",
    "decode": "beam_size length_penalty max_length_ratio max_length_extra max_source_pieces temperature top_k seed batch_size precision",
    "run": "name folder seed threads device",
}


def first(config: dict[str, Any]) -> dict[str, Any]:
    """The part of a configuration that the first checkpoints know."""
    groups = {name: {key: config[name][key] for key in keys.split()} for name, keys in FIRST.items()}
    return groups | {"precision": config["precision"]}


def test_a_checkpoint_that_lacks_later_settings_loads(checkpoint: Checkpoint, tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "a.pt", checkpoint)
    content = torch.load(tmp_path / "a.pt", weights_only=True)
    content["config"] = first(content["config"])
    torch.save(content | {"digest": digest(content)}, tmp_path / "a.pt")
    back = load_checkpoint(tmp_path / "a.pt")
    assert first(dataclasses.asdict(back.config)) == content["config"]


def test_a_setting_that_every_checkpoint_has_must_not_be_missing(checkpoint: Checkpoint, tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "a.pt", checkpoint)
    content = torch.load(tmp_path / "a.pt", weights_only=True)
    del content["config"]["model"]["dropout"]
    torch.save(content | {"digest": digest(content)}, tmp_path / "a.pt")
    with pytest.raises(CheckpointError, match=r"a\.pt cannot be used by this version: model\.dropout is not set"):
        load_checkpoint(tmp_path / "a.pt")


@pytest.mark.parametrize("model", [torch.zeros(3, dtype=torch.bfloat16), torch.zeros(3, requires_grad=True), torch.zeros(3), "text"])
def test_a_tokenizer_that_is_none_is_refused_in_one_line(checkpoint: Checkpoint, tmp_path: Path, model: object) -> None:
    save_checkpoint(tmp_path / "a.pt", checkpoint)
    content = torch.load(tmp_path / "a.pt", weights_only=True) | {"src_tokenizer": model}
    torch.save(content | {"digest": digest(content)}, tmp_path / "a.pt")
    with pytest.raises(CheckpointError, match=r"a\.pt (cannot be used by this version|is no checkpoint of this program)"):
        load_checkpoint(tmp_path / "a.pt")


def test_one_matrix_under_two_names_is_stored_once(checkpoint: Checkpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.Tensor, "cpu", torch.Tensor.clone)  # as a move from another device does
    matrix = torch.randn(100, 1000)
    sizes = []
    for model in ({"a": matrix}, {"a": matrix, "b": matrix.detach(), "view": matrix[0]}):
        save_checkpoint(tmp_path / "a.pt", dataclasses.replace(checkpoint, model=model))
        sizes.append((tmp_path / "a.pt").stat().st_size)
    assert sizes[1] - sizes[0] < 10_000
    back = load_checkpoint(tmp_path / "a.pt").model
    assert torch.equal(back["a"], matrix) and torch.equal(back["b"], matrix) and torch.equal(back["view"], matrix[0])


def test_checkpoints_belong_together_by_languages_and_tokenizers(checkpoint: Checkpoint, tmp_path: Path) -> None:
    config = checkpoint.config
    other, _ = train_tokenizers(["other text"], ["und anderer"], dataclasses.replace(config.tokenizer, vocab_size=280))
    kinds = {
        "first.pt": checkpoint,
        "model.pt": dataclasses.replace(
            checkpoint, model={}, config=dataclasses.replace(config, model=dataclasses.replace(config.model, encoder_size=7))
        ),
        "lang.pt": dataclasses.replace(
            checkpoint, config=dataclasses.replace(config, data=dataclasses.replace(config.data, src_lang="de", tgt_lang="en"))
        ),
        "src.pt": dataclasses.replace(checkpoint, src_tokenizer=other),
        "tgt.pt": dataclasses.replace(checkpoint, tgt_tokenizer=other),
    }
    for name, one in kinds.items():
        save_checkpoint(tmp_path / name, one)
    first = tmp_path / "first.pt"
    assert [one.config for one in load_checkpoints([first, tmp_path / "model.pt"])] == [config, kinds["model.pt"].config]
    for name in ("lang.pt", "src.pt", "tgt.pt"):
        with pytest.raises(CheckpointError, match=rf"{name} and .*first\.pt cannot translate together"):
            load_checkpoints([first, tmp_path / name])
    with pytest.raises(CheckpointError, match="no checkpoint is named"):
        load_checkpoints([])


@pytest.mark.parametrize("cut", [0, 1, 100, 5000, -1])
def test_a_cut_file_is_refused(checkpoint: Checkpoint, tmp_path: Path, cut: int) -> None:
    save_checkpoint(tmp_path / "a.pt", checkpoint)
    whole = (tmp_path / "a.pt").read_bytes()
    (tmp_path / "a.pt").write_bytes(whole[:cut])
    with pytest.raises(CheckpointError, match=r"a\.pt"):
        load_checkpoint(tmp_path / "a.pt")


@given(content=st.binary(max_size=40))
@example(content=b"junk")
def test_any_other_file_is_refused(content: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("any") / "a.pt"
    for start in (b"", b"PK"):
        path.write_bytes(start + content)
        with pytest.raises(CheckpointError, match=r"a\.pt is (no checkpoint|incomplete or damaged)"):
            load_checkpoint(path)


def test_flipped_bytes_are_found_wherever_they_are(checkpoint: Checkpoint, tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    save_checkpoint(path, checkpoint)
    whole = path.read_bytes()
    for start in range(0, len(whole), max(1, len(whole) // 60)):
        path.write_bytes(whole[:start] + bytes(byte ^ 255 for byte in whole[start : start + 64]) + whole[start + 64 :])
        try:
            back = load_checkpoint(path)  # padding between the parts of the file means nothing
        except CheckpointError:
            continue
        assert digest(back.model) == digest(checkpoint.model) and digest(back.training) == digest(checkpoint.training)
        assert back.src_tokenizer.model == checkpoint.src_tokenizer.model and back.config == checkpoint.config


class Malicious:
    def __init__(self, marker: str) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Callable[[str], int], tuple[str]]:
        return os.system, (f"touch {self.marker}",)


def test_a_malicious_file_runs_nothing(tmp_path: Path) -> None:
    for name, write in (
        ("pickle", lambda path, value: path.write_bytes(pickle.dumps(value))),
        ("torch", lambda path, value: torch.save(value, path)),
    ):
        write(tmp_path / name, {"format": 1, "x": Malicious(str(tmp_path / "marker"))})
        with pytest.raises(CheckpointError, match="is no checkpoint of this program"):
            load_checkpoint(tmp_path / name)
    assert not (tmp_path / "marker").exists()


def test_another_format_a_foreign_file_and_a_missing_one_are_told_apart(checkpoint: Checkpoint, tmp_path: Path) -> None:
    torch.save({"format": 99}, tmp_path / "new.pt")
    torch.save([1, 2], tmp_path / "list.pt")
    (tmp_path / "text.pt").write_text("hello\n" * 100)
    for name, message in (
        ("new.pt", "has checkpoint format 99"),
        ("list.pt", "does not say its format"),
        ("text.pt", r"text\.pt is no checkpoint"),
        ("gone.pt", r"there is no checkpoint .*gone\.pt; .* has list.pt, new.pt, text.pt"),
    ):
        with pytest.raises(CheckpointError, match=message):
            load_checkpoint(tmp_path / name)
    with pytest.raises(CheckpointError, match="is a folder"):
        load_checkpoint(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(CheckpointError, match="is no regular file"):
        load_checkpoint(tmp_path / "pipe")


def test_a_failed_save_keeps_the_old_one(checkpoint: Checkpoint, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there is no folder"):
        save_checkpoint(tmp_path / "no" / "a.pt", checkpoint)
    with pytest.raises(TypeError, match="tensors and plain data"):
        save_checkpoint(
            tmp_path / "a.pt", Checkpoint(checkpoint.config, checkpoint.src_tokenizer, checkpoint.tgt_tokenizer, {}, {"x": object()})
        )
    assert not list(tmp_path.iterdir())
