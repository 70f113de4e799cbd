"""Faults planted into third-party kernels, one at a time: checks or wrong results must detect each."""

import dataclasses
import pathlib
import re
import shutil
import tempfile

import emulated


@dataclasses.dataclass(frozen=True)
class Mutant:
    """An edit of a program's first file: these occurrences of the pattern (from 0; empty: all of them) become the text."""

    program: str
    what: str
    pattern: str
    text: str = ""
    at: tuple = (0,)
    shows: str = "checks"  # or "results", where the code is legal, and only its results are wrong

    def apply(self, text, keep_length):
        """The file with the fault; in an executable, nothing may move."""
        found = list(re.finditer(self.pattern, text))
        if len(found) <= max(self.at, default=0):
            raise SystemExit(
                f"{self.program}: {self.what}: {len(found)} places match {self.pattern!r}; the table is for "
                "another compiler: see requirements.txt"
            )
        for one in [found[at] for at in sorted(self.at, reverse=True)] if self.at else reversed(found):
            planted = one.expand(self.text)
            if keep_length:
                planted = planted.ljust(one.end() - one.start())
                assert len(planted) == one.end() - one.start(), f"{self.what}: {planted!r} is longer than the text that it replaces"
            text = text[: one.start()] + planted + text[one.end() :]
        return text


