"""The phases of a session, in order: first whether it is right, then how fast. Each is a function of the session that returns
its results: a dict with a status, and items with their statuses. A phase that a machine cannot run is "not available", with
the reason."""
import concurrent.futures
import fnmatch
import json
import re
import sys
import tempfile
from pathlib import Path

from gpu import ncu, tools
from gpu.calls import CONTENDERS
from gpu.tools import FAILED, NOT_AVAILABLE, OUT_OF_TIME, PASSED, ROOT

BENCH = ROOT / "bench"
DATA = ROOT / "examples" / "data"

# Cases of `fa run --case`: small, and together through every entry point and the combine kernel. Every family for tensor cores
# supports the first; the last list has calls that the families before mma support.
PLAIN = "b=1 sq=65 sk=129 hq=2 hkv=2 d=64 q=f16"
# More tiles than any card has multiprocessors, so that a block that stays has a second one.
MANY_TILES = "b=2 sq=1050 sk=150 hq=16 hkv=16 d=64 q=bf16"
SANITIZED = [
    ("causal", "sq=130 sk=197 hq=2 hkv=1 d=64 mask=causal q=f16"),
    ("general", "b=2 sq=40 sk=90 hq=2 hkv=2 d=40 bias=f32:hqk softcap=5 q=f16"),
    ("splits", "b=2 sq=1 sk=300 hq=8 hkv=2 d=128 splits=3 q=f16"),
    ("paged", "b=2 sq=3 sk=80 hq=4 hkv=2 d=64 page=16 used_k=1 mask=causal q=f16"),
    ("f32", "sq=33 sk=70 hq=2 hkv=1 d=96 mask=causal q=f32"),
    ("gradients", "sq=130 sk=150 hq=2 hkv=1 d=64 mask=causal backward=1 q=f16"),
    ("gradients of all", "b=2 sq=40 sk=60 hq=2 d=40 bias=f32:hqk dbias=k sinks=h dsinks=h softcap=5 backward=1 q=f16"),
    ("gradients in one loop", "sq=300 sk=140 hq=4 hkv=1 d=64 backward=1 q=bf16"),
]
SANITIZED_ROLES = [
    ("causal", "sq=130 sk=197 hq=2 hkv=1 d=64 mask=causal q=f16"),
    ("packed heads", "b=2 sq=20 sk=300 hq=8 hkv=2 d=128 splits=3 q=f16"),
    ("boxes of pages", "b=2 sq=40 sk=80 hq=4 hkv=2 d=64 page=16 used_k=1 mask=causal q=f16"),
    ("rows of pages", "b=2 sq=40 sk=80 hq=4 hkv=2 d=64 page=12 used_k=1 mask=causal q=f16"),
    ("softcap", "sq=130 sk=197 hq=2 hkv=1 d=64 softcap=5 q=bf16"),
    ("many tiles", MANY_TILES),
]
# Batch, query and key/value heads, queries, keys, columns: the first is that of others' published backward passes.
GRADIENTS = ["2,64,8,8192,8192,128", "4,32,32,4096,4096,64"]
TYPES = ["f16", "bf16", "f32"]
SKIPPED = 77  # the exit status of a suite of which every test was
SUITES = ["Forward", "Bitwise", "Invariant", "Containment", "Property", "Fuzz", "Backward", "BackwardProperty", "BackwardBitwise",
          "FuzzGradients"]
# Of fa_test_cuda: tests of devices and failures that the emulator alone has, which skip themselves elsewhere, and suites of
# one family of kernels.
OF_THE_EMULATOR = re.compile(
    r"(Fault|TensorMaps|Image|Pageable|PageableOrder|Pools|Slices|Apart|Unready)[.]"
    r"|Gradients[.](Memory\w+|CallsOfTheDriverMayFail)$|Streams[.]OneThatWasDestroyed|Devices[.]OneBeforeTuring")
SUITES_OF_FAMILIES = {"Wgmma": "wgmma", "Tcgen05": "tcgen05"}
TEST_SECONDS = 40  # of a test, most of which take three
SANITIZERS = {"memcheck": "ERROR SUMMARY: 0 errors", "racecheck": "RACECHECK SUMMARY: 0 hazards",
              "initcheck": "ERROR SUMMARY: 0 errors", "synccheck": "ERROR SUMMARY: 0 errors"}


