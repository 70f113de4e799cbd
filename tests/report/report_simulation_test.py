"""The event simulation of roles: its units and waits on small examples, machine code as steps, and how near it comes to published speeds."""

import dataclasses
import sys
import unittest
from itertools import pairwise
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "perf"))

from kernel_report import (
    blackwell,
    peers,
    role_backward,
    role_calls,
    role_code,
    role_forward,
    role_published,
    role_report,
    role_tensor,
    simulation,
)
from kernel_report.nest import L2_LATENCY
from kernel_report.simulation import Arrive, Barrier, Copy, Join, Mark, Multiply, Role, Simulation, Wait, Work
from machine_code import made

NOW = Barrier(latency=0)
TAIL = simulation.LATENCY["tensor"]


def run(*roles: list[simulation.Step], **barriers: Barrier) -> simulation.Result:
    return Simulation([Role(f"role {n}", steps) for n, steps in enumerate(roles)], barriers, 32).run()


class Events(unittest.TestCase):
    def test_a_role_waits_for_an_arrival(self) -> None:
        got = run([Work(100), Arrive("there")], [Wait("there"), Work(10)], there=Barrier(latency=7))
        self.assertEqual((got.cycles, got.largest_wait("role 1")), (117, ("there", 107)))

    def test_a_phase_takes_all_arrivals(self) -> None:
        got = run([Work(100), Arrive("there")], [Work(30), Arrive("there")], [Wait("there")], there=Barrier(2, latency=0))
        self.assertEqual(got.cycles, 100)

    def test_stages_that_are_free_at_first(self) -> None:
        """Two of three loads do not wait for the reader."""
        load = [Wait("free"), Mark("loaded")]
        got = run(load * 3, [Work(500), Arrive("free")], free=Barrier(1, 2, 0))
        self.assertEqual(got.marks["loaded"], [0, 0, 500])

    def test_a_wait_without_end(self) -> None:
        with self.assertRaisesRegex(ValueError, "role 0 waits without end at step 0: Wait\\(barrier='never'\\)"):
            run([Wait("never")], never=NOW)

    def test_products_of_two_roles_share_the_tensor_cores(self) -> None:
        products = [Multiply(4, 64), Join()]
        self.assertEqual(run(products).cycles, 4 * 64 + TAIL)
        self.assertEqual(run(products, products).cycles, 8 * 64 + TAIL)

    def test_products_hold_a_warpgroup(self) -> None:
        """It goes on once the last one has begun; a thread that only asks for them goes on at once."""
        self.assertEqual(run([Multiply(4, 64), Mark("on"), Join()]).marks["on"], [3 * 64])
        self.assertEqual(run([Multiply(4, 64, held=False, issue=5), Mark("on"), Join()]).marks["on"], [4 * 5])

    def test_groups(self) -> None:
        """The first group may be waited for alone."""
        steps = [Multiply(2, 64), Multiply(1, 64), Join(1), Mark("first"), Join(), Mark("second")]
        got = run(steps)
        self.assertEqual((got.marks["first"], got.marks["second"]), ([128 + TAIL], [192 + TAIL]))

    def test_a_group_of_several_steps(self) -> None:
        """A step that does not end its group is not one to be left."""
        got = run([Multiply(1, 64, ends=False), Multiply(1, 64), Join(1), Mark("on")])
        self.assertEqual(got.marks["on"], [64])

    def test_the_end_of_products_arrives(self) -> None:
        got = run([Multiply(2, 64, held=False, signals=("done",))], [Wait("done"), Mark("seen")], done=NOW)
        self.assertEqual(got.marks["seen"], [128 + TAIL])

    def test_queued_products_leave_shared_memory_to_others(self) -> None:
        """A warp's access waits for the product that has begun, and not for those behind it."""
        got = run([Multiply(8, 64, shared=64, held=False)], [Work(1), Work(4, {"shared": 4}), Mark("read")])
        self.assertEqual(got.marks["read"], [68])

    def test_shared_memory_bounds_products(self) -> None:
        self.assertEqual(run([Multiply(4, 32, shared=48), Join()]).cycles, 4 * 48 + TAIL)

    def test_a_unit_that_two_roles_use(self) -> None:
        """Alone 512 cycles of 600; together the unit is what they wait for. Another unit does not bother them."""
        work = Work(600, {"MUFU": 512})
        self.assertEqual(run([work]).cycles, 600)
        self.assertAlmostEqual(run([work], [work]).cycles, 1024)
        self.assertEqual(run([work], [Work(600, {"ALU": 512})]).cycles, 600)

    def test_one_access_waits_once(self) -> None:
        """For a product that reads shared memory, and not again for those behind it."""
        got = run([Multiply(20, 64, shared=64, held=False)], [Work(640, {"shared": 1}), Mark("on")])
        self.assertLessEqual(got.marks["on"][0], 640 + 64 + 1)

    def test_copies_take_the_rate_and_the_latency(self) -> None:
        got = run([Copy(3200, "there", latency=50), Copy(3200, "there", latency=50)], [Wait("there"), Wait("there"), Mark("all")], there=NOW)
        self.assertEqual(got.marks["all"], [250])


