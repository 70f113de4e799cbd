"""Random nodes of the three operators, on libfa and on ONNX Runtime's own kernels: every one is taken, and the results agree.

Usage: nodes.py LIBONNXRUNTIME_FA [COUNT [SEED]]; without a count 120 nodes
"""
import collections
import sys

import numpy as np

import stock

stock.fetch_or_skip()
from onnx import TensorProto, helper  # noqa: E402

TYPES = {"f4": TensorProto.FLOAT, "f2": TensorProto.FLOAT16, "i4": TensorProto.INT32, "i8": TensorProto.INT64, "?": TensorProto.BOOL,
         "i1": TensorProto.INT8, "u1": TensorProto.UINT8}
BOUND = {"f4": 3e-5, "f2": 4e-3}  # of |difference| by max(1, |value|); f16 of ONNX Runtime rounds probabilities too


def model(op, domain, inputs, outputs, version=24, **attributes):
    """A model of one node. inputs: {name: array or None}; outputs: [(name, element type) or None]."""
    info = [helper.make_tensor_value_info(name, TYPES[x.dtype.str[1:] if x.dtype != bool else "?"], x.shape)
            for name, x in inputs.items() if x is not None]
    names = [name if x is not None else "" for name, x in inputs.items()]
    while not names[-1]:
        names.pop()
    outs = [helper.make_tensor_value_info(name, TYPES[kind], None) for name, kind in filter(None, outputs)]
    node = helper.make_node(op, names, [x[0] if x else "" for x in outputs], "node", domain=domain, **attributes)
    graph = helper.make_graph([node], "graph", info, outs)
    sets = [helper.make_opsetid("", version), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=sets, ir_version=11).SerializeToString()


class Random:
    def __init__(self, seed):
        self.generator = np.random.default_rng(seed)

    def normal(self, kind, *shape):
        return self.generator.standard_normal(shape).astype(kind)

    def of(self, *choices):
        return choices[self.generator.integers(len(choices))]

    def upto(self, most, least=1):
        return int(self.generator.integers(least, most + 1))


