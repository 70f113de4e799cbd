"""The effects of other choices, by the kernel report."""

import dataclasses
import sys
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "perf"))

from kernel_report import blackwell, choices  # noqa: E402
from kernel_report.analysis import analyse  # noqa: E402
from kernel_report.images import Image, Tile  # noqa: E402
from kernel_report.sass import Function, Instruction  # noqa: E402
from machine_code import made  # noqa: E402


class Choices(unittest.TestCase):
    OF = blackwell.kept()["sm_100 128/128 causal"]

    def test_polynomials(self) -> None:
        """Two warps: 8 cycles of MUFU less, and of packed multiply-adds 6.75 more, for each of 16 further exponentials."""
        units = choices.polynomials(self.OF, 16, 1 / 4).units
        self.assertEqual(self.OF.units["MUFU"] - units["MUFU"], 2 * 8 * 16)
        self.assertEqual(units["FP32"] - self.OF.units["FP32"], 2 * 6.75 * 16)
        self.assertEqual(choices.polynomials(self.OF, 16, 1 / 8), self.OF)

    def test_table_of_peer(self) -> None:
        """The row of the share that it has is the loop as it is."""
        row = next(line for line in choices.of_flash().splitlines() if line.startswith("| 1 of 8"))
        iteration = self.OF.iteration(100)
        self.assertIn(f"| {100 * iteration.ideal / iteration.cycles:.1f} % |", row)

    def test_longer_tiles_of_narrow_values(self) -> None:
        """Softmax of the wider kernel's tiles, and the products' instructions in proportion."""
        wide = dataclasses.replace(self.OF, name="wide")
        ours = dataclasses.replace(wide, dim=192, keys=96, issued={**wide.issued, "products": 300})
        found = choices.narrow({"sm_100a bf16 hd192/128": ours, "sm_100a bf16 hd128": wide})
        longer = next(one.of for one in found if one.what == "products of two CTAs, 128 keys")
        self.assertEqual((longer.keys, longer.ctas, longer.dim), (128, 2, 192))
        self.assertAlmostEqual(longer.units["issue"] - wide.units["issue"], 400 - wide.issued["products"])

    def test_shared_keys(self) -> None:
        """Multicast halves the bytes from the L2; where products are of two CTAs, each has half in its shared memory."""
        built = {f"sm_100a bf16 hd{dim}": dataclasses.replace(self.OF, dim=dim, dim_v=dim, tiles=1) for dim in (192, 256)}
        rows = [line.split(" | ") for line in choices.shared_keys(built, "B200").splitlines()[2:5]]
        l2 = 128 * 384 * 2 / 42
        self.assertEqual([row[1:3] for row in rows],
                         [["no", f"{l2:.0f}"], ["by multicast", f"{l2 / 2:.0f}"], ["products of two CTAs", f"{l2 / 2:.0f}"]])  # fmt: skip


class Warpgroups(unittest.TestCase):
    def test_mathematics_and_the_rest(self) -> None:
        """An iteration of 128 columns: 11 instructions besides a product and 16 exponentials."""
        iteration = [
            "HGMMA.64x128x16.F32.BF16 R24, gdesc[UR4], R24, gsb0",
            *["MUFU.EX2 R24, R24", "FFMA R24, R24, R2, R3"] * 16,
        ]
        code = [made(text) for text in [*iteration, *["UMOV UR8, UR9"] * 10]] + [Instruction("BRA", "", "P0 `(.L_0)")]
        image = Image.of(Path("sm_90a.wgmma.bf16.128.cubin"))
        assert image is not None
        entry = analyse(image, Function("fa_forward_plain", 168, code, {".L_0": 0}), Tile(128, 128, 384, 1024, 2))
        assert entry is not None
        rows = [line.split(" | ") for line in choices.of_warpgroups(entry).splitlines()]
        self.assertIn("| none of the 11 instructions outside the mathematics", [row[0] for row in rows])
        cycles = {row[0]: row[1] for row in rows}
        self.assertEqual((cycles["| as it is"], cycles["| tiles of 144 keys"]), ("1560", "1755"))  # the bytes from the L2


if __name__ == "__main__":
    unittest.main()