LOOP = """
IADD3 R0, R1, R2, R3
SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR4], R2
HGMMA.64x128x16.F32.BF16 R24, gdesc[UR4], RZ, !UPT
IADD3 R0, R1, R2, R3
HGMMA.64x128x16.F32.BF16 R24, gdesc[UR4], R24, gsb0
HGMMA.64x64x16.F32.BF16 R88, R4, gdesc[UR4], R88, gsb0
WARPGROUP.DEPBAR.LE gsb0, 0x1
MUFU.EX2 R24, R24
SYNCS.ARRIVE.TRANS64.A1T0 RZ, [UR4], RZ
"""


class MachineCode(unittest.TestCase):
    def setUp(self) -> None:
        self.steps = role_code.translate([made(line) for line in LOOP.strip().splitlines()])

    def test_steps(self) -> None:
        kinds = [type(step).__name__ for step in self.steps]
        self.assertEqual(kinds, ["Work", "Place", "Multiply", "Work", "Multiply", "Multiply", "Join", "Work", "Place"])
        self.assertEqual([step.kind for step in self.steps if isinstance(step, role_code.Place)], ["SYNCS.PHASECHK", "SYNCS.ARRIVE"])

    def test_products(self) -> None:
        """Of two in one group the first does not end it; A in registers is not read from shared memory."""
        found = [step for step in self.steps if isinstance(step, Multiply)]
        self.assertEqual([(one.cycles, one.shared, one.ends) for one in found], [(64, 48, False), (64, 48, True), (32, 16, True)])

    def test_names(self) -> None:
        bound = role_code.bind(self.steps, [[Wait("there")], [Arrive("free")]])
        self.assertEqual((bound[1], bound[-1]), (Wait("there"), Arrive("free")))
        with self.assertRaisesRegex(ValueError, r"got 2 barriers \(SYNCS.PHASECHK, SYNCS.ARRIVE\), expected 1"):
            role_code.bind(self.steps, [[]])


def loop_of_ours() -> list[simulation.Step | role_code.Place]:
    """The shape of a step of 64 queries at 128 columns."""
    place, scores, sums = role_code.Place("SYNCS"), role_code.product(64, 64, 8), role_code.product(128, 0, 4)
    return [Work(50), place, scores, Join(), Work(400, {"MUFU": 256}), place, scores, sums, Join(1), Work(300), place, Work(20), place, sums, place,
            scores, Join(), place, place, Work(150), place]  # fmt: skip


class Kernels(unittest.TestCase):
    def test_an_iteration_takes_its_products_at_least(self) -> None:
        for loop in (one for one in peers.LOOPS if one.name.startswith("fa3")):
            of = role_forward.fa3(loop, "H100 wgmma")
            outside, iteration = role_forward.fit(of)
            self.assertGreaterEqual(iteration, 0.999 * of.ideal, loop.name)
            self.assertGreater(outside, 0, loop.name)

    def test_turns_and_keys_first(self) -> None:
        """Two warpgroups that begin together wait for each other; queries ahead of keys cost time a work tile."""
        of = role_forward.fa3(peers.FA3_NARROW, "H100 wgmma")
        loose = dataclasses.replace(of, pingpong=False, loop=[step for step in of.loop if step != role_code.Place("turn")])
        self.assertLess(role_forward.fit(of)[1], role_forward.fit(loose)[1])
        self.assertLess(role_forward.fit(of)[0], role_forward.fit(dataclasses.replace(of, keys_first=False))[0])

    def test_gradients(self) -> None:
        of = role_backward.ours(128, 64, loop_of_ours())
        theirs = role_backward.fa3("FA3", 128, 64, loop_of_ours())
        for one in (of, theirs):
            self.assertEqual(one.ideal, 2560)
            self.assertGreater(role_backward.fit(one)[1], one.ideal)

    def test_apart(self) -> None:
        """Two warpgroups that begin half a step apart stay so: dS that one waits for is a step old."""
        of = role_backward.ours(128, 64, loop_of_ours())
        together, apart = (role_backward.simulate(of, 32, apart=cycles).cycles for cycles in (0, 1200))
        self.assertLess(apart, together)

    def test_blocks_in_a_fixed_order(self) -> None:
        """Four blocks of a column begin at once; each adds a hop behind the one before it, and then at its pace."""
        free = role_calls.end([10.0] * 4, 1, 4, 0, 100, None)
        self.assertEqual((free, role_calls.end([10.0] * 4, 1, 4, 0, 100, 20)), (1000, 1060))
        self.assertGreater(role_calls.end([10.0] * 4, 1, 4, 0, 100, 150), 1400)


