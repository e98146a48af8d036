"""Two processes that torchrun starts train as one does, whoever goes on."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from nmt.checkpoint import load_checkpoint
from nmt.cli import main
from nmt.distributed import joined

pytestmark = pytest.mark.timeout(1200)  # a test starts up to nine interpreters, each of which imports PyTorch

SETTINGS = ["model.dropout=0", "trainer.keep=2", "trainer.average=2", "trainer.valid_every_steps=4", "trainer.max_steps=10"]


def torchrun(*arguments: str, program: Sequence[str] = ("-m", "nmt")) -> "subprocess.Popen[str]":
    launcher = ["torch.distributed.run", "--standalone", "--local-addr=127.0.0.1", "--nproc-per-node=2"]  # a host may not know its name
    command = [sys.executable, "-m", *launcher, *program, "train", *arguments]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"})


def validations(run: str) -> list[dict[str, float]]:
    rows = [json.loads(line) for line in Path("runs", run, "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    return [row for row in rows if "valid_loss" in row]


@pytest.fixture(autouse=True)
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_two_processes_train_as_one_does_and_one_goes_on_where_they_stopped(settings: list[str]) -> None:
    settings = [*settings, *SETTINGS]
    assert main(["train", *settings, "run.name=one"]) == 0
    with torchrun(*settings, "run.name=two") as two:
        told = two.communicate()[1]
    assert two.returncode == 0, told
    assert told.count("stopped at update 10") == 1 and "in each of 2 processes" in told
    assert main(["train", *settings, "run.name=mixed", "trainer.max_steps=4"]) == 0
    with torchrun(*settings, "run.name=mixed", "trainer.max_steps=8") as mixed:
        told = mixed.communicate()[1]
    assert mixed.returncode == 0, told
    assert main(["train", *settings, "run.name=mixed"]) == 0
    for name in ("two", "mixed"):
        for one, other in zip(validations("one"), validations(name), strict=True):
            assert other["valid_loss"] == pytest.approx(one["valid_loss"], rel=1e-4) and other["step"] == one["step"]
        single, shared = (load_checkpoint(Path("runs", run, "last.pt")) for run in ("one", name))
        assert single.about["step"] == shared.about["step"] and single.about["tgt_tokens"] == shared.about["tgt_tokens"]
        torch.testing.assert_close(single.model, shared.model, atol=1e-4, rtol=1e-3)
    assert len(load_checkpoint("runs/two/last.pt").training["random_others"]) == 1


def test_a_signal_ends_both_with_one_checkpoint_and_they_go_on_exactly(settings: list[str]) -> None:
    settings = [*settings, *SETTINGS, "model.dropout=0.3", "trainer.max_steps=60"]
    with torchrun(*settings, "run.name=stopped") as stopped:
        while not Path("runs/stopped/last.pt").exists() and stopped.poll() is None:
            time.sleep(0.05)
        stopped.send_signal(signal.SIGTERM)
        told = stopped.communicate()[1]
    assert stopped.returncode != 0 and told.count("saved after update") == 1, told
    for name in ("stopped", "calm"):
        with torchrun(*settings, f"run.name={name}") as run:
            told = run.communicate()[1]
        assert run.returncode == 0, told
    calm, stopped_ = (load_checkpoint(f"runs/{name}/last.pt") for name in ("calm", "stopped"))
    torch.testing.assert_close(calm.model, stopped_.model, atol=0, rtol=0)


def test_a_signal_to_one_between_the_batches_of_an_update_ends_both_before_it(settings: list[str]) -> None:
    """Also after one of them alone has read its share once more, in halves."""
    program = Path("signalled.py")
    program.write_text("""
import os, signal, sys
import torch
from nmt.cli import main
from nmt.model.seq2seq import Seq2Seq

rank, calls, loss = int(os.environ["RANK"]), 0, Seq2Seq.loss

def disturbed(model, *arguments):
    global calls
    calls += model.training
    if model.training and rank == 0 and calls == 5:
        raise torch.OutOfMemoryError("in the second batch of the second update")
    if model.training and rank == 1 and calls == 8 and "stopped" in " ".join(sys.argv):
        signal.raise_signal(signal.SIGTERM)  # in the second batch of the third
    return loss(model, *arguments)

