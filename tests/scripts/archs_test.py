"""An SM is a line of kernels/archs.inc: one is added to a copy of the tree, and one taken away, and everything follows."""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SOURCE, CMAKE = Path(sys.argv[1]), sys.argv[2]
NEW = "FA_ARCH(122, , 122, always, 99, onward, cp_async | bf16_mma | fp8_mma | tma | pdl)  // a new one"
NVCC = """#!/bin/sh
if [ "$1" = --version ]; then echo "Cuda compilation tools, release 13.0, V13.0.0" && exit; fi
echo "$@" >>"$(dirname "$0")/nvcc.log"
while [ $# -gt 0 ]; do
  case $1 in -o) echo image >"$2" ;; -MF) : >"$2" ;; esac
  shift
done
"""


class Archs(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        self.tree = self.folder / "tree"
        for name in ("CMakeLists.txt", "cmake", "include", "kernels", "schema", "scripts", "src", "docs/gpus.md"):
            (self.tree / name).parent.mkdir(parents=True, exist_ok=True)
            (shutil.copytree if (SOURCE / name).is_dir() else shutil.copy)(SOURCE / name, self.tree / name)
        self.program("nvcc", NVCC)
        self.list = self.tree / "kernels" / "archs.inc"

    def program(self, name: str, text: str):
        path = self.folder / name
        path.write_text(text)
        path.chmod(0o755)

    def run_in(self, *command, code=0) -> str:
        environment = {**os.environ, "PATH": f"{self.folder}:{os.environ['PATH']}"}
        done = subprocess.run([str(word) for word in command], cwd=self.tree, env=environment, capture_output=True, text=True)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout

    def build(self) -> tuple[list[str], set[str], str]:
        """The default FA_ARCHS, the kernels of the build, and how the compiler was called; the engine compiles with them."""
        build = self.folder / "build"
        self.run_in(CMAKE, "-S", self.tree, "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Debug", "-DFA_KERNELS=file",
                    f"-DFA_NVCC={self.folder}/nvcc", "-DFA_BUILD_TESTS=OFF", "-DFA_BUILD_TOOL=OFF", "-DFA_BUILD_BENCH=OFF",
                    "-DFA_BUILD_EXAMPLES=OFF", "-DFA_BUILD_EMULATOR=OFF", "-DFA_INSTALL=OFF",
                    "-DFA_CCACHE=OFF")  # fmt: skip  (which would call the compiler in its own way, or not at all)
        self.run_in(CMAKE, "--build", build, "--target", "fa_cuda", "fa_kernels")
        archs = re.search(r"^FA_ARCHS:STRING=(.*)$", (build / "CMakeCache.txt").read_text(), re.M)[1].split(";")
        images = {path.name.removesuffix(".fatbin") for path in (build / "kernels").glob("*.fatbin")}
        return archs, images, (self.folder / "nvcc.log").read_text()

    def archs_for(self, capability: str) -> str:
        self.program("nvidia-smi", f"#!/bin/sh\necho {capability}\n")
        return self.run_in("bash", "scripts/quickstart.sh", "--print-archs").strip()

    def test_one_more(self):
        self.list.write_text(self.list.read_text().replace("\nFA_ARCH(", f"\n{NEW}\nFA_ARCH(", 1))
        archs, images, log = self.build()
        self.assertEqual(archs[-1], "122")
        like = {name.replace("sm_120.", "sm_122.") for name in images if name.startswith("sm_120.")}
        self.assertEqual({name for name in images if name.startswith("sm_122.")}, like)
        self.assertGreater(len(like), 10)
        self.assertIn("arch=compute_122,code=[sm_122,compute_122] -DFA_SM=122 -DFA_DTYPE=bf16", log)
        self.assertEqual(self.archs_for("12.2"), "122")
        self.assertEqual(self.archs_for("13.0"), "122")
        self.run_in(sys.executable, "scripts/support-matrix", "--check", code=1)
        self.run_in(sys.executable, "scripts/support-matrix")
        page = (self.tree / "docs" / "gpus.md").read_text()
        forward = "`cuda.sm_122.mma` | `cuda.sm_122.mma` | `cuda.sm_122.simt`"
        gradients = "`backward_mma` | `backward_mma` | `backward_simt`"
        self.assertIn(f"| a new one | 122 | {forward} | {gradients} | machine code |", page)

    def test_one_less(self):
        self.list.write_text(re.sub(r"\nFA_ARCH\(86,.*", "", self.list.read_text()))
        archs, images, _ = self.build()
        self.assertNotIn("86", archs)
        self.assertFalse([name for name in images if name.startswith("sm_86.")])
        self.assertEqual(self.archs_for("8.6"), "80")
        self.run_in(sys.executable, "scripts/support-matrix")
        self.assertNotIn("sm_86", re.findall(r"^\|.*", (self.tree / "docs" / "gpus.md").read_text(), re.M)[2:])

    def test_a_line_that_is_no_line_is_named(self):
        self.list.write_text(self.list.read_text().replace("always, 64", "allways, 64"))
        done = subprocess.run([CMAKE, "-S", self.tree, "-B", self.folder / "build"], capture_output=True, text=True)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("allways, 64", done.stderr)


class Page(unittest.TestCase):
    def test_the_page_is_as_the_lists_have_it(self):
        done = subprocess.run([sys.executable, SOURCE / "scripts" / "support-matrix", "--check"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
