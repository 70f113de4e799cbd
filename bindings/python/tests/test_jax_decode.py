"""libfa.jax_distributed.decode_attention on 2 and 4 devices of the CPU against the mathematics of the whole in double precision."""
# needs: jax

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P
from test_jax_distributed import exact, near, total_of

import libfa.jax_distributed as D
from libfa import InvalidArgument

HEADS = 8
# By name: new tokens, lengths, interleave, and keywords.
CASES = {
    "a token": (1, [17, 5, 30], 1),
    "drafts in runs, softcap": (3, [17, 5, 30], 4, dict(softcap=2.0, softmax_scale=0.4)),
    "fewer tokens than queries": (2, [1, 9], 1),
    "window and sinks": (2, [17, 8, 31], 2, dict(window=6, sinks=True)),
    "pages": (1, [17, 5, 30], 1, dict(paged=True)),
    "drafts in pages": (2, [17, 5, 30], 2, dict(paged=True, window=9)),
    "own heads": (1, [17, 5, 30], 1, dict(split_heads=True)),
    "own heads and sinks, bf16": (2, [17, 5, 30], 3, dict(split_heads=True, sinks=True, dtype="bfloat16")),
}


def dealt(x, lengths, world, interleave):
    """(devices, batch, rows, ...): each device's tokens, behind them NaN, which nothing reads."""
    batch, most = x.shape[:2]
    mine = [[t for t in range(most) if t // interleave % world == rank] for rank in range(world)]
    rows = max(map(len, mine))
    found = np.full((world, batch, rows, *x.shape[2:]), np.nan, x.dtype)
    for rank, tokens in enumerate(mine):
        found[rank, :, : len(tokens)] = x[:, tokens]
        for b, length in enumerate(lengths):
            found[rank, b, sum(t < length for t in tokens) :] = np.nan
    return found


def in_pages(x, order):
    """(devices, pages, 4, ...) of rows, each device's in the order of order[device]."""
    world, batch, rows = x.shape[:3]
    pages = -(-rows // 4)
    full = np.full((world, batch, pages * 4, *x.shape[3:]), np.nan, x.dtype)
    full[:, :, :rows] = x
    pool = np.empty((world, batch * pages, 4, *x.shape[3:]), x.dtype)
    for rank in range(world):
        pool[rank, order[rank]] = full[rank].reshape(batch * pages, 4, *x.shape[3:])
    return pool


def case_of(name, world):
    """The arrays of a case, the keywords of the call, the results in double precision, and the type."""
    new, lengths, interleave, *more = CASES[name]
    settings = dict(*more)
    paged, sinks, dtype = (settings.pop(key, other) for key, other in (("paged", 0), ("sinks", 0), ("dtype", "float32")))
    rng = np.random.default_rng(6)
    batch, most = len(lengths), max(lengths)
    whole = {"q": (batch, new, HEADS, 16), "k": (batch, most, 2, 16), "v": (batch, most, 2, 24)}
    whole = {key: jnp.asarray(rng.standard_normal(shape), dtype) for key, shape in whole.items()}
    given = {key: dealt(np.asarray(whole[key]), lengths, world, interleave) for key in "kv"}
    if paged:
        pages = -(-given["k"].shape[2] // 4)
        order = [rng.permutation(batch * pages) for _ in range(world)]
        given = {key: in_pages(x, order) for key, x in given.items()}
        given["block_table"] = np.stack([x.reshape(batch, pages) for x in order]).astype("int32")
    given |= {"q": whole["q"], "seqlens": np.array(lengths, "int32")}
    if sinks:
        given["sinks"] = jnp.linspace(-1, 2, HEADS)
    window = (settings.get("window", -1), -1)
    numbers = {key: settings[key] for key in ("softcap", "softmax_scale") if key in settings}
    results = []
    with jax.enable_x64(True):
        for b, length in enumerate(lengths):
            wide = {key: x[b : b + 1, : None if key == "q" else length] for key, x in whole.items()}
            wide |= {"sinks": given["sinks"]} if sinks else {}
            wide = {key: jnp.asarray(np.asarray(x, "f8")) for key, x in wide.items()}
            results.append([np.asarray(x) for x in exact(wide, causal=True, window=window, **numbers)])
    return given, dict(settings, interleave=interleave), [np.concatenate(x) for x in zip(*results)], dtype


def over(world, given, settings, **keywords):
    """decode_attention() over some devices: a function of the arrays of case_of(), (out, lse)."""
    split = settings.get("split_heads", False)
    mesh = jax.make_mesh((world,), ("x",), axis_types=(AxisType.Auto,), devices=jax.devices()[:world])
    specs = {name: P("x") if name in ("k", "v", "block_table") else P() for name in given}
    specs["q"] = P(None, None, "x") if split else P()

    def local(x):
        own = {name: y[0] if name in ("k", "v", "block_table") else y for name, y in x.items()}
        return D.decode_attention(**own, axis_name="x", return_lse=True, **settings)

    out_specs = (P(None, None, "x"), P(None, "x")) if split else (P(), P())
    return jax.shard_map(local, mesh=mesh, in_specs=(specs,), out_specs=out_specs, **keywords)


@pytest.mark.parametrize("world, name", [(2 + 2 * (i % 2), name) for i, name in enumerate(CASES)])
def test_results(world, name):
    given, settings, (out, lse), dtype = case_of(name, world)
    run = jax.jit(over(world, given, settings, check_vma=world == 2))
    found = run(given)
    assert found[0].dtype == dtype
    near(found[0], out, dtype, "out")
    near(found[1], lse, "float32", "lse")
    for x, y in zip(found, run(given), strict=True):
        assert (np.asarray(x) == np.asarray(y)).all()


@pytest.mark.parametrize("name", ["window and sinks", "own heads"])
def test_gradients(name):
    given, settings, *_ = case_of(name, 4)
    given = {key: np.nan_to_num(x) for key, x in given.items()}
    leaves = {key: given.pop(key) for key in ("q", "k", "v", "sinks") if key in given}
    lengths, interleave = given["seqlens"], settings["interleave"]
    mapped = over(4, leaves | given, settings)
    # Where each token is among the rows of all devices.
    most = int(lengths.max())
    place = [(t // interleave % 4, t // interleave // 4 * interleave + t % interleave) for t in range(most)]

    def one(x):
        k, v = (jnp.stack([x[key][device, :, row] for device, row in place], 1) for key in "kv")
        parts = []
        for b, length in enumerate(lengths.tolist()):
            own = {"q": x["q"][b : b + 1], "k": k[b : b + 1, :length], "v": v[b : b + 1, :length]}
            own |= {"sinks": x["sinks"]} if "sinks" in x else {}
            parts.append(exact(own, causal=True, window=(settings.get("window", -1), -1)))
        return [jnp.concatenate(x) for x in zip(*parts)]

    found = jax.jit(jax.grad(lambda x: total_of(lambda y: mapped(y | given), x)))(leaves)
    with jax.enable_x64(True):
        wide = {key: jnp.asarray(np.asarray(x, "f8")) for key, x in leaves.items()}
        wanted = jax.jit(jax.grad(lambda x: total_of(one, x)))(wide)
    for key, want in wanted.items():
        near(found[key], want, "float32", f"gradient of {key}")


def test_local_lengths():
    for world, interleave, length in itertools.product((1, 2, 4), (1, 3), (0, 1, 7, 24)):
        owners = [t // interleave % world for t in range(length)]
        for rank in range(world):
            want = owners.count(rank)
            assert D.local_lengths(length, rank, world, interleave) == want
            assert D.local_lengths(jnp.array([length]), jnp.int32(rank), world, interleave).tolist() == [want]


def test_bytes():
    """All that travels are results: out and lse, f32."""
    given, settings, *_ = case_of("a token", 4)
    text = jax.jit(over(4, given, settings)).lower(given).compile().as_text()
    gathered = [line for line in text.splitlines() if " all-gather(" in line]
    assert {line.split("= ")[1].split("{")[0] for line in gathered} == {"f32[4,3,8,24]", "f32[4,3,8]"}, gathered
    assert not any(word in text for word in ("collective-permute(", "all-reduce(", "all-to-all("))


def test_wrong_arguments():
    given, settings, *_ = case_of("own heads and sinks, bf16", 4)

    def call(**other):
        names = [name for name in other if name in given]
        arrays = given | {name: other.pop(name) for name in names}
        jax.eval_shape(over(4, arrays, {**settings, **other}), arrays)

    for text, keywords in (
        ("interleave: got 0, expected 1 or more tokens", dict(interleave=0)),
        ("seqlens: got shape (2,), expected (3,)", dict(seqlens=np.zeros(2, "int32"))),
        ("seqlens: got dtype float32, expected int32", dict(seqlens=np.zeros(3, "float32"))),
        ("sinks: got shape (2,), expected (8,), one a head of all devices", dict(sinks=jnp.zeros(2))),
        ("q: got shape (3, 2, 2), expected (batch, new tokens, heads, dim)", dict(q=given["q"][..., 0])),
        ("k has head dimension 8; q has 16", dict(k=given["k"][..., :8])),
        ("k has 3 heads, but q has 8 heads", dict(k=given["k"][..., [0, 1, 1], :], v=given["v"][..., [0, 1, 1], :])),
    ):
        with pytest.raises(InvalidArgument) as caught:
            call(**keywords)
        assert text in str(caught.value), caught.value
    with pytest.raises(InvalidArgument, match="axis_name: got 'y', which is no axis"):
        D.decode_attention(given["q"], given["k"][0], given["v"][0], given["seqlens"], axis_name="y")


@pytest.mark.parametrize("name", ["a token", "pages"])
def test_a_length_that_one_device_has_no_rows_for(name):
    """It fails on all devices, so that none waits for another."""
    given, settings, *_ = case_of(name, 4)
    rows = given["k"].shape[2] * (given["block_table"].shape[2] if name == "pages" else 1)
    given["seqlens"] = np.array([17, 5, 4 * rows + 1], "int32")
    with pytest.raises(jax.errors.JaxRuntimeError, match=rf"\[2\] is {rows + 1}: expected 0 .. {rows}"):
        jax.block_until_ready(jax.jit(over(4, given, settings))(given))
