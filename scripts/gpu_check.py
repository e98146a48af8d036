#!/usr/bin/env python3
"""What needs a GPU, in under 5 minutes: agreement with the CPU, overfitting, exact continuation, scarce memory, speed.

.venv/bin/python scripts/gpu_check.py [--json FILE]
.venv/bin/python scripts/gpu_check.py --device cpu      tries the script itself where there is no GPU: under a minute, with small sizes
"""

import argparse
import io
import json
import math
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from experiments import ROOT, output_file, script, training_settings
from omegaconf import OmegaConf
from torch import Tensor

from nmt.config import ModelConfig, PrepareConfig
from nmt.data.prepare import prepare
from nmt.device import autocast, random_states, restore_random_states
from nmt.errors import ConfigError
from nmt.model.inference import Inference
from nmt.model.seq2seq import Seq2Seq
from nmt.schema import config_dir, load
from nmt.search import beam_search
from nmt.training import build_trainer

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
PAD, BOS, EOS = 0, 2, 3
SMALL = {"embedding_size": 32, "encoder_size": 32, "decoder_size": 64, "attention_size": 32, "readout_size": 32}
Batch = tuple[Tensor, Tensor, Tensor, Tensor]


def network(name: str, vocab: int, device: str, **changes: object) -> Seq2Seq:
    torch.manual_seed(1)
    values = OmegaConf.to_container(OmegaConf.load(config_dir() / "model" / f"{name}.yaml"))
    assert isinstance(values, dict)
    return Seq2Seq(load(ModelConfig, {**values, **changes}), vocab, vocab, PAD, PAD).to(device)


