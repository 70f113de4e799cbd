"""The kernel report on the backward pass: ways through a loop, calls, and FlashAttention-2's published figures."""

import sys
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "perf"))

from kernel_report import backward, backward_peers, backward_report, backward_roles, dq_order, model, peers  # noqa: E402
from kernel_report.images import Image, Tile  # noqa: E402
from kernel_report.rates import GPUS, RATES  # noqa: E402
from kernel_report.sass import Function, Instruction  # noqa: E402

IMAGE = Image(Path("sm_80.backward_mma.bf16.32.fatbin"), 80, "backward_mma", "bf16", 32)
BRANCH = "`(.L_{})"


def function(name: str, lines: list[tuple[str, str]], labels: dict[str, int]) -> Function:
    """lines: an opcode with its modifiers, and a predicate or the label that a branch goes to."""
    made = []
    for text, more in lines:
        opcode, _, modifiers = text.partition(".")
        predicate, _, target = more.partition(" ")
        operands = BRANCH.format(target) if target else ""
        made.append(Instruction(opcode, f".{modifiers}" if modifiers else "", operands, predicate))
    return Function(name, 128, made, {f".L_{label}": at for label, at in labels.items()})


# A block of 2 warps owns 16 rows and walks 16: 3 products of 4 HMMA each, for both warps together; 4 scores a lane.
PLAIN = [("HMMA", "")] * 6 + [("MUFU.EX2", "")] * 4 + [("LDGSTS", "")] * 2
MASKED = [("ISETP", "")] * 5 + PLAIN


