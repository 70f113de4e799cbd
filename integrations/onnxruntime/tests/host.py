"""libonnxruntime_fa.so in an ONNX Runtime that is not as expected, on its threads, and with inputs that cannot be.

Usage: host.py LIBONNXRUNTIME_FA
"""
import concurrent.futures
import ctypes as c
import os
import sys

import numpy as np

import stock

stock.fetch_or_skip()
import nodes  # noqa: E402
import wrong  # noqa: E402

GetApi = c.CFUNCTYPE(c.c_void_p, c.c_uint32)
GetVersion = c.CFUNCTYPE(c.c_void_p)
CreateStatus = c.CFUNCTYPE(c.c_void_p, c.c_int, c.c_char_p)


class Base(c.Structure):
    _fields_ = [("get_api", GetApi), ("get_version", GetVersion)]


def old_version(library, newest):
    """The text with which an ONNX Runtime of version 1.`newest` is refused."""
    said = []
    create = CreateStatus(lambda code, text: said.append(text.decode()) or 1)
    table = (c.c_void_p * 400)(c.cast(create, c.c_void_p).value)
    text = c.create_string_buffer(b"1.%d.0" % newest)
    base = Base(GetApi(lambda version: c.addressof(table) if version <= newest else None), GetVersion(lambda: c.addressof(text)))
    loaded = c.CDLL(os.path.abspath(library))
    loaded.CreateEpFactories.restype = c.c_void_p
    number = c.c_size_t(7)
    status = loaded.CreateEpFactories(b"libfa", c.byref(base), None, (c.c_void_p * 4)(), c.c_size_t(4), c.byref(number))
    assert number.value == 0
    return status, said


def versions(library):
    status, said = old_version(library, 23)
    assert status == 1 and len(said) == 1 and "version 1.23.0: expected 1.24" in said[0], said
    status, said = old_version(library, 0)  # not even one that makes errors
    assert status is None and not said


def group_query(rows=40, room=90, past=30, heads=4, dim=64):
    r = nodes.Random(5)
    x = dict.fromkeys("query key value past_key past_value seqlens_k total".split())
    x["query"] = r.normal("f4", 1, rows, heads * dim)
    x["key"], x["value"] = r.normal("f4", 1, rows, heads * dim), r.normal("f4", 1, rows, heads * dim)
    x["past_key"], x["past_value"] = r.normal("f4", 1, heads, room, dim), r.normal("f4", 1, heads, room, dim)
    x["seqlens_k"], x["total"] = np.array([past + rows - 1], "i4"), np.array([past + rows], "i4")
    outputs = [(name, "f4") for name in ("output", "present_key", "present_value")]
    return nodes.model("GroupQueryAttention", "com.microsoft", x, outputs, num_heads=heads, kv_num_heads=heads), x


def threads(devices):
    """libfa starts no threads, and the number of the session's changes no bit."""
    built, x = group_query()
    results = []
    for number in 1, 2, 3:
        session = stock.session(built, devices, threads=number)
        before = len(os.listdir("/proc/self/task"))
        results.append(session.run(None, x))
        assert len(os.listdir("/proc/self/task")) == before
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(a, b)


def callers(devices):
    """Runs of one session from several threads at once."""
    built, x = group_query()
    session = stock.session(built, devices, threads=2)
    inputs = [{**x, "query": x["query"] * factor} for factor in (1, 2, 3, 4)]
    wanted = [session.run(None, each) for each in inputs]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for i, result in enumerate(pool.map(lambda i: session.run(None, inputs[i % 4]), range(60))):
            for a, b in zip(result, wanted[i % 4], strict=True):
                np.testing.assert_array_equal(a, b)


