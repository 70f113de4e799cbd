"""Kernels in Triton. Its compiler is foreign code: it decides how it lays tiles out, copies, waits and multiplies on each GPU."""

import triton
import triton.language as tl


@triton.jit
def attention(
    q, k, v, o, lse, tokens, scale, DIM: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, CAUSAL: tl.constexpr
):
    """One block of rows of one head: O = softmax(scale Q K^T) V, keys in tiles; tensors are [heads, tokens, DIM]."""
    head = tl.program_id(1).to(tl.int64) * tokens * DIM
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    columns = tl.arange(0, COLUMNS)
    dims = tl.arange(0, DIM)
    at_rows = head + rows[:, None] * DIM + dims[None, :]
    tile_q = tl.load(q + at_rows, mask=rows[:, None] < tokens, other=0.0)
    top = tl.full([ROWS], float("-inf"), tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    sums = tl.zeros([ROWS, DIM], tl.float32)
    exponent = scale * 1.4426950408889634
    end = tl.minimum(tokens, (tl.program_id(0) + 1) * ROWS) if CAUSAL else tokens
    for begin in range(0, end, COLUMNS):
        keys = begin + columns
        at_keys = head + keys[:, None] * DIM + dims[None, :]
        tile_k = tl.load(k + at_keys, mask=keys[:, None] < tokens, other=0.0)
        scores = tl.dot(tile_q, tl.trans(tile_k)) * exponent
        seen = keys[None, :] < tokens
        if CAUSAL:
            seen = seen & (keys[None, :] <= rows[:, None])
        scores = tl.where(seen, scores, float("-inf"))
        higher = tl.maximum(top, tl.max(scores, 1))
        weights = tl.exp2(scores - higher[:, None])
        shrink = tl.exp2(top - higher)
        total = total * shrink + tl.sum(weights, 1)
        tile_v = tl.load(v + at_keys, mask=keys[:, None] < tokens, other=0.0)
        sums = tl.dot(weights.to(tile_v.dtype), tile_v, sums * shrink[:, None])
        top = higher
    tl.store(o + at_rows, (sums / total[:, None]).to(o.dtype.element_ty), mask=rows[:, None] < tokens)
    tl.store(lse + tl.program_id(1) * tokens + rows, (top + tl.log2(total)) * 0.6931471805599453, mask=rows < tokens)


@triton.jit
def _attend(
    sums,
    total,
    top,
    tile_q,
    desc_k,
    desc_v,
    first,
    begin,
    end,
    rows,
    exponent,
    COLUMNS: tl.constexpr,
    MASKED: tl.constexpr,
    SPECIALIZED: tl.constexpr,
):
    """The tiles of keys from begin to end; `first` is the head's first row of the two-dimensional tensors."""
    for at in tl.range(begin, end, COLUMNS, warp_specialize=SPECIALIZED):
        scores = tl.dot(tile_q, desc_k.load([first + at, 0]).T) * exponent
        if MASKED:
            scores = tl.where(rows[:, None] >= (at + tl.arange(0, COLUMNS))[None, :], scores, float("-inf"))
        higher = tl.maximum(top, tl.max(scores, 1))
        weights = tl.exp2(scores - higher[:, None])
        shrink = tl.exp2(top - higher)
        total = total * shrink + tl.sum(weights, 1)
        tile_v = desc_v.load([first + at, 0])
        sums = tl.dot(weights.to(tile_v.dtype), tile_v, sums * shrink[:, None])
        top = higher
    return sums, total, top


@triton.jit
def attention_described(
    desc_q,
    desc_k,
    desc_v,
    desc_o,
    lse,
    tokens,
    scale,
    DIM: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    CAUSAL: tl.constexpr,
    SPECIALIZED: tl.constexpr,
):
    """The same through tensor descriptors, which the host makes (TMA); tensors are [heads * tokens, DIM], tiles are full."""
    first = tl.program_id(1) * tokens
    begin = tl.program_id(0) * ROWS
    rows = begin + tl.arange(0, ROWS)
    tile_q = desc_q.load([first + begin, 0])
    top = tl.full([ROWS], float("-inf"), tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    sums = tl.zeros([ROWS, DIM], tl.float32)
    exponent = scale * 1.4426950408889634
    full = begin if CAUSAL else tokens
    sums, total, top = _attend(
        sums, total, top, tile_q, desc_k, desc_v, first, 0, full, rows, exponent, COLUMNS, False, SPECIALIZED
    )
    if CAUSAL:
        sums, total, top = _attend(
            sums, total, top, tile_q, desc_k, desc_v, first, full, full + ROWS, rows, exponent, COLUMNS, True, SPECIALIZED
        )
    desc_o.store([first + begin, 0], (sums / total[:, None]).to(desc_o.dtype))
    tl.store(lse + first + rows, (top + tl.log2(total)) * 0.6931471805599453)


@triton.jit
def matmul(a, b, c, m, n, k, ROWS: tl.constexpr, COLUMNS: tl.constexpr, STEP: tl.constexpr, GROUP: tl.constexpr):
    """C = A B of row-major matrices; blocks are numbered so that neighbours share rows of A and columns of B."""
    across = tl.cdiv(n, COLUMNS)
    down = tl.cdiv(m, ROWS)
    group = tl.program_id(0) // (GROUP * across)
    height = tl.minimum(down - group * GROUP, GROUP)
    row = group * GROUP + tl.program_id(0) % (GROUP * across) % height
    column = tl.program_id(0) % (GROUP * across) // height
    rows = row * ROWS + tl.arange(0, ROWS)
    columns = column * COLUMNS + tl.arange(0, COLUMNS)
    steps = tl.arange(0, STEP)
    sums = tl.zeros([ROWS, COLUMNS], tl.float32)
    for begin in range(0, k, STEP):
        inner = begin + steps
        tile_a = tl.load(a + rows[:, None] * k + inner[None, :], mask=(rows[:, None] < m) & (inner[None, :] < k), other=0.0)
        tile_b = tl.load(
            b + inner[:, None] * n + columns[None, :], mask=(inner[:, None] < k) & (columns[None, :] < n), other=0.0
        )
        sums = tl.dot(tile_a, tile_b, sums)
    tl.store(
        c + rows[:, None] * n + columns[None, :], sums.to(c.dtype.element_ty), mask=(rows[:, None] < m) & (columns[None, :] < n)
    )


@triton.jit
def matmul_persistent(
    a,
    b,
    c,
    m,
    n,
    k,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    STEP: tl.constexpr,
    BLOCKS: tl.constexpr,
    SPECIALIZED: tl.constexpr,
):
    """C = A B^T by as many blocks as there are, through tensor descriptors that the kernel itself makes."""
    desc_a = tl.make_tensor_descriptor(a, shape=[m, k], strides=[k, 1], block_shape=[ROWS, STEP])
    desc_b = tl.make_tensor_descriptor(b, shape=[n, k], strides=[k, 1], block_shape=[COLUMNS, STEP])
    desc_c = tl.make_tensor_descriptor(c, shape=[m, n], strides=[n, 1], block_shape=[ROWS, COLUMNS])
    down = tl.cdiv(m, ROWS)
    for tile in tl.range(tl.program_id(0), down * tl.cdiv(n, COLUMNS), BLOCKS, flatten=True, warp_specialize=SPECIALIZED):
        row = tile % down * ROWS
        column = tile // down * COLUMNS
        sums = tl.zeros([ROWS, COLUMNS], tl.float32)
        for begin in range(0, k, STEP):
            sums = tl.dot(desc_a.load([row, begin]), desc_b.load([column, begin]).T, sums)
        desc_c.store([row, column], sums.to(desc_c.dtype))


@triton.jit
def softmax(x, y, columns, stride, WIDTH: tl.constexpr):
    """One row."""
    at = tl.arange(0, WIDTH)
    row = tl.program_id(0).to(tl.int64) * stride
    values = tl.load(x + row + at, mask=at < columns, other=float("-inf"))
    weights = tl.exp(values - tl.max(values, 0))
    tl.store(y + row + at, weights / tl.sum(weights, 0), mask=at < columns)


@triton.jit
def histogram(x, counts, n, BINS: tl.constexpr, WIDTH: tl.constexpr):
    """How often each value below BINS occurs, by atomics to global memory."""
    at = tl.program_id(0) * WIDTH + tl.arange(0, WIDTH)
    values = tl.load(x + at, mask=at < n, other=0)
    found = tl.histogram(values, BINS, mask=at < n)
    tl.atomic_add(counts + tl.arange(0, BINS), found)


@triton.jit
def _add(a, b):
    return a + b


@triton.jit
def scan(x, sums, order, WIDTH: tl.constexpr):
    """Running sums of a row, and the row sorted."""
    at = tl.program_id(0) * WIDTH + tl.arange(0, WIDTH)
    values = tl.load(x + at)
    tl.store(sums + at, tl.associative_scan(values, 0, _add))
    tl.store(order + at, tl.sort(values))
