"""The Python of the documentation's pages runs as written, block after block, and prints the text that follows it: comments of lines that
print, or a block of text. Blocks that import a missing package are left out, and the page is then counted as skipped."""

import contextlib
import importlib.util
import inspect
import io
import re
import subprocess
import sys

import libfa
import pytest
from conftest import SOURCE

DOCS = SOURCE / "docs"
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.M | re.S)
OPTIONAL = {"torch", "ml_dtypes"}


def blocks(page):
    """(line of the page, code, expected output)."""
    text = page.read_text()
    found = list(FENCE.finditer(text))
    for fence, following in zip(found, [*found[1:], None]):
        # Those on several devices run in test_distributed.py and test_jax_distributed.py.
        if fence[1] != "python" or re.search("init_process_group|shard_map", fence[2]):
            continue
        expected = "".join(f"{said}\n" for said in re.findall(r"^.*\bprint\(.*\)  # (.*)$", fence[2], re.M))
        if following and following[1] == "text" and not text[fence.end() : following.start()].strip():
            expected = following[2]
        yield text.count("\n", 0, fence.start()) + 1, fence[2], expected


PAGES = [page for page in sorted([DOCS / "index.md", *(DOCS / "guides").glob("*.md")]) if any(blocks(page))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_page(page):
    scope: dict = {}
    left_out = []
    for line, code, expected in blocks(page):
        missing = [
            name for name in OPTIONAL if re.search(rf"\bimport .*\b{name}\b", code) and not importlib.util.find_spec(name)
        ]
        if missing:
            left_out.append(f"line {line}: {missing[0]} is not installed (FA_TEST_TORCH=1 installs it)")
            continue
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile("\n" * line + code, str(page), "exec"), scope)
        assert printed.getvalue() == expected, f"{page}:{line}"
    if left_out:
        pytest.skip("; ".join(left_out))


def test_names():
    """moving.md: names in its Python column are keywords of libfa.attention or names of libfa's modules; those in its C column fa.h's."""
    header = (SOURCE / "include" / "fa.h").read_text()
    keywords = {*inspect.signature(libfa.attention).parameters, *inspect.signature(libfa.append).parameters}
    rows = re.findall(r"^\|(.*)\|(.*)\|(.*)\|$", (DOCS / "moving.md").read_text(), re.M)
    for _, python, c in rows:
        for name in re.findall(r"`([\w.]+)", python):
            module, _, attribute = name.rpartition(".")
            if module.startswith(("libfa.torch", "libfa.distributed")):
                path = SOURCE / "bindings/python" / module.replace(".", "/")
                assert path.with_suffix(".py").exists() or (path / "__init__.py").exists(), name
            elif module:
                assert hasattr(importlib.import_module(module), attribute), name
            else:
                assert name in keywords, f"{name}: no keyword of libfa.attention or libfa.append"
        for name in re.findall(r"`(?:desc[.]|args[.])?(\w+)", c):
            assert re.search(rf"\b{name}\b", header), f"{name}: not in fa.h"
    assert len(rows) > 50


def test_scaling(tmp_path):
    """perf/scaling.svg and the table of scaling.md are those of the measurements, and say that they are a simulation."""
    command = [sys.executable, "-B", str(SOURCE / "perf" / "scaling"), "none", "--measured", "--to", str(tmp_path)]
    subprocess.run(command, check=True, capture_output=True)
    for name in ("scaling.svg", "scaling.md"):
        made = (tmp_path / name).read_text()
        assert made == (SOURCE / "perf" / name).read_text()
        assert "Simulation: " in made and "predicted" in made and re.search("1,?024", made)


def test_there_are_pages():
    assert {"index", "python", "masks", "sequences", "training", "caches"} <= {page.stem for page in PAGES}
