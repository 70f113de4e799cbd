"""Masks of transformers in the form that libfa.transformers passes on: the keys that each query attends are those of
transformers' own boolean mask, for every pattern, padding, cache and offset; models are given no mask of (queries, keys) where
arguments of libfa say the same."""
# needs: torch, transformers

import itertools

import pytest
import torch
import transformers
from transformers import masking_utils
from transformers.cache_utils import DynamicCache, StaticCache

import libfa.transformers
from libfa.transformers_masks import Mask, mask

PATTERNS = {
    "causal": lambda _: masking_utils.causal_mask_function,
    "bidirectional": lambda _: masking_utils.bidirectional_mask_function,
    "window 1": lambda _: masking_utils.sliding_window_causal_mask_function(1),
    "window 3": lambda _: masking_utils.sliding_window_causal_mask_function(3),
    "window 40": lambda _: masking_utils.sliding_window_causal_mask_function(40),
    "window 3 on both sides": lambda _: masking_utils.sliding_window_bidirectional_mask_function(3),
    "chunk 4": lambda left: masking_utils.chunked_causal_mask_function(4, left),
    "chunk 40": lambda left: masking_utils.chunked_causal_mask_function(40, left),
}
PADDINGS = {  # of three sequences of up to 12 keys
    "none": None,
    "all ones": [(0, 12), (0, 12), (0, 12)],
    "left": [(0, 12), (4, 12), (11, 12)],
    "right": [(0, 12), (0, 8), (0, 1)],
    "both": [(0, 12), (3, 9), (5, 6)],
    "empty": [(0, 12), (0, 0), (2, 12)],
    "short": [(0, 7), (0, 7), (3, 7)],  # as of a static cache: the mask ends before the keys do
}


def attended(attention_mask, shape, is_causal=True):
    """The pairs of shape (batch, queries, keys) that forward() attends, by values that are rows of the identity."""
    batch, queries, keys = shape
    module = torch.nn.Module()
    module.is_causal = is_causal
    q, k = torch.zeros(batch, 2, queries, 8), torch.zeros(batch, 2, keys, 8)
    v = torch.eye(keys).expand(batch, 2, keys, keys)
    out, _ = libfa.transformers.forward(module, q, k, v, attention_mask)
    assert torch.equal(out[:, :, 0], out[:, :, 1])
    return out[:, :, 0] > 0


def padding_of(spans):
    if spans is None:
        return None
    width = 7 if all(end <= 7 for _, end in spans) else 12
    places = torch.arange(width)
    return torch.stack([(places >= first) & (places < end) for first, end in spans])


@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("pattern", PATTERNS)
def test_attended_keys(pattern, padding):
    padding_mask = padding_of(PADDINGS[padding])
    left = torch.zeros(3, dtype=torch.int64) if padding_mask is None else (padding_mask.cumsum(1) == 0).sum(1)
    is_causal = pattern not in ("bidirectional", "window 3 on both sides")
    native = 0
    for queries, q_offset, kv_offset, as_tensor in itertools.product((1, 5, 12), (0, 4, 11), (0, 2), (False, True)):
        if q_offset < kv_offset or (padding_mask is not None and kv_offset >= padding_mask.shape[1]):
            continue
        keys = 12 - kv_offset
        given = dict(
            batch_size=3,
            q_length=queries,
            kv_length=keys,
            q_offset=torch.tensor(q_offset) if as_tensor else q_offset,
            kv_offset=kv_offset,
            mask_function=PATTERNS[pattern](left),
            attention_mask=padding_mask,
            allow_is_causal_skip=is_causal,
            allow_is_bidirectional_skip=not is_causal,
        )
        ours = mask(**given)
        wanted = masking_utils.sdpa_mask(**{**given, "allow_is_causal_skip": False, "allow_is_bidirectional_skip": False})
        if ours is not None:
            native += isinstance(ours, Mask)
            assert ours.shape == wanted.shape and torch.equal(ours & True, wanted)  # as a tensor, too
        assert torch.equal(attended(ours, (3, queries, keys), is_causal), wanted[:, 0]), given
    assert native > 5


