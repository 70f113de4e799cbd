"""Kernels that numba-cuda compiles and launches, each compared with numpy: numba_kernels.py NAME."""

import sys
import warnings

import numpy as np
from numba import config, cuda, float32, int32

THREADS = 128
rng = np.random.default_rng(1)


@cuda.jit(cache=True)
def reduce_kernel(x, sums):
    part = cuda.shared.array(THREADS, float32)
    lane = cuda.threadIdx.x
    total = float32(0)
    for at in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        total += x[at]
    part[lane] = total
    cuda.syncthreads()
    half = THREADS // 2
    while half > 0:
        if lane < half:
            part[lane] += part[lane + half]
        cuda.syncthreads()
        half //= 2
    if lane == 0:
        sums[cuda.blockIdx.x] = part[0]


def reduce():
    """A sum by halves in shared memory."""
    x = rng.integers(-50, 50, 5000).astype(np.float32)
    sums = cuda.device_array(6, np.float32)
    reduce_kernel[6, THREADS](cuda.to_device(x), sums)
    return sums.copy_to_host().sum() == x.sum()


@cuda.jit(cache=True)
def histogram_kernel(x, counts):
    mine = cuda.shared.array(64, int32)
    if cuda.threadIdx.x < 64:
        mine[cuda.threadIdx.x] = 0
    cuda.syncthreads()
    for at in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        cuda.atomic.add(mine, x[at], 1)
    cuda.syncthreads()
    if cuda.threadIdx.x < 64:
        cuda.atomic.add(counts, cuda.threadIdx.x, mine[cuda.threadIdx.x])


def histogram():
    """Atomics, to shared memory and then to global memory."""
    x = rng.integers(0, 64, 4000, dtype=np.int32)
    counts = cuda.to_device(np.zeros(64, np.int32))
    histogram_kernel[4, THREADS](cuda.to_device(x), counts)
    return np.array_equal(counts.copy_to_host(), np.bincount(x, minlength=64))


@cuda.jit(cache=True)
def matmul_kernel(a, b, c):
    tile_a = cuda.shared.array((16, 16), float32)
    tile_b = cuda.shared.array((16, 16), float32)
    column, row = cuda.grid(2)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    total = float32(0)
    for step in range((a.shape[1] + 15) // 16):
        tile_a[y, x] = a[row, step * 16 + x] if row < a.shape[0] and step * 16 + x < a.shape[1] else float32(0)
        tile_b[y, x] = b[step * 16 + y, column] if step * 16 + y < b.shape[0] and column < b.shape[1] else float32(0)
        cuda.syncthreads()
        for k in range(16):
            total += tile_a[y, k] * tile_b[k, x]
        cuda.syncthreads()
    if row < c.shape[0] and column < c.shape[1]:
        c[row, column] = total


def matmul():
    """Tiles in shared memory; sizes that 16 does not divide."""
    a, b = (rng.integers(-8, 8, size).astype(np.float32) for size in ((50, 70), (70, 45)))
    c = cuda.device_array((50, 45), np.float32)
    matmul_kernel[(3, 4), (16, 16)](cuda.to_device(a), cuda.to_device(b), c)
    return np.array_equal(c.copy_to_host(), a @ b)


@cuda.jit(cache=True)
def scan_kernel(x, sums):
    totals = cuda.shared.array(4, int32)
    at, lane, warp = cuda.threadIdx.x, cuda.threadIdx.x % 32, cuda.threadIdx.x // 32
    value = x[at]
    step = 1
    while step < 32:
        below = cuda.shfl_up_sync(-1, value, step)
        if lane >= step:
            value += below
        step *= 2
    if lane == 31:
        totals[warp] = value
    cuda.syncthreads()
    for before in range(warp):
        value += totals[before]
    sums[at] = value


def scan():
    """Running sums by shuffles within warps."""
    x = rng.integers(-9, 9, THREADS, dtype=np.int32)
    sums = cuda.device_array(THREADS, np.int32)
    scan_kernel[1, THREADS](cuda.to_device(x), sums)
    return np.array_equal(sums.copy_to_host(), x.cumsum())


@cuda.jit(cache=True)
def sort_kernel(x):
    mine = cuda.local.array(24, int32)
    row = cuda.grid(1)
    for at in range(24):
        value = x[row, at]
        to = at
        while to > 0 and mine[to - 1] > value:
            mine[to] = mine[to - 1]
            to -= 1
        mine[to] = value
    for at in range(24):
        x[row, at] = mine[at]


def sort():
    """Each thread sorts a row in local memory: lanes diverge."""
    x = rng.integers(-99, 99, (64, 24), dtype=np.int32)
    rows = cuda.to_device(x)
    sort_kernel[2, 32](rows)
    return np.array_equal(rows.copy_to_host(), np.sort(x))


@cuda.jit(cache=True)
def wave_kernel(rows, arrived):
    column = cuda.grid(1)
    for row in range(1, rows.shape[0]):
        rows[row, column] = rows[row - 1, rows.shape[1] - column - 1] + 1
        cuda.threadfence()
        cuda.syncthreads()
        if cuda.threadIdx.x == 0:
            cuda.atomic.add(arrived, 0, 1)
            while cuda.atomic.add(arrived, 0, 0) < row * cuda.gridDim.x:
                pass
            cuda.threadfence()
        cuda.syncthreads()


def wave():
    """Blocks that wait for one another: each row needs the values that all of them wrote before."""
    x = np.zeros((12, 4 * THREADS), np.int32)
    x[0] = np.arange(x.shape[1])
    rows = cuda.to_device(x)
    wave_kernel[4, THREADS](rows, cuda.to_device(np.zeros(1, np.int32)))
    for row in range(1, 12):
        x[row] = x[row - 1, ::-1] + 1
    return np.array_equal(rows.copy_to_host(), x)


PROGRAMS = {one.__name__: one for one in (reduce, histogram, matmul, scan, sort, wave)}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    config.CUDA_LOW_OCCUPANCY_WARNINGS = 0
    right = PROGRAMS[sys.argv[1]]()
    print("right" if right else "WRONG", flush=True)
    sys.exit(0 if right else 1)