def missing(reason):
    return {"status": NOT_AVAILABLE, "reason": reason, "items": []}


def summed(items):
    """The worst of the items; nothing is passed that has none."""
    states = {item["status"] for item in items}
    for state in (FAILED, OUT_OF_TIME, PASSED):
        if state in states:
            return {"status": state, "items": items}
    return {"status": NOT_AVAILABLE, "reason": "no item could run", "items": items}


def in_parallel(session, work, jobs, workers=6):
    """Items of work(*job), side by side; none is begun after the phase's time."""
    def begun(job):
        if session.left() > 1:
            return work(*job)
        return {"name": " ".join(part for part in job if isinstance(part, str)), "status": OUT_OF_TIME, "reason": "not begun"}

    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        return list(pool.map(begun, jobs))


def cold(session):
    """From a process's start to the first result, and the device's memory that fa_create takes: three processes."""
    program, runs = session.pack.program("fa_bench_cold"), []
    if not program.exists():
        return {"name": "cold start", "status": NOT_AVAILABLE, "reason": f"there is no {program}"}
    for _ in range(3):
        outcome = tools.run([program], min(30, session.left()), session.pack.environment())
        if outcome.code != 0:
            return {"name": "cold start", "status": NOT_AVAILABLE, "reason": outcome.tail(2)}
        runs.append(json.loads(outcome.output.splitlines()[-1]))
    return outcome.item("cold start", values=runs)


def machine(session):
    """The machine, and its peaks."""
    items = []
    why = tools.probe("nvidia-smi")
    if why:
        items.append({"name": "nvidia-smi", "status": NOT_AVAILABLE, "reason": why})
    else:
        outcome = tools.run(["nvidia-smi", "-q"], session.left())
        items.append(outcome.item("nvidia-smi", printed=outcome.output.splitlines()))
        fields = "name,driver_version,memory.total,memory.free,clocks.sm,clocks.mem,clocks.max.sm,power.limit,mig.mode.current"
        outcome = tools.run(["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader"], session.left())
        items.append(outcome.item("attributes", values=dict(zip(fields.split(","), outcome.output.strip().split(", ")))))
    kernels, why = session.pack.kernels()
    items.append({"name": "fa info", "status": NOT_AVAILABLE if why else PASSED, "reason": why,
                  "kernels": [kernel["name"] for kernel in kernels]})
    items.append(cold(session))
    why = session.torch.why_not()
    if why:
        items.append({"name": "ceilings", "status": NOT_AVAILABLE, "reason": why})
    else:
        outcome = tools.run([sys.executable, BENCH / "gpu" / "ceilings.py"], session.left())
        values = json.loads(outcome.output.splitlines()[-1]) if outcome.code == 0 else {}
        items.append(outcome.item("ceilings", values=values))
    return summed(items)


def checked(session, kernel, ported=False):
    """`fa check` of a kernel as an item, with the table's row."""
    outcome = tools.run([session.pack.program("fa"), "check", "--kernel", kernel], session.left(),
                        session.pack.environment(ported))
    rows = [row for row in outcome.output.splitlines() if row.startswith(f"{kernel} ")]
    item = outcome.item(kernel, table=" ".join(rows[0].split()) if rows else None)
    if item["status"] == PASSED and not re.search(r"All [1-9]\d* checks are right", outcome.output):
        item.update(status=FAILED, output=outcome.tail())
    return item


def ran(session, name, arguments, environment):
    """`fa run` as an item."""
    return tools.run([session.pack.program("fa"), "run", *arguments], session.left(), environment).item(name)