class Ways(unittest.TestCase):
    tile = Tile(16, 16, 64, 4096, 2)

    def looped(self, body: list[tuple[str, str]], labels: dict[str, int], name: str = "fa_backward_dq") -> Function:
        return function(name, [("NOP", ""), *body, ("BRA", "P0 head"), ("EXIT", "")], {"head": 1, **labels})

    def test_step_without_masks(self) -> None:
        body = [("BRA", "P1 masked"), *PLAIN, ("BRA", "PT joined"), *MASKED, ("NOP", "")]
        masked = 1 + 1 + len(PLAIN) + 1
        of = self.looped(body, {"masked": masked, "joined": masked + len(MASKED)})
        iteration = backward.iteration(IMAGE, of, self.tile)
        assert iteration is not None
        # The branch around, the plain step, its jump, what follows and the branch back.
        self.assertEqual((iteration.owned, iteration.walked, iteration.issued), (16, 16, 1 + len(PLAIN) + 1 + 2))
        self.assertEqual((iteration.count("ISETP"), iteration.count("HMMA")), (0, backward.tensor_ideal(IMAGE, iteration, of.name)))
        self.assertEqual(iteration.scores, 4)

    def test_pairs_take_two_ways(self) -> None:
        """Tile: 16 rows of queries are walked, 16 keys owned; a warp of each pair has 8 scores a lane, the other fetches them."""
        value = [("MUFU.EX2", "")] * 8 + [("STS.128", "")] * 2 + [("BRA", "PT joined")]
        key = [("LDS.128", "")] * 2 + [("FMUL", "")] * 8
        body = [*[("HMMA", "")] * 8, *[("LDGSTS", "")] * 2, ("BRA", "P1 key"), *value, *key, ("NOP", "")]
        at = 1 + 8 + 2 + 1 + len(value)
        of = self.looped(body, {"key": at, "joined": at + len(key)}, "fa_backward_dkv")
        iteration = backward.iteration(IMAGE, of, self.tile)
        assert iteration is not None
        common = 8 + 2 + 1 + 2
        self.assertEqual([len(way) for way in iteration.ways], [common + len(value), common + len(key)])
        self.assertEqual((iteration.count("MUFU"), iteration.count("LDS")), (4, 1))
        units = iteration.on(IMAGE, of).units
        blocks = model.min_blocks_per_sm(RATES[80], 128, 64, 4096)
        self.assertEqual(units["MUFU"], blocks * 2 / 4 * 4 * RATES[80].mufu)

    def test_adds_to_dq(self) -> None:
        """All five products: two of each warp of a pair and half of the fifth; 8 numbers a lane are added to dq."""
        common = [*[("HMMA", "")] * 10, *[("LDGSTS", "")] * 2, *[("RED", "")] * 8]
        value = [("MUFU.EX2", "")] * 8 + [("BRA", "PT joined")]
        key = [("LDS.128", "")] * 2
        at = 1 + len(common) + 1 + len(value)
        body = [*common, ("BRA", "P1 key"), *value, *key, ("NOP", "")]
        of = self.looped(body, {"key": at, "joined": at + len(key)}, backward.ALL)
        iteration = backward.iteration(IMAGE, of, self.tile)
        assert iteration is not None
        self.assertEqual((iteration.count("HMMA"), iteration.count("RED")), (backward.tensor_ideal(IMAGE, iteration, of.name), 8))
        apart = self.looped([line for line in body if line[0] != "RED"], {"key": at - 8, "joined": at - 8 + len(key)}, backward.KEYS)
        self.assertRaises(ValueError, backward.iteration, IMAGE, apart, self.tile)  # it has a product too many
        less = iteration.on(IMAGE, Function(backward.KEYS, 128)).units["L2"]
        blocks = iteration.on(IMAGE, of).blocks
        self.assertAlmostEqual(iteration.on(IMAGE, of).units["L2"] - less, blocks * 4 * 16 * 32 / RATES[80].l2_bytes)

    def test_warps_that_sub_cores_do_not_share_evenly(self) -> None:
        """Two of six warps share a sub-core, whose iteration everything waits for; shared memory belongs to all of them."""
        tile = Tile(48, 16, 192, 100 << 10, 2)
        iteration = backward.Iteration([[Instruction("HMMA", "", "", ""), Instruction("LDSM", ".4", "", "")]], tile, 48, 16)
        asked, rates = iteration.on(IMAGE, Function("fa_backward_dq", 128)), RATES[80]
        self.assertEqual((asked.blocks, asked.units["tensor"], asked.units["issue"]), (1, 2 * rates.mma, 2 * 2))
        self.assertEqual(asked.units["shared"], 1.5 * 4 * 4)
        self.assertEqual(asked.ideal, 1.5 * backward.tensor_ideal(IMAGE, iteration, "fa_backward_dq") * rates.mma)

    def test_copies_that_each_step_waits_for(self) -> None:
        """By loads of any memory into shared memory, where SM 75 has no registers to ask for them a step ahead."""
        small = Image(Path("sm_75.backward_mma.f16.256.fatbin"), 75, "backward_mma", "f16", 256)
        ahead, waits = (function("fa_backward_dq", [(f"{load}.E.128.SYS", "")], {}) for load in ("LDG", "LD"))
        found = [backward.waits_for_copies(*each) for each in ((small, ahead), (small, waits), (IMAGE, waits))]
        self.assertEqual(found, [False, True, False])

    def test_step_that_is_not_there(self) -> None:
        with self.assertRaisesRegex(ValueError, "got 12 HMMA around its loop .* expected 6"):
            backward.iteration(IMAGE, self.looped(PLAIN[:-1], {}), self.tile)
        self.assertIsNone(backward.iteration(IMAGE, self.looped([("FMUL", "")], {}), self.tile))


