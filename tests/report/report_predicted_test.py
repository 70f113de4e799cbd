"""Tables of figures that no GPU has measured say so in their heads."""

import re
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "perf"))

from kernel_report import render  # noqa: E402

SOURCES = ("predict", "published", "simulated", "emulated")


def heads(text: str) -> list[str]:
    lines = text.split("\n")
    return [line for line, rule in zip(lines, lines[1:]) if line.startswith("|") and re.fullmatch(r"\|[-:| ]+\|", rule)]


class Predicted(unittest.TestCase):
    def test_tables_of_the_report(self) -> None:
        self.assertEqual(heads(render.predicted(["kernel", "GPU"], [["a", "b"]])), ["| kernel (predicted) | GPU |"])

    def test_tables_of_documents(self) -> None:
        for name in ("kernel-model.md", "predictions.md", "gpu-instruction-counts.md"):
            found = heads((ROOT / "perf" / name).read_text())
            self.assertGreater(len(found), 3, name)
            for head in found:
                self.assertTrue(any(word in head for word in SOURCES), f"{name}: {head}")


if __name__ == "__main__":
    unittest.main()
