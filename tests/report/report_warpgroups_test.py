"""Kernels whose warpgroups multiply, by the kernel report."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "scripts"))

from kernel_report import peers, render, sass, wgmma  # noqa: E402
from kernel_report.analysis import Entry, analyse  # noqa: E402
from kernel_report.goals import judge  # noqa: E402
from kernel_report.images import Image, Tile  # noqa: E402
from machine_code import made  # noqa: E402

COMPILE = HERE.parents[1] / "cmake" / "compile_kernel.sh"


class Warpgroups(unittest.TestCase):
    """A turn of a warpgroup with 64 rows, 32 keys and 16 dimensions: scores in R24 to R39, results in R40 to R47."""

    KEYS = "HGMMA.64x32x16.F32.BF16 R24, gdesc[UR4], RZ, !UPT, gsb0"
    VALUES = "HGMMA.64x16x16.F32.BF16 R40, R56, gdesc[UR8].tnspB, R40"
    WAIT = "WARPGROUP.DEPBAR.LE gsb0, 0x0"
    TURN = (KEYS, VALUES, "UMOV UR8, UR9", f"{VALUES}, gsb0", "FFMA R0, R1, R2, R3", WAIT, "MOV R60, R61")

    def of(self, *turn: str) -> wgmma.Products:
        found = wgmma.products([made(text) for text in turn])
        assert found is not None
        return found

    def test_back_to_back(self) -> None:
        self.assertEqual(self.of(*self.TURN), wgmma.Products(columns=64, groups=2, between=0, moves=0, lonely=0))
        self.assertIsNone(wgmma.products([made("HMMA.16816.F32.BF16 R8, R4, R12, R8")]))

    def test_something_between(self) -> None:
        turn = [*self.TURN[:2], "FMUL R0, R0, R1", "F2FP R56, R24, R25", *self.TURN[2:]]
        self.assertEqual(self.of(*turn).between, 2)

    def test_moved_sums(self) -> None:
        for move in ("MOV R24, R60", "IMAD.MOV.U32 R60, RZ, RZ, R47"):
            self.assertEqual(self.of(*self.TURN, move).moves, 1, move)

    def test_one_by_one(self) -> None:
        """As ptxas makes products that it cannot keep apart from what touches their registers."""
        self.assertEqual(self.of(self.KEYS, "UMOV UR8, UR9", self.WAIT, f"{self.VALUES}, gsb0", self.WAIT).lonely, 2)

    def test_warnings(self) -> None:
        """The build keeps what ptxas said of products, and refuses it."""
        said = "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized"
        entry = "ptxas info    : Compiling entry function 'k' for 'sm_90a'\n    0 bytes stack frame, 0 bytes spill stores, "
        entry += "0 bytes spill loads\nptxas info    : Used 168 registers, used 16 barriers"
        with tempfile.TemporaryDirectory() as folder:
            image = Path(folder) / "sm_90a.wgmma.bf16.64.fatbin"
            self.assertEqual(wgmma.warnings(image), 0)
            for text, count, status in ((entry, 0, 0), (f"{said}\n{entry}", 1, 1)):
                command = ["sh", COMPILE, image.stem, "strict", "printf", "%s\\n", text]
                done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
                self.assertEqual((done.returncode, wgmma.warnings(image)), (status, count), done.stderr)
                self.assertEqual("(C7510) Potential Performance Loss" in done.stderr, bool(count))

    def report(self, *turn: str) -> Entry:
        """Of 128 rows, two warpgroups and one that loads."""
        body = [sass.Instruction("BRA", "", "`(.L_x_0)", predicate="P0")]
        loop = [made(text) for text in turn] + body
        function = sass.Function("fa_forward_plain", 168, loop, {".L_x_0": 0})
        image = Image.of(Path("sm_90a.wgmma.bf16.16.cubin"))
        assert image is not None
        found = analyse(image, function, Tile(128, 32, 384, 1024, 2))
        assert found is not None and found.turn is not None
        return found

    def test_report(self) -> None:
        """8 instructions, 16 scores a lane; 64 columns of two warpgroups are 64 cycles of a sub-core."""
        found = self.report(*self.TURN)
        assert found.turn is not None
        self.assertEqual((found.gpu, found.per_score, found.tensor, found.tensor_ideal), ("H100 wgmma", 0.5, 64, 64))
        self.assertEqual((found.turn.units["tensor"], found.turn.ideal), (64, 64))
        self.assertTrue(all(v.met for v in judge(found)), list(judge(found)))
        moving = self.report(*self.TURN, "MOV R24, R60")
        self.assertEqual([v.what for v in judge(moving) if not v.met], ["products: moves of their sums"])
        self.assertEqual(render.product_row(moving)[1:6], ["64 / 64", "2", "0", "1", "0"])

    def test_fa3_is_the_measure(self) -> None:
        """A loop of its own numbers is as fast as itself."""
        ratio = peers.fa3(128, False, "H200 wgmma", 8192, 128)
        self.assertAlmostEqual(ratio, next(p for p in peers.HELD_OUT if p.of == "FlashAttention-4").modelled)


if __name__ == "__main__":
    unittest.main()
