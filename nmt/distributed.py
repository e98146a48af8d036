"""Several processes that train one model, as torchrun starts them: each reads a share of every batch, and all agree on what comes next."""

import datetime
import os
import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

from nmt.errors import ConfigError, TrainingError
from nmt.interruption import Interrupted, Signals

T = TypeVar("T")
PATIENCE = datetime.timedelta(days=1)  # while the first prepares a corpus the others wait; torchrun ends all where one ends


@dataclass(frozen=True)
class Processes:
    """This process among those that train together. Every method but `share` waits until all have called it.

    Attributes:
        rank: 0 to count - 1; 0 is the one that writes.
        count: 1 where this process is alone, and then no method does anything but what it says.
    """

    rank: int = 0
    count: int = 1

    @property
    def first(self) -> bool:
        """Whether this is the one that writes files and talks to people."""
        return self.rank == 0

    @property
    def share(self) -> slice:
        """Which items of anything that is shared out are this process's."""
        return slice(self.rank, None, self.count)

    def largest(self, number: float) -> float:
        """The largest of the processes' numbers."""
        if self.count == 1:
            return number
        numbers = torch.tensor([number], dtype=torch.float64)
        with _all_there():
            dist.all_reduce(numbers, dist.ReduceOp.MAX)
        return float(numbers)

    def gather(self, value: T) -> list[T]:
        """What each process has, in the order of their ranks; it is pickled."""
        if self.count == 1:
            return [value]
        values: list[Any] = [None] * self.count
        with _all_there():
            dist.all_gather_object(values, value)
        return values

    def of_first(self, make: Callable[[], T]) -> T:
        """What `make` gives in the first process, which alone calls it; it is pickled."""
        if self.count == 1:
            return make()
        values: list[Any] = [make() if self.first else None]
        with _all_there():
            dist.broadcast_object_list(values, 0)
        return values[0]  # type: ignore[no-any-return]

    def in_turn(self, make: Callable[[], T]) -> T:
        """What `make` gives in each process; the first calls it before the others, which find what it left on the disk."""
        made = make() if self.first else None
        self.wait()
        return made if self.first else make()  # type: ignore[return-value]

    def together(self, work: Callable[[], T]) -> list[T]:
        """What `work` gives in each process, in the order of their ranks; what it raises in one is raised in all of them."""
        if self.count == 1:
            return [work()]
        result, error = None, None
        try:
            result = work()
        except (Exception, Interrupted) as raised:
            error = raised if _pickles(raised) else RuntimeError(f"{type(raised).__name__}: {raised}")
        outcomes = self.gather((result, error))
        for _, failure in outcomes:
            if failure is not None:
                raise failure
        return [result for result, _ in outcomes]  # type: ignore[misc]

    def sum_gradients(self, model: nn.Module, loss: Tensor) -> Tensor:
        """Give every process the sum of all gradients, bit for bit the same, and return the sum of all losses.

        DistributedDataParallel would send gradients while others are computed. This waits for the last of them, so that a process may
        read its share of a batch in any number of parts, or have none, without the others noticing.

        Args:
            model: with its gradients; None counts as zero.
            loss: a float32 scalar.
        """
        parameters = list(model.parameters())
        for parameter in parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        if self.count == 1:
            return loss
        tensors = [*(parameter.grad for parameter in parameters if parameter.grad is not None), loss]
        flat = torch.cat([tensor.flatten() for tensor in tensors])
        with _all_there():
            dist.all_reduce(flat)
        sums: Sequence[Tensor] = torch.split(flat, [tensor.numel() for tensor in tensors])
        torch._foreach_copy_(tensors[:-1], [part.view_as(tensor) for part, tensor in zip(sums[:-1], tensors[:-1], strict=True)])
        return sums[-1].view_as(loss)

    def check(self, signals: Signals) -> None:
        """Raises Interrupted in all processes, with the same number, if a signal has come to any of them."""
        if number := int(self.largest(signals.number or 0)):
            raise Interrupted(number)

    def wait(self) -> None:
        """Wait for all."""
        self.largest(0)


ALONE = Processes()


@contextmanager
def joined(device: str) -> Iterator[Processes]:
    """The processes that torchrun started, this one among them; or this one alone.

    Args:
        device: run.device; unless it is "cpu", each process of a machine takes a GPU of its own where there are any.

    Raises:
        ConfigError: there are fewer GPUs than processes.
    """
    if not dist.is_torchelastic_launched():
        yield ALONE
        return
    import torch.distributed.nn  # now: imported later, as an optimizer does, its functions keep this group, whose threads then outlive us

    backend = "gloo"
    if device != "cpu" and torch.cuda.is_available():
        processes, gpus = int(os.environ["LOCAL_WORLD_SIZE"]), torch.cuda.device_count()
        if processes > gpus:
            raise ConfigError(f"torchrun started {processes} processes on a machine with {gpus} GPUs: give --nproc-per-node={gpus}")
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        backend = "cpu:gloo,cuda:nccl"
    dist.init_process_group(backend, timeout=PATIENCE)
    try:
        yield Processes(dist.get_rank(), dist.get_world_size())
    except BaseException:
        if backend == "gloo":  # NCCL would wait here for the others, which wait for this process: its end is what torchrun ends them on
            dist.destroy_process_group()
        raise
    dist.destroy_process_group()


@contextmanager
def _all_there() -> Iterator[None]:
    """Say in one line that another process has ended, which has said why."""
    try:
        yield
    except RuntimeError as error:
        raise TrainingError("another process of this training has ended") from error


def _pickles(error: BaseException) -> bool:
    try:
        return type(pickle.loads(pickle.dumps(error))) is type(error)
    except Exception:
        return False
