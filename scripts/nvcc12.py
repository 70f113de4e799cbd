#!/usr/bin/env python3
"""nvcc for device code alone, from NVRTC, ptxas and nvFatbin of CUDA 12: PyPI has those, and no nvcc of CUDA 12.

It takes the options of nvcc that compile libfa's kernels, and refuses others by name. scripts/fetch_nvcc.sh --cuda 12 fetches
the parts, and makes a program of the name nvcc which calls this with --toolkit.
"""

import argparse
import ctypes
import re
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

# The headers of the standard library that kernels include, from CUDA's own (libcu++), some of which declare nothing in 12.4; FLT_MAX
# it has not.
STANDARD = {name: f"#include <cuda/std/{name}>\nnamespace cuda {{ namespace std {{}} }}\nnamespace std {{ using namespace cuda::std; }}\n"
            for name in ("climits", "cstdint", "initializer_list", "type_traits")}  # fmt: skip
STANDARD["cfloat"] = "#define FLT_MAX 3.402823466e+38F\n"
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', re.MULTILINE)
GENCODE = re.compile(r"arch=compute_(\d+[af]?),code=(?:\[([^\]]+)\]|(\S+))")


class Failure(Exception):
    """Something that cannot be done, for the standard error."""


class Library:
    """A shared library whose functions return 0, or the number of an error that it has a text for."""

    def __init__(self, path: Path, text_of: str):
        self.library = ctypes.CDLL(str(path))
        self.text_of = getattr(self.library, text_of)
        self.text_of.restype = ctypes.c_char_p

    def call(self, name: str, *arguments):
        if error := getattr(self.library, name)(*arguments):
            raise Failure(f"{name} failed: {self.text_of(error).decode()}")


def strings(texts) -> ctypes.Array:
    encoded = [text.encode() for text in texts]
    return (ctypes.c_char_p * len(encoded))(*encoded)


class Nvrtc(Library):
    def __init__(self, toolkit: Path):
        self.toolkit = toolkit
        super().__init__(toolkit / "cuda_nvrtc/lib/libnvrtc.so.12", "nvrtcGetErrorString")
        major, minor = ctypes.c_int(), ctypes.c_int()
        self.call("nvrtcVersion", ctypes.byref(major), ctypes.byref(minor))
        self.version = (major.value, minor.value)

    def bytes_of(self, program, what: str) -> bytes:
        """nvrtcGetPTX and its kin: a size, then that number of bytes, of which the last is 0."""
        size = ctypes.c_size_t()
        self.call(f"nvrtcGet{what}Size", program, ctypes.byref(size))
        room = ctypes.create_string_buffer(size.value)
        self.call(f"nvrtcGet{what}", program, room)
        return room.raw[:-1]

    def ptx(self, source: Path, arch: str, options: list[str]) -> bytes:
        headers = ["cuda_runtime", "cuda_nvcc", "cuda_cccl"]
        # Names of internal functions are the same wherever they are compiled. 12.4 has no such option.
        seed = [f"-frandom-seed={source.name}"] if self.version >= (12, 9) else []
        options = [f"-arch=compute_{arch}", "-default-device", *seed, *options,
                   *(f"-I{self.toolkit / name / 'include'}" for name in headers)]  # fmt: skip
        program = ctypes.c_void_p()
        self.call("nvrtcCreateProgram", ctypes.byref(program), source.read_bytes(), str(source).encode(), len(STANDARD),
                  strings(STANDARD.values()), strings(STANDARD))  # fmt: skip
        try:
            self.call("nvrtcCompileProgram", program, len(options), strings(options))
        finally:
            sys.stderr.write(self.bytes_of(program, "ProgramLog").decode(errors="replace"))
        return self.bytes_of(program, "PTX")


def machine_code(toolkit: Path, ptx: bytes, arch: str, options: list[str]) -> bytes:
    with tempfile.TemporaryDirectory(prefix="nvcc12-") as folder:
        text, code = Path(folder, "kernel.ptx"), Path(folder, "kernel.cubin")
        text.write_bytes(ptx)
        command = [toolkit / "cuda_nvcc/bin/ptxas", f"-arch=sm_{arch}", *options, text, "-o", code]
        done = subprocess.run([str(word) for word in command], stdout=sys.stderr)
        if done.returncode:
            raise Failure(f"ptxas failed with status {done.returncode}")
        return code.read_bytes()