def group_query(r):
    kv_heads, group, dim, kind = r.of(1, 2, 3), r.of(1, 2, 4), r.of(16, 32, 64, 80, 128), r.of("f4", "f4", "f2")
    heads, quantised = kv_heads * group, r.of(None, None, None, "i1", "u1") if kind == "f4" else None
    phase = r.of("prompt", "decode", "decode", "chunk")
    padded = phase == "chunk" and r.of(True, False)  # right-padded chunks of several sequences
    batch = r.upto(3) if phase != "chunk" or padded else 1
    rows = 1 if phase == "decode" else r.upto(40)
    if phase == "prompt":
        total = np.array([r.upto(rows) for _ in range(batch)], "i4")
        total[r.upto(batch) - 1] = rows
    else:
        past = [r.upto(150) for _ in range(batch)]
        total = np.array(past, "i4") + rows
    queries = np.minimum(rows, total)
    if padded:
        queries = r.generator.integers(0, rows + 1, batch).astype("i4")
        total = np.array(past, "i4") + queries
    longest = max(past) + rows if phase != "prompt" else int(total.max())
    room = longest + r.upto(20, 0) if phase != "prompt" or r.of(True, False) else 0
    packed, rotary = r.of(True, False), r.of(True, False)
    x = dict.fromkeys("query key value past_key past_value seqlens_k total cos sin positions bias sink k_scale v_scale q_norm k_norm queries".split())
    width = (heads + 2 * kv_heads if packed else heads) * dim
    x["query"] = r.normal(kind, batch, rows, width)
    if not packed:
        x["key"], x["value"] = (r.normal(kind, batch, rows, kv_heads * dim) for _ in "kv")
    attributes = {}
    cached = quantised or kind
    if quantised:
        room = room or longest
        way = r.of("PER_TENSOR", "PER_CHANNEL")
        bits = 4 if quantised == "u1" else 8
        attributes |= {"k_quant_type": way, "v_quant_type": way, "kv_cache_bit_width": bits}
        shape = [1] if way == "PER_TENSOR" else [1, kv_heads, 1, dim]
        for name in "k_scale", "v_scale":
            x[name] = (r.generator.uniform(0.8, 1.2, shape) * 3 / (7 if bits == 4 else 127)).astype("f4")
    if room:
        for name in "past_key", "past_value":
            if quantised:
                low, high, last = (0, 256, dim // 2) if quantised == "u1" else (-127, 128, dim)
                x[name] = r.generator.integers(low, high, (batch, kv_heads, room, last)).astype(quantised)
            else:
                x[name] = r.normal(kind, batch, kv_heads, room, dim)
    x["seqlens_k"], x["total"] = total - 1, np.array([longest], "i4")
    if padded:
        x["queries"] = queries
    if rotary:
        angles = r.generator.uniform(-4, 4, (max(longest, room) + 5, dim // 2 if dim % 16 == 0 and r.of(True, False) else 8))
        x["cos"], x["sin"] = np.cos(angles).astype(kind), np.sin(angles).astype(kind)
        attributes |= {"do_rotary": 1, "rotary_interleaved": r.upto(1, 0)}
        if r.of(True, False):
            x["positions"] = r.generator.integers(0, len(angles) - rows + 1, (batch, rows)).astype("i8")
    if r.of(True, False, False):
        x["bias"] = r.normal(kind, r.of(1, batch), r.of(1, heads), rows, longest)
    if r.of(True, False, False):
        x["sink"] = r.normal(kind, heads)
    elif r.of(True, False, False):
        attributes["smooth_softmax"] = 1
    if r.of(True, False):
        attributes["local_window_size"] = r.upto(longest)
    elif not padded and r.of(True, False, False):
        attributes["causal"] = 0
    if r.of(True, False, False):
        attributes["softcap"] = r.of(5.0, 30.0)
    if r.of(True, False, False):
        attributes["scale"] = r.of(0.05, 0.3)
    outputs = [("output", kind), ("present_key", cached), ("present_value", cached)]
    built = model("GroupQueryAttention", "com.microsoft", x, outputs, num_heads=heads, kv_num_heads=kv_heads, **attributes)

    return built, x, kind


def used(results, x):
    """Rows of tokens; GroupQueryAttention leaves the others open."""
    if x.get("seqlens_k") is None:
        return results
    out, *caches = results
    total = x["seqlens_k"].reshape(-1) + 1
    queries = np.minimum(out.shape[1], total) if x.get("queries") is None else x["queries"]
    rows_of = [out[b, : queries[b]] for b in range(len(total))]
    return rows_of + [cache[b, :, : total[b]] for cache in caches for b in range(len(total))]


def attention(r):
    batch, kv_heads, group, kind, version = r.upto(3), r.of(1, 2, 3, 8), r.of(1, 2), r.of("f4", "f4", "f2"), r.of(23, 24)
    heads, rows, dim, dim_v = kv_heads * group, r.of(1, r.upto(30)), r.of(8, 33, 64), r.of(8, 40, 64)
    past, new = r.of(0, r.upto(50)), r.upto(60, 2)
    keys, four, nonpad = past + new, r.of(True, False), version == 24 and past == 0 and r.of(True, False)
    x = dict.fromkeys("Q K V mask past_key past_value nonpad".split())
    for name, h, s, d in ("Q", heads, rows, dim), ("K", kv_heads, new, dim), ("V", kv_heads, new, dim_v):
        x[name] = r.normal(kind, *((batch, h, s, d) if four else (batch, s, h * d)))
    if past:
        x["past_key"], x["past_value"] = r.normal(kind, batch, kv_heads, past, dim), r.normal(kind, batch, kv_heads, past, dim_v)
    attributes = {} if four else {"q_num_heads": heads, "kv_num_heads": kv_heads}
    if nonpad:
        x["nonpad"] = r.generator.integers(min(rows, keys), keys + 1, batch).astype("i8")
    attributes["is_causal"] = causal = int(r.of(True, False) and (not nonpad or rows <= keys) and rows > 1)
    # (ONNX Runtime leaves the causal rule out for one query, though it hides new keys after the first)
    if r.of(True, False):
        shape = r.of((rows, keys), (r.of(1, heads), rows, keys), (r.of(1, batch), r.of(1, heads), rows, keys))
        x["mask"] = r.normal(kind, *shape) if causal or nonpad or r.of(True, False) else r.generator.random(shape) < 0.8
        if x["mask"].dtype == bool:
            x["mask"][..., 0] = True  # a query without keys is another matter
    if r.of(True, False, False):
        attributes["softcap"] = r.of(2.0, 20.0)
    if r.of(True, False, False):
        attributes["scale"] = r.of(0.05, 0.3)
    outputs = [("Y", kind), *([("present_key", kind), ("present_value", kind)] if past or (not nonpad and r.of(True, False)) else [])]
    return model("Attention", "", x, outputs, version, **attributes), x, kind


def multi_head(r):
    batch, heads, dim, dim_v, rows, kind = r.upto(3), r.of(1, 2, 4, 8), r.of(8, 24, 64), r.of(8, 64), r.of(1, r.upto(30)), r.of("f4", "f4", "f2")
    causal = r.of(True, False)
    past, new = r.of(0, r.upto(40)), r.of(rows, r.upto(50)) if causal else r.upto(50)
    cross = past == 0 and not causal and dim == dim_v and r.of(True, False)
    keys = past + new
    x = dict.fromkeys("query key value bias padding attention_bias past_key past_value".split())
    x["query"] = r.normal(kind, batch, rows, heads * dim)
    for name, d in ("key", dim), ("value", dim_v):
        x[name] = r.normal(kind, *((batch, heads, new, d) if cross else (batch, new, heads * d)))
    if past:
        x["past_key"], x["past_value"] = r.normal(kind, batch, heads, past, dim), r.normal(kind, batch, heads, past, dim_v)
    if not cross and kind == "f4" and r.of(True, False):
        x["bias"] = r.normal(kind, heads * (2 * dim + dim_v))
    if r.of(True, False):
        shape = r.of((batch,), (batch, keys), (batch, rows, keys))
        if len(shape) == 1 and past == 0:
            x["padding"] = r.generator.integers(1, keys + 1, r.of(batch, 3 * batch + 2)).astype("i4")
        elif len(shape) > 1:
            x["padding"] = np.where(r.generator.random(shape) < 0.7, 1, r.of(0, -1)).astype("i4")
            x["padding"][..., 0] = 1  # scores that are all near mask_filter_value have few bits
    if r.of(True, False, False):
        x["attention_bias"] = r.normal(kind, r.of(1, batch), r.of(1, heads), rows, keys)
    attributes = {"unidirectional": int(causal)}
    if r.of(True, False, False):
        attributes["scale"] = r.of(0.05, 0.3)
    outputs = [("output", kind), *([("present_key", kind), ("present_value", kind)] if past or r.of(True, False) else [])]
    return model("MultiHeadAttention", "com.microsoft", x, outputs, num_heads=heads, **attributes), x, kind


def difference(ours, theirs):
    if ours.dtype.kind in "iu":  # codes: a tie of rounding may fall to either side
        apart = np.abs(ours.astype(int) - theirs.astype(int))
        return float(np.mean(apart > 0)) * 1e-3
    ours, theirs = ours.astype("f8"), theirs.astype("f8")
    return float(np.max(np.abs(ours - theirs) / np.maximum(1, np.abs(theirs)), initial=0))


def compare(library, count=120, seed=0):
    devices = stock.register(library)
    taken, unsupported, unknown, worst = (collections.Counter() for _ in range(4))
    for i in range(seed, seed + count):
        r = Random(i)
        make = [group_query, group_query, attention, multi_head][i % 4]
        built, x, kind = make(r)
        feeds = {name: array for name, array in x.items() if array is not None}
        try:
            theirs = stock.session(built)
        except Exception as error:  # an older ONNX Runtime has fewer attributes and types
            assert "INVALID_GRAPH" in str(error) or "NOT_IMPLEMENTED" in str(error), error
            theirs = None
        try:
            mine = stock.session(built, devices, threads=r.of(1, 2))
        except Exception as error:
            assert theirs is None and "INVALID_GRAPH" in str(error), f"node {i}, {make.__name__}: {error}"
            unknown[make.__name__] += 1
            continue
        assert stock.taken(mine) == 1, f"node {i}, {make.__name__}: left to ONNX Runtime"
        ours = used(mine.run(None, feeds), x)
        try:
            theirs = used((theirs or stock.session(built)).run(None, feeds), x)
        except Exception as error:  # ONNX Runtime's own kernel has less: its reason is counted
            unsupported[make.__name__, str(error)[-90:]] += 1
            continue
        errors = [difference(a, b) for a, b in zip(ours, theirs, strict=True)]
        ties = kind == "f4" and any(a.dtype.kind in "iu" and (a != b).any() for a, b in zip(ours, theirs))
        bad = [e for e in errors if not e <= (0.1 if ties else BOUND[kind])]  # a code that differs by one changes scores
        assert not bad, f"node {i}, {make.__name__} of {kind}: {errors}, {built}, { {n: a.shape for n, a in feeds.items()} }"
        taken[make.__name__] += 1
        worst[make.__name__, kind] = max(worst[make.__name__, kind], *([] if ties else errors), 0)
    for key, number in unsupported.items():
        print("without ONNX Runtime's result:", *key, number)
    print("models that this ONNX Runtime refuses:", dict(unknown))
    assert not unknown or stock.VERSION != stock.USUAL, f"{stock.USUAL} knows all of them"
    print("compared:", dict(taken), "largest differences:", dict(worst))


if __name__ == "__main__":
    compare(sys.argv[1], *map(int, sys.argv[2:]))
