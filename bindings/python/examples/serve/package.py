"""Packages of a model as Hugging Face's transformers writes and reads them: config.json of the type "llama", and weights in one
.safetensors file or several.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import ml_dtypes  # noqa: F401 -- safetensors reads bfloat16 as its type
import numpy as np
from model import Layer, Model, Sizes
from safetensors import safe_open
from safetensors.numpy import save_file

NAMES = {  # of Sizes
    "vocabulary": "vocab_size",
    "width": "hidden_size",
    "layers": "num_hidden_layers",
    "heads": "num_attention_heads",
    "kv_heads": "num_key_value_heads",
    "dim": "head_dim",
    "ffn": "intermediate_size",
    "max_position": "max_position_embeddings",
    "epsilon": "rms_norm_eps",
}
PLAIN = {"model_type": "llama", "hidden_act": "silu", "attention_bias": False, "mlp_bias": False}


class BadPackage(Exception):
    pass


def _sizes(path: Path) -> tuple[Sizes, bool]:
    """The sizes of config.json, and whether the embedding is the head, too."""
    try:
        config = json.loads(path.read_text())
    except FileNotFoundError:
        raise BadPackage(f"{path}: is not there; expected a folder with config.json and *.safetensors") from None
    except ValueError as error:
        raise BadPackage(f"{path}: is no JSON: {error}") from None
    for name, expected in PLAIN.items():
        if config.get(name, expected) != expected:
            raise BadPackage(f"{path}: {name} is {config[name]!r}; expected {expected!r}")
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    if (kind := rope.get("rope_type", rope.get("type", "default"))) != "default":
        raise BadPackage(f"{path}: rotary embedding of the type {kind!r}; expected 'default'")
    config.setdefault("num_key_value_heads", config.get("num_attention_heads"))
    if not config.get("head_dim"):
        config["head_dim"] = config.get("hidden_size", 0) // config.get("num_attention_heads", 1)
    values: dict[str, Any] = {}
    for field, name in NAMES.items():
        if not isinstance(config.get(name), (int, float)) or config[name] <= 0:
            raise BadPackage(f"{path}: {name} is {config.get(name)!r}; expected a positive number")
        values[field] = config[name]
    base = rope.get("rope_theta", config.get("rope_theta", 10000.0))
    return Sizes(**values, rotary_base=float(base)), bool(config.get("tie_word_embeddings", False))


class _Weights:
    """The tensors of a package, in float32."""

    def __init__(self, folder: Path) -> None:
        self._files = {}
        for path in sorted(folder.glob("*.safetensors")):
            file = safe_open(path, "numpy")
            self._files.update(dict.fromkeys(file.keys(), (path, file)))
        if not self._files:
            raise BadPackage(f"{folder}: has no *.safetensors")
        self._folder = folder

    def tensor(self, name: str, *shape: int) -> np.ndarray:
        if name not in self._files:
            raise BadPackage(f"{self._folder}: {name} is in none of its files; expected it, of shape {shape}")
        path, file = self._files[name]
        array = file.get_tensor(name)
        if array.shape != shape:
            raise BadPackage(f"{path}: {name} has shape {array.shape}; expected {shape}, as config.json has it")
        return array.astype(np.float32)

    def matrix(self, name: str, outputs: int, inputs: int) -> np.ndarray:
        """(inputs, outputs), as rows are multiplied."""
        return np.ascontiguousarray(self.tensor(name, outputs, inputs).T)


def read(folder: Path) -> Model:
    """Raises BadPackage."""
    s, tied = _sizes(folder / "config.json")
    weights = _Weights(folder)
    rows, kv_rows = s.heads * s.dim, s.kv_heads * s.dim
    layers = []
    for i in range(s.layers):
        name = f"model.layers.{i}."
        parts = (("q", rows), ("k", kv_rows), ("v", kv_rows))
        qkv = [weights.tensor(f"{name}self_attn.{part}_proj.weight", count, s.width) for part, count in parts]
        layers.append(
            Layer(
                sizes=s,
                before_attention=weights.tensor(f"{name}input_layernorm.weight", s.width),
                qkv=np.ascontiguousarray(np.concatenate(qkv).T),
                out=weights.matrix(f"{name}self_attn.o_proj.weight", s.width, rows),
                before_rest=weights.tensor(f"{name}post_attention_layernorm.weight", s.width),
                gate=weights.matrix(f"{name}mlp.gate_proj.weight", s.ffn, s.width),
                up=weights.matrix(f"{name}mlp.up_proj.weight", s.ffn, s.width),
                down=weights.matrix(f"{name}mlp.down_proj.weight", s.width, s.ffn),
            )
        )
    embedding = weights.tensor("model.embed_tokens.weight", s.vocabulary, s.width)
    head = np.ascontiguousarray(embedding.T) if tied else weights.matrix("lm_head.weight", s.vocabulary, s.width)
    return Model(s, embedding, layers, weights.tensor("model.norm.weight", s.width), head)


def write(model: Model, folder: Path) -> None:
    s = model.sizes
    config: dict[str, Any] = {"architectures": ["LlamaForCausalLM"], **PLAIN, "tie_word_embeddings": False}
    config |= {name: getattr(s, field) for field, name in NAMES.items()}
    config |= {"rope_theta": s.rotary_base, "torch_dtype": "float32"}
    weights = {
        "model.embed_tokens.weight": model.embedding,
        "model.norm.weight": model.last_norm,
        "lm_head.weight": model.head.T,
    }
    for i, layer in enumerate(model.layers):
        q, k, v = np.split(layer.qkv.T, [s.heads * s.dim, (s.heads + s.kv_heads) * s.dim])
        attention = {"q_proj": q, "k_proj": k, "v_proj": v, "o_proj": layer.out.T}
        mlp = {"gate_proj": layer.gate.T, "up_proj": layer.up.T, "down_proj": layer.down.T}
        name = f"model.layers.{i}."
        weights |= {f"{name}self_attn.{part}.weight": array for part, array in attention.items()}
        weights |= {f"{name}mlp.{part}.weight": array for part, array in mlp.items()}
        weights[f"{name}input_layernorm.weight"] = layer.before_attention
        weights[f"{name}post_attention_layernorm.weight"] = layer.before_rest
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    contiguous = {name: np.ascontiguousarray(array) for name, array in weights.items()}
    save_file(contiguous, folder / "model.safetensors", {"format": "pt"})
