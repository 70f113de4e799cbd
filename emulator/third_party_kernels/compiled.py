"""Third-party kernels that nvcc compiles: CUB and thrust, which come with it; CUTLASS and FlashAttention where there are checkouts. And
FlashAttention 4, which CuTe DSL compiles, where both are."""

import pathlib
import sys

from programs import NOT_FENCED, NOT_WAITED, PINS, Program, device_of, here

# Device code stays readable in the executable, so that mutants can edit it.
COMMON = ("-std=c++17", "-w", "-DNDEBUG", "--no-compress")
UNDEFINED = (
    r"^unwritten-register: .* is read and was never written.* st\.shared\.u32 \[%r\d+\], %r\d+;$",
    "elements behind the end, which no result takes part in",
)
ORDERED = (
    r"^grid-race: writes global memory .*which .* read at .*\(ld\.global",
    "a tile's reads are in the count that it stores for the next tile, whose writes depend on it; the stores are relaxed",
)
STALE = ("reads shared memory at offset .* which was never written", "rows behind the last key, whose scores are masked")


def nvcc_program(name, sm, nvcc, emulator, file, source, flags, arguments=(), known=(), environment=()):
    """A program in CUDA C++, as PTX for that architecture alone; the CUDA runtime is linked statically, as nvcc does it."""
    arch = f"compute_{device_of(sm)[3:]}"
    libraries = ("-L", nvcc.resolve().parent.parent / "lib", "-L", emulator, "-lcuda")
    headers = [one for one in source.parent.rglob("*") if one.suffix in (".h", ".hpp", ".cuh")]
    sources = (source, *headers, PINS, pathlib.Path(__file__))
    command = (nvcc, *COMMON, "-gencode", f"arch={arch},code={arch}", *flags, source, "-o", file, *libraries)
    return Program(name, device_of(sm), (file, *arguments), (file,), (command,), sources, environment, known)


def cccl(work, nvcc, emulator):
    """CUB's and thrust's algorithms over a whole device."""
    for name in ("device", "sort", "thrust"):
        yield nvcc_program(
            f"cccl.{name}",
            75,
            nvcc,
            emulator,
            work / "cccl" / f"{name}-75",
            here / "cccl" / f"{name}.cu",
            ("-O1",),
            known=(UNDEFINED, ORDERED),
        )


FLASH = tuple(
    f"-DFLASHATTENTION_DISABLE_{what}"
    for what in (
        "DROPOUT",
        "ALIBI",
        "LOCAL",
        "SOFTCAP",
        "UNEVEN_K",
        "PAGEDKV",
        "SPLIT",
        "APPENDKV",
        "PACKGQA",
        "VARLEN",
        "SM8x",
        "FP8",
    )
)
FLASHES = (  # version, backward, head dimension, causal
    (2, 0, 64, 1),
    (3, 0, 64, 1),
    (2, 1, 64, 1),
    (2, 0, 128, 1),
    (3, 0, 128, 0),
    (2, 1, 128, 0),
    (3, 1, 64, 1),
    (3, 1, 128, 0),
)


def flash_attention(work, nvcc, emulator, checkouts):
    """FlashAttention 2 for SM 80 and 3 for SM 90, without torch."""
    own = here / "flash_attention"
    for version, backward, dim, causal in FLASHES:
        flags = (
            "-O2",
            "--use_fast_math",
            "--expt-relaxed-constexpr",
            "--expt-extended-lambda",
            *FLASH,
            f"-DHEADDIM={dim}",
            f"-DCAUSAL={causal}",
            f"-DBACKWARD={backward}",
            "-I",
            own,
            "-I",
            own / "shims",
            "-I",
            checkouts / "flash-attention" / ("csrc/flash_attn/src" if version == 2 else "hopper"),
            "-I",
            checkouts / "cutlass/include",
        )
        name = f"fa{version}_{'bwd' if backward else 'fwd'}_{dim}"
        yield nvcc_program(
            f"flash_attention.{name}",
            80 if version == 2 else 90,
            nvcc,
            emulator,
            work / "flash_attention" / name,
            own / f"fa{version}.cu",
            flags,
            known=(STALE,),
        )


HARMLESS = "true by the ISA, and harmless: ../check/README.md says why"
COMPARED = (r"^grid-race: reads global memory .*\(atom\.(relaxed\.)?global\.cas", HARMLESS)
FLASH4 = ((64, 1, 0), (64, 0, 0), (128, 1, 0), (128, 0, 1))  # head dimension, causal, products of two blocks