Seq2Seq.loss = disturbed
sys.exit(main(sys.argv[1:]))
""")
    settings = [*settings, "model.dropout=0.3", "batches.accumulate=3", "trainer.max_steps=5", "run.device=cpu"]
    with torchrun(*settings, "run.name=stopped", program=[str(program)]) as stopped:
        told = stopped.communicate()[1]
    assert stopped.returncode != 0 and "saved after update 2" in told and "in halves" in told, told
    with torchrun(*settings, "run.name=stopped") as stopped, torchrun(*settings, "run.name=calm", program=[str(program)]) as calm:
        told = [run.communicate()[1] for run in (stopped, calm)]
    assert stopped.returncode == calm.returncode == 0, told
    models = [load_checkpoint(f"runs/{name}/last.pt").model for name in ("calm", "stopped")]
    torch.testing.assert_close(*models, atol=0, rtol=0)


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="the names of threads are read from Linux")
def test_no_thread_of_the_group_outlives_it() -> None:
    """Where one does, Python may end while it drops a tensor, and the process is aborted after a training that went well."""
    program = """
import contextlib, time
from pathlib import Path
import torch
from nmt.distributed import joined

def gloo():
    count = 0
    for thread in Path("/proc/self/task").glob("*/comm"):
        with contextlib.suppress(OSError):  # it ends just now
            count += "gloo" in thread.read_text()
    return count

with joined("cpu"):
    torch.optim.AdamW([torch.zeros(1, requires_grad=True)]).step()  # imports the rest of PyTorch
    inside = gloo()
for _ in range(100):  # the system lists a thread for a moment after it was waited for
    time.sleep(0.05 * (gloo() > 0))
print(inside > 0, gloo())
"""
    launched = {"TORCHELASTIC_RUN_ID": "1", "RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
    done = subprocess.run([sys.executable, "-c", program], env=os.environ | launched, text=True, capture_output=True)
    assert done.stdout.split() == ["True", "0"], done.stderr


@pytest.mark.parametrize("gpus", [0, 1])
def test_a_process_that_fails_does_not_wait_for_the_others(monkeypatch: pytest.MonkeyPatch, gpus: int) -> None:
    """NCCL's group ends where all end it; that of gloo has threads, which must not outlive it."""
    calls: list[str] = []
    monkeypatch.setattr(torch.distributed, "is_torchelastic_launched", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpus > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    monkeypatch.setattr(torch.cuda, "set_device", lambda number: None)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "1")
    monkeypatch.setenv("LOCAL_RANK", "0")
    for name, result in (("init_process_group", None), ("get_rank", 0), ("get_world_size", 1), ("destroy_process_group", None)):
        monkeypatch.setattr(torch.distributed, name, lambda *_, name=name, result=result, **__: calls.append(name) or result)
    with joined("auto"):
        assert "destroy_process_group" not in calls
    assert calls.pop() == "destroy_process_group"
    with pytest.raises(ZeroDivisionError), joined("auto"):
        raise ZeroDivisionError
    assert ("destroy_process_group" in calls) == (gpus == 0)


LATE = """
import os, sys, time
import nmt.cli

if os.environ["RANK"] == sys.argv.pop():
    time.sleep(3)  # the other process has long found the mistake
if "alone" in sys.argv:
    sys.argv.remove("alone")
    nmt.cli.SILENCE, nmt.cli._run = 0.5, (nmt.cli._run if os.environ["RANK"] == "1" else lambda arguments: time.sleep(60))
sys.exit(nmt.cli.main(sys.argv[1:]))
"""


@pytest.mark.parametrize("late", ["0", "alone 1"])
def test_a_mistake_is_told_once(settings: list[str], late: str) -> None:
    """Also where the first process finds it last, and where another finds it alone."""
    Path("late.py").write_text(LATE, encoding="utf-8")
    with torchrun(*settings, "model.cell=lstm", *late.split(), program=["late.py"]) as wrong:
        told = wrong.communicate()[1]
    assert wrong.returncode != 0 and told.count("nmt: model.cell = 'lstm'") == 1, told