def check(session):
    """`fa check` of every kernel that runs here as it was built, and recorded layers of a model."""
    kernels, why = session.pack.kernels()
    if why:
        return missing(why)
    names = session.kernels or [kernel["name"] for kernel in session.pack.native(kernels)]
    items = in_parallel(session, checked, [(session, name) for name in names])
    best = session.pack.native(kernels)[0]
    if "bf16" in best["compute_dtypes"] and session.kernels is None:
        items.append(ran(session, "many tiles", ["--kernel", best["name"], "--case", MANY_TILES], session.pack.environment()))
    for layer in ("layer0", "layer5"):
        files = [f"--{name}={DATA / f'{layer}_{name}.npy'}" for name in "qkv"]
        files += [f"--cu-seqlens={DATA / 'cu_seqlens.npy'}", f"--reference={DATA / f'{layer}_out.npy'}", "--max-error=2e-3"]
        items.append(ran(session, layer, ["--device", "cuda", *files], session.pack.environment()))
    return summed(items)


def capture(session):
    """Calls in CUDA graphs, of libfa and of torch's backends, each in a separate process: a broken one breaks no other."""
    why = session.torch.why_not()
    if why:
        return missing(why)

    def captured(name):
        outcome = tools.run([sys.executable, BENCH / "gpu" / "capture.py", session.pack.library, name], session.left())
        item = outcome.item(name, printed=outcome.tail(2))
        return item if name == "libfa" or item["status"] != FAILED else {**item, "status": NOT_AVAILABLE, "reason": outcome.tail(1)}

    return summed(in_parallel(session, captured, [(name,) for name in CONTENDERS], len(CONTENDERS)))


def against_torch(session, *sweeps):
    """gpu_sdpa.py's sweeps, in one process."""
    why = session.torch.why_not()
    if why:
        return missing(why)
    file = Path(tempfile.mkdtemp()) / "speed.json"
    seconds = session.left()
    command = [sys.executable, BENCH / "gpu_sdpa.py", session.pack.library, "--sweep", *sweeps, "--seconds", round(max(seconds - 20, 1)),
               "--json", file]
    captured = session.results.get("capture", {}).get("items", [])
    if captured:
        command += ["--stream", *(item["name"] for item in captured if item["status"] != PASSED)]
    outcome = tools.run(command, seconds)
    values = json.loads(file.read_text()) if file.exists() else {}
    file.unlink(missing_ok=True)
    file.parent.rmdir()
    return {**summed([outcome.item("gpu_sdpa", printed=outcome.tail(80))]), "values": values}


def goals(session):
    """The kernels' goals, next to torch's backends: prefill, decode, gradients."""
    return against_torch(session, "goals")


def speed(session):
    """Other shapes next to torch's backends, and the host's time."""
    return against_torch(session, "host", "forward", "decode")


def gradients(session):
    """The backward pass of published shapes, full and causal, by `fa bench`."""
    kernels, why = session.pack.kernels()
    if why:
        return missing(why)
    kernel = next((each for each in session.pack.native(kernels) if "f16" in each["compute_dtypes"]), None)
    if kernel is None:
        return missing("no kernel for f16 or bf16 runs here")
    dtype = "bf16" if "bf16" in kernel["compute_dtypes"] else "f16"
    shapes = [word for shape in GRADIENTS for word in ("--shape", shape)]

    def measured(name, *options):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "gradients.json"
            command = [session.pack.program("fa"), "bench", "--backward", "--kernel", kernel["name"], "--dtype", dtype, *shapes,
                       "--rounds", "5", "--json", file, *options]  # fmt: skip
            outcome = tools.run(command, session.left(), session.pack.environment())
            values = json.loads(file.read_text()) if file.exists() else {}
        return outcome.item(f"gradients, {name}", printed=outcome.tail(8), values=values)

    modes = {"full": [], "causal": ["--causal"], "full, any order": ["--nondeterministic"],
             "causal, any order": ["--causal", "--nondeterministic"]}
    return summed([measured(name, *options) for name, options in modes.items()])