BARRIER = r"bar\.sync \t0;"
MUTANTS = (
    Mutant("triton.softmax.sm_75", "no barrier between warps' maxima and their use", BARRIER, at=(0,)),
    Mutant("triton.softmax.sm_75", "no barrier before the same words hold sums", BARRIER, at=(1,)),
    Mutant(
        "triton.softmax.sm_75",
        "a lane's sum comes from another one",
        r"(shfl\.sync\.bfly\.b32 .*, )16(, 31, -1;)",
        r"\g<1>8\2",
        at=(1,),
        shows="results",
    ),
    Mutant("triton.softmax.sm_75", "loads that no predicate keeps inside a row", r"@%p\d+ (ld\.global\.b32)", r"\1", at=()),
    Mutant("triton.histogram.sm_75", "no barrier after the bins are zeroed", BARRIER, at=(0,)),
    Mutant("triton.histogram.sm_75", "no barrier before the bins are read", BARRIER, at=(1,)),
    Mutant(
        "triton.histogram.sm_75",
        "counts by a plain store",
        r"atom\.relaxed\.sys\.shared\.add\.u32 \t%r\d+, (.*), 1;",
        r"st.shared.b32 \1, 1;",
        at=(),
    ),
    Mutant("triton.scan.sm_75", "no barrier between exchanges of the sort", BARRIER, at=(12,)),
    Mutant(
        "triton.scan.sm_75", "sums from a lane too far", r"(shfl\.sync\.up\.b32 .*, )2(, 0, -1;)", r"\g<1>3\2", shows="results"
    ),
    Mutant("triton.attention.sm_75", "no barrier before a tile is read", BARRIER, at=(1,)),
    Mutant("triton.attention.sm_80", "copies that nobody waits for", r"cp\.async\.wait_group \t0;", at=(0,)),
    Mutant("triton.attention.sm_80", "one group too many in flight", r"cp\.async\.wait_group \t0;", "cp.async.wait_group 2;"),
    Mutant("triton.attention.sm_80", "no barrier after the wait", r"(cp\.async\.wait_group \t0;\s+)" + BARRIER, r"\1"),
    Mutant("triton.attention.sm_80", "copies that no predicate keeps inside the tensor", r"0x10, %r\d+;", "0x10, 16;", at=()),
    Mutant(
        "triton.attention.sm_80", "fragments of the next tile", r"ldmatrix(.*)\[%r21\];", r"ldmatrix\1[%r22];", shows="results"
    ),
    Mutant("triton.attention.sm_80", "an odd address", r"ldmatrix(.*)\[%r21\];", r"ldmatrix\1[%r21+2];"),
    Mutant("triton.attention.sm_90a", "products read before they are done", r"wgmma\.wait_group\.sync\.aligned 0;"),
    Mutant("triton.attention.sm_90a", "no wgmma.fence after writes of registers", r"wgmma\.fence\.sync\.aligned;", at=(1,)),
    Mutant("triton.attention.sm_90a", "no commit", r"wgmma\.commit_group\.sync\.aligned;"),
    Mutant("triton.attention.sm_90a", "no proxy fence", r"fence\.proxy\.async\.shared::cta;", at=()),
    Mutant("triton.attention_described.sm_90a", "twice the bytes expected", r", 8192;", ", 16384;"),
    Mutant("triton.attention_described.sm_90a", "half of the bytes expected", r", 8192;", ", 4096;"),
    Mutant(
        "triton.attention_described.sm_90a",
        "no wait for a tile",
        r"mbarrier\.try_wait\.parity.*;",
        "setp.eq.u32 complete, 0, 0;",
        at=(1,),
    ),
    Mutant(
        "triton.attention_described.sm_90a",
        "the other parity",
        r"(mbarrier\.try_wait\.parity.* complete, \[%r29\], )%r\d+;",
        r"\g<1>1;",
    ),
    Mutant(
        "triton.attention_described.sm_90a", "no proxy fence before the store", r"fence\.proxy\.async\.shared::cta;", at=(1,)
    ),
    Mutant("triton.attention_described.sm_90a", "no wait for the store", r"cp\.async\.bulk\.wait_group \t0;"),
    Mutant("triton.attention_described.sm_120a", "a tile that is still read is filled", BARRIER, at=(11, 12, 13, 14, 15)),
    Mutant("triton.attention_described.sm_120a", "no barrier after mbarriers are made", BARRIER, at=(0, 1)),
    Mutant(
        "triton.attention_described.sm_120a",
        "no wait for a tile",
        r"mbarrier\.try_wait\.parity.*;",
        "setp.eq.u32 complete, 0, 0;",
        at=(2,),
    ),
    Mutant(
        "numba.reduce.sm_75", "no barrier between halves", r"\n        cuda\.syncthreads\(\)\n        half", "\n        half"
    ),
    Mutant("numba.reduce.sm_75", "a thread too many adds", r"lane < half:", "lane <= half:"),
    Mutant(
        "numba.histogram.sm_90a", "counts that are no atomics", r"cuda\.atomic\.add\(mine, x\[at\], 1\)", "mine[x[at]] += 1"
    ),
    Mutant(
        "numba.matmul.sm_75", "no barrier before a tile is replaced", r"(\* tile_b.*\n)        cuda\.syncthreads\(\)\n", r"\1"
    ),
    Mutant("numba.matmul.sm_75", "loads behind the matrix", r"row < a\.shape\[0\] and ", ""),
    Mutant(
        "numba.scan.sm_90a", "half of a warp shuffles", r"value = x\[at\]", "value = x[at]\n    if lane >= 16:\n        return"
    ),
    Mutant(
        "numba.scan.sm_90a", "no barrier before totals are read", r"    cuda\.syncthreads\(\)\n    for before", "    for before"
    ),
    Mutant(
        "numba.wave.sm_90a",
        "nobody waits for the other blocks",
        r"while cuda\.atomic\.add\(arrived, 0, 0\) < .*:",
        "while False:",
    ),
    Mutant("triton.attention.sm_100a", "no wait for products", r"mbarrier\.try_wait\.parity.*;", "setp.eq.u32 complete, 0, 0;"),
    Mutant("triton.attention.sm_100a", "stores that nobody waits for", r"tcgen05\.wait::st\.sync\.aligned;", at=()),
    Mutant("triton.attention.sm_100a", "nothing commits", r"@%p\d+ tcgen05\.commit.*;"),
    Mutant("triton.attention.sm_100a", "tensor memory is not given back", r"@%p\d+ tcgen05\.dealloc.*;"),
    Mutant(
        "triton.matmul.sm_100a",
        "a product of other rows",
        r"mov\.b32 \t(%r\d+), 68222992;",
        r"mov.b32 \1, 68222984;",
    ),
    Mutant(
        "triton.matmul_persistent.sm_90a",
        "a map of another swizzle",
        r"(tensormap\.replace\.tile\.swizzle_mode.* \], )0x3;",
        r"\g<1>0x2;",
    ),
    Mutant("cccl.device.sm_75", "no barriers", r"bar\.sync\s+0;", at=()),
    Mutant("cccl.device.sm_75", "tiles signal the next ones by weak stores", r"st\.relaxed\.gpu(\S+)", r"st\1", at=()),
    Mutant(
        "cccl.sort.sm_75",
        "ranks that are no atomics",
        r"atom\.shared\.add\.u32\s+(%r\d+, \[%r\d+\]), \w+;",
        r"ld.shared.u32 \1;",
        at=(),
    ),
    Mutant("cccl.sort.sm_75", "no barriers", r"bar\.sync\s+0;", at=()),
    Mutant("flash_attention.fa2_fwd_64.sm_80", "copies that nobody waits for", r"cp\.async\.wait_group 0;", at=()),
    Mutant(
        "flash_attention.fa2_fwd_64.sm_80",
        "one group too many in flight",
        r"cp\.async\.wait_group 0;",
        "cp.async.wait_group 1;",
        at=(),
    ),
    Mutant("flash_attention.fa2_fwd_64.sm_80", "no barriers", r"bar\.sync\s+0;", at=()),
    Mutant("flash_attention.fa2_fwd_64.sm_80", "nothing commits", r"cp\.async\.commit_group;", at=()),
    Mutant(
        "flash_attention.fa3_fwd_128.sm_90a",
        "scores read before they are there",
        r"wgmma\.wait_group\.sync\.aligned [01];",
        at=(),
    ),
    Mutant("flash_attention.fa3_fwd_128.sm_90a", "no wgmma.fence", r"wgmma\.fence\.sync\.aligned;", at=()),
    Mutant("flash_attention.fa3_fwd_128.sm_90a", "no proxy fence before the store", r"fence\.proxy\.async\S*;", at=()),
    Mutant("flash_attention.fa3_fwd_128.sm_90a", "the producer keeps its registers", r"setmaxnreg\.dec\S* 24;", at=()),
    Mutant("flash_attention.fa4_fwd_64.sm_100a", "P used before it is stored", r"tcgen05\.wait::st\.sync\.aligned;", at=()),
    Mutant("flash_attention.fa4_fwd_64.sm_100a", "nothing commits the scores", r"tcgen05\.commit\S*\s+\[%r\d+\];"),
    Mutant("flash_attention.fa4_fwd_64.sm_100a", "tensor memory is not given back", r"tcgen05\.dealloc\S*\s+%r\d+, %r\d+;"),
    Mutant("flash_attention.fa4_fwd_64.sm_100a", "no proxy fence before the store", r"fence\.proxy\.async\S*;", at=()),
    Mutant("cutlass.14.sm_80", "copies that nobody waits for", r"cp\.async\.wait_group \d;", at=()),
    Mutant("cutlass.48.sm_90a", "products read before they are done", r"wgmma\.wait_group\.sync\.aligned \d;", at=()),
    Mutant("cutlass.48.sm_90a", "mbarriers are not released", r"fence\.mbarrier_init\.release\.cluster;", at=()),
    Mutant(
        "cutlass.48.sm_90a", "blocks of a cluster do not wait", r"barrier\.cluster\.(arrive\.relaxed|wait)\.aligned;", at=()
    ),
    Mutant("cutlass.70.sm_100a", "nothing commits", r"tcgen05\.commit\S* \[%r\d+\], %rs\d+;", at=()),
    Mutant("cutlass.70.sm_100a", "tensor memory is not given back", r"tcgen05\.dealloc\S* %r\d+, %r\d+;"),
    Mutant("cutlass.70.sm_100a", "no proxy fence before the store", r"fence\.proxy\.async\S*;", at=()),
    Mutant(
        "cutlass.79a.sm_120a",
        "products of swapped rows",
        r"(e2m1\.f32\.ue4m3 \{[^}]*\},\{)(%r\d+), (%r\d+)",
        r"\1\3, \2",
        at=(),
        shows="results",
    ),
    Mutant("cutlass.88.sm_90a", "products read before they are done", r"wgmma\.wait_group\.sync\.aligned \d;", at=()),
    Mutant("cutlass.88.sm_90a", "logarithms for powers", r"ex2(\.approx\.ftz\.f32)", r"lg2\1", at=(), shows="results"),
    Mutant(
        "triton.matmul.sm_80",
        "products of swapped halves",
        r"(mma\.sync.* \{ %r\d+, )(%r\d+), (%r\d+)(, %r\d+ \}, \{ %r\d+, %r)",
        r"\1\3, \2\4",
        shows="results",
    ),
)


