"""Common calls, by the kernel report: their operations, the operations that are executed, their bounds."""

import dataclasses
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "perf"))

from kernel_report import calls, emulator, executed, model, shapes  # noqa: E402
from kernel_report.images import Tile  # noqa: E402
from kernel_report.rates import GPUS, RATES  # noqa: E402


class Calls(unittest.TestCase):
    GROUPED = calls.Call(2, 8, 2, 128, 256, 64, causal=True)

    def test_operations(self) -> None:
        """Row i of 128 sees 129 + i of the 256 keys."""
        scores = sum(129 + i for i in range(128))
        self.assertEqual(self.GROUPED.operations, 4 * scores * 64 * 8 * 2)
        packed = calls.Call(0, 8, 2, 0, 0, 64, lengths=(10, 20))
        self.assertEqual(packed.operations, 4 * (100 + 400) * 64 * 8)
        self.assertEqual(packed.tiles(16, 16), [(1, 1), (2, 1), (2, 1)])

    def test_line(self) -> None:
        of = dataclasses.replace(self.GROUPED, page=16, softcap=50)
        words = "gpu=RTX_4090 heads=8 heads_kv=2 dim=64 causal=1 page=16 softcap=50 alibi=0 bias=0 dim_v=0 warpgroups=0"
        self.assertEqual(of.line("RTX 4090"), f"{words} batch=2 queries=128 keys=256")
        narrow = dataclasses.replace(self.GROUPED, dim_v=32)
        self.assertIn("gpu=H200 ", narrow.line("H200 wgmma"))
        self.assertIn(" dim_v=32 warpgroups=1 ", narrow.line("H200 wgmma"))
        self.assertEqual(
            (narrow.text, narrow.operations), ("2 x 8/2 x 128/256 x 64/32, causal", self.GROUPED.operations * 3 / 4)
        )
        self.assertEqual(of.case(64, 256), "sq=64 sk=256 d=64 splits=1 page=16 softcap=50")
        self.assertEqual(of.text, "2 x 8/2 x 128/256 x 64, causal, pages of 16, softcap")

    def test_program_is_missing(self) -> None:
        with self.assertRaisesRegex(SystemExit, "fa_dram: not there; cmake --build"):
            calls.plans(Path("/nowhere"), [])

    def test_plans(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            program = Path(folder) / "perf" / "fa_dram"
            program.parent.mkdir()
            program.write_text("#!/bin/sh\nread line && echo mma fa_forward_plain 128 64 16 216 1 1000 555\n")
            program.chmod(0o755)
            (plan,) = calls.plans(Path(folder), [(self.GROUPED, "A100")])
            with self.assertRaisesRegex(SystemExit, "got 1 lines for 2 calls"):
                calls.plans(Path(folder), [(self.GROUPED, "A100")] * 2)
        self.assertEqual((plan.family, plan.entry, plan.tiles, plan.splits), ("mma", "fa_forward_plain", 16, 1))
        self.assertAlmostEqual(plan.memory_seconds(GPUS["A100"]), 1e-9)


MIX = {
    "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32": 4.0, "ex2.approx.ftz.f32": 2.0, "fma.rn.f32": 3.0,
    "ldmatrix.sync.aligned.m8n8.x4.shared.b16": 1.0, "ld.shared.v2.u32": 1.0, "cp.async.cg.shared.global.L2::128B": 1.0,
    "max.f32": 5.0, "bra": 2.0, "ld.global.nc.s32": 1.0,
}  # fmt: skip


class Executed(unittest.TestCase):
    def test_units(self) -> None:
        """As the same instructions of the machine code: HMMA 8, MUFU 8, FP32 2, ALU 2, shared memory 4 + 2 + 4 cycles."""
        units = executed.Executed(MIX).unit_cycles(RATES[80], 1)
        self.assertEqual(units, {"tensor": 32, "MUFU": 16, "FP32": 6, "ALU": 10, "shared": 40, "issue": 20})

    def test_fewer_of_the_machine(self) -> None:
        """9 of the 20 are the same in both; 14.5 issued leave half of the others."""
        of = executed.Executed(MIX)
        self.assertEqual((of.issued, of.tensor, of.of_machine(14.5)), (20, 4, 0.5))
        self.assertEqual((of.unit_cycles(RATES[80], 0.5)["issue"], of.issued_by(0.5)), (14.5, 14.5))

    def test_a_iteration_is_the_difference(self) -> None:
        """Between calls over four and over eight blocks of keys, of a block of two warps."""
        made = []

        def case(_build: Path, _arch: str, text: str) -> list[dict[str, Any]]:
            made.append(text)
            return [{"kernel": "fa_forward_plain", "mix": {"bra": 10.0 + (8 if "sk=128" in text else 0), "ret": 2.0}}]

        with mock.patch.object(emulator, "case", case):
            name, of = executed.executed(Path("b"), "80", "bf16", calls.Call(1, 1, 1, 0, 0, 64), Tile(32, 16, 64, 0, 2))
        self.assertEqual(made, ["sq=32 sk=64 d=64 splits=1 q=bf16", "sq=32 sk=128 d=64 splits=1 q=bf16"])
        self.assertEqual((name, dict(of.mix)), ("fa_forward_plain", {"bra": 1.0}))


class Shapes(unittest.TestCase):
    """One wave of 216 blocks of 100 iterations on an A100, of 1000 cycles each."""

    CALL = calls.Call(27, 8, 8, 64, 6400, 128)
    PLAN = calls.Plan("mma", "fa_forward_plain", 64, 64, 216, 216, 1, 10**6, 0)

    def prefill(self, plan: calls.Plan, board: str = "A100") -> shapes.Made:
        iterations = mock.Mock()
        iterations.iteration.return_value = shapes.Iteration(
            "fa_forward_plain", 9, model.Iteration({"tensor": 1000.0}, 1000, 2, 64, 64)
        )
        return shapes.prefill(iterations, self.CALL, board, plan)

    def test_units_decide(self) -> None:
        made = self.prefill(self.PLAN)
        self.assertFalse(made.by_memory)
        self.assertAlmostEqual(made.seconds * 1.41e9 * GPUS["A100"].sustained, 100 * 1000 + 500 + 1250, delta=1)

    def test_memory_decides(self) -> None:
        """No call is faster than its bytes."""
        made = self.prefill(dataclasses.replace(self.PLAN, read=10**9))
        self.assertTrue(made.by_memory)
        self.assertAlmostEqual(made.seconds, 1e9 / 1555e9)
        (row,) = shapes.rows([made], ["A100"], "TFLOP/s")
        self.assertEqual(row[1:], ["plain", f"{self.CALL.operations / made.seconds / 1e12:.0f} (memory)"])

    def test_a_column_of_a_family(self) -> None:
        """A call that warpgroups leave to others has no cell in their column; where mma supports values narrower than queries, it
        has none in others'."""
        iterations, biased = mock.Mock(), dataclasses.replace(self.CALL, bias=True)
        capped, narrow = dataclasses.replace(self.CALL, softcap=50), dataclasses.replace(self.CALL, dim=192, dim_v=128)
        iterations.warpgroups.return_value = shapes.Iteration("", 5, model.Iteration({"tensor": 1000.0}, 1000, 1, 128, 128))
        of = {self.CALL: "plain", capped: "score_mod", narrow: "narrow"}

        def plans(_build: Path, wanted: list[tuple[calls.Call, str]]) -> list[calls.Plan]:
            return [dataclasses.replace(self.PLAN, family="wgmma", entry=f"fa_forward_{of[call]}") if call in of and board != "A100"
                    else self.PLAN for call, board in wanted]  # fmt: skip

        with mock.patch.object(shapes, "plans", plans):
            made = list(shapes.made(iterations, [*of, biased], ["H200 wgmma"]))
            self.assertEqual([m.call for m in made], list(of))
            self.assertEqual([args.args for args in iterations.warpgroups.call_args_list],
                             [("90a", call, f"fa_forward_{name}") for call, name in of.items()])  # fmt: skip
            iterations.iteration.assert_not_called()
            iterations.iteration.return_value = iterations.warpgroups.return_value
            self.assertEqual([m.call for m in shapes.made(iterations, [self.CALL, narrow], ["A100"])], [self.CALL])
        self.assertEqual(shapes.rows([self.prefill(self.PLAN)], ["A100", "H200 wgmma"], "TFLOP/s")[0][-1], "")

    def test_iterations(self) -> None:
        """Pages: as many cycles for half as many scores."""
        iterations = mock.Mock()
        iterations.found = {
            ("80", "mma", 128, "pages of 16"): shapes.Iteration(
                "fa_forward_score_mod", 12, model.Iteration({"MUFU": 9.0}, 5, 2, 64, 32)
            ),
            ("80", "mma", 128, ""): shapes.Iteration("fa_forward_plain", 9, model.Iteration({"tensor": 9.0}, 9, 2, 64, 64)),
            ("90a", "wgmma", 128, "softcap"): shapes.Iteration(
                "fa_forward_score_mod", 9, model.Iteration({"MUFU": 9.0}, 9, 1, 64, 64)
            ),
        }
        rows = shapes.iteration_rows(iterations)
        self.assertEqual([row[1:4] + row[-1:] for row in rows],
                         [["none", "plain", "9.0", "1.00"], ["pages of 16", "score_mod", "12.0", "2.00"],
                          ["softcap", "score_mod", "9.0", ""]])  # fmt: skip
        self.assertEqual([row[0] for row in rows], ["sm_80 mma hd128", "sm_80 mma hd128", "sm_90a wgmma hd128"])

    def test_few_queries(self) -> None:
        """Launch, memory, two waves of 4 blocks of keys in 1000 cycles each or the bytes, the tile's own cycles, the splits."""
        iterations, call = mock.Mock(), calls.Call(1, 8, 1, 8, 8192, 128)
        iterations.warpgroups.return_value = shapes.Iteration("", 5, model.Iteration({"tensor": 1000.0}, 1000, 1, 128, 128))
        plan = calls.Plan("wgmma", "fa_forward_plain", 128, 128, 16, 132, 16, 10**6, 0)
        clock = GPUS["H200 wgmma"].clock * 1e9
        with mock.patch.object(shapes.latency, "combine_seconds", return_value=2e-6) as combine:
            of = shapes.few(iterations, call, "H200 wgmma", plan)
            self.assertEqual(combine.call_args.args[2:], (16 * 64, 16))
            more = shapes.few(iterations, call, "H200 wgmma", dataclasses.replace(plan, read=10**9))
        around = 1e-6 + 700e-9 + (500 + 1250) / clock + 2e-6
        self.assertAlmostEqual(of.seconds, around + 2 * 4 * 1000 / clock, delta=1e-12)
        self.assertAlmostEqual(more.seconds, around + 1e9 / 4.8e12, delta=1e-12)
        self.assertEqual((of.by_memory, more.by_memory), (False, True))

    def test_half_rate(self) -> None:
        self.assertEqual(shapes.on_board(model.Iteration({"tensor": 5.0, "MUFU": 3.0}, 5, 1, 1, 1), GPUS["RTX 4090"]).units,
                         {"tensor": 10.0, "MUFU": 3.0})  # fmt: skip


if __name__ == "__main__":
    unittest.main()