class Fatbin(Library):
    """A container's entries. Drivers before 12.4 know LZ4 alone, so machine code is compressed by it, and by its slow way, which
    nvFatbin has not. PTX is for drivers of this CUDA or later, which know zstd."""

    HEADER = struct.Struct("<IHHQ")  # magic, version, own size, size of the rest
    # kind, version, own size, stored size, compressed size, options, version, capability, name, flags, reserved, size
    ENTRY = struct.Struct("<HHIQIIIIQQQQ")
    LZ4 = 0x2000

    def __init__(self, toolkit: Path):
        super().__init__(toolkit / "nvfatbin/lib/libnvfatbin.so.12", "nvFatbinGetErrorString")
        self.entries = b""

    def add(self, options: list[str], name: str, *arguments) -> bytes:
        handle, size = ctypes.c_void_p(), ctypes.c_size_t()
        self.call("nvFatbinCreate", ctypes.byref(handle), strings(options), ctypes.c_size_t(len(options)))
        self.call(name, handle, *arguments)
        self.call("nvFatbinSize", handle, ctypes.byref(size))
        room = ctypes.create_string_buffer(size.value)
        self.call("nvFatbinGet", handle, room)
        return room.raw[self.HEADER.size :]

    # The name within is the same wherever it is compiled.
    def add_ptx(self, text: bytes, arch: str):
        self.entries += self.add(["-compress-mode=size"], "nvFatbinAddPTX", text + b"\0", ctypes.c_size_t(len(text) + 1),
                                 arch.encode(), b"kernel", b"")  # fmt: skip

    def add_machine_code(self, code: bytes, arch: str):
        entry = self.add(["-compress-mode=none"], "nvFatbinAddCubin", code, ctypes.c_size_t(len(code)), arch.encode(), b"kernel")
        kind, version, own, stored, _, *others, flags, reserved, _ = self.ENTRY.unpack_from(entry)
        if self.ENTRY.size + len(code) > len(entry) or own + stored != len(entry) or flags & self.LZ4:
            raise Failure("nvFatbin's entries are not as this program knows them")
        import lz4.block  # noqa: PLC0415 (it is in the toolkit's folder)

        packed = lz4.block.compress(entry[own:], mode="high_compression", compression=12, store_size=False)
        padding = b"\0" * (-len(packed) % 8)
        fields = (kind, version, own, len(packed) + len(padding), len(packed), *others, flags | self.LZ4, reserved, stored)
        self.entries += self.ENTRY.pack(*fields) + entry[self.ENTRY.size : own] + packed + padding

    def container(self) -> bytes:
        return self.HEADER.pack(0xBA55ED50, 1, self.HEADER.size, len(self.entries)) + self.entries


def included(source: Path, folders: list[Path]) -> list[Path]:
    """The source and the files that it includes in quotes, in whatever condition."""
    found = {source: None}
    for file in (order := [source]):
        for name in INCLUDE.findall(file.read_text(errors="replace")):
            path = next((folder / name for folder in [file.parent, *folders] if (folder / name).is_file()), None)
            if path is not None and path not in found:
                found[path] = None
                order.append(path)
    return list(found)


def options_of(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="nvcc (scripts/nvcc12.py)", allow_abbrev=False, description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("--toolkit", type=Path, required=True, help="the folder with cuda_nvrtc, cuda_nvcc, nvfatbin, ...")
    parser.add_argument("--version", action="store_true", help="as nvcc prints it")
    parser.add_argument("-std", default="c++17")
    parser.add_argument("-O", help="of host code, which does not exist here")
    parser.add_argument("--expt-relaxed-constexpr", action="store_true", help="always so")
    parser.add_argument("-I", dest="folders", type=Path, action="append", default=[])
    parser.add_argument("-D", dest="definitions", action="append", default=[])
    parser.add_argument("-Xptxas", action="append", default=[])
    parser.add_argument("-Xfatbin", choices=["-compress-all"], help="always so")
    parser.add_argument("-gencode", help="arch=compute_80,code=[sm_80,compute_80]")
    parser.add_argument("-lineinfo", action="store_true")
    parser.add_argument("-MD", action="store_true", help="writes the includes of the source")
    parser.add_argument("-MF", type=Path)
    parser.add_argument("-MT")
    parser.add_argument("-c", action="store_true", help="which -fatbin and -ptx override, as nvcc's do")
    kind = parser.add_mutually_exclusive_group(required="--version" not in arguments)
    kind.add_argument("-fatbin", action="store_true")
    kind.add_argument("-ptx", action="store_true")
    parser.add_argument("-o", dest="out", type=Path)
    parser.add_argument("source", type=Path, nargs="?")
    given = parser.parse_args(joined(arguments))
    if not given.version:
        for name in ("gencode", "source", "out"):
            if getattr(given, name) is None:
                parser.error(f"there is no {name}")
        given.target = GENCODE.fullmatch(given.gencode)
        if not given.target:
            parser.error(f"-gencode is {given.gencode}: expected arch=compute_80,code=[sm_80,compute_80] or one of its codes")
    return given


def joined(arguments: list[str]) -> list[str]:
    """-Xptxas -v as -Xptxas=-v, as -v else is another option."""
    result = []
    for word in arguments:
        if result and result[-1] in ("-Xptxas", "-Xfatbin"):
            result[-1] += f"={word}"
        else:
            result.append(word)
    return result


def compile_source(given: argparse.Namespace):
    arch, codes = given.target[1], (given.target[2] or given.target[3]).split(",")
    lines = ["-lineinfo"] if given.lineinfo else []
    options = [f"-std={given.std}", *lines, *(f"-I{folder}" for folder in given.folders), *(f"-D{one}" for one in given.definitions)]
    ptx = Nvrtc(given.toolkit).ptx(given.source, arch, options)
    if given.MD:
        # Make's rules: a blank ends a name.
        names = [str(path).replace(" ", "\\ ") for path in included(given.source, given.folders)]
        given.MF.write_text(f"{given.MT or given.out}: " + " \\\n  ".join(names) + "\n")
    if given.ptx:
        given.out.write_bytes(ptx)
        return
    fatbin = Fatbin(given.toolkit)
    for code in codes:
        kind, _, target = code.partition("_")
        if kind == "sm":
            fatbin.add_machine_code(machine_code(given.toolkit, ptx, target, [*given.Xptxas, *lines]), target)
        else:
            fatbin.add_ptx(ptx, target)
    given.out.write_bytes(fatbin.container())


def main() -> int:
    given = options_of(sys.argv[1:])
    sys.path.insert(0, str(given.toolkit.parent))  # where lz4 is
    ptxas = given.toolkit / "cuda_nvcc/bin/ptxas"
    try:
        if given.version:
            return subprocess.run([str(ptxas), "--version"]).returncode
        compile_source(given)
    except (Failure, OSError) as failure:
        print(f"nvcc12: {failure}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
