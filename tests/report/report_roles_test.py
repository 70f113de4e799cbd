"""Kernels whose warps have roles, by the kernel report; and FlashAttention-4 by the same rules."""

import dataclasses
import sys
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "perf"))

from kernel_report import blackwell, blackwell_text, goals, roles, sass  # noqa: E402
from machine_code import made  # noqa: E402

KEYS = 16  # and as many elements
CODE = """
softmax: SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR4], R2
  LDTM.x16 R8, tmem[UR5]
  BRA P1 masked
  MUFU.EX2 R8, R8
  MUFU.EX2 R9, R9
  FFMA2 R8, R8, R10, R12
  BRA weigh
masked: FSEL R8, R8, -INF, P2
  R2P PR, R3, 0x7f
  FSEL R9, R9, -INF, P3
  MUFU.EX2 R8, R8
  MUFU.EX2 R9, R9
weigh: BRA P5 first
  STS [R4], R3
first: STTM.x8 tmem[UR5], R8
  BRA P4 softmax
correct: SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR4], R2
  BRA !P1 kept
  LDTM.x16 R8, tmem[UR5]
  FMUL2 R8, R8, R10
  STTM.x16 tmem[UR5], R8
kept: SYNCS.ARRIVE.TRANS64 RZ, [UR4], RZ
  BRA P4 correct
multiply: SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR4], R2
  UTCHMMA gdesc[UR4], gdesc[UR6], tmem[UR8], tmem[UR9], idesc[UR10], UPT
  UTCBAR [UR11], URZ
  UTCHMMA tmem[UR4], gdesc[UR6], tmem[UR8], tmem[UR9], idesc[UR10], UPT
  UTCBAR [UR12], URZ
  BRA P5 more
  UTCBAR [UR13], URZ
  UTCBAR [UR14], URZ
  UTCBAR [UR15], URZ
more: BRA P4 multiply
load: SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR4], R2
  UTMALDG.4D [UR4], [UR6]
  SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR4], R2
  UTMALDG.4D [UR4], [UR6]
  BRA P4 load
  EXIT
"""


def function(code: str = CODE) -> sass.Function:
    """A branch: "BRA P1 there"."""
    result = sass.Function("fa_forward_plain")
    for line in code.strip().splitlines():
        label, colon, text = line.partition(": ")
        if colon:
            result.labels[f".L_{label}"] = len(result.instructions)
        instruction = made((text if colon else line).strip())
        if instruction.opcode == "BRA":
            *condition, target = instruction.operands.split()
            instruction.operands = " ".join([*condition, f"`(.L_{target})"])
        result.instructions.append(instruction)
    return result


