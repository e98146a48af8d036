"""The commands that train: what a run is built of, what it goes on from, and how it ends."""

import dataclasses
import hashlib
import importlib.metadata
import logging
import os
import tempfile
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

import torch

from nmt.checkpoint import Checkpoint, load_checkpoint
from nmt.config import PrepareConfig, RunConfig, TrainConfig
from nmt.data.batches import Batches
from nmt.data.corpus import absolute
from nmt.data.dataset import PreparedCorpus
from nmt.data.prepare import prepare as prepare_corpus
from nmt.device import pick_dtype, prepare_machine, seed_everything
from nmt.distributed import ALONE, Processes, joined
from nmt.errors import SURROGATE, CheckpointError, ConfigError
from nmt.files import held, make_folder
from nmt.interruption import Interrupted, Signals
from nmt.metrics import shown
from nmt.rehearsal import rehearse
from nmt.resume import LAST, inherited, newest, refuse_changes, set_best_aside, text_changed
from nmt.risk import Risk
from nmt.trainer import Trainer
from nmt.translator import Translator, build_model, check_weights
from nmt.validation import Validator
from nmt.verification import UPDATES, shortened, verify

log = logging.getLogger(__name__)
VERIFIED_PAIRS = 32  # of the validation set, for nmt verify-resume


def train(config: TrainConfig) -> int:
    """`nmt train`; returns the exit code, 128 + n after signal n."""
    config = dataclasses.replace(config, data=absolute(config.data))
    folder = _run_folder(config.run)
    with joined(config.run.device) as processes:
        if not processes.first:
            logging.getLogger("nmt").setLevel(logging.ERROR)
        config, device, parent, corpus = _set_up(config, folder, processes)
        folder = make_folder(folder, "give another run.folder= or run.name=")
        with held(folder, "wait for it, or give another run.name=") if processes.first else nullcontext():
            last = processes.in_turn(lambda: newest(folder))
            digests = [corpus.digest]
            if last and not _suits(corpus, last):
                corpus = _prepared(config, last, processes)
                digests.append(corpus.digest)
            trainer = build_trainer(config, corpus, device, folder, processes)
            if last:
                _go_on(trainer, last, digests)
            else:
                if processes.first:
                    set_best_aside(folder, config)
                if parent:
                    trainer.average.move_to(parent.model)
            return _run_to_the_end(trainer, folder)


def _set_up(config: TrainConfig, folder: Path, processes: Processes) -> tuple[TrainConfig, torch.device, Checkpoint | None, PreparedCorpus]:
    """What a run needs before it has a model: all its settings, a device, what it inherits from (see `_parent`), and its text."""
    device = prepare_machine(config.run)
    parent = _parent(config, folder, processes)
    config = inherited(config, parent) if parent else config
    rehearse(config)
    return config, device, parent, _prepared(config, parent, processes)


def _parent(config: TrainConfig, folder: Path, processes: Processes) -> Checkpoint | None:
    """Where a run's network and pieces come from that were another's: what it has saved itself, or else the model that it begins with."""
    if config.finetune_from is None:
        return None
    if last := processes.in_turn(lambda: newest(folder)):
        return last
    parent = load_checkpoint(config.finetune_from)
    check_weights(parent, config.finetune_from)
    log.info("beginning with %s: its weights, network and pieces; the text, and how it trains, are this command's", config.finetune_from)
    return parent


def _prepared(config: TrainConfig, parent: Checkpoint | None, processes: Processes) -> PreparedCorpus:
    """The corpus of a run, in the pieces of `parent` where there is one."""
    wanted = PrepareConfig(config.data, config.filter, config.tokenizer)
    return processes.in_turn(lambda: prepare_corpus(wanted, (parent.src_tokenizer, parent.tgt_tokenizer) if parent else None))


def _suits(corpus: PreparedCorpus, last: Checkpoint) -> bool:
    """Whether a run can go on with a corpus: it is of the same text, and in the pieces that the model knows, which may be learned anew."""
    models = [(owner.src_tokenizer.model, owner.tgt_tokenizer.model) for owner in (corpus, last)]
    return last.about.get("data") == corpus.digest and models[0] == models[1]


def _go_on(trainer: Trainer, last: Checkpoint, digests: Sequence[str]) -> None:
    """Let a trainer go on from what its run has saved."""
    check_weights(last, str(trainer.folder / LAST))
    refuse_changes(trainer.config, last, trainer.folder)
    changed = text_changed(trainer.config, digests, last, trainer.folder)
    try:
        trainer.restore(last)
    except (AttributeError, KeyError, TypeError, ValueError, RuntimeError) as error:
        what = f"{trainer.folder / LAST} holds no state that this version can go on from ({type(error).__name__}: {error})"
        raise CheckpointError(f"{what}: use the version that wrote it, or finetune_from= with another run.name=") from error
    if changed:
        trainer.batches.restart_epoch()
    if last.about.get("valid", trainer.blank.about["valid"]) != trainer.blank.about["valid"]:
        log.warning("warning: the validation text has changed: its scores are compared with none from before")
        trainer.progress.forget_best()
        trainer.progress.without_improvement, trainer.files.kept = 0, []