class Roles(unittest.TestCase):
    """Loops that a block chooses once, of plain steps, of ALiBi and of a softcap."""

    warpgroups = Image(Path("sm_90a.backward_wgmma.bf16.64.fatbin"), 90, backward_roles.WGMMA, "bf16", 64, "a")
    tensor_memory = Image(Path("sm_100a.backward_tcgen05.bf16.64.fatbin"), 100, backward_roles.TCGEN05, "bf16", 64, "a")
    tile = Tile(128, 128, 384, 200 << 10, 2)

    def loops(self, *bodies: list[tuple[str, str]]) -> Function:
        lines: list[tuple[str, str]] = [("NOP", "")]
        labels = {}
        for n, body in enumerate(bodies):
            labels[f"loop{n}"] = len(lines)
            lines += [("NOP", ""), *body, ("BRA", f"P0 loop{n}")]
        return function(backward.ALL, [*lines, ("EXIT", "")], labels)

    def test_warpgroups(self) -> None:
        """A step has 32 products of a warpgroup, 64 scores of a lane, and hands its dq over."""
        products, weights = [("HGMMA.64x64x16.F32.BF16", "")] * 32 + [("STS.128", "")] * 8, [("MUFU.EX2", "")] * 64
        capped = [*products, *weights * 2, *[("MUFU.RCP", "")] * 64]
        distances = [*products, *weights, *[("FFMA", "")] * 9]
        of = self.loops(distances, capped, [*products, *weights])
        found = backward_roles.of_warpgroups(self.warpgroups, of, self.tile)
        self.assertEqual([(step.loop, len(step.roles[0].iteration)) for step in found], [("plain", 106), ("ALiBi", 115), ("softcap", 234)])
        iteration = found[0].iteration()
        self.assertEqual((iteration.units["tensor"], iteration.units["MUFU"]), (2 * 32 * 64 * RATES[90].wgmma, 2 * 64 * RATES[90].mufu))
        self.assertEqual(found[0].ideal, 2560)
        self.assertEqual((found[2].a_score, found[2].spills), (234 / 64, 0))
        with self.assertRaisesRegex(SystemExit, "got 1 loops of scores"):
            backward_roles.of_warpgroups(self.warpgroups, self.loops(capped), self.tile)

    def test_tensor_memory(self) -> None:
        """Two chunks of a thread's queries."""
        waits = [("SYNCS", "")] * 5
        weights = [("LDTM.x32", "")] * 4 + [("MUFU.EX2", "")] * 64 + [("STTM.x16", "")] * 4
        capped = [("MUFU.RCP", "")] * 64 + [("MUFU.EX2", "")] * 64
        products = [*[("UTCHMMA", "")] * 32, *waits]
        staged, added = [*[("LDTM.x32", "")] * 2, *waits], [("UBLKRED", "")] * 2
        plain = [*waits, *weights]
        of = self.loops(products, staged, added, plain, [*plain, ("FFMA", "")], [*plain, *capped])
        found = backward_roles.of_tensor_memory(self.tensor_memory, of, self.tile)
        self.assertEqual([step.loop for step in found], ["plain", "ALiBi", "softcap"])
        self.assertEqual([len(role.iteration) for role in found[0].roles], [79, 39, 9, 4])
        self.assertEqual(len(found[2].roles[0].iteration), 79 + len(capped))
        units = found[0].iteration().units
        self.assertEqual((units["TMEM"], units["tensor"]), (2 * (4 * 32 + 4 * 16) + 2 * 32, 1280))


class Calls(unittest.TestCase):
    def test_group_shares_blocks(self) -> None:
        """Blocks of keys walk through all heads of a group, so fewer of them do as much."""
        iteration = model.Iteration({"tensor": 1000.0}, 1000.0, 1, 128, 64)
        apart, grouped = backward.Call(1, 64, 64, 4096, 128, True), backward.Call(1, 64, 8, 4096, 128, True)
        times = [backward.launch_seconds(iteration, GPUS["A100"], "fa_backward_dkv", call) for call in (apart, grouped)]
        self.assertLess(times[1], times[0])  # less is read and written outside the iterations
        self.assertGreater(times[1], 0.85 * times[0])
        by_queries = {backward.launch_seconds(iteration, GPUS["A100"], "fa_backward_dq", call) for call in (apart, grouped)}
        self.assertEqual(len(by_queries), 1)

    def test_iterations_begin_apart(self) -> None:
        """Each block of a column follows the one before it at a step's distance; under a causal mask it has less to do."""
        blocks = dq_order.grid([10, 10, 10], 1, 1)
        self.assertEqual((dq_order.end(blocks, 3, False), dq_order.end(blocks, 3, True)), (10, 12))
        self.assertEqual(dq_order.end(dq_order.grid([10, 8, 6], 1, 1), 3, True), 10)
        self.assertEqual(dq_order.end(dq_order.grid([10, 10], 2, 2), 4, True), 11)  # columns do not wait for each other
        self.assertEqual(dq_order.end(blocks, 1, True), 30)

    def test_slow_multiprocessors(self) -> None:
        """In any order a slow one's blocks are late alone; in a fixed order so are those behind them in their column."""
        column, columns = dq_order.grid([10] * 7, 1, 1), dq_order.grid([10], 7, 7)
        self.assertEqual([dq_order.end(column, 4, waits, 1) for waits in (False, True)], [20, 42])
        self.assertEqual([dq_order.end(columns, 4, waits, 1) for waits in (False, True)], [20, 20])
        self.assertEqual(dq_order.end(column, 4, True), 22)

    def test_grid(self) -> None:
        """The last group is the rest."""
        self.assertEqual(dq_order.grid([2, 1], 3, 2), [(0, 2), (1, 2), (0, 1), (1, 1), (2, 2), (2, 1)])

    def test_iterations_of_a_call(self) -> None:
        """Full masks of one head wait, as 64 blocks begin at once; many heads hardly do."""
        one, many = (backward.Call(1, heads, heads, 8192, 128, False) for heads in (1, 64))
        longer = [backward.longer_in_order(128, 64, GPUS["A100"], 1, call, "c++") for call in (one, many)]
        self.assertGreater(longer[0], 1.4)
        self.assertLess(longer[1], 1.02)

    def test_iterations_under_a_causal_mask(self) -> None:
        """The order of blocks leaves few of a column side by side, each a step behind the one before it."""
        for gpu, call in (("H100 mma.sync", backward.Call(4, 32, 32, 4096, 64, True)), ("A100", backward.Call(1, 32, 32, 16384, 64, True))):
            self.assertLess(backward.longer_in_order(128, 128, GPUS[gpu], 1, call, "c++"), 1.07)

    def test_last_tile_adds_in_order(self) -> None:
        """A second block owns the last 12 of 60 keys, and begins behind the first."""
        self.assertEqual(backward.longer_in_order(48, 16, GPUS["L4"], 1, backward.Call(1, 1, 1, 60, 64, False), "c++"), 1.25)

    def test_ways_of_the_loops_that_are_there(self) -> None:
        iteration = backward.Iteration([], Tile(16, 16, 64, 4096, 2), 16, 16)
        passes = {name: backward_report.Pass(name, IMAGE, Function(name, 128), iteration)
                  for name in (backward.KEYS, backward.QUERIES, backward.ALL)}  # fmt: skip
        ways = lambda *names: list(backward_report.Kernel("A100", IMAGE, [passes[name] for name in names], {}).ways)
        self.assertEqual(ways(backward.KEYS), [])
        self.assertEqual(ways(backward.QUERIES, backward.KEYS), [backward_report.TWO])
        self.assertEqual(ways(*passes), [backward_report.TWO, backward_report.FIXED, backward_report.ANY])

    def test_operations(self) -> None:
        full, causal = (backward.Call(2, 64, 8, 8192, 128, causal) for causal in (False, True))
        self.assertEqual(full.operations, 10 * 128 * 8192**2 * 128)
        self.assertEqual(causal.operations, full.operations / 2)


