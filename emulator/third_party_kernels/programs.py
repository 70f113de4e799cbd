"""Every third-party program: its build and start commands, its devices, its known findings."""

import dataclasses
import importlib.util
import os
import pathlib
import re
import sys

import emulated

here = pathlib.Path(__file__).resolve().parent
PINS = here / "requirements.txt"  # the compilers' versions
sys.path.append(str(here / "triton_aot"))
import cases


@dataclasses.dataclass(frozen=True)
class Program:
    """A program on one device. `build`: commands that make `files` from `sources`; mutants edit the first of the files."""

    name: str
    device: str
    command: tuple
    files: tuple
    build: tuple = ()
    sources: tuple = ()
    environment: tuple = ()
    known: tuple = ()  # pairs: a pattern of "class: message PTX", why it is no fault

    @property
    def title(self):
        """As tests and tables name it."""
        return f"{self.name}.{self.device}"

    def prepare(self):
        """Builds the program if it is missing or older than its sources."""
        if not self.build:
            return
        newest = max(source.stat().st_mtime for source in self.sources)
        if all(file.exists() and file.stat().st_mtime > newest for file in self.files):
            return
        for file in self.files:
            file.parent.mkdir(parents=True, exist_ok=True)
        for command in self.build:
            status, text = emulated.start(command, {}, None)
            if status != 0:
                raise SystemExit(f"{self.title}: this command failed: {' '.join(map(str, command))}\n{text[-4000:]}")

    def unexplained(self, findings):
        """The findings that are not merely formal, and that nobody has written an explanation of."""
        return [
            one
            for one in findings
            if one.get("severity") != "formal"
            and not any(re.search(text, f"{one['class']}: {one['message']} {one['ptx']}") for text, _ in self.known)
        ]


EQUAL = (
    r"^equal-values: writes shared memory .* both store the same value .*(, \d+|\{\d+(, \d+)*\});$",
    "all warps of the race store the same constant",
)
ZEROED = (r"^equal-values: writes shared memory .* both store the same value .*, 0;$", "all warps of the race store 0")
NOT_WAITED = ("which no tcgen05.wait::ld has waited for: ptxas makes it wait", "formal: ptxas waits where results are used")
NOT_FENCED = (
    "without tcgen05.fence::before_thread_sync and",
    "formal: Triton relies on ptxas' code for bar.sync in place of these fences",
)
UNUSED = (
    "reads column .* of tensor memory, which was never written",
    "a loop's peeled turn, which counts only where there is one",
)
KNOWN = {
    "triton.histogram": (ZEROED,),
    "triton.attention_specialized": (EQUAL,),
    "triton.matmul_specialized": (EQUAL,),
}


def device_of(sm):
    """The device that has all features of a compute capability."""
    return f"sm_{sm}a" if sm >= 90 else f"sm_{sm}"


def triton(work):
    """Kernels in Triton: attention, products, softmax and other shapes."""
    sources = tuple(here / "triton_aot" / file for file in ("kernels.py", "cases.py", "compile.py")) + (PINS,)
    for name, case in cases.CASES.items():
        for sm in case.sms:
            file = work / "triton" / f"{name}-{sm}"
            compiler = (sys.executable, "-B", here / "triton_aot/compile.py", name, sm, file)
            yield Program(
                f"triton.{name}",
                device_of(sm),
                (sys.executable, "-B", here / "triton_aot/run.py", name, file),
                (file.with_suffix(".ptx"), file.with_suffix(".json")),
                (compiler,),
                sources,
                (("FA_EMU_DRIVER", "13040"),),
                KNOWN.get(f"triton.{name}", ()) + ((NOT_WAITED, NOT_FENCED, UNUSED) if sm == 100 else ()),
            )


def numba():
    """Kernels in Python, which numba-cuda compiles when they are called."""
    file = here / "numba_kernels.py"
    names = re.findall(r"^def (\w+)\(\):", file.read_text(), re.MULTILINE)
    for name in names:
        for device in ("sm_75", "sm_90a"):
            yield Program(f"numba.{name}", device, (sys.executable, "-B", file, name), (file,))


SAME = (r"^equal-values: writes shared memory .* both store the same value", "all warps of the race hold the same element")
FUSED = (
    r"^lane-race: lanes \d+ and \d+ store different values .*st\.shared\.v[24]\.b(32|64)",
    "copies of a sum that differ in their last bits, as a product is fused into each side's first sum (no finding without FP fusion)",
)
PACKAGES = {  # devices; Triton itself does not compile sageattention for SM 75
    "liger": (("sm_75",), (SAME,)),
    "fla": (("sm_80", "sm_90a", "sm_100a"), (SAME, FUSED, UNUSED)),
    "sageattention": (("sm_80", "sm_90a"), ()),
}


def packages(work, emulator):
    """Packages of kernels in Triton, which its JIT compiles; where this Python has torch, on whose tensors they work."""
    if not importlib.util.find_spec("torch"):
        return
    script, ptxas = here / "torch_packages/run.py", str(emulator / "fa-emu-ptxas")
    for name, (devices, known) in PACKAGES.items():
        for device in devices:
            settings = {
                "TRITON_CACHE_DIR": str(work / "torch_packages"),
                "TRITON_PTXAS_PATH": ptxas,
                "TRITON_PTXAS_BLACKWELL_PATH": ptxas,
            }
            yield Program(
                f"torch.{name}",
                device,
                (sys.executable, "-B", script, name),
                (script,),
                environment=(*settings.items(),),
                known=known,
            )


def all_programs(work, emulator):
    """All that can be built here."""
    os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")  # as it was before Triton asked; it warns where nothing says so
    return [*triton(work), *numba(), *packages(work, emulator)]
