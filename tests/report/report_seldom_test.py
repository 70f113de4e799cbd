"""The frequency of rescaling, by the kernel report."""

import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "perf"))

from kernel_report import emulator, seldom  # noqa: E402


class Seldom(unittest.TestCase):
    def test_warps_and_tiles(self) -> None:
        """MiniLM's texts: 3, 6 and 14 warps of 16 rows, of which those of the third one have a second tile."""
        self.assertEqual(seldom.warps_and_tiles([36, 85, 214]), (23, 14))
        self.assertEqual(seldom.warps_and_tiles([4096]), (256, 256 * 31))

    def test_files(self) -> None:
        """Rows of two numbers, with zeros up to four."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "q.npy"
            seldom.file_of(path, (2, 1, 4), seldom.widened(b"aabbccdd", 2, 4))
            self.assertEqual(seldom.numbers(path), ((2, 1, 4), b"aabb\0\0\0\0ccdd\0\0\0\0"))
            self.assertEqual(path.read_bytes().index(b"aabb") % 64, 0)

    def test_counted(self) -> None:
        """Ten times in 16 further tiles of 16 warps."""
        launch = {"kernel": "fa_forward_plain", "mix": {"max.f32": 16 * 66.0 + 10 * 70, "max.u32": 5.0}}
        with mock.patch.object(emulator, "run", return_value=[launch]):
            of = seldom.count(Path("b"), Path("f"), "x", 64, "f16", [256], 1)
        self.assertEqual((of.tiles, of.firsts, of.part), (16, 16, 10 / 16))
        launch["kernel"] = "fa_forward_split"
        with (
            mock.patch.object(emulator, "run", return_value=[launch]),
            self.assertRaisesRegex(SystemExit, "got fa_forward_split"),
        ):
            seldom.count(Path("b"), Path("f"), "x", 64, "f16", [256], 1)


if __name__ == "__main__":
    unittest.main()