class TensorMemory(unittest.TestCase):
    gradients = role_tensor.Backward("gradients", 128, [Work(20), Work(800, {"MUFU": 512}), Work(0), Work(700)], [Work(30), Work(150), Work(800)])

    def test_forward(self) -> None:
        """A value's product waits for all weights, or for a part of them."""
        of = role_tensor.fa4(blackwell.kept()["sm_100 128/128 causal"])
        late = dataclasses.replace(of, scores=[*of.scores[:2], role_tensor.joined(*of.scores[2:])])
        self.assertEqual(of.ideal, 2048)
        self.assertTrue(of.ideal < of.tile.iteration < late.tile.iteration)

    def test_exponentials_on_103(self) -> None:
        its = [role_tensor.fa4(blackwell.kept()[f"{arch} 128/128 causal"]) for arch in ("sm_100", "sm_103")]
        self.assertGreater(its[0].tile.iteration, its[1].tile.iteration)
        kept = blackwell.kept()["sm_103 128/128 causal"].units["MUFU"]
        self.assertEqual(sum(one.units["MUFU"] for one in its[1].scores[2:]), kept / 4)  # of one softmax warp of two, at twice the rate

    def test_operands_in_shared_memory(self) -> None:
        """A CTA of a pair reads half of B."""
        self.assertEqual([role_tensor.product(128, 16, rows, ctas=ctas).shared for rows, ctas in ((128, 1), (128, 2), (0, 1))], [64, 48, 32])

    def test_dout_is_free_behind_its_last_product(self) -> None:
        for order, wait in ((role_tensor.DV_FIRST, "dQ read"), (role_tensor.DP_FIRST, "P")):
            steps = role_tensor.products_of(self.gradients, 3, order)
            before = {step for step, one in pairwise(steps) if isinstance(one, Multiply) and "dO free" in one.signals}
            self.assertEqual(before, {Wait(wait)}, order)

    def test_orders_of_gradients(self) -> None:
        """Scores get dP sooner where it comes ahead of dV; a pair of CTAs reads half of B."""
        pair = dataclasses.replace(self.gradients, order=role_tensor.FA4_PAIR, ctas=2, late=False)
        steps = [of.blocks[False].step for of in (dataclasses.replace(self.gradients, order=role_tensor.DV_FIRST), self.gradients, pair)]
        self.assertTrue(self.gradients.ideal < steps[2] < steps[1] < steps[0], steps)

    def test_order_of_products_in_a_fixed_order_of_sums(self) -> None:
        first, second = (dataclasses.replace(self.gradients, order=order) for order in (role_tensor.DP_FIRST, role_tensor.DV_FIRST))
        self.assertEqual(*(role_tensor.simulate_backward(of, 5, True).cycles for of in (first, second)))
        self.assertNotEqual(*(role_tensor.simulate_backward(of, 5).cycles for of in (first, second)))

    def test_every_product_once_a_step(self) -> None:
        for order in (role_tensor.DP_FIRST, role_tensor.DV_FIRST, role_tensor.FA4_PAIR):
            of = dataclasses.replace(self.gradients, order=order, late=order != role_tensor.FA4_PAIR)
            self.assertEqual(role_tensor.simulate_backward(of, 5).tensor, 5 * of.ideal)
        with self.assertRaisesRegex(ValueError, "products waits without end"):  # the next dP, in the place of a dQ that has not been multiplied
            role_tensor.simulate_backward(dataclasses.replace(self.gradients, order=role_tensor.FA4_PAIR), 5)

    def test_fixed_order(self) -> None:
        """Where dQ takes longest, a step takes longer by three round trips to the L2 cache."""
        idle, take, _ = self.gradients.dq
        blocks = dataclasses.replace(self.gradients, dq=[idle, take, Work(4000)]).blocks
        self.assertAlmostEqual(blocks[True].step - blocks[False].step, 3 * L2_LATENCY)
        self.assertIsNone(blocks[False].hop)

    def test_a_thread_that_adds(self) -> None:
        """It waits for the L2 cache in place of the warps that bring dQ to shared memory."""
        without, of = (dataclasses.replace(self.gradients, adder=adder).blocks for adder in (False, True))
        self.assertLess(of[True].step, without[True].step - L2_LATENCY)
        self.assertGreater(of[True].hop, 3 * L2_LATENCY)


class Published(unittest.TestCase):
    def test_flash_attention(self) -> None:
        """The figures of perf/kernel-model.md whose loops need no build. A change of the rules must state again how near they come."""
        kernels: dict[str, role_report.OfForward] = {}
        for of in (*(role_forward.fa3(one, "H100 wgmma") for one in peers.LOOPS if one.name.startswith("fa3")), *map(role_tensor.fa4, blackwell.kept().values())):
            kernels[of.name] = of
        its = [one for one in role_published.FORWARD if one.kernel in kernels]
        got = [role_report.forward_speed(kernels[one.kernel], one.gpu, one.call) / one.teraflops - 1 for one in its]
        self.assertEqual(role_report.near(got), "19 of 40")


if __name__ == "__main__":
    unittest.main()