def flash_attention_4(work, packages):
    """FlashAttention 4 for SM 100, by CuTe DSL, from a folder of `pip install --target`."""
    script = here / "flash_attention" / "fa4.py"
    for dim, causal, pairs in FLASH4:
        name = f"fa4_fwd_{dim}" + "_full" * (not causal)
        file = work / "flash_attention" / f"{name}.ptx"
        start, case = (sys.executable, "-B", script, packages), (file, dim, causal, pairs)
        yield Program(
            f"flash_attention.{name}",
            "sm_100a",
            (*start, "run", *case),
            (file,),
            ((*start, "compile", *case),),
            (script, script.with_suffix(".txt"), PINS),
            # Fewer than there are tiles, so that blocks that stay have several; and as fa4.py has compiled it.
            (("FA_EMU_DEVICE", "sm_100a:sms=4"),),
        )


KNOWN = {
    "70": (
        ("^unwaited: the block ends, and nothing has waited for this .*bulk_group", HARMLESS),
        (r"^race: reads shared memory .*\(mbarrier\.init.* mbarrier\.arrive\.shared::cluster", HARMLESS),
    ),
    "77": (
        NOT_WAITED,
        NOT_FENCED,
        ("no tcgen05.wait::st has waited for", "formal: accesses of the same lanes keep their order"),
        (r"^race: reads shared memory .*\(tcgen05\.alloc", HARMLESS),
        ("^register-pool: setmaxnreg is for all four warps of a warpgroup", HARMLESS),
        COMPARED,
    ),
    "88": (COMPARED,),
    "88_backward": (
        COMPARED,
        (
            r"^(race|lane-race|proxy-fence|unwritten-memory|pending-copy): "
            r".*shared memory .*(st\.shared\.v2\.u16|wgmma\.mma_async)",
            HARMLESS,
        ),
    ),
}
SMALL = ("--m=128", "--n=128", "--k=64", "--iterations=1")
SHORT = ("--b=1", "--h=1", "--q=128", "--k=256", "--d=64", "--verify", "--iterations=1")
HEADS = ("--b=1", "--h=1", "--q=256", "--k=256", "--d=64", "--verify", "--iterations=1")
EXAMPLES = (  # number, which may have a word for its arguments behind it, SM, folder, file, arguments
    ("14", 80, "14_ampere_tf32_tensorop_gemm", "ampere_tf32_tensorop_gemm.cu", SMALL),
    ("48", 90, "48_hopper_warp_specialized_gemm", "48_hopper_warp_specialized_gemm.cu", SMALL),
    ("88", 90, "88_hopper_fmha", "88_hopper_fmha.cu", SHORT),
    ("88_backward", 90, "88_hopper_fmha", "88_hopper_fmha.cu", (*SHORT, "--bwd")),
    ("77", 100, "77_blackwell_fmha", "77_blackwell_fmha.cu", (*HEADS, "--warmup_iterations=0")),
    ("70", 100, "70_blackwell_gemm", "70_blackwell_fp16_gemm.cu", SMALL),
    ("79a", 120, "79_blackwell_geforce_gemm", "79a_blackwell_geforce_nvfp4_bf16_gemm.cu", SMALL),
)


def cutlass(work, nvcc, emulator, checkouts):
    """Examples of CUTLASS, which verify themselves."""
    root = checkouts / "cutlass"
    for number, sm, folder, file, arguments in EXAMPLES:
        source = root / "examples" / folder / file
        flags = (
            "-O2",
            "--expt-relaxed-constexpr",
            *(
                word
                for include in (
                    root / "include",
                    root / "tools/util/include",
                    root / "examples/common",
                    source.parent,
                    checkouts / "curand/nvidia/cu13/include",
                )
                for word in ("-I", include)
            ),
        )
        file = work / "cutlass" / number.partition("_")[0]
        known = KNOWN.get(number, ())
        # Small, as this many blocks make the random inputs, by thousands of instructions a number; a cluster has 8.
        environment = (("FA_EMU_DEVICE", f"{device_of(sm)}:sms=8"),)
        yield nvcc_program(f"cutlass.{number}", sm, nvcc, emulator, file, source, flags, arguments, known, environment)


def all_compiled(work, nvcc, emulator, checkouts):
    """The programs that can be compiled: by nvcc those that come with it, and those of the checkouts."""
    packages = checkouts and pathlib.Path(checkouts, "fa4").resolve()
    flash4 = [*flash_attention_4(work, packages)] if packages and packages.is_dir() else []
    if not nvcc:
        return flash4
    found = [*cccl(work, nvcc, emulator), *flash4]
    for folder, programs in (("flash-attention", flash_attention), ("cutlass", cutlass)):
        if checkouts and (checkouts / "cutlass").is_dir() and (checkouts / folder).is_dir():
            found += programs(work, nvcc, emulator, pathlib.Path(checkouts).resolve())
    return found
