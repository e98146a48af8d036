"""Where and in which precision the arithmetic happens, and the seeds that it starts from."""

import ctypes
import random
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import torch

from nmt.config import MachineConfig, Precision, RunConfig
from nmt.errors import ConfigError

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # of glibc's malloc.h


def pick_device(name: str) -> torch.device:
    """The device called "cpu" or "cuda"; "auto" is the GPU where there is one.

    Raises:
        ConfigError: "cuda" was asked for and PyTorch sees no GPU.
    """
    if name == "cuda" and not torch.cuda.is_available():
        raise ConfigError("run.device = 'cuda': PyTorch sees no GPU here; use run.device=cpu, or install a CUDA build of torch")
    return torch.device("cuda" if name == "cuda" or (name == "auto" and torch.cuda.is_available()) else "cpu")


def pick_dtype(precision: Precision, device: torch.device) -> torch.dtype:
    """The type of the matrix products; "auto" is bfloat16 where the hardware has it natively, since emulation is slower than float32."""
    if precision == "auto":
        return torch.bfloat16 if _has_bfloat16(device) else torch.float32
    return {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[precision]


def autocast(device: torch.device, dtype: torch.dtype) -> AbstractContextManager[None]:
    """Matrix products in `dtype` inside this context; master weights, softmax and loss stay float32."""
    return torch.autocast(device.type, dtype=dtype, enabled=dtype != torch.float32)


def prepare_machine(run: RunConfig | MachineConfig) -> torch.device:
    """Make ready what the settings of a run or a command allow, and return the device."""
    set_threads(run.threads)
    keep_freed_memory()
    return pick_device(run.device)


def set_threads(threads: int | None) -> None:
    """Use this many CPU threads; None leaves PyTorch's own choice, one a core."""
    if threads is not None:
        torch.set_num_threads(threads)


def keep_freed_memory() -> None:
    """Let freed memory stay with this process, on Linux: giving back and asking for the buffers of every update costs a thirtieth of it."""
    if sys.platform == "linux" and hasattr(libc := ctypes.CDLL(None), "mallopt"):
        libc.mallopt(_M_MMAP_THRESHOLD, 2**30)
        libc.mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)


def seed_everything(seed: int) -> None:
    """Seed Python, NumPy and PyTorch (CPU and CUDA)."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)


def random_states() -> dict[str, Any]:
    """The states of all random generators as tensors and plain data."""
    version, numbers, gauss = random.getstate()
    name, keys, position, has_gauss, cached = np.random.get_state(legacy=True)
    return {
        "python": [version, list(numbers), gauss],
        "numpy": [name, [int(key) for key in keys], position, has_gauss, cached],
        "torch": torch.get_rng_state(),
        "cuda": [torch.cuda.get_rng_state()] if torch.cuda.is_available() else [],  # of the GPU that this process uses
    }


def restore_random_states(saved: Sequence[dict[str, Any]], rank: int = 0) -> None:
    """Put all random generators back to the states that the process of a rank has saved; one that was not there keeps its own.

    The state of a GPU is left out where there is none.
    """
    if rank >= len(saved):
        return
    states = saved[rank]
    version, numbers, gauss = states["python"]
    random.setstate((version, tuple(numbers), gauss))
    name, keys, position, has_gauss, cached = states["numpy"]
    np.random.set_state((name, np.array(keys, dtype=np.uint32), position, has_gauss, cached))
    torch.set_rng_state(states["torch"])
    if torch.cuda.is_available() and states["cuda"]:
        torch.cuda.set_rng_state(states["cuda"][0])


def _has_bfloat16(device: torch.device) -> bool:
    if device.type == "cuda":
        return torch.cuda.get_device_capability(device) >= (8, 0)
    capability = torch.backends.cpu.get_cpu_capability()
    if capability in ("DEFAULT", "AVX2"):
        return False
    return torch.cpu._is_avx512_bf16_supported() if capability.startswith("AVX") else torch.ops.mkldnn._is_mkldnn_bf16_supported()