def plant(mutant, program, folder):
    """Copies a program's files into a folder, with the fault: the command that runs them there."""
    original, *others = program.files
    folder.mkdir(parents=True, exist_ok=True)
    binary = original.suffix not in (".ptx", ".py")
    text = original.read_bytes().decode("latin-1")
    (folder / original.name).write_bytes(mutant.apply(text, binary).encode("latin-1"))
    shutil.copymode(original, folder / original.name)
    for file in others:
        shutil.copy(file, folder)
    moved = {original: folder / original.name, original.with_suffix(""): folder / original.stem}
    return [moved.get(word, word) for word in program.command]


def evidence_of(mutant, program, seed):
    """Runs a mutant: "checks", "results", both, or another outcome."""
    program.prepare()
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        run = emulated.run(
            program.device,
            plant(mutant, program, pathlib.Path(folder)),
            check=1,
            seed=seed,
            environment=dict(program.environment),
            timeout=900,
        )
    seen = ["checks"] * bool(program.unexplained(run.findings) or run.faults) + ["results"] * run.wrong
    return " and ".join(seen) or run.why or "nothing"


HEAD = ("program", "fault", "must show in", "shows in")
OPTIONAL = ("cccl.", "cutlass.", "flash_attention.fa4", "flash_attention.")  # they need nvcc, or checkouts


def run(only, programs, seeds):
    """Runs the mutants whose "program: fault" matches: lines of the table, and how many are caught."""
    known = {one.title: one for one in programs}
    rows, caught = [], 0
    for mutant in MUTANTS:
        if not re.search(only, f"{mutant.program}: {mutant.what}"):
            continue
        if mutant.program not in known:
            family = next((one for one in OPTIONAL if mutant.program.startswith(one)), None)
            if family and not any(title.startswith(family) for title in known):
                continue
            raise SystemExit(f"{mutant.program}: {mutant.what}: there is no such program; run.py --list names them")
        shown = [evidence_of(mutant, known[mutant.program], seed) for seed in seeds]
        good = all(mutant.shows in one for one in shown)
        caught += good
        rows.append((mutant.program, mutant.what, mutant.shows, ", ".join(sorted(set(shown)))))
        print("caught:" if good else "MISSED:", *rows[-1], sep="  ", flush=True)
    print(f"{caught} of {len(rows)} faults are caught")
    return rows, caught