class Roles(unittest.TestCase):
    def setUp(self) -> None:
        self.found = {role.name: role for role in roles.roles(function(), KEYS, KEYS, KEYS, False)}

    def test_masks_are_not_on_the_way(self) -> None:
        counts = self.found["softmax"].counts
        self.assertEqual((counts["MUFU"], counts["FSEL"], counts["FFMA2"]), (2, 0, 1))

    def test_what_the_shortest_iterations_leave_out(self) -> None:
        """The scale of a row, which the first iteration does not store; the release of keys and values, by one tile of two."""
        self.assertEqual(self.found["softmax"].counts["STS"], 1)
        self.assertEqual(self.found["products"].counts["UTCBAR"], 7)
        other = {role.name: role for role in roles.roles(function(), KEYS, KEYS, KEYS, True)}
        self.assertEqual((other["softmax"].counts["STS"], other["products"].counts["UTCBAR"]), (0, 4))

    def test_rows_that_need_no_correction(self) -> None:
        """Both tiles of queries, one after another."""
        counts = self.found["correction"].counts
        self.assertEqual((counts["SYNCS"], counts["LDTM"], counts["FMUL2"]), (4, 0, 0))

    def test_products_of_both_tiles(self) -> None:
        """A loop with those of one tile is gone through twice."""
        self.assertEqual(self.found["products"].counts["UTCHMMA"], 2 * roles.products_of_tile(KEYS, KEYS, KEYS))

    def test_one_tile_of_queries(self) -> None:
        """Half the softmax warps, and an iteration of each loop."""
        found = {role.name: role for role in roles.roles(function(), KEYS, KEYS, KEYS, False, 1)}
        self.assertEqual((found["softmax"].warps, found["correction"].counts["SYNCS"]), (1, 2))
        self.assertEqual(found["products"].counts["UTCHMMA"], roles.products_of_tile(KEYS, KEYS, KEYS))
        of = blackwell.counts("sm_100a", 192, 192, list(found.values()), 96, 1)
        self.assertEqual((of.iteration(100).ideal, of.iteration(100).rows, of.iteration(100).keys), (1152, 128, 96))

    def test_features(self) -> None:
        """A softcap has a reciprocal a score, where masks are not applied."""
        cap = "".join(f"  MUFU.RCP R{n}, R{n}\n" for n in range(KEYS))
        code = CODE.replace("  BRA P1 masked\n", f"  BRA P2 plain\n{cap}plain: BRA P1 masked\n")
        of = {
            feature: roles.roles(function(code), KEYS, KEYS, KEYS, False, feature=feature)[0].counts
            for feature in ("", "softcap")
        }
        self.assertEqual((of[""]["MUFU"], of["softcap"]["MUFU"], of["softcap"]["FSEL"]), (2, 2 + KEYS, 0))

    def test_loads(self) -> None:
        self.assertEqual(self.found["load"].counts["UTMALDG"], 2)

    def test_a_role_that_is_missing(self) -> None:
        code = function("a: FFMA R0, R1, R2, R3\nBRA P0 a")
        with self.assertRaisesRegex(ValueError, "no loop of the role softmax"):
            roles.roles(code, KEYS, KEYS, KEYS, False)

    def test_units(self) -> None:
        """A packed operation holds its unit as long as two; an access of tensor memory, a cycle a register."""
        units = roles.unit_cycles(self.found["softmax"].iteration, blackwell.RATES[100])
        self.assertEqual((units["FP32"], units["TMEM"], units["MUFU"]), (2, 24, 16))
        self.assertEqual(units["issue"], len(self.found["softmax"].iteration))


class FlashAttention4(unittest.TestCase):
    def test_published(self) -> None:
        """The figures of perf/kernel-model.md. A change of the rules must state again how near they come."""
        self.assertEqual((blackwell_text.near(), len(blackwell.PUBLISHED)), (17, 19))

    def test_peaks(self) -> None:
        """The benchmark's own, at the clock that it sampled."""
        for gpu, peak in (("GB200", 2568), ("GB300", 2578)):
            self.assertAlmostEqual(blackwell.peak(blackwell.GPUS[gpu]), peak, delta=1)

    def test_exponentials_are_twice_as_fast_on_103(self) -> None:
        of = blackwell.kept()["sm_100 128/128 causal"]
        self.assertEqual(of.iteration(103).units["MUFU"] * 2, of.iteration(100).units["MUFU"])
        self.assertLess(of.iteration(103).cycles, of.iteration(100).cycles)

    def test_judged_at_each_length(self) -> None:
        """A loop of FlashAttention-4's own is as fast as itself, which is not enough; f16 and features have no such loop."""
        of = blackwell.kept()["sm_100 192/128 full"]
        judged = list(goals.judge_roles(of))
        self.assertEqual([v.what.rsplit(", ", 2)[1:] for v in judged[:3]], [["full", f"{n} rows"] for n in blackwell.SEQUENCES])
        self.assertTrue(all(v.got == 1 and not v.met for v in judged[:3]))
        for other in ({"dtype": "f16"}, {"feature": "softcap"}, {"dim_v": 96}):
            self.assertEqual(list(goals.judge_roles(dataclasses.replace(of, **other))), [])

    def test_fewer_instructions_are_faster(self) -> None:
        of = blackwell.kept()["sm_100 128/128 causal"]
        fewer = dataclasses.replace(of, units={**of.units, "issue": of.units["issue"] / 2})
        self.assertLess(blackwell.teraflops(of, "B200", 8192, 128, True), blackwell.teraflops(fewer, "B200", 8192, 128, True))


if __name__ == "__main__":
    unittest.main()