@pytest.mark.parametrize("pattern", ["causal", "window 3"])
def test_packed_sequences(pattern):
    """Several sequences in a row of the batch, which transformers finds by positions that begin again."""
    positions = torch.tensor([[0, 1, 2, 3, 0, 1, 2, 0, 1, 0], [7, 8, 9, 0, 1, 2, 3, 4, 5, 6]])
    sequences = masking_utils.find_packed_sequence_indices(positions)
    function = masking_utils.remap_positions_for_packed_sequence(PATTERNS[pattern](None), positions)
    function = masking_utils.and_masks(function, masking_utils.packed_sequence_mask_function(sequences))
    given = dict(batch_size=2, q_length=10, kv_length=10, mask_function=function, allow_is_causal_skip=False)
    ours, wanted = mask(**given), masking_utils.sdpa_mask(**given)
    assert isinstance(ours, Mask) and ours.keywords["cu_seqlens_q"].tolist() == [0, 4, 7, 9, 10, 13, 20]
    query = torch.zeros(2, 2, 10, 8)
    key, value = torch.randn(2, 2, 2, 10, 8, generator=torch.Generator().manual_seed(3))
    module = torch.nn.Module()
    got, expected = (libfa.transformers.forward(module, query, key, value, x)[0] for x in (ours, wanted))
    assert torch.allclose(got, expected, atol=1e-6)
    bias = torch.randn(1, 2, 10, 10, generator=torch.Generator().manual_seed(4))  # its columns are keys of the batch entry
    got, expected = (libfa.transformers.forward(module, query, key, value, x, position_bias=bias)[0] for x in (ours, wanted))
    assert torch.allclose(got, expected, atol=1e-6)


def closure(sliding_window):
    def inner_mask(batch_idx, head_idx, q_idx, kv_idx):
        return kv_idx >= q_idx - sliding_window

    return inner_mask


OTHERS = {
    "a function of one's own, named as one of transformers": lambda: closure(3),
    "a union": lambda: masking_utils.or_masks(masking_utils.causal_mask_function, PATTERNS["window 3"](None)),
    "blocks": lambda: masking_utils.or_masks(
        masking_utils.causal_mask_function, masking_utils.blockwise_overlay(torch.tensor([[-1, 0, 0, -1, 1, 1]] * 2))
    ),
    "two windows": lambda: masking_utils.and_masks(PATTERNS["window 3"](None), PATTERNS["window 1"](None)),
    "positions that do not run on": lambda: masking_utils.and_masks(
        masking_utils.remap_positions_for_packed_sequence(
            masking_utils.causal_mask_function, torch.tensor([[0, 2, 4, 0, 1, 2]] * 2)
        ),
        masking_utils.packed_sequence_mask_function(torch.tensor([[0, 0, 0, 1, 1, 1]] * 2)),
    ),
    "chunks that begin elsewhere": lambda: masking_utils.chunked_causal_mask_function(4, torch.tensor([1, 3])),
}


@pytest.mark.parametrize("other", OTHERS)
def test_other_functions_are_tensors(other):
    given = dict(batch_size=2, q_length=6, kv_length=6, mask_function=OTHERS[other](), allow_is_causal_skip=False)
    ours = mask(**given)
    assert type(ours) is torch.Tensor and torch.equal(ours, masking_utils.sdpa_mask(**given))


def test_gaps_are_a_tensor():
    padding = torch.tensor([[1, 1, 0, 1, 1, 1], [1] * 6]).bool()
    given = dict(batch_size=2, q_length=6, kv_length=6, attention_mask=padding)
    ours = mask(**given)
    assert type(ours) is torch.Tensor and torch.equal(ours, masking_utils.sdpa_mask(**given))


def test_a_mask_is_a_tensor_to_everybody_else():
    given = dict(
        batch_size=2, q_length=6, kv_length=6, mask_function=PATTERNS["window 3"](None), allow_is_causal_skip=False
    )
    ours, wanted = mask(**given), masking_utils.sdpa_mask(**given)
    assert (ours.shape, ours.dtype, ours.device, ours.ndim) == (wanted.shape, wanted.dtype, wanted.device, 4)
    for use in (
        lambda x: x[:, :, 2:, :4],
        lambda x: ~x,
        lambda x: torch.where(x, 0.0, -1.0),
        lambda x: torch.cat((x, x), dim=-1),
        lambda x: x.clone(),
        lambda x: x.expand(2, 3, 6, 6).contiguous(),
        lambda x: torch.nn.functional.pad(x, (0, 1)),
    ):
        assert type(use(ours)) is torch.Tensor and torch.equal(use(ours), use(wanted))
    q = torch.randn(2, 1, 6, 8, generator=torch.Generator().manual_seed(5))
    attend = torch.nn.functional.scaled_dot_product_attention
    assert torch.equal(attend(q, q, q, attn_mask=ours), attend(q, q, q, attn_mask=wanted))
    assert "window" in repr(ours)


SIZES = dict(vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, pad_token_id=0)
DECODER = dict(**SIZES, num_key_value_heads=2, head_dim=8, max_position_embeddings=64, eos_token_id=None, bos_token_id=None)
MODELS = {
    "mistral": lambda: transformers.MistralForCausalLM(transformers.MistralConfig(**DECODER, sliding_window=5)),
    "gemma2": lambda: transformers.Gemma2ForCausalLM(transformers.Gemma2Config(**DECODER, sliding_window=5)),
    "bert": lambda: transformers.BertForMaskedLM(transformers.BertConfig(**SIZES, max_position_embeddings=64)),
    "modernbert": lambda: transformers.ModernBertForMaskedLM(
        transformers.ModernBertConfig(**SIZES, max_position_embeddings=64, local_attention=6, global_attn_every_n_layers=2)
    ),
}
IDS = torch.randint(1, 64, (3, 17), generator=torch.Generator().manual_seed(2))
LEFT = torch.tensor([[0] * n + [1] * (17 - n) for n in (0, 4, 9)])


