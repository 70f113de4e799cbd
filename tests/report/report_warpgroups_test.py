"""Kernels whose warpgroups multiply, by the kernel report."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "perf"))

from kernel_report import peers, render, sass, wgmma  # noqa: E402
from kernel_report.analysis import Entry, analyse  # noqa: E402
from kernel_report.goals import causal_a_score, judge  # noqa: E402
from kernel_report.images import Image, Tile  # noqa: E402
from machine_code import made  # noqa: E402

COMPILE = HERE.parents[1] / "cmake" / "compile_kernel.sh"


class Warpgroups(unittest.TestCase):
    """An iteration of a warpgroup with 64 rows, 32 keys and 16 dimensions: scores in R24 to R39, results in R40 to R47."""

    KEYS = "HGMMA.64x32x16.F32.BF16 R24, gdesc[UR4], RZ, !UPT, gsb0"
    VALUES = "HGMMA.64x16x16.F32.BF16 R40, R56, gdesc[UR8].tnspB, R40"
    WAIT = "WARPGROUP.DEPBAR.LE gsb0, 0x0"
    TURN = (KEYS, VALUES, "UMOV UR8, UR9", f"{VALUES}, gsb0", "FFMA R0, R1, R2, R3", WAIT, "MOV R60, R61")

    def of(self, *iteration: str) -> wgmma.Products:
        found = wgmma.products([made(text) for text in iteration])
        assert found is not None
        return found

    def test_back_to_back(self) -> None:
        self.assertEqual(self.of(*self.TURN), wgmma.Products(columns=64, groups=2, between=0, moves=0, lonely=0))
        self.assertIsNone(wgmma.products([made("HMMA.16816.F32.BF16 R8, R4, R12, R8")]))

    def test_something_between(self) -> None:
        iteration = [*self.TURN[:2], "FMUL R0, R0, R1", "F2FP R56, R24, R25", *self.TURN[2:]]
        self.assertEqual(self.of(*iteration).between, 2)

    def test_moved_sums(self) -> None:
        for move in ("MOV R24, R60", "IMAD.MOV.U32 R60, RZ, RZ, R47"):
            self.assertEqual(self.of(*self.TURN, move).moves, 1, move)

    def test_one_by_one(self) -> None:
        """As ptxas makes products whose registers other instructions touch."""
        self.assertEqual(self.of(self.KEYS, "UMOV UR8, UR9", self.WAIT, f"{self.VALUES}, gsb0", self.WAIT).lonely, 2)

    def test_warnings(self) -> None:
        """The build keeps ptxas' warnings of products, and refuses it."""
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

    def function(self, *iterations: tuple[str, ...], name: str = "fa_forward_plain") -> sass.Function:
        """With a loop of each iteration; "BRA P1 2": over two instructions."""
        found = sass.Function(name, 168)
        for iteration in iterations:
            begin = len(found.instructions)
            found.labels[f".L_{begin}"] = begin
            for text in (*iteration, f"BRA P0 {-len(iteration)}"):
                if text.startswith("BRA"):
                    _, condition, over = text.split()
                    target = len(found.instructions) + (int(over) + 1 if int(over) > 0 else int(over))
                    found.labels[f".L_{target}"] = target
                    found.instructions.append(sass.Instruction("BRA", "", f"{condition} `(.L_{target})"))
                else:
                    found.instructions.append(made(text))
        return found

    def report(self, *iteration: str) -> Entry:
        """The report of a kernel of 128 rows, two warpgroups and one that loads."""
        found = self.entry(self.function(iteration))
        assert found is not None and found.iteration is not None
        return found

    def entry(self, function: sass.Function, dim: int = 16, feature: str = "") -> Entry | None:
        image = Image.of(Path(f"sm_90a.wgmma.bf16.{dim}.cubin"))
        assert image is not None
        return analyse(image, function, Tile(128, 32, 384, 1024, 2), feature=feature)

    def test_report(self) -> None:
        """8 instructions, 16 scores a lane; 64 columns of two warpgroups are 64 cycles of a sub-core."""
        found = self.report(*self.TURN)
        assert found.iteration is not None
        self.assertEqual((found.gpu, found.per_score, found.tensor, found.tensor_ideal), ("H100 wgmma", 0.5, 64, 64))
        self.assertEqual((found.iteration.units["tensor"], found.iteration.ideal), (64, 64))
        self.assertTrue(all(v.met for v in judge(found)), list(judge(found)))
        moving = self.report(*self.TURN, "MOV R24, R60")
        self.assertEqual([v.what for v in judge(moving) if not v.met], ["products: moves of their sums"])
        self.assertEqual(render.product_row(moving)[1:6], ["64 / 64", "2", "0", "1", "0"])

    WEIGH = ("MUFU.EX2 R24, R24", "MUFU.EX2 R25, R25")

    def test_features(self) -> None:
        """A softcap is skipped by most iterations: an exponential and a reciprocal of each score, and their scaling."""
        cap = ("MUFU.EX2 R24, R24", "MUFU.RCP R24, R24", "FMUL R24, R24, R2", "MUFU.EX2 R25, R25", "MUFU.RCP R25, R25")
        function = self.function((*self.TURN, "BRA P1 5", *cap, *self.WEIGH), name="fa_forward_score_mod")
        with_cap, without = self.entry(function, feature="softcap"), self.entry(function)
        assert with_cap is not None and without is not None
        self.assertEqual((with_cap.issued, without.issued, without.seldom), (16, 11, 5))
        self.assertTrue(with_cap.label.endswith("fa_forward_score_mod, softcap"))
        self.assertIsNone(self.entry(function, feature="ALiBi"))

    def test_values_of_another_width(self) -> None:
        """Next to queries of 192 they have 128 columns."""
        wide, narrow = (self.entry(self.function(self.TURN, name=f"fa_forward_{name}"), 192) for name in ("plain", "narrow"))
        assert wide is not None and narrow is not None and wide.iteration is not None and narrow.iteration is not None
        self.assertEqual((wide.tensor_ideal, narrow.tensor_ideal), (32 * 384 / 16, 32 * 320 / 16))
        self.assertEqual(wide.iteration.units["L2"] * 320, narrow.iteration.units["L2"] * 384)

    def test_causal_squares(self) -> None:
        """Iterations on the diagonal select their scores, in 13 instructions instead of 10."""
        masked = (*self.TURN, "FSEL R24, R24, -INF, P2", "FSEL R25, R25, -INF, P2", "MOV R61, R62", *self.WEIGH)
        found = self.entry(self.function((*self.TURN, *self.WEIGH), masked))
        assert found is not None
        self.assertEqual((found.issued, found.masked, self.report(*self.TURN).masked), (10, 13, 0))
        self.assertEqual(causal_a_score(found, 128), found.per_score * 1.3)  # a tile of rows, whose iterations all have masks
        self.assertEqual(causal_a_score(found, 256), found.per_score * (1 + 8 / 12 * 0.3))

    def test_fa3_is_the_measure(self) -> None:
        """A loop of FlashAttention-3's own numbers is as fast as FlashAttention-3."""
        ratio = peers.fa3(128, False, "H200 wgmma", 8192, 128)
        self.assertAlmostEqual(ratio, next(p for p in peers.HELD_OUT if p.of == "FlashAttention-4").modelled)


if __name__ == "__main__":
    unittest.main()
