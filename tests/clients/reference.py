"""The clients' inputs, and the results of the header's formulas in double precision."""

import numpy

BATCH, QUERIES, KEYS, HEADS, KV_HEADS, DIM = 2, 5, 9, 4, 2, 16  # as in each client
Q_SHAPE, K_SHAPE = (BATCH, QUERIES, HEADS, DIM), (BATCH, KEYS, KV_HEADS, DIM)


def inputs():
    """q, k, v and dout in float32: the name of each, and its values."""
    rng = numpy.random.default_rng(0)
    shapes = {"q": Q_SHAPE, "k": K_SHAPE, "v": K_SHAPE, "dout": Q_SHAPE}
    return {name: rng.standard_normal(shape, dtype="f4") for name, shape in shapes.items()}


def results(q, k, v, dout):
    """out, lse, dq, dk and dv: the name of each, and its values."""
    q, k, v, dout = (x.astype("f8") for x in (q, k, v, dout))
    of_query_head = numpy.repeat(numpy.eye(KV_HEADS), HEADS // KV_HEADS, axis=0)  # (query head, key/value head)
    scale = DIM**-0.5
    visible = numpy.tri(QUERIES, KEYS, KEYS - QUERIES, dtype=bool)  # the last query sees the last key

    x = numpy.where(visible, scale * numpy.einsum("bihd,bjgd,hg->bhij", q, k, of_query_head), -numpy.inf)
    lse = numpy.log(numpy.exp(x).sum(-1))
    p = numpy.exp(x - lse[..., None])
    out = numpy.einsum("bhij,bjgd,hg->bihd", p, v, of_query_head)

    delta = numpy.einsum("bihd,bihd->bhi", dout, out)
    dx = p * (numpy.einsum("bihd,bjgd,hg->bhij", dout, v, of_query_head) - delta[..., None])
    return {
        "out": out,
        "lse": lse,
        "dq": scale * numpy.einsum("bhij,bjgd,hg->bihd", dx, k, of_query_head),
        "dk": scale * numpy.einsum("bhij,bihd,hg->bjgd", dx, q, of_query_head),
        "dv": numpy.einsum("bhij,bihd,hg->bjgd", p, dout, of_query_head),
    }
