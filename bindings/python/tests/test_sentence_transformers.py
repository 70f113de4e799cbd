"""A tiny random BERT under sentence-transformers with libfa in every layer, by transformers, against eager attention: embeddings of
sentences of many lengths in padded batches."""
# needs: torch, sentence_transformers

import torch
import transformers
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
from transformers import AttentionInterface

import libfa.transformers

WORDS = "the a cat dog sat ran on mat fast attention is what all need".split()


def test_embeddings(tmp_path, monkeypatch):
    torch.manual_seed(1)
    vocabulary = tmp_path / "vocab.txt"
    vocabulary.write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]))
    sizes = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, max_position_embeddings=40)
    config = transformers.BertConfig(vocab_size=5 + len(WORDS), **sizes)
    transformers.BertModel(config).save_pretrained(tmp_path / "model")
    transformers.BertTokenizer(str(vocabulary)).save_pretrained(tmp_path / "model")
    calls = []

    def counted(module, *given, **more):
        calls.append(module)
        return libfa.transformers.forward(module, *given, **more)

    sentences = [" ".join(WORDS[i % len(WORDS)] for i in range(n)) for n in (1, 9, 4, 23, 2)]
    embeddings = {}
    AttentionInterface.register("libfa", counted)
    try:
        for implementation in ("eager", "libfa"):
            module = Transformer(str(tmp_path / "model"), model_kwargs={"attn_implementation": implementation})
            model = SentenceTransformer(modules=[module, Pooling(32)], device="cpu").eval()
            embeddings[implementation] = model.encode(sentences, batch_size=3, convert_to_tensor=True)
    finally:
        AttentionInterface.register("libfa", libfa.transformers.forward)
    assert len(calls) == 2 * 2  # layers, batches
    torch.testing.assert_close(embeddings["libfa"], embeddings["eager"], rtol=1e-4, atol=1e-5)