class Published(unittest.TestCase):
    def test_on_an_a100(self) -> None:
        """The figures of perf/kernel-model.md. A change of the rules must state again how near the figures come."""
        alone = [p for p in backward_peers.PUBLISHED if not p.forward]
        self.assertEqual([p.teraflops for p in alone], [178, 173, 95, 96])
        self.assertLess(max(abs(p.error) for p in alone), 0.06)
        off = [p for p in backward_peers.PUBLISHED if abs(p.error) > 0.1]
        self.assertEqual((len(backward_peers.PUBLISHED), [p.teraflops for p in off]), (12, [203]))

    def test_deterministic_waves(self) -> None:
        """128 blocks on 108 multiprocessors: two waves, the first of them bound by memory."""
        self.assertEqual(backward_peers.waves(128, 108), [108, 20])
        iteration, gpu = backward_peers.iteration(backward_peers.FULL, "A100"), GPUS["A100"]
        many, few = (backward_peers.in_memory(iteration, gpu, backward_peers.FULL, busy).cycles for busy in (108, 20))
        self.assertGreater(many, iteration.cycles)
        self.assertEqual(few, iteration.cycles)

    def test_loop_next_to_ours(self) -> None:
        """The one for full masks replaces a causal one's on Hopper; other columns have none."""
        calls = [backward.Call(2, 64, 8, 8192, dim, causal) for dim in (128, 96) for causal in (False, True)]
        of = lambda gpu: [one and one.loop.name for one in (backward_peers.fa2(gpu, call) for call in calls)]
        name = "fa2_backward.sm_{}.64x128.128.{}".format
        self.assertEqual(of("A100"), [name(80, "full"), name(80, "causal"), None, None])
        self.assertEqual(of("H200 mma.sync"), [name(90, "full")] * 2 + [None] * 2)
        self.assertEqual(of("T4"), [None] * 4)

    def test_loops_have_five_products(self) -> None:
        for loop in peers.LOOPS:
            if not loop.backward or ".sm_80." not in loop.name:
                continue
            (reading,) = [r for r in peers.READINGS if r.loop == loop.name]
            products = 5 * loop.rows * loop.keys * loop.dim / (16 * 8 * 16)
            self.assertEqual(reading.units["tensor"], products / 4 * RATES[80].mma, loop.name)


if __name__ == "__main__":
    unittest.main()