def one_buffer(devices):
    """Past and present bound to the same memory: the new rows alone are written."""
    import onnxruntime as ort
    built, x = group_query()
    session = stock.session(built, devices)
    wanted = session.run(None, x)
    caches = {name: ort.OrtValue.ortvalue_from_numpy(x[f"past_{name}"].copy()) for name in ("key", "value")}
    binding = session.io_binding()
    for name in "query", "key", "value", "seqlens_k", "total":
        binding.bind_cpu_input(name, x[name])
    for name, value in caches.items():
        binding.bind_ortvalue_input(f"past_{name}", value)
        binding.bind_ortvalue_output(f"present_{name}", value)
    binding.bind_output("output")
    session.run_with_iobinding(binding)
    output = next(value.numpy() for value in binding.get_outputs() if len(value.shape()) == 3)
    np.testing.assert_array_equal(output, wanted[0])
    total = int(x["total"][0])
    for name, result in zip(caches, wanted[1:], strict=True):
        now, before = caches[name].numpy(), x[f"past_{name}"]
        np.testing.assert_array_equal(now[:, :, :total], result[:, :, :total])
        np.testing.assert_array_equal(now[:, :, total:], before[:, :, total:])


def no_new_rows(devices):
    """A past alone is attended, and is the present."""
    r = nodes.Random(7)
    x = {"Q": r.normal("f4", 1, 2, 7, 8)} | {name: r.normal("f4", 1, 2, 1, 8) for name in "KV"} | {"mask": None}
    x |= {name: r.normal("f4", 1, 2, 9, 8) for name in ("past_key", "past_value")}
    outputs = [(name, "f4") for name in ("Y", "present_key", "present_value")]
    session = stock.session(wrong.open_lengths(nodes.model("Attention", "", x, outputs), 1), devices)
    assert stock.taken(session) == 1
    del x["mask"]
    pairs = {"K": "past_key", "V": "past_value"}
    wanted = session.run(None, {**x, **{new: x[past][:, :, 8:] for new, past in pairs.items()},
                                **{past: x[past][:, :, :8] for past in pairs.values()}})
    found = session.run(None, {**x, **{new: x[past][:, :, :0] for new, past in pairs.items()}})
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(a, b)


def bad_input(devices):
    built, x = group_query()
    session = stock.session(built, devices)
    for name, array, text in (
        ("seqlens_k", np.array([70], "i4"), r"seqlens_k[0] is 70; expected 0 .. total_sequence_length - 1 = 69"),
        ("seqlens_k", np.array([-1], "i4"), r"seqlens_k[0] is -1; expected 0 .."),
        ("total", np.array([0], "i4"), r"total_sequence_length is 0; expected 1 or more"),
    ):
        try:
            session.run(None, {**x, name: array})
        except Exception as error:
            assert text in str(error), error
        else:
            raise AssertionError(f"{name} = {array} was taken")
    r = nodes.Random(6)  # numbers past the end of attention_bias would be read
    x = {name: r.normal("f4", 3, 5, 16) for name in ("query", "key", "value")} | {"bias": None}
    x |= {"padding": np.ones((3, 5), "i4"), "attention_bias": r.normal("f4", 2, 1, 5, 5)}
    built = wrong.open_lengths(nodes.model("MultiHeadAttention", "com.microsoft", x, [("output", "f4")], num_heads=2), 1)
    session = stock.session(built, devices)
    assert stock.taken(session) == 1
    try:
        session.run(None, {name: array for name, array in x.items() if array is not None})
    except Exception as error:
        assert "attention_bias has shape (2, 1, 5, 5); expected (3, 1, 5, 5)" in str(error), error
    else:
        raise AssertionError("attention_bias of 2 sequences was taken for 3")

    x = {"Q": r.normal("f4", 1, 7, 1, 8)} | {name: r.normal("f4", 1, 8, 1, 8) for name in "KV"} | {"mask": None}
    x |= {name: r.normal("f4", 1, 8, 9, 8) for name in ("past_key", "past_value")}  # results of an eighth head would be written
    built = wrong.open_lengths(nodes.model("Attention", "", x, [(name, "f4") for name in ("Y", "present_key", "present_value")]), 1)
    result = wrong.result(stock.session(built, devices), {name: array for name, array in x.items() if array is not None})
    assert isinstance(result, str) and "7" in result and "8" in result, result


if __name__ == "__main__":
    versions(sys.argv[1])
    found = stock.register(sys.argv[1])
    for check in threads, callers, one_buffer, no_new_rows, bad_input:
        check(found)
