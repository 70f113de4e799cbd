"""The README's first example runs as written and prints the text of its comment; the benchmark and the examples run."""

import pathlib
import re
import subprocess
import sys

from conftest import SOURCE

HERE = SOURCE / "bindings" / "python"


def run(*arguments, text=None):
    done = subprocess.run([sys.executable, *arguments], input=text, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_first_example():
    code = re.search(r"```python\n(.*?)```", (HERE / "README.md").read_text(), re.S)[1]
    said = re.search(r"print\(.*\)  # (.*)", code)[1]
    assert run("-", text=code).strip() == said
    assert len(code.splitlines()) == 8


def test_the_commands():
    assert "cpu.generic" in run("-m", "libfa")
    assert "us" in run(str(HERE / "bench" / "overhead.py"), "2")


def test_the_paragraphs_of_minilm():
    assert "layer 5" in run(str(HERE / "examples" / "minilm_attention.py"), str(SOURCE / "examples" / "data"))


def test_serving():
    """A preempted request continues as if nothing had been, too."""
    for options, some in (([], ("shared", "accepted")), (["--pages", "12", "--branches", "0"], ("preempted",))):
        said = run(str(HERE / "examples" / "serve" / "serve.py"), "--requests", "4", "--tokens", "12", *options)
        assert "as the naive program has them" in said
        for name in some:
            assert int(re.search(rf"{name}: (\d+)", said)[1]) > 0


def test_every_file_that_the_readme_names_is_there():
    for link in re.findall(r"\]\(([^)#]+)\)", (HERE / "README.md").read_text()):
        assert (pathlib.Path(HERE) / link).exists(), link
