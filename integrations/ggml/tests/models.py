"""Models of random weights in GGUF, shaped as Llama, Gemma 2 (windows and a softcap) and gpt-oss (windows and sinks)."""
import gguf
import numpy as np

VOCABULARY = 512


class Shape:
    def __init__(self, architecture, layers=2, width=256, heads=8, kv_heads=2, dim=64, inner=512, window=0):
        self.architecture, self.layers, self.width, self.heads = architecture, layers, width, heads
        self.kv_heads, self.dim, self.inner, self.window = kv_heads, dim, inner, window


SHAPES = {
    "llama": Shape("llama"),
    "gemma2": Shape("gemma2", dim=128, window=96),
    "gpt-oss": Shape("gpt-oss", window=64),
}
EXPERTS = 4


def tensors(shape):
    """Names and shapes, as NumPy has them: rows first."""
    width, inner, q, kv = shape.width, shape.inner, shape.heads * shape.dim, shape.kv_heads * shape.dim
    yield "token_embd.weight", (VOCABULARY, width)
    yield "output_norm.weight", (width,)
    if shape.architecture != "gemma2":
        yield "output.weight", (VOCABULARY, width)
    for i in range(shape.layers):
        block = {"attn_norm": (width,), "attn_output": (width, q)}
        block |= {"attn_q": (q, width), "attn_k": (kv, width), "attn_v": (kv, width)}
        dense = {"ffn_gate": (inner, width), "ffn_up": (inner, width), "ffn_down": (width, inner)}
        if shape.architecture == "gpt-oss":
            block |= {"post_attention_norm": (width,), "attn_sinks": (shape.heads,), "ffn_gate_inp": (EXPERTS, width)}
            block |= {f"{name}_exps": (EXPERTS, *size) for name, size in dense.items()}
            biases = {"attn_q": q, "attn_k": kv, "attn_v": kv, "attn_output": width, "ffn_gate_inp": EXPERTS}
            biases |= {f"{name}_exps": (EXPERTS, size[0]) for name, size in dense.items()}
            yield from ((f"blk.{i}.{name}.bias", size if isinstance(size, tuple) else (size,)) for name, size in biases.items())
        else:
            block |= dense | {"ffn_norm": (width,)}
        if shape.architecture == "gemma2":
            block |= {"post_attention_norm": (width,), "post_ffw_norm": (width,)}
        yield from ((f"blk.{i}.{name}.weight", size) for name, size in block.items())


def write(shape, path, context=65536, dtype=np.float32):
    random = np.random.default_rng(11)
    writer = gguf.GGUFWriter(path, shape.architecture)
    writer.add_context_length(context)
    writer.add_embedding_length(shape.width)
    writer.add_block_count(shape.layers)
    writer.add_feed_forward_length(shape.inner)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.kv_heads)
    writer.add_key_length(shape.dim)
    writer.add_value_length(shape.dim)
    writer.add_rope_dimension_count(shape.dim)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(VOCABULARY)
    writer.add_tokenizer_model("none")
    if shape.window:
        writer.add_sliding_window(shape.window)
    if shape.architecture == "gemma2":
        writer.add_attn_logit_softcapping(50.0)
        writer.add_final_logit_softcapping(30.0)
    if shape.architecture == "gpt-oss":
        writer.add_expert_count(EXPERTS)
        writer.add_expert_used_count(EXPERTS)  # a choice would turn a rounding error into another model
        writer.add_expert_feed_forward_length(shape.inner)
    for name, size in tensors(shape):
        if name.endswith("norm.weight"):
            values = np.ones(size)
        elif "sinks" in name:
            values = 2 * random.standard_normal(size)
        else:
            values = random.standard_normal(size) * (size[-1] ** -0.5 if len(size) > 1 else 0.02)
        kind = np.float32 if len(size) == 1 or "bias" in name or "ffn_gate_inp" in name else dtype
        writer.add_tensor(name, values.astype(kind))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
