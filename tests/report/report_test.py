"""The kernel report on SASS whose counts were made by hand: loop.sass holds a loop with masks and, after it, the steady one."""

import sys
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "scripts"))

from kernel_report import loops, model, peers, sass, schedule  # noqa: E402
from kernel_report.analysis import analyse  # noqa: E402
from kernel_report.goals import judge  # noqa: E402
from kernel_report.images import Image, Tile  # noqa: E402
from kernel_report.rates import GPUS, RATES  # noqa: E402

TEXT = (HERE / "loop.sass").read_text()


def steady(text: str = TEXT) -> loops.Loop:
    loop = loops.steady_loop(sass.parse(text)[0])
    assert loop is not None
    return loop


class Text(unittest.TestCase):
    def test_function(self) -> None:
        (function,) = sass.parse(TEXT)
        self.assertEqual((function.name, function.registers), ("fa_forward", 168))
        self.assertEqual(len(function.instructions), 20)
        self.assertEqual(function.labels[".L_x_2"], 7)

    def test_control(self) -> None:
        instructions = sass.parse(TEXT)[0].instructions
        self.assertEqual(instructions[1].control, sass.Control(stall=4, writes=0, reads=7, waits=0))  # LDSM
        self.assertEqual(instructions[2].control, sass.Control(stall=2, writes=7, reads=7, waits=1))  # HMMA waits for it
        self.assertEqual(instructions[18].control.waits, 0)

    def test_nothing(self) -> None:
        self.assertEqual(sass.parse("no machine code here"), [])


class Loops(unittest.TestCase):
    def test_steady(self) -> None:
        loop = steady()
        self.assertEqual((loop.begin, loop.end), (7, 18))
        self.assertEqual((len(loop.steady), len(loop.seldom), loop.tensor, loop.local), (10, 2, 2, 0))
        self.assertEqual(
            dict(loop.counts), {"LDSM": 1, "HMMA": 2, "BRA": 3, "FFMA": 1, "MUFU": 1, "LDGSTS": 1, "BAR": 1}
        )

    def test_masked_loop_is_another(self) -> None:
        self.assertEqual([len(loop.steady) for loop in loops.tensor_loops(sass.parse(TEXT)[0])], [6, 10])

    def test_spill_is_seen(self) -> None:
        self.assertEqual(steady(TEXT.replace("FFMA R8, R8, R31, R32", "LDL R8, [R1+0x10]")).local, 1)


class Model(unittest.TestCase):
    def test_units(self) -> None:
        # HMMA 2 x 8; MUFU 8; FFMA 2; LDSM and LDGSTS 4 cycles of the SM each, of which a sub-core has a quarter.
        self.assertEqual(
            model.unit_cycles(steady().steady, RATES[80]),
            {"tensor": 16, "MUFU": 8, "FP32": 2, "ALU": 0, "shared": 32, "issue": 10},
        )

    def test_occupancy(self) -> None:
        self.assertEqual(model.blocks_an_sm(RATES[80], 255, 128, 80 << 10), 2)
        self.assertEqual(model.blocks_an_sm(RATES[80], 255, 128, (81 << 10) + 1), 1)  # 1 KB a block is reserved
        self.assertEqual(model.blocks_an_sm(RATES[80], 168, 256, 0), 1)
        self.assertEqual(model.blocks_an_sm(RATES[75], 128, 128, 64 << 10), 1)

    def test_turns(self) -> None:
        self.assertEqual(model.turns(256, 256, 128, 64, False), [(4, 0), (4, 0)])
        self.assertEqual(model.turns(256, 256, 128, 64, True), [(2, 2), (4, 2)])
        self.assertEqual(model.turns(128, 100, 128, 64, False), [(2, 1)])

    def test_peaks(self) -> None:
        for name, peak in {"T4": 65, "A100": 312, "L4": 121, "H100 wgmma": 989, "RTX 4090": 165}.items():
            self.assertAlmostEqual(GPUS[name].peak / peak, 1, delta=0.01, msg=name)

    def test_more_work_takes_longer(self) -> None:
        turn = model.Turn({"tensor": 100, "MUFU": 50, "issue": 60}, 100, 1, 64, 64)
        busier = model.Turn({"tensor": 100, "MUFU": 90, "issue": 60}, 100, 1, 64, 64)
        self.assertLess(100, turn.cycles)
        self.assertLess(turn.cycles, busier.cycles)
        self.assertEqual(turn.limit, "tensor")
        self.assertEqual(model.Turn({"tensor": 100, "L2": 500}, 100, 1, 64, 64).cycles, 500)

    def test_published(self) -> None:
        """What docs/kernel-model.md says of the peers. A change of the rules must say anew how near they come."""
        self.assertEqual((sum(abs(p.error) <= 0.1 for p in peers.PUBLISHED), len(peers.PUBLISHED)), (15, 17))


class Schedule(unittest.TestCase):
    def test_bounds(self) -> None:
        loop, rates = steady().steady, RATES[80]
        alone = schedule.cycles_a_turn(loop, rates, 1, 1)
        together = schedule.cycles_a_turn(loop, rates, 2, 2)
        self.assertGreaterEqual(alone, sum(i.control.stall for i in loop))
        self.assertGreaterEqual(together, 2 * 32)  # shared memory
        self.assertLess(together, 2 * alone)  # one waits while the other works

    def test_barrier_keeps_a_block_together(self) -> None:
        loop, rates = steady().steady, RATES[80]
        self.assertLessEqual(schedule.cycles_a_turn(loop, rates, 2, 2), schedule.cycles_a_turn(loop, rates, 2, 1))


class Report(unittest.TestCase):
    def test_entry(self) -> None:
        """32 x 16 x 16 with one warp: 2 products of 2 x 2 tiles of 16 x 8 x 16 are 8 HMMA; the loop has 2."""
        image = Image.of(Path("sm_80.mma.bf16.16.cubin"))
        assert image is not None
        entry = analyse(image, sass.parse(TEXT)[0], Tile(32, 16, 32, 1024, 2), True)
        assert entry is not None and entry.of_peak is not None
        self.assertEqual((entry.tensor_ideal, entry.issued, entry.seldom), (8, 10, 2))
        self.assertEqual((entry.per_score, entry.per_score_rest), (10 / 16, 7 / 16))
        self.assertLess(entry.of_peak, 2)
        self.assertTrue(all(v.met for v in judge(entry)))
        spilling = analyse(
            image, sass.parse(TEXT.replace("FFMA R8", "LDL R8"))[0], Tile(32, 16, 32, 1024, 2), False
        )
        assert spilling is not None
        self.assertEqual([v.what for v in judge(spilling) if not v.met], ["spills"])


if __name__ == "__main__":
    unittest.main()