def batch(vocab: int, sentences: int, length: int, device: str) -> Batch:
    """Random sentences of half to full length, padded."""
    chance = torch.Generator().manual_seed(1)
    lengths = torch.randint(length // 2, length + 1, (sentences,), generator=chance)
    lengths[0] = length
    words = torch.randint(4, vocab, (sentences, length), generator=chance)
    place = torch.arange(length).expand(sentences, -1)
    out = torch.where(place < lengths.unsqueeze(1) - 1, words, torch.where(place == lengths.unsqueeze(1) - 1, EOS, PAD))
    into = torch.cat((torch.full((sentences, 1), BOS), out[:, :-1]), 1).masked_fill(place >= lengths.unsqueeze(1), PAD)
    return out.to(device), lengths.to(device), into.to(device), out.to(device)


def update(model: Seq2Seq, optimizer: torch.optim.Optimizer, scaler: torch.amp.GradScaler, data: Batch, dtype: torch.dtype) -> float:
    device = data[0].device
    with autocast(device, dtype):
        loss, _ = model.loss(*data, 0.1)
    tokens = int((data[3] != PAD).sum())
    scaler.scale(loss / tokens).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
    return float(loss.detach()) / tokens


def trainer(model: Seq2Seq, dtype: torch.dtype, lr: float) -> tuple[torch.optim.Optimizer, torch.amp.GradScaler]:
    device = next(model.parameters()).device.type
    return torch.optim.Adam(model.parameters(), lr=lr, fused=True), torch.amp.GradScaler(device, enabled=dtype == torch.float16)


def agreement(device: str, dtype: torch.dtype) -> float:
    """The largest relative difference of a gradient to the one in float64 on the CPU."""
    gradients = []
    for where, kind in (("cpu", torch.float64), (device, dtype)):
        model = network("tiny", 500, where, dropout=0.0)
        model = model.double() if kind == torch.float64 else model
        with autocast(torch.device(where), kind if kind in (torch.bfloat16, torch.float16) else torch.float32):
            loss, _ = model.loss(*batch(500, 16, 12, where), 0.1)
        (loss / 100).backward()
        gradients.append([p.grad.double().cpu() for p in model.parameters() if p.grad is not None])
    return max(float((a - b).norm() / (a.norm() + 1e-6)) for a, b in zip(*gradients, strict=True))


def overfit(device: str, dtype: torch.dtype) -> float:
    """Negative log-likelihood a token after 200 updates on one batch; label smoothing of 0.1 keeps it near −log 0.9 = 0.105."""
    model, data = network("tiny", 200, device, dropout=0.0, **SMALL), batch(200, 16, 8, device)
    tools = trainer(model, dtype, 0.01)
    for _ in range(200):
        update(model, *tools, data, dtype)
    with torch.no_grad(), autocast(data[0].device, dtype):
        return float(model.loss(*data, 0.0)[1]) / int((data[3] != PAD).sum())


def continuation(device: str, dtype: torch.dtype) -> float:
    """The largest difference of a loss between training on and what a new network does with the saved state, dropout included."""
    model, data = network("tiny", 500, device, **SMALL), batch(500, 16, 12, device)
    optimizer, scaler = trainer(model, dtype, 0.002)
    for _ in range(3):
        update(model, optimizer, scaler, data, dtype)
    file = io.BytesIO()
    torch.save((model.state_dict(), optimizer.state_dict(), scaler.state_dict(), random_states()), file)
    calm = [update(model, optimizer, scaler, data, dtype) for _ in range(5)]
    file.seek(0)
    *saved, states = torch.load(file, map_location="cpu", weights_only=True)
    model = network("tiny", 500, device, **SMALL)
    optimizer, scaler = trainer(model, dtype, 0.002)
    for part, state in zip((model, optimizer, scaler), saved, strict=True):
        part.load_state_dict(state)
    restore_random_states([states])
    return max(abs(a - update(model, optimizer, scaler, data, dtype)) for a in calm)


def halves(device: str, dtype: torch.dtype) -> float:
    """The largest relative difference of a weight after an update, when the memory is just too small for the batch (on a GPU alone)."""
    if device == "cpu":
        return 0.0
    runs = []
    for scarce in (False, True):
        with tempfile.TemporaryDirectory() as folder:
            runs.append(_updated(Path(folder), dtype, scarce))
    return max(float((a - b).abs().max() / (a.abs().max() + 1e-9)) for a, b in zip(*runs, strict=True))


def _updated(folder: Path, dtype: torch.dtype, scarce: bool) -> list[Tensor]:
    """Weights after one update of a trainer on the quick start's text."""
    precision = next(name for name, kind in DTYPES.items() if kind == dtype)
    data = ROOT / "data/quickstart"
    overrides = ["data.name=gpu", "data.src_lang=en", "data.tgt_lang=de", f"data.train=[{data / 'valid'}]", f"data.valid=[{data / 'test'}]"]
    overrides += [
        f"data.folder={folder}",
        f"run.folder={folder}",
        "tokenizer.vocab_size=500",
        "model.dropout=0",
        "batches.max_tokens=16000",
    ]
    config = training_settings(*overrides, f"precision={precision}", "optimizer=adadelta")
    corpus = prepare(PrepareConfig(config.data, config.filter, config.tokenizer))
    one = build_trainer(config, corpus, torch.device("cuda"), folder)
    batches = [next(one.batches)]
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    one.gradient.read([batches[0].rows(slice(0, None, 2))], batches[0].tokens, update=1)
    need = torch.cuda.max_memory_reserved() * 1.2
    one.optimizer.zero_grad(set_to_none=True)
    torch.cuda.empty_cache()
    if scarce:
        torch.cuda.set_per_process_memory_fraction(need / torch.cuda.get_device_properties(0).total_memory)
    try:
        one._update(batches)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    if one.gradient.split != scarce:
        raise RuntimeError("the memory was too small without a reason" if one.gradient.split else "the memory was never too small")
    return [parameter.detach().cpu() for parameter in one.model.parameters()]


def seconds(device: str, work: Callable[[], object], times: int) -> float:
    """The median time of one call, the device waited for."""
    work()
    taken = []
    for _ in range(times):
        if device == "cuda":
            torch.cuda.synchronize()
        began = time.perf_counter()
        work()
        if device == "cuda":
            torch.cuda.synchronize()
        taken.append(time.perf_counter() - began)
    return sorted(taken)[times // 2]


def speed(device: str, name: str, dtype: torch.dtype) -> dict[str, float]:
    """Target tokens a second in training and, with beam 5 and outputs of at most 30, in decoding."""
    vocab, sentences, length, times = (30_000, 256, 30, 7) if device == "cuda" else (1_000, 8, 8, 1)
    model, data = network(name, vocab, device), batch(vocab, sentences, length, device)
    tools = trainer(model, dtype, 1e-4)
    trained = int((data[3] != PAD).sum()) / seconds(device, lambda: update(model, *tools, data, dtype), times)
    inference = Inference(model.eval(), dtype)
    limits = torch.full((sentences,), length, device=device)
    options = {"batch_size": sentences, "max_lengths": limits, "bos_id": BOS, "eos_id": EOS, "forbidden_ids": (PAD, 1, BOS)}

    @torch.inference_mode()
    def decode() -> int:
        with autocast(data[0].device, dtype):
            state = inference.start(*data[:2])
            found = beam_search(inference.step, state, beam_size=5, length_penalty=1.0, **options)  # type: ignore[arg-type]
        return sum(len(best[0].tokens) + 1 for best in found)

    return {"train_tokens_per_second": trained, "decode_tokens_per_second": decode() / seconds(device, decode, min(times, 3))}


@script
def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--json", type=output_file)
    arguments = parser.parse_args()
    device = arguments.device
    if device == "cuda" and not torch.cuda.is_available():
        raise ConfigError("PyTorch sees no GPU here; --device cpu tries the script itself")
    results: dict[str, object] = {"device": torch.cuda.get_device_name() if device == "cuda" else "cpu", "torch": torch.__version__}
    checks = (("gradients agree with float64", agreement, {"fp32": 1e-3, "bf16": 0.1, "fp16": 0.05}),)
    checks += (("one batch is learnt by heart", overfit, dict.fromkeys(DTYPES, 0.15)),)
    checks += (("continuation is exact", continuation, dict.fromkeys(DTYPES, 0.0 if device == "cpu" else 1e-4)),)
    checks += (("a batch that does not fit is read in halves", halves, dict.fromkeys(DTYPES, 0.02)),)
    failed = False
    for told, check, limits in checks:
        for precision, limit in limits.items():
            try:
                value = check(device, DTYPES[precision])
            except RuntimeError as error:  # what one precision cannot do shall not hide what the others can
                print(error, file=sys.stderr)
                value = math.inf
            failed |= not value <= limit
            results[f"{check.__name__}_{precision}"] = value if math.isfinite(value) else None
            print(f"{'ok    ' if value <= limit else 'FAILED'} {told}, {precision}: {value:.2g} (at most {limit:g})", flush=True)
    print(f"\n{'tokens a second':<16}{'precision':<12}{'training':>10}{'beam 5':>10}")
    for name in ("base", "rnnsearch50"):
        for precision in DTYPES if device == "cuda" else ("fp32",):
            measured = speed(device, name, DTYPES[precision])
            results[f"{name}_{precision}"] = measured
            train, decode = measured.values()
            print(f"{name:<16}{precision:<12}{train:>10,.0f}{decode:>10,.0f}", flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    return int(failed)


if __name__ == "__main__":
    main()
