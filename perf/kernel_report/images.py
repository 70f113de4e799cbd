"""The kernels of a build: fatbins or cubins by their names, taken apart by cuobjdump and nvdisasm, and their tiles."""

from __future__ import annotations

import ast
import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from . import sass

NAME = re.compile(r"sm_(?P<sm>\d+)(?P<suffix>[af]?)\.(?P<family>\w+)\.(?P<dtype>\w+)\.(?P<dim>\d+)\.(?:fatbin|cubin)$")
NARROW = 128  # columns of values of Entry::narrow, of queries of 192
MOST = 512  # of the others
ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Tile:
    rows: int
    keys: int
    threads: int
    shared_bytes: int
    stages: int  # of the ring of keys and values


def columns_of_values(dim: int, entry: str) -> int:
    return NARROW if entry == "fa_forward_narrow" and dim <= 192 else min(dim, MOST)


def columns_read(dim: int, entry: str) -> int:
    """Of keys and values together; Entry::narrow finds values of 512 columns in keys."""
    return dim + columns_of_values(dim, entry) * (entry != "fa_forward_narrow" or dim <= 192)


@dataclass(frozen=True)
class Image:
    path: Path
    sm: int
    family: str
    dtype: str
    dim: int
    suffix: str = ""  # "a" of sm_90a

    @property
    def arch(self) -> str:
        return f"{self.sm}{self.suffix}"

    @property
    def kernel(self) -> str:
        """As libfa's name for it ends: sm_80.mma."""
        return f"sm_{self.arch}.{self.family}"

    @staticmethod
    def of(path: Path) -> "Image | None":
        found = NAME.search(path.name)
        if not found:
            return None
        return Image(path, int(found["sm"]), found["family"], found["dtype"], int(found["dim"]), found["suffix"])


def run(*command: str | Path, cwd: str | None = None, text: str | None = None) -> str:
    result = subprocess.run([str(c) for c in command], input=text, capture_output=True, text=True, cwd=cwd, check=False)
    if result.returncode:
        raise SystemExit(f"{Path(command[0]).name} failed:\n{result.stderr.strip()}")
    return result.stdout


def functions(path: Path, tools: Path) -> list[sass.Function]:
    """The functions of the machine code in a fatbin or cubin; tools: the folder of nvdisasm and cuobjdump."""
    if path.suffix == ".cubin":
        return sass.parse(run(tools / "nvdisasm", "-hex", path))
    with tempfile.TemporaryDirectory() as folder:
        run(tools / "cuobjdump", "-xelf", "all", path.resolve(), cwd=folder)
        cubins = sorted(Path(folder).glob("*.cubin"))
        return [f for cubin in cubins for f in sass.parse(run(tools / "nvdisasm", "-hex", cubin))]


def tiles(compiler: str, preset: str = "standard") -> dict[tuple[str, int, int, str], Tile]:
    """By family, SM, dimension and entry point, as the kernels' headers have them."""
    with tempfile.TemporaryDirectory() as folder:
        program, source = Path(folder) / "tiles", Path(__file__).with_name("tiles.cpp")
        families = dict.fromkeys(re.findall(r"^FA_FAMILY\((\w+), (?:backward_)?(\w+)", (ROOT / "kernels" / "families.inc").read_text(), re.M))
        Path(folder, "families.h").write_text("".join(f'#include "{operation}/{family}/tiles.h"\n' for operation, family in families))
        run(compiler, "-std=c++20", f"-DFA_TILE_PRESET={preset}", "-I", ROOT / "kernels", "-I", ROOT / "src", "-I", folder, source, "-o", program)
        return {key: Tile(*values) for key, values in ast.literal_eval(run(program)).items()}
