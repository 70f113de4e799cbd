"""libfa inside vLLM on the CPU against vLLM's own kernel: small models of random weights, Llama, Gemma 2 (windows and softcaps), Granite
(windows and sinks) and Bloom (ALiBi), in a chunked prefill of several requests and 24 greedy tokens.

    python vllm_model.py [MODEL ...]      in the environment of vllm_environment.sh, with libfa; MODEL: llama, gemma2, granite, bloom,
                                          bf16 or fp8

Tokens are the same, and logarithms of probabilities equal within 1e-4 (bf16: 0.05); where bf16 parts, logarithms before that place are.
With fp8 all layers stay with vLLM's kernel."""

import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

COMMON = dict(hidden_size=256, intermediate_size=512, num_attention_heads=8, num_key_value_heads=2, vocab_size=512)
COMMON |= dict(max_position_embeddings=1024, rms_norm_eps=1e-5, rope_theta=10000.0, bos_token_id=1, eos_token_id=2, head_dim=32)
LLAMA = dict(COMMON, architectures=["LlamaForCausalLM"], model_type="llama", num_hidden_layers=3, hidden_act="silu")
GEMMA = dict(COMMON, architectures=["Gemma2ForCausalLM"], model_type="gemma2", num_hidden_layers=4, query_pre_attn_scalar=32)
GEMMA |= dict(
    sliding_window=48, attn_logit_softcapping=5.0, final_logit_softcapping=30.0, hidden_activation="gelu_pytorch_tanh"
)
GEMMA |= dict(layer_types=["sliding_attention", "full_attention"] * 2)
GRANITE = dict(COMMON, architectures=["GraniteSWAForCausalLM"], model_type="granite", num_hidden_layers=4, hidden_act="silu")
GRANITE |= dict(attention_multiplier=32**-0.5, sliding_window=48, layer_types=["sliding_attention", "full_attention"] * 2)
GRANITE |= dict(rope_parameters={"rope_type": "default", "rope_theta": 10000.0})
BLOOM = dict(architectures=["BloomForCausalLM"], model_type="bloom", hidden_size=256, n_layer=3, n_head=8, vocab_size=512)
BLOOM |= dict(bos_token_id=1, eos_token_id=2, layer_norm_epsilon=1e-5)
MODELS = {
    "llama": (LLAMA, "float32", "auto"),
    "gemma2": (GEMMA, "float32", "auto"),
    "granite": (GRANITE, "float32", "auto"),
    "bloom": (BLOOM, "float32", "auto"),
    "bf16": (LLAMA, "bfloat16", "auto"),
    "fp8": (LLAMA, "bfloat16", "fp8"),
}


def of_bloom(config):
    import torch

    hidden = config["hidden_size"]
    weights = {"word_embeddings.weight": torch.randn(config["vocab_size"], hidden) / hidden**0.5}  # the head, too
    norms = ["word_embeddings_layernorm", "ln_f"]
    shapes = {"self_attention.query_key_value": (3 * hidden, hidden), "self_attention.dense": (hidden, hidden)}
    shapes |= {"mlp.dense_h_to_4h": (4 * hidden, hidden), "mlp.dense_4h_to_h": (hidden, 4 * hidden)}
    for layer in range(config["n_layer"]):
        norms += [f"h.{layer}.input_layernorm", f"h.{layer}.post_attention_layernorm"]
        for name, shape in shapes.items():
            gain = 1.5 if name.endswith("query_key_value") else 1.0
            weights[f"h.{layer}.{name}.weight"] = gain * torch.randn(shape) / shape[1] ** 0.5
            weights[f"h.{layer}.{name}.bias"] = torch.zeros(shape[0])
    for name in norms:
        weights |= {f"{name}.weight": torch.ones(hidden), f"{name}.bias": torch.zeros(hidden)}
    return weights


