"""The transport of libfa.distributed: buffers of bytes between the ranks of a group, by torch.distributed's isend and irecv.

Every wait ends: with the buffers, or with DistributedError once a rank has failed or has not answered in time. On CPUs a
waiting rank looks for the reason of a failed one in the store of the default group; on GPUs waits are those of the stream, and
torch.distributed's own watchdog ends them.
"""

from __future__ import annotations

import contextlib
import datetime
import queue
import threading
import time
import weakref
from typing import Any, Iterator

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d

from ..errors import DistributedError, InvalidArgument, Unsupported

_POLL = 0.2  # seconds between two looks at the store while a rank waits


class ByteCounter:
    """Bytes that this rank has sent (and received) in the block of count_bytes()."""

    def __init__(self) -> None:
        self.sent = self.received = 0


_counters: list[ByteCounter] = []


@contextlib.contextmanager
def count_bytes() -> Iterator[ByteCounter]:
    """Counts the bytes that libfa.distributed sends and receives on this rank:

    with libfa.distributed.count_bytes() as counted: ...
    counted.sent, counted.received
    """
    counter = ByteCounter()
    _counters.append(counter)
    try:
        yield counter
    finally:
        _counters.remove(counter)


class _Waiter:
    """A thread that waits for transfers, so that the caller's can look for failures: gloo's waits cannot be interrupted."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[Any] = queue.SimpleQueue()
        threading.Thread(target=self._run, name="libfa.distributed", daemon=True).start()

    def _run(self) -> None:
        while True:
            works, timeout, done, errors = self._jobs.get()
            try:
                for work in works:
                    work.wait(datetime.timedelta(seconds=timeout))
            except Exception as error:
                errors.append(error)
            del works
            done.set()

    def submit(self, works: list[Any], timeout: float) -> tuple[threading.Event, list[Exception]]:
        done, errors = threading.Event(), []  # type: tuple[threading.Event, list[Exception]]
        self._jobs.put((works, timeout, done, errors))
        return done, errors


def refuse_tracing() -> None:
    """Raises in a function that torch.compile traces: an exchange between ranks is no part of a graph, unless an operator has it."""
    if torch.compiler.is_compiling():
        raise Unsupported(
            "libfa.distributed: torch.compile sees attention() as an operator, and no other function that exchanges data; call those "
            "outside of compiled functions, or under torch.compiler.disable"
        )


class Wire:
    """A group of torch.distributed as libfa.distributed uses it."""

    def __init__(self, group: Any, generation: int) -> None:
        self._group = weakref.ref(group)  # a group that is destroyed must not live on here
        self.world: int = dist.get_world_size(group)
        self.rank: int = dist.get_rank(group)
        self.ranks = [dist.get_global_rank(group, rank) for rank in range(self.world)]
        self.store = distributed_c10d._get_default_store()
        self.prefix = f"libfa/{group.group_name}/{generation}"
        self.timeout = 0.0
        self.agreed: set[Any] = set()
        self.checks = 0
        self.failure: str | None = None
        self._storeless = False
        self._transfers = 0
        self._waiter: _Waiter | None = None
        self._under_way: list[Transfer] = []  # those of a call that has failed stay: gloo still has their buffers

    @contextlib.contextmanager
    def call(self, timeout: float) -> Iterator[None]:
        """A call of all ranks: an exception in it is the end of the group, and its text goes to all."""
        refuse_tracing()
        if self.failure is not None:
            raise DistributedError(f"group: it failed before ({self.failure}); a new group is needed")
        self.timeout = timeout
        try:
            yield
        except DistributedError:
            raise
        except BaseException as error:
            self.fail(f"rank {self.rank} failed: {type(error).__name__}: {error}")
            raise

    def fail(self, reason: str) -> str:
        """Makes a failure known to all ranks. Returns the reason of the first."""
        if not self._storeless:
            try:
                reason = self.store.compare_set(f"{self.prefix}/failure", "", reason).decode()
            except Exception:
                self._storeless = True
        self.failure = reason
        return reason

    def failed(self) -> str | None:
        """The reason of a rank that has failed, if any has."""
        key = f"{self.prefix}/failure"
        if not self._storeless:
            try:
                return str(self.store.get(key).decode()) if self.store.check([key]) else None
            except Exception:  # its process has ended: the transfer itself fails, or is late
                self._storeless = True
        return None

    def begin(self, sends: dict[int, Any], receives: dict[int, Any]) -> Transfer:
        """Starts to send and to receive buffers (uint8, contiguous) to and from ranks. All ranks make the same calls, in the
        same order; empty buffers are not sent."""
        self._transfers += 1
        tag = self._transfers % 2**15  # so that ranks whose calls differ wait in vain, and take nothing for something else
        group, ops = self._group(), []
        for rank, buffer in sends.items():
            if buffer.numel():
                ops.append(dist.P2POp(dist.isend, buffer, self.ranks[rank], group, tag))
                for counter in _counters:
                    counter.sent += buffer.numel()
        for rank, buffer in receives.items():
            if buffer.numel():
                ops.append(dist.P2POp(dist.irecv, buffer, self.ranks[rank], group, tag))
                for counter in _counters:
                    counter.received += buffer.numel()
        peers = sorted({*sends, *receives})
        try:
            works = dist.batch_isend_irecv(ops) if ops else []
        except Exception as error:
            self._lost(peers, error)
        transfer = Transfer(self, works, [*sends.values(), *receives.values()], peers)
        self._under_way.append(transfer)
        return transfer

    def end(self, transfer: Transfer) -> None:
        """Transfer.wait()."""
        works, peers = transfer.works, transfer.peers
        if works and transfer.buffers[0].device.type == "cpu":
            self._end_on_cpu(works, peers)
        else:
            for work in works:
                work.wait()
        self._under_way.remove(transfer)

    def _end_on_cpu(self, works: list[Any], peers: list[int]) -> None:
        self._waiter = self._waiter or _Waiter()
        done, errors = self._waiter.submit(works, self.timeout)
        until = time.monotonic() + self.timeout + _POLL
        while not done.wait(_POLL):
            reason = self.failed()
            late = time.monotonic() > until
            if reason is not None or late:
                self._waiter = None  # it is still waiting
                self._lost(peers, TimeoutError(f"no answer within {self.timeout} s"), reason)
        if errors:
            self._lost(peers, errors[0])

    def _lost(self, peers: list[int], error: Exception, reason: str | None = None) -> None:
        """Raises the reason why a transfer has failed: that of the rank which failed first, if it has left one."""
        until = time.monotonic() + 5 * _POLL  # a connection may be closed before the store knows why
        while reason is None and time.monotonic() < until:
            reason = self.failed()
            time.sleep(_POLL / 4)
        if reason is None:
            names = ", ".join(map(str, peers))
            text = str(error).split("] ", 1)[-1].split(". This is")[0]
            reason = f"rank {self.rank} lost its transfer with rank {names}: {text} (timeout={self.timeout})"
        reason = self.fail(reason)
        raise DistributedError(reason) from error


class Transfer:
    """Buffers on their way."""

    def __init__(self, wire: Wire, works: list[Any], buffers: list[Any], peers: list[int]) -> None:
        self.wire, self.works, self.buffers, self.peers = wire, works, buffers, peers

    def wait(self) -> None:
        """Waits until received buffers are filled, and sent ones may change: on GPUs the current stream waits."""
        self.wire.end(self)


_wires: weakref.WeakKeyDictionary[Any, Wire] = weakref.WeakKeyDictionary()
_generations: dict[str, int] = {}


def wire_of(group: Any) -> Wire:
    """The wire of a group (None: the default one)."""
    if not dist.is_available() or not dist.is_initialized():
        raise InvalidArgument("group: torch.distributed has no process group; torch.distributed.init_process_group() makes one")
    group = dist.group.WORLD if group is None else group
    if group not in _wires:
        if dist.get_rank(group) < 0:
            raise InvalidArgument("group: this process is not a member of it, and only members may call")
        name = group.group_name
        _generations[name] = _generations.get(name, 0) + 1  # as many on every rank: groups are made by all members
        _wires[group] = Wire(group, _generations[name])
    return _wires[group]


def packed(*tensors: Any) -> Any:
    """The elements of tensors as one buffer of bytes."""
    return torch.cat([x.contiguous().view(-1).view(torch.uint8) for x in tensors])


def unpacked(buffer: Any, *likes: tuple[tuple[int, ...], Any]) -> list[Any]:
    """Views of a buffer's parts, of these shapes and dtypes."""
    found, at = [], 0
    for shape, dtype in likes:
        size = dtype.itemsize
        for length in shape:
            size *= length
        part = buffer[at : at + size]
        if at % dtype.itemsize:  # behind elements of a smaller type
            part = part.clone()
        found.append(part.view(dtype).view(shape))
        at += size
    return found


def nbytes(*likes: tuple[tuple[int, ...], Any]) -> int:
    """The size of a buffer of tensors of these shapes and dtypes."""
    total = 0
    for shape, dtype in likes:
        size = dtype.itemsize
        for length in shape:
            size *= length
        total += size
    return total
