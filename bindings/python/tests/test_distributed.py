"""libfa.distributed on 2 and 4 processes (gloo): one spawn of ranks runs all cases of a world size.

The long tier is FA_TEST_RANKS="2 4 8": all combinations of schemes, rows and shapes on as many ranks."""
# needs: torch

import multiprocessing
import os
import queue
import socket
import time

import distributed_ranks
import pytest

LONG = [int(x) for x in os.environ.get("FA_TEST_RANKS", "").split()]
NAMES = {world: distributed_ranks.names_of(world, world in LONG) for world in sorted({2, 4, *LONG})}


@pytest.fixture(scope="module")
def reports():
    """By world size: (rank, case) -> traceback or None."""
    context = multiprocessing.get_context("forkserver")
    # Imported once, for all ranks: torch.autograd.grad and checkpoints need it, and it takes seconds.
    context.set_forkserver_preload(["libfa.distributed", "torch._dynamo"])
    found = {}

    def of(world):
        if world in found:
            return found[world]
        found[world] = {}
        results = context.Queue()
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
        ranks = [
            context.Process(target=distributed_ranks.run, args=(rank, world, port, NAMES[world], results), daemon=True)
            for rank in range(world)
        ]
        for rank in ranks:
            rank.start()
        ended, until = 0, time.monotonic() + (600 if LONG else 200)
        while ended < world and time.monotonic() < until:
            try:
                rank, name, error, seconds = results.get(timeout=1)
            except queue.Empty:
                if not any(rank.is_alive() for rank in ranks):
                    break
                continue
            ended += name is None
            found[world][rank, name] = (error, seconds)
        for rank in ranks:
            rank.join(5)
            rank.kill()
        return found[world]

    return of


@pytest.mark.parametrize("world, name", [(world, name) for world, names in NAMES.items() for name in names])
def test_case(reports, name, world):
    found = reports(world)
    absent = [rank for rank in range(world) if (rank, name) not in found]
    errors = {rank: found[rank, name][0] for rank in range(world) if rank not in absent}
    assert not any(errors.values()), "\n".join(f"rank {rank}:\n{text}" for rank, text in errors.items() if text)
    assert not absent, f"ranks {absent} did not end the case"