def ported(session):
    """The kernels of older architectures on this one: their PTX assembled beforehand, and one of each by the driver."""
    kernels, why = session.pack.kernels()
    archs = session.pack.ported_archs()
    if why or not archs:
        return missing(why or f"{session.pack.ported} has no images: scripts/gpu-session.sh prepare makes them")
    here = [kernel["name"] for kernel in kernels if kernel["arch"] in archs]
    here = [name for name in here if session.kernels is None or name in session.kernels]
    if not here:
        return missing(f"of {', '.join(archs)} no kernel runs here")
    items = in_parallel(session, checked, [(session, name, True) for name in here])
    for name in here:  # one after the other: they are timed
        case = ["--kernel", name, "--case", PLAIN]
        alone = session.pack.environment()
        items.append(ran(session, f"{name}: assembled beforehand", case, session.pack.environment(True)))
        items.append(ran(session, f"{name}: compiled by the driver", case, {**alone, "CUDA_CACHE_DISABLE": "1"}))
    return summed(items)


def listed_tests(text):
    """The names that GoogleTest lists, as its filters take them."""
    names, suite = [], ""
    for line in text.splitlines():
        if re.match(r"  \S", line):
            names.append(suite + line.split()[0])
        elif re.match(r"\S+[.]( |$)", line):
            suite = line.split()[0]
    return names


def first_failure(output):
    """The first assertion that did not hold, in one line."""
    found = re.search(r"^\S+: Failure\n((?:.+\n){1,6})", output, re.MULTILINE)
    return " ".join(found.group(0).split())[:300] if found else ""


def by_suite(tests):
    """Those that failed as items by themselves, and an item for all others of a suite, with the reasons of skips."""
    items, suites = [], {}
    for test in tests:
        if test["status"] in (FAILED, OUT_OF_TIME):
            items.append(test)
        else:
            suites.setdefault(test["name"].rsplit(".", 1)[0], []).append(test)
    for suite, group in suites.items():
        skipped = {test["name"]: test["reason"] for test in group if test["status"] == NOT_AVAILABLE}
        passed = len(group) - len(skipped)
        items.append({"name": suite, "status": PASSED if passed else NOT_AVAILABLE, "seconds": round(sum(test["seconds"] for test in group), 1),
                      "reason": "" if passed else "every test was skipped", "passed": passed, "skipped": skipped})
    return items


def driver(session):
    """The library's expectations of the driver, and the calls that the card's own family takes and runs: each test of
    fa_test_cuda in a separate process, as the driver's state and a crash are a process's."""
    kernels, _ = session.pack.kernels()
    families = by_family(session.pack.native(kernels)) if kernels else {}
    program = session.pack.program("fa_test_cuda")
    if not program.exists():
        return missing(f"there is no {program}")
    listed = tools.run([program, "--gtest_list_tests"], min(20, session.left()), session.pack.environment())
    names = listed_tests(listed.output)
    if listed.code != 0 or not names:
        return summed([listed.item("list of tests", status=FAILED)])
    others = [suite for suite, family in SUITES_OF_FAMILIES.items() if family not in families]
    names = [name for name in names if not OF_THE_EMULATOR.match(name) and name.split(".")[0] not in others]
    if session.tests is not None:
        names = [name for name in names if any(fnmatch.fnmatchcase(name, pattern) for pattern in session.tests)]

    def ran_alone(name):
        outcome = tools.run([program, f"--gtest_filter={name}"], min(TEST_SECONDS * session.patience, session.left()), session.pack.environment())
        item = outcome.item(name)
        if item["status"] == FAILED:
            item.update(reason=first_failure(outcome.output) or f"exit status {outcome.code}")
        elif item["status"] == OUT_OF_TIME:
            item.update(reason=f"did not end in {outcome.seconds:.0f} s")
        elif re.search(r"PASSED +\] 0 tests", outcome.output):
            why = re.search(r": Skipped\n(.*)", outcome.output)
            item.update(status=NOT_AVAILABLE, reason=why.group(1) if why else "skipped")
        return item

    long_first = sorted(names, key=lambda name: name.split(".")[0] not in (*SUITES_OF_FAMILIES, "Types/Offsets"))
    return summed(by_suite(in_parallel(session, ran_alone, [(name,) for name in long_first], 12)))


