"""Tiny random transformers of diffusers with libfa in every layer, against diffusers' native backend: outputs and gradients."""
# needs: torch, diffusers

import pytest
import torch
from diffusers import FluxTransformer2DModel, WanTransformer3DModel
from diffusers.models.attention_dispatch import AttentionBackendName, attention_backend, dispatch_attention_fn

import libfa.diffusers
from libfa import fallback

torch.set_num_threads(1)  # the suites run side by side


def random(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def flux():
    model = FluxTransformer2DModel(
        patch_size=1,
        in_channels=4,
        num_layers=1,
        num_single_layers=1,
        attention_head_dim=16,
        num_attention_heads=2,
        joint_attention_dim=32,
        pooled_projection_dim=32,
        axes_dims_rope=[4, 4, 8],
    )
    inputs = dict(hidden_states=random(2, 16, 4), encoder_hidden_states=random(2, 7, 32, seed=1), pooled_projections=random(2, 32, seed=2))
    ids = torch.cartesian_prod(torch.zeros(1), torch.arange(4.0), torch.arange(4.0))
    return model, inputs | dict(timestep=torch.tensor([1.0, 0.5]), img_ids=ids, txt_ids=torch.zeros(7, 3)), 2


def wan():
    model = WanTransformer3DModel(
        patch_size=(1, 2, 2),
        num_attention_heads=2,
        attention_head_dim=12,
        in_channels=4,
        out_channels=4,
        text_dim=16,
        freq_dim=256,
        ffn_dim=32,
        num_layers=2,
        cross_attn_norm=True,
        qk_norm="rms_norm_across_heads",
        rope_max_seq_len=32,
    )
    inputs = dict(hidden_states=random(1, 4, 2, 8, 8), encoder_hidden_states=random(1, 6, 16, seed=1), timestep=torch.tensor([3]))
    return model, inputs, 4


@pytest.fixture
def calls(monkeypatch):
    found = []
    original = libfa.diffusers.attention
    monkeypatch.setattr(libfa.diffusers, "attention", lambda *given, **more: found.append(given[0].shape) or original(*given, **more))
    return found


def step(model, inputs, backend):
    model.zero_grad()
    model.set_attention_backend(backend)
    out = model(**inputs, return_dict=False)[0]
    out.square().sum().backward()
    return [out.detach(), *(x.grad.clone() for x in model.parameters() if x.grad is not None)]


@pytest.mark.parametrize("make", [flux, wan])
def test_model(make, calls):
    torch.manual_seed(1)
    model, inputs, layers = make()
    native = step(model, inputs, "native")
    assert not calls
    ours = step(model, inputs, "libfa")
    assert len(calls) == layers and len(ours) == len(native)
    for mine, theirs in zip(ours, native):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5 * max(1, theirs.abs().max().item()))


MASKS = {
    "none": None,
    "keys": random(2, 9, seed=4) > -0.5,
    "boolean": random(2, 1, 5, 9, seed=4) > -0.5,
    "additive": random(5, 9, seed=4),
}


@pytest.mark.parametrize("name", MASKS)
def test_dispatch(name, calls):
    q, k, v = random(2, 5, 3, 8), random(2, 9, 3, 8, seed=1), random(2, 9, 3, 8, seed=2)
    keywords = dict(attn_mask=MASKS[name], is_causal=name == "none", scale=0.4)
    want = dispatch_attention_fn(q, k, v, **keywords, backend="native")
    with attention_backend("libfa"):
        torch.testing.assert_close(dispatch_attention_fn(q, k, v, **keywords), want)
    assert len(calls) == 1 and AttentionBackendName("libfa") is AttentionBackendName["LIBFA"] is AttentionBackendName.LIBFA


def test_left_to_diffusers(calls, monkeypatch, capsys):
    monkeypatch.setenv("FA_VERBOSE", "1")
    monkeypatch.setattr(fallback, "_said", set())
    q, wide = random(1, 5, 2, 8), random(1, 5, 2, 600)
    for given in (q.double(), wide):
        want = dispatch_attention_fn(given, given, given, backend="native")
        assert torch.equal(dispatch_attention_fn(given, given, given, backend="libfa"), want)
    dispatch_attention_fn(q, q, q, dropout_p=0.5, backend="libfa")
    text = capsys.readouterr().err
    assert not calls and all(word in text for word in ("float64", "head dimension is 600", "dropout_p is 0.5"))