@pytest.fixture
def calls(monkeypatch):
    """The keywords of each call of attention()."""
    recorded, attention = [], libfa.transformers.attention
    monkeypatch.setattr(
        libfa.transformers, "attention", lambda *tensors, **given: recorded.append(given) or attention(*tensors, **given)
    )
    return recorded


def model_of(name):
    torch.manual_seed(1)
    model = MODELS[name]().eval()
    for parameter in model.parameters():
        parameter.data.normal_(0, 0.3)
    return model


def is_native(call):
    return call.get("mask") is None and call.get("bias") is None


@pytest.mark.parametrize("padding", ["none", "left", "right"])
@pytest.mark.parametrize("name", MODELS)
def test_models(name, padding, calls):
    padding_mask = {"none": torch.ones_like(IDS), "left": LEFT, "right": LEFT.flip(1)}[padding]
    model, logits = model_of(name), {}
    for implementation in ("eager", "libfa"):
        model.set_attn_implementation(implementation)
        with torch.no_grad():
            logits[implementation] = model(input_ids=IDS * padding_mask, attention_mask=padding_mask).logits
    used = padding_mask.bool()
    assert torch.allclose(logits["libfa"][used], logits["eager"][used], atol=1e-3)
    assert len(calls) == 2 and all(map(is_native, calls))


@pytest.mark.parametrize("cache", ["dynamic", "static"])
@pytest.mark.parametrize("name", ["mistral", "gemma2"])
def test_a_chunk_after_a_cache(name, cache, calls):
    """A prompt in three pieces, each attending the cache of those before; left padding."""
    model, logits = model_of(name), {}
    for implementation in ("eager", "libfa"):
        model.set_attn_implementation(implementation)
        past = DynamicCache(config=model.config) if cache == "dynamic" else StaticCache(config=model.config, max_cache_len=24)
        pieces = []
        with torch.no_grad():
            for begin, end in ((0, 9), (9, 13), (13, 17)):
                piece = model(IDS[:, begin:end], attention_mask=LEFT[:, :end], cache=past, use_cache=True)
                pieces.append(piece.logits)
        logits[implementation] = torch.cat(pieces, 1)
    used = LEFT.bool()
    assert torch.allclose(logits["libfa"][used], logits["eager"][used], atol=1e-3)
    assert len(calls) == 6 and all(map(is_native, calls))


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoints(reentrant, calls):
    """Gradient checkpointing hands a layer's mask through autograd."""
    labels = torch.where(LEFT.roll(1, 1) * LEFT > 0, IDS, -100)  # none that a padded token would predict
    gradients = {}
    for implementation in ("eager", "libfa"):
        model = model_of("mistral").train()
        model.set_attn_implementation(implementation)
        model.activation_checkpointing_enable(dict(use_reentrant=reentrant))
        model(IDS, attention_mask=LEFT, labels=labels, use_cache=False).loss.backward()
        gradients[implementation] = [x.grad for x in model.parameters()]
    for ours, eager in zip(gradients["libfa"], gradients["eager"]):
        assert (ours - eager).norm() <= 1e-4 * eager.norm()
    assert len(calls) == 4 and all(map(is_native, calls))


def test_packed_training(calls):
    """Documents in one row, separated by their positions."""
    positions = torch.tensor([[*range(7), *range(4), *range(6)]] * 3)
    model, logits = model_of("mistral"), {}
    for implementation in ("eager", "libfa"):
        model.set_attn_implementation(implementation)
        with torch.no_grad():
            logits[implementation] = model(IDS, position_ids=positions, use_cache=False).logits
    assert torch.allclose(logits["libfa"], logits["eager"], atol=1e-3)
    assert len(calls) == 2 and all(call["cu_seqlens_q"].numel() == 10 for call in calls)


def test_compiled_models_are_given_tensors():
    model = model_of("mistral")
    model.set_attn_implementation("libfa")
    with torch.no_grad():
        wanted = model(IDS, attention_mask=LEFT, use_cache=False).logits
        got = torch.compile(model, backend="eager")(IDS, attention_mask=LEFT, use_cache=False).logits
    assert torch.allclose(got[LEFT.bool()], wanted[LEFT.bool()], atol=1e-4)


def test_dropout_names_its_setting():
    model = MODELS["bert"]().train()
    model.set_attn_implementation("libfa")
    with pytest.raises(NotImplementedError, match=r"BertConfig\.attention_probs_dropout_prob: got 0\.1.* 0\.0 works"):
        model(input_ids=IDS)
