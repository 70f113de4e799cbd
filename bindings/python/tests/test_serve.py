"""Models of the example serve: a package gives the tokens of the model that it was written from, and transformers computes the
same from it."""

# needs: torch, transformers, safetensors

import json
import re
import subprocess
import sys

import numpy as np
import pytest
import torch
import transformers
from conftest import SOURCE

FOLDER = SOURCE / "bindings" / "python" / "examples" / "serve"
sys.path.insert(0, str(FOLDER))

import model as llama
import naive
import package

TEXT = [11, 3, 500, 42, 42, 7, 81, 300, 9, 1, 250, 13]


def serve(*options):
    words = [sys.executable, str(FOLDER / "serve.py"), "--requests", "2", "--tokens", "6", *map(str, options)]
    return subprocess.run(words, capture_output=True, text=True)


def tokens_of(*options):
    done = serve(*options)
    assert done.returncode == 0, done.stderr
    assert "as the naive program has them" in done.stdout
    return re.findall(r"request .*", done.stdout)


def test_a_written_package_gives_the_same_tokens(tmp_path):
    written = tokens_of("--save", tmp_path / "model")
    assert len(written) == 2
    assert tokens_of("--model", tmp_path / "model") == written


def logits_of_transformers(folder):
    theirs = transformers.LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32)
    with torch.no_grad():
        return theirs(torch.tensor([TEXT])).logits[0].numpy()


def test_transformers_reads_a_written_package(tmp_path):
    random = llama.Model.random()
    package.write(random, tmp_path)
    expected = logits_of_transformers(tmp_path)
    assert np.abs(naive.logits(random, TEXT, rounded=False) - expected).max() < 1e-3 * np.abs(expected).max()


def test_a_package_of_transformers(tmp_path):
    """In bfloat16, in several files, the embedding being the head too, with norms that are not 1."""
    torch.manual_seed(0)
    sizes = dict(vocab_size=600, hidden_size=96, intermediate_size=160, num_hidden_layers=3, max_position_embeddings=256)
    heads = dict(num_attention_heads=6, num_key_value_heads=3, head_dim=32, rms_norm_eps=1e-6)
    rope = dict(rope_parameters={"rope_type": "default", "rope_theta": 5e4})
    config = transformers.LlamaConfig(**sizes, **heads, **rope, tie_word_embeddings=True, initializer_range=0.2)
    theirs = transformers.LlamaForCausalLM(config)
    for name, parameter in theirs.named_parameters():
        if "norm" in name:
            parameter.data.uniform_(0.5, 1.5)
    theirs.to(torch.bfloat16).save_pretrained(tmp_path, max_shard_size="200KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 1

    read = package.read(tmp_path)
    assert (read.sizes.kv_heads, read.sizes.rotary_base, read.sizes.epsilon) == (3, 5e4, 1e-6)
    expected = logits_of_transformers(tmp_path)
    assert np.abs(naive.logits(read, TEXT, rounded=False) - expected).max() < 1e-3 * np.abs(expected).max()
    assert len(tokens_of("--model", tmp_path)) == 2


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"model_type": "gpt2"}, "config.json: model_type is 'gpt2'; expected 'llama'"),
        ({"hidden_size": "wide"}, "hidden_size is 'wide'; expected a positive number"),
        ({"attention_bias": True}, "attention_bias is True; expected False"),
        ({"rope_scaling": {"rope_type": "llama3"}}, "rotary embedding of the type 'llama3'; expected 'default'"),
        ({"num_hidden_layers": 5}, "layers.4.self_attn.q_proj.weight is in none of its files; expected it, of shape (256, 256)"),
        ({"intermediate_size": 500}, "gate_proj.weight has shape (512, 256); expected (500, 256), as config.json has it"),
    ],
)  # fmt: skip
def test_refusals(tmp_path, change, text):
    package.write(llama.Model.random(), tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | change))
    with pytest.raises(package.BadPackage, match=re.escape(text)):
        package.read(tmp_path)


def test_refusals_of_the_program(tmp_path):
    nothing = serve("--model", tmp_path)
    assert "config.json: is not there; expected a folder with config.json and *.safetensors" in nothing.stderr
    package.write(llama.Model.random(), tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"max_position_embeddings": 50}))
    short = serve("--model", tmp_path)
    assert "a text would have 58 tokens; the model has 50 positions" in short.stderr
    for done in (nothing, short):
        assert done.returncode == 2
        assert "Traceback" not in done.stderr


def test_a_folder_without_weights(tmp_path):
    package.write(llama.Model.random(), tmp_path)
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(package.BadPackage, match=r"has no \*.safetensors"):
        package.read(tmp_path)