def _run_to_the_end(trainer: Trainer, folder: Path) -> int:
    """Train until a limit is reached or a signal comes, and say how it ended; the exit code."""
    progress, metric = trainer.progress, trainer.config.trainer.metric
    if progress.finished and (reached := trainer.limit_reached()):
        log.info("%s is finished (%s) at update %d: raise that limit beyond it, or give another run.name=", folder, reached, progress.step)
        return 0
    if progress.step:
        log.info("going on with %s after update %d", folder, progress.step)
    try:
        reached = trainer.run()
    except Interrupted as stop:
        if trainer.files.saved_step == progress.step:
            log.info("%s: saved after update %d; the same command goes on from there", stop, progress.step)
        else:
            told = f"saved is update {trainer.files.saved_step}" if trainer.files.saved_step else "nothing is saved"
            log.error("warning: %s: update %d could not be saved, %s; the same command goes on from there", stop, progress.step, told)
        return 128 + stop.number
    log.info("stopped at update %d by %s", progress.step, reached)
    if (risk_after := trainer.config.trainer.risk_after) is not None and not progress.risk_began:
        log.warning("warning: trainer.risk_after=%d was not reached: there was no minimum risk training", risk_after)
    if progress.best is not None and progress.averaged is None:
        log.info("best %s %s after update %d: %s", metric, shown(progress.best), progress.best_step, folder / "best.pt")
    return 128 + trainer.signals.number if trainer.signals.number else 0  # one that came at the very end ends a --multirun too


def verify_resume(config: TrainConfig) -> int:
    """`nmt verify-resume`; returns the exit code, 1 where a training that was killed did not go on exactly."""
    config = shortened(dataclasses.replace(config, data=absolute(config.data)))
    config, device, _, corpus = _set_up(config, _run_folder(config.run), ALONE)
    few = dataclasses.replace(corpus, valid=corpus.valid[:VERIFIED_PAIRS])
    logging.getLogger("nmt").setLevel(logging.WARNING)
    folder = make_folder(config.run.folder, "give another run.folder=")
    with tempfile.TemporaryDirectory(prefix=".verify-", dir=folder) as temporary:
        found = verify(lambda run: build_trainer(config, few, device, run), Path(temporary))
    if found:
        print(f"NOT exact on {device}: {len(found)} values differ, such as {found[0]}")
        return 1
    print(f"exact on {device}: killed and resumed, {UPDATES} updates leave the same checkpoints, bit for bit, as in one go")
    return 0


def _run_folder(run: RunConfig) -> Path:
    if not run.name or ".." in Path(run.name).parts or Path(run.name).is_absolute():
        raise ConfigError(f"run.name = {run.name!r}: a name for the run's folder in {run.folder} is expected")
    folder = Path(run.folder).expanduser() / run.name
    if SURROGATE.search(str(folder)):
        raise ConfigError(f"run.folder={run.folder!r} with run.name={run.name!r} is no UTF-8, which TensorBoard's files need; give others")
    nearest = next(path for path in (folder, *folder.parents) if path.exists())
    if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
        raise ConfigError(f"cannot make the run's folder {folder}: {nearest} is no folder that can be written to; give another run.folder=")
    return folder


def build_trainer(config: TrainConfig, corpus: PreparedCorpus, device: torch.device, folder: Path, processes: Processes = ALONE) -> Trainer:
    """A trainer at its first update, and a few lines that say what it will do."""
    seed_everything(config.run.seed)
    dtype = pick_dtype(config.precision, device)
    model = build_model(config.model, corpus.src_tokenizer, corpus.tgt_tokenizer).to(device)
    decode = dataclasses.replace(config.decode, beam_size=config.trainer.valid_beam_size, temperature=0.0, top_k=0)
    translator = Translator([model], corpus.src_tokenizer, corpus.tgt_tokenizer, decode, config.data.tgt_lang, device)
    signals = Signals()
    validate = Validator(translator, corpus.valid, config.batches.max_tokens, dtype, config.trainer.samples, processes, signals)
    risk = None if config.trainer.risk_after is None else Risk(model, corpus.src_tokenizer, corpus.tgt_tokenizer, config)
    batches = Batches(corpus.train, corpus.src_tokenizer, corpus.tgt_tokenizer, config.batches, config.run.seed)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    about = {
        "data": corpus.digest,
        "valid": hashlib.sha256(repr(corpus.valid).encode()).hexdigest(),
        "statistics": corpus.statistics,
        "parameters": parameters,
        "versions": _versions(),
    }
    log.info("%s: %s", corpus.folder, described(corpus))
    log.info(
        "%.1f million parameters, %s, %s, %d threads%s",
        parameters / 1e6,
        device,
        str(dtype).removeprefix("torch."),
        torch.get_num_threads(),
        f" in each of {processes.count} processes" if processes.count > 1 else "",
    )
    blank = Checkpoint(config, corpus.src_tokenizer, corpus.tgt_tokenizer, {}, about)
    if not processes.first:
        seed_everything(config.run.seed + processes.rank)  # the same weights, and other masks of dropout
    return Trainer(config, model, batches, validate, blank, folder, dtype, processes, signals, risk)


def _versions() -> dict[str, str]:
    return {name: importlib.metadata.version(name) for name in ("nmt", "torch", "sentencepiece", "sacrebleu")}


def described(corpus: PreparedCorpus) -> str:
    """A prepared corpus in half a line: pairs, lengths, pieces."""
    src, tgt, facts = corpus.src_tokenizer, corpus.tgt_tokenizer, corpus.statistics
    pieces = f"{src.vocab_size:,} joint pieces" if src is tgt else f"{src.vocab_size:,} source and {tgt.vocab_size:,} target pieces"
    lengths = f"{facts['src_mean_tokens']:.1f} and {facts['tgt_mean_tokens']:.1f} pieces a sentence"
    return f"{len(corpus.train):,} pairs, {lengths}, {pieces}, {len(corpus.valid):,} validation pairs"