def engine(session):
    """The engine's suites on the driver: the best kernels of this architecture, and of each older one."""
    program = session.pack.program("fa_test_engine")
    kernels, why = session.pack.kernels()
    if why or not program.exists():
        return missing(why or f"there is no {program}")
    older = [arch for arch in session.pack.ported_archs() if arch in {kernel["arch"] for kernel in kernels}]

    def suite_of(suite, types, arch):
        outcome = tools.run([program, "--gtest_brief=1", f"--gtest_filter=*/{suite}.*/{types}_{arch}"], session.left(),
                            session.pack.environment(arch in older))
        item = outcome.item(f"{suite} {types} {arch}", printed=outcome.tail(3))
        return {**item, "status": NOT_AVAILABLE} if outcome.code == SKIPPED else item

    own = session.pack.native(kernels)[0]["arch"]
    archs = [own, *(arch for arch in reversed(older) if arch != own)]
    jobs = [(suite, types, arch) for arch in archs for suite in SUITES for types in TYPES]
    jobs.sort(key=lambda job: job[2] != own and job[0] != SUITES[0])  # one suite of each architecture before the rest
    return summed(in_parallel(session, suite_of, jobs, 12))


def by_family(kernels):
    """Kernels of one architecture: family -> name."""
    return {kernel["name"].rsplit(".", 1)[1]: kernel["name"] for kernel in kernels}


def sanitized(kernels):
    """The runs under the sanitizer: (kernel, name, case)."""
    families, own = by_family(kernels), kernels[0]["name"]
    calls = [(families.get("simt" if name == "f32" else "mma", own), name, case) for name, case in SANITIZED]
    roles = own not in (families.get("mma"), families.get("simt"))
    return calls + [(own, name, case) for name, case in SANITIZED_ROLES if roles]


def sanitizer(session):
    """compute-sanitizer's tools on a few small calls. Only a summary without errors passes."""
    kernels, why = session.pack.kernels()
    why = why or tools.probe("compute-sanitizer", "--version")
    if why:
        return missing(why)
    fa, environment = session.pack.program("fa"), session.pack.environment()
    own = session.pack.native(kernels)[0]["name"]
    trial = tools.run(["compute-sanitizer", fa, "run", "--kernel", own, "--case", PLAIN], min(40, session.left()), environment)
    if trial.code != 0 or SANITIZERS["memcheck"] not in trial.output:
        return missing(f"compute-sanitizer on a small call: {trial.tail(4)}")

    def watched(tool, kernel, name, case):
        outcome = tools.run(["compute-sanitizer", "--tool", tool, "--error-exitcode", "9", fa, "run", "--kernel", kernel,
                             "--case", case], session.left(), environment)
        item = outcome.item(f"{tool} {kernel} {name}")
        if item["status"] == PASSED and SANITIZERS[tool] not in outcome.output:
            item.update(status=FAILED, output=outcome.tail())
        return item

    jobs = [(tool, *call) for tool in SANITIZERS for call in sanitized(session.pack.native(kernels))]
    return summed(in_parallel(session, watched, jobs, 4))


def profile(session):
    """ncu on the kernels of a prefill and of a decode, which mma supports wherever it is built."""
    kernels, why = session.pack.kernels()
    why = why or ncu.why_not()
    if why:
        return missing(why)
    native = session.pack.native(kernels)
    own = native[0]["name"]
    calls = [(own, "4,16,16,4096,4096,128"), (by_family(native).get("mma", own), "16,32,8,1,8192,128")]
    return summed([ncu.profile(session.pack, name, shape, "bf16", session.left()) for name, shape in calls])


# Name -> its function, and its seconds, in which a cold start is counted: a second or two of each process, of which engine
# has 150, is the driver's. The first call of nine minutes says whether the card's own kernels are right and their speed,
# the second whether everything else is right, the third how fast other shapes are, and compute-sanitizer's findings.
PHASES = {
    "machine": (machine, 75),
    "check": (check, 80),
    "capture": (capture, 60),
    "goals": (goals, 320),
    "driver": (driver, 60),
    "ported": (ported, 95),
    "engine": (engine, 205),
    "gradients": (gradients, 60),
    "profile": (profile, 115),
    "sanitizer": (sanitizer, 300),
    "speed": (speed, 235),
}
NEED_TORCH = {"machine", "capture", "goals", "speed"}
