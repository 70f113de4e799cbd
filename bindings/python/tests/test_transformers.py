"""Tiny random models of transformers with libfa in every layer, against the same model in double precision: the error of logits
is at most twice that of transformers' eager attention in the model's type, for prefill and padded batches; so is that of the
gradients of a training step. The same tokens are generated with caches."""
# needs: torch, transformers

import pytest
import reference_torch
import torch
import transformers
from transformers import AttentionInterface
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

import libfa.transformers

COMMON = dict(
    vocab_size=64,
    hidden_size=32,
    intermediate_size=48,
    num_hidden_layers=3,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=8,
    max_position_embeddings=64,
    pad_token_id=0,
    eos_token_id=None,
    bos_token_id=None,
)
CONFIGS = {
    "llama": lambda: transformers.LlamaConfig(**COMMON),
    "gemma2": lambda: transformers.Gemma2Config(
        **COMMON, sliding_window=5, attn_logit_softcapping=2.0, query_pre_attn_scalar=8, attention_dropout=0.0
    ),
    "qwen2": lambda: transformers.Qwen2Config(**COMMON, use_sliding_window=True, sliding_window=5, max_window_layers=1),
    "gpt_oss": lambda: transformers.GptOssConfig(  # every token through both experts: no choice that a rounding could flip
        **COMMON,
        sliding_window=5,
        num_local_experts=2,
        num_experts_per_tok=2,
        rope_parameters={"rope_type": "default", "rope_theta": 1e4},
    ),
}
TYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
layer_calls = []


def counting(module, *positional, **keywords):
    layer_calls.append(
        (module.layer_idx, keywords.get("sliding_window"), keywords.get("softcap"), keywords.get("s_aux") is not None)
    )
    return libfa.transformers.forward(module, *positional, **keywords)


def exact(module, q, k, v, mask, scaling=None, sliding_window=None, softcap=None, s_aux=None, **_):
    """Attention in double precision; eager's own has NaN in rows that attend nothing, and its softmax is of float32."""
    given = dict(scale=scaling, softcap=softcap or 0.0, sinks=s_aux)
    given.update(dict(mask=mask) if mask is not None else dict(causal=True, window=((sliding_window or 0) - 1, -1)))
    return reference_torch.attention(*(x.transpose(1, 2) for x in (q, k, v)), **given)[0], None


AttentionInterface.register("exact", exact)
AttentionMaskInterface.register("exact", sdpa_mask)


@pytest.fixture(autouse=True)
def count():
    layer_calls.clear()
    AttentionInterface.register("libfa", counting)
    yield
    AttentionInterface.register("libfa", libfa.transformers.forward)


def model_of(name, dtype):
    torch.manual_seed(1)
    model = transformers.AutoModelForCausalLM.from_config(CONFIGS[name](), dtype=torch.float32).eval()
    for parameter in model.parameters():  # of a size at which attention matters
        parameter.data.normal_(0, 0.3)
    if name == "gpt_oss":
        model.set_experts_implementation("eager")  # the others know no double precision
    return model.to(dtype)


def logits(model, implementation, **inputs):
    model.set_attn_implementation(implementation)
    with torch.no_grad():
        return model(**inputs).logits.double()


def distance(got, want, mask):
    return (got - want)[mask.bool()].abs().max().item()


IDS = torch.randint(1, 64, (3, 17), generator=torch.Generator().manual_seed(2))
LEFT = torch.tensor([[0] * n + [1] * (17 - n) for n in (0, 4, 9)])
RIGHT = LEFT.flip(1)


@pytest.mark.parametrize("padding", ["none", "left", "right"])
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", CONFIGS)
def test_prefill(name, dtype, padding):
    mask = {"none": torch.ones_like(IDS), "left": LEFT, "right": RIGHT}[padding]
    inputs = dict(input_ids=IDS, attention_mask=mask, use_cache=False)
    model = model_of(name, TYPES[dtype])
    want = logits(model_of(name, TYPES[dtype]).double(), "exact", **inputs)
    eager = distance(logits(model, "eager", **inputs), want, mask)
    ours = distance(logits(model, "libfa", **inputs), want, mask)
    assert ours <= 2 * eager + 1e-6, f"{ours} against eager's {eager}"
    assert [layer for layer, *_ in layer_calls] == [0, 1, 2]
    if name in ("gemma2", "gpt_oss", "qwen2"):
        assert any(window == 5 for _, window, *_ in layer_calls) and any(window is None for _, window, *_ in layer_calls)
    if name == "gemma2":
        assert all(softcap == 2.0 for _, _, softcap, _ in layer_calls)
    if name == "gpt_oss":
        assert all(sinks for *_, sinks in layer_calls)


@pytest.mark.parametrize("cache", ["dynamic", "static"])
@pytest.mark.parametrize("name", CONFIGS)
def test_generate(name, cache):
    model = model_of(name, torch.float32)
    tokens = {}
    for implementation in ("eager", "libfa"):
        model.set_attn_implementation(implementation)
        settings = dict(max_new_tokens=8, do_sample=False, cache_implementation=cache, disable_compile=True)
        tokens[implementation] = model.generate(IDS * LEFT, attention_mask=LEFT, **settings)
    assert torch.equal(tokens["eager"], tokens["libfa"])
    assert len(layer_calls) == 3 * 8  # every layer of the prefill and of each further token


def gradients(model, implementation):
    """The gradients of one step's loss, by parameter."""
    model.set_attn_implementation(implementation)
    model(input_ids=IDS, labels=IDS, use_cache=False).loss.backward()
    return {name: x.grad.double() for name, x in model.named_parameters()}


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", ["llama", "gemma2", "gpt_oss"])
def test_a_training_step(name, dtype, monkeypatch):
    """No parameter's gradient has more than twice the error of eager's, norm by norm."""
    calls = []
    backward = libfa.capi.backward
    monkeypatch.setattr(libfa.capi, "backward", lambda *given: calls.append(1) or backward(*given))
    want = gradients(model_of(name, TYPES[dtype]).double(), "exact")
    eager, ours = (gradients(model_of(name, TYPES[dtype]), implementation) for implementation in ("eager", "libfa"))
    assert [layer for layer, *_ in layer_calls] == [0, 1, 2] and len(calls) == 3
    unit = {"float32": 1e-6, "bfloat16": 2**-9}[dtype]
    for parameter, exact in want.items():
        error, bound = (ours[parameter] - exact).norm(), 2 * (eager[parameter] - exact).norm() + unit * exact.norm()
        assert error <= bound + 1e-9, f"{parameter}: {error} against {bound}"
    if name == "gpt_oss":
        assert any("sinks" in parameter and x.norm() > 0 for parameter, x in ours.items())