def of_llama(config):
    """Also of the models that differ from Llama in a few weights."""
    import torch

    hidden, middle, dim = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    heads, kv_heads = (config[name] * dim for name in ("num_attention_heads", "num_key_value_heads"))
    weights = {"model.embed_tokens.weight": torch.randn(config["vocab_size"], hidden), "model.norm.weight": torch.ones(hidden)}
    weights["lm_head.weight"] = torch.randn(config["vocab_size"], hidden) / hidden**0.5
    shapes = {
        "self_attn.q_proj": (heads, hidden),
        "self_attn.k_proj": (kv_heads, hidden),
        "self_attn.v_proj": (kv_heads, hidden),
    }
    shapes |= {"self_attn.o_proj": (hidden, heads), "mlp.gate_proj": (middle, hidden), "mlp.up_proj": (middle, hidden)}
    shapes |= {"mlp.down_proj": (hidden, middle)}
    norms = ["input_layernorm", "post_attention_layernorm"]
    if config["model_type"] == "gemma2":
        norms += ["pre_feedforward_layernorm", "post_feedforward_layernorm"]
        del weights["lm_head.weight"]  # the embedding is
    for layer in range(config["num_hidden_layers"]):
        for name, shape in shapes.items():
            gain = 1.5 if name.endswith(("q_proj", "k_proj")) else 1.0
            weights[f"model.layers.{layer}.{name}.weight"] = gain * torch.randn(shape) / shape[1] ** 0.5
        for name in norms:
            weights[f"model.layers.{layer}.{name}.weight"] = torch.ones(hidden)
        if config["model_type"] == "granite":
            weights[f"model.layers.{layer}.self_attn.sinks"] = 2 + torch.randn(config["num_attention_heads"])
    return weights


def write(folder, config):
    """A model with weights whose attention is far from uniform."""
    import torch
    from safetensors.torch import save_file

    torch.manual_seed(0)
    weights = (of_bloom if config["model_type"] == "bloom" else of_llama)(config)
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    tied = config["model_type"] in ("gemma2", "bloom")
    (folder / "config.json").write_text(json.dumps({**config, "torch_dtype": "float32", "tie_word_embeddings": tied}))


def generate(folder, name, which):
    """In a process of its own: tokens and logarithms of all requests, as JSON."""
    calls = {"attention": 0, "append": 0}
    if which == "libfa":
        import libfa.vllm

        libfa.vllm.register()
    from vllm import LLM, SamplingParams

    if which == "libfa":
        import libfa.vllm_attention as hook

        for call in calls:

            def counted(*given, original=getattr(hook, call), call=call, **named):
                calls[call] += 1
                return original(*given, **named)

            setattr(hook, call, counted)
    _, dtype, cache = MODELS[name]
    more = dict(skip_tokenizer_init=True, enforce_eager=True, max_model_len=1024, max_num_batched_tokens=256, seed=0)
    model = LLM(folder, dtype=dtype, kv_cache_dtype=cache, enable_prefix_caching=False, **more)
    draw = random.Random(0)
    prompts = [{"prompt_token_ids": [draw.randrange(3, 512) for _ in range(n)]} for n in (5, 300, 77, 33)]
    wanted = SamplingParams(temperature=0, max_tokens=24, logprobs=0, prompt_logprobs=0, ignore_eos=True, detokenize=False)
    found = []
    for request in model.generate(prompts, wanted, use_tqdm=False):
        (result,) = request.outputs
        given = [x[t].logprob for x, t in zip(request.prompt_logprobs[1:], request.prompt_token_ids[1:])]
        made = [x[t].logprob for x, t in zip(result.logprobs, result.token_ids)]
        found.append([list(result.token_ids), given + made, len(given)])
    print("RESULT " + json.dumps([found, calls]))


def compare(name):
    with tempfile.TemporaryDirectory() as folder:
        write(pathlib.Path(folder), MODELS[name][0])
        results = {}
        for which in ("stock", "libfa"):
            environment = {**os.environ, "VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_CPU_KVCACHE_SPACE": "1"}
            environment |= {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "VLLM_LOGGING_LEVEL": "ERROR"}
            command = [sys.executable, __file__, "--generate", folder, name, which]
            ran = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
            results[which] = json.loads(ran.stdout.split("RESULT ")[1].splitlines()[0])
    (stock, _), (own, calls) = results["stock"], results["libfa"]
    taken = name != "fp8"
    assert all((count > 0) == taken for count in calls.values()), calls
    worst, parted = 0.0, 0
    for (tokens, logs, prompt), (own_tokens, own_logs, _) in zip(stock, own):
        same = next((i for i, (x, y) in enumerate(zip(tokens, own_tokens)) if x != y), len(tokens))
        parted += same < len(tokens)
        worst = max(worst, *(abs(x - y) for x, y in zip(logs[: prompt + same], own_logs)))
    bound = 1e-4 if MODELS[name][1] == "float32" else 0.05
    print(
        f"{name}: {calls['attention']} calls of libfa; logarithms differ by {worst:.1e}; {parted} of {len(stock)} requests part"
    )
    assert worst < bound, f"expected less than {bound}"
    assert not parted or bound > 1e-4, "tokens differ"


if __name__ == "__main__":
    if sys.argv[1:2] == ["--generate"]:
        generate(*sys.argv[2:])
    else:
        for model in sys.argv[1:] or MODELS:
            compare(model)
