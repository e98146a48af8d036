"""What several test files share: a small parallel corpus, composed configurations, tokenizers and a model."""

import logging
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from hydra import compose, initialize_config_dir
from hypothesis import settings
from omegaconf import OmegaConf
from toy_corpus import Composer, sentences, write_pairs

from nmt.checkpoint import Checkpoint, save_checkpoint
from nmt.config import TrainConfig
from nmt.schema import config_dir, load
from nmt.tokenizer import train_tokenizers
from nmt.translator import build_model

torch.set_num_threads(1)  # small tensors are fastest on one thread, and sums are then the same on every machine
settings.register_profile("nmt", deadline=None, database=None)  # a busy machine is borne with, and the checkout may be read-only
settings.load_profile("nmt")


@pytest.fixture(autouse=True)
def signals() -> Iterator[None]:
    """Signals as a command at a terminal finds them, also where the tests run in the background or under nohup."""
    wanted = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL, signal.SIGHUP: signal.SIG_DFL}
    before = {number: signal.signal(number, handler) for number, handler in wanted.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture(autouse=True)
def spoken() -> Iterator[None]:
    """The program says what it says by default, whatever a command before has silenced."""
    yield
    logging.getLogger("nmt").setLevel(logging.NOTSET)


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with train (200 pairs), valid (20) and test (20), in English and German."""
    folder = tmp_path_factory.mktemp("corpus")
    for name, count, seed in (("train", 200, 1), ("valid", 20, 2), ("test", 20, 3)):
        write_pairs(folder / name, sentences(count, seed))
    return folder


@pytest.fixture(scope="session")
def settings(corpus: Path) -> list[str]:
    """The overrides of a training that takes a second: the real configuration tree, made small."""
    return [
        "data=files",
        "data.name=tiny",
        "data.src_lang=en",
        "data.tgt_lang=de",
        *(f"data.{split}=[{corpus / split}]" for split in ("train", "valid", "test")),
        "filter.drop_duplicates=false",
        "tokenizer.vocab_size=340",
        "model=tiny",
        "model.embedding_size=16",
        "model.encoder_size=16",
        "model.decoder_size=32",
        "model.attention_size=16",
        "model.readout_size=16",
        "model.init_scale=0.3",
        "batches.max_tokens=200",
        "optimizer.lr=0.01",
        "scheduler=plateau",
        "scheduler.warmup_steps=2",
        "trainer.max_epochs=null",
        "trainer.max_steps=12",
        "trainer.valid_every_steps=6",
        "trainer.save_every_steps=3",
        "trainer.log_every_steps=2",
        "run.device=cpu",
        "run.name=test",
        "precision=fp32",
    ]


@pytest.fixture
def composed(settings: list[str], tmp_path: Path) -> Composer:
    """Compose the real configuration tree with the small settings, further ones on top, and every folder under tmp_path."""

    def build(*overrides: str) -> TrainConfig:
        folders = [f"data.folder={tmp_path / 'data'}", f"run.folder={tmp_path / 'runs'}"]
        with initialize_config_dir(version_base="1.3", config_dir=str(config_dir())):
            values = OmegaConf.to_container(compose("train", [*settings, *folders, *overrides]), resolve=True)
        return load(TrainConfig, values)

    return build


@pytest.fixture(scope="session")
def untrained(settings: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint with weights that are drawn by chance, for what does not depend on what they say."""
    with initialize_config_dir(version_base="1.3", config_dir=str(config_dir())):
        config = load(TrainConfig, OmegaConf.to_container(compose("train", settings), resolve=True))
    tokenizers = train_tokenizers(*zip(*sentences(200, 1), strict=True), config.tokenizer)
    torch.manual_seed(1)
    about = {"step": 3, "data": "x", "scores": {"bleu": 7.0}}
    path = tmp_path_factory.mktemp("untrained") / "model.pt"
    save_checkpoint(path, Checkpoint(config, *tokenizers, build_model(config.model, *tokenizers).state_dict(), about))
    return path


@pytest.fixture(autouse=True)
def one_thread() -> None:
    """Small tensors are fastest on one thread, and sums are then the same on every machine."""
    torch.set_num_threads(1)
