"""The CUDA that compiles the kernels, by nvcc's version and FA_CUDA; the options of scripts/nvcc12.py."""
import os
import re
import shlex
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

SOURCE, CMAKE = Path(sys.argv[1]), sys.argv[2]
SCRIPT = SOURCE / "scripts" / "nvcc12.py"
sys.path += [str(SOURCE / "scripts"), str(SOURCE / "tests" / "cuda" / "mutants")]
import compiler  # noqa: E402
import nvcc12  # noqa: E402


def configure(release: str, *options: str) -> tuple[int, str, str]:
    """With an nvcc of this release: the exit status, the errors with blanks for line ends, how kernels are compiled."""
    with tempfile.TemporaryDirectory() as folder:
        nvcc, build = Path(folder, "nvcc"), Path(folder, "build")
        nvcc.write_text(f"#!/bin/sh\necho Cuda compilation tools, release {release}, V{release}.0\n")
        nvcc.chmod(0o755)
        off = [f"-DFA_{name}=OFF" for name in ("BUILD_TESTS", "BUILD_TOOL", "BUILD_BENCH", "BUILD_EXAMPLES", "BUILD_EMULATOR")]
        done = subprocess.run([CMAKE, "-S", SOURCE, "-B", build, "-G", "Ninja", "-DFA_KERNELS=file", f"-DFA_NVCC={nvcc}", *off,
                               *options], capture_output=True, text=True)  # fmt: skip
        ninja = Path(build, "build.ninja")
        return done.returncode, re.sub(r"\s+", " ", done.stderr), ninja.read_text() if ninja.exists() else ""


class Build(unittest.TestCase):
    def test_an_installed_toolkit_is_taken_as_it_is(self):
        # Compression that drivers before 12.4 know; code for a family where there is any.
        for release, compression, arch in (("12.8", "-Xfatbin -compress-all", "100a"), ("12.9", "-Xfatbin -compress-all", "100f"),
                                           ("13.0", "--compress-mode=size", "100f")):  # fmt: skip
            with self.subTest(release):
                status, errors, commands = configure(release)
                self.assertEqual(status, 0, errors)
                self.assertIn(f"{compression} ", commands)
                self.assertRegex(commands, rf"arch=compute_{arch},code=..?sm_{arch},compute_{arch}")

    def test_103a_has_code_of_its_own_where_it_is_named(self):
        for release in ("12.9", "13.0"):
            with self.subTest(release):
                status, errors, commands = configure(release, "-DFA_ARCHS=103a")
                self.assertEqual(status, 0, errors)
                self.assertRegex(commands, r"arch=compute_103f,code=..?sm_103f,compute_103f")
                self.assertIn("sm_103a.mma.bf16.128.fatbin", commands)

    def test_a_distributions_toolkit_builds_what_it_knows(self):
        for options in ([], ["-DFA_ARCHS=75;80;86;89;90"]):
            with self.subTest(options):
                status, errors, commands = configure("12.4", *options)
                self.assertEqual(status, 0, errors)
                for arch in ("75", "80", "86", "89", "90a"):
                    self.assertRegex(commands, rf"arch=compute_{arch},code=..?sm_{arch},compute_{arch}")
                self.assertNotRegex(commands, "compute_1[0-9][0-9]")
                self.assertEqual("100a 120" in errors, not options, errors)

    def test_plain_numbers_mean_the_architecture_that_there_is(self):
        status, errors, commands = configure("13.0", "-DFA_ARCHS=90;100;90a")
        self.assertEqual(status, 0, errors)
        images = set(re.findall(r"kernels/(sm_\w+)[.]mma[.]bf16[.]128[.]fatbin", commands))
        self.assertEqual(images, {"sm_90a", "sm_100a"})

    def test_what_cannot_be_built_is_named(self):
        for release, options, words in (
            ("12.3", [], ("of CUDA 12.3", "expected 12.4 or later", "-DFA_CUDA=12")),
            ("12.4", ["-DFA_ARCHS=80;100"], ("FA_ARCHS names 100a", "expected CUDA 12.8 or later")),
            ("12.4", ["-DFA_ARCHS=120"], ("FA_ARCHS names 120", "expected CUDA 12.8 or later")),
            ("13.0", ["-DFA_ARCHS=91"], ("FA_ARCHS names 91", "expected some of")),
            ("13.0", ["-DFA_CUDA=both"], ("FA_CUDA is both", "expected 12, 13", "no need for both")),
            ("12.9", ["-DFA_ARCHS=80;110"], ("FA_ARCHS names 110", "expected CUDA 13.0 or later")),
            ("12.8", ["-DFA_ARCHS=103a"], ("FA_ARCHS names 103a", "expected CUDA 12.9 or later")),
            ("none", [], ("reports no version", "expected an nvcc of CUDA 12.4 or later")),
        ):
            with self.subTest(f"{release} {options}"):
                status, errors, _ = configure(release, *options)
                self.assertNotEqual(status, 0)
                for word in words:
                    self.assertIn(word, errors)


class Nvcc12(unittest.TestCase):
    def refused(self, *arguments: str) -> str:
        done = subprocess.run([sys.executable, SCRIPT, "--toolkit", "/nowhere", *arguments], capture_output=True, text=True)
        self.assertNotEqual(done.returncode, 0)
        return done.stderr

    def test_options_that_it_has_not_are_named(self):
        self.assertIn("--use_fast_math", self.refused("--use_fast_math", "-ptx", "kernel.cu", "-o", "out"))
        self.assertIn("-compress-none", self.refused("-Xfatbin", "-compress-none", "-ptx", "kernel.cu", "-o", "out"))
        self.assertIn("there is no gencode", self.refused("-ptx", "kernel.cu", "-o", "out"))
        self.assertIn("-gencode is sm_80: expected arch=", self.refused("-gencode", "sm_80", "-ptx", "kernel.cu", "-o", "out"))

    def taken(self, command: list[str]):
        """A command without the program: its options, all known."""
        return nvcc12.options_of(["--toolkit", "t", *command])

    def test_it_takes_the_builds_commands(self):
        status, errors, commands = configure("12.9", "-DFA_ARCHS=75;100a", "-DFA_PORT_TO=80")
        self.assertEqual(status, 0, errors)
        words = [shlex.split(line) for line in re.findall(r"\S+/nvcc (.* -fatbin .*?)(?: &&.*)?$", commands, re.MULTILINE)]
        targets = {self.taken(command).target.group(1) for command in words}
        self.assertEqual(targets, {"75", "100f"})

    def test_it_takes_the_commands_of_the_mutants(self):
        with tempfile.TemporaryDirectory() as folder:
            nvcc = Path(folder, "nvcc")
            nvcc.write_text(f"#!{sys.executable}\nimport sys\nprint(*sys.argv[1:], sep='\\n')\n")
            nvcc.chmod(0o755)
            with mock.patch.dict(os.environ, NVCC=str(nvcc), NVCC_CACHE=""):
                said = compiler.compile_image(SOURCE / "kernels", ("80", "mma", "f16", "64"),
                                              "FA_KERNEL_HASH_mma=1,FA_KERNEL_CUDA_VERSION=12090", Path("o"))  # fmt: skip
        self.assertEqual(self.taken(said.splitlines()).target.group(1, 2), ("80", "sm_80,compute_80"))

    def test_what_it_understands_of_options(self):
        given = nvcc12.options_of(["--toolkit", "t", "-std=c++20", "-O3", "--expt-relaxed-constexpr", "-I", "a", "-Ib", "-Xptxas", "-v",
                                   "-Xfatbin", "-compress-all", "-DX=1", "-gencode", "arch=compute_100f,code=[sm_100f,compute_100f]",
                                   "-D", "Y", "-lineinfo", "-MD", "-MF", "d", "-MT", "t", "-fatbin", "k.cu", "-o", "o"])  # fmt: skip
        self.assertEqual((given.folders, given.definitions, given.Xptxas), ([Path("a"), Path("b")], ["X=1", "Y"], ["-v"]))
        self.assertEqual(given.target.group(1, 2), ("100f", "sm_100f,compute_100f"))
        self.assertEqual(nvcc12.GENCODE.fullmatch("arch=compute_75,code=compute_75").group(1, 3), ("75", "compute_75"))

    def test_what_a_source_includes(self):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            for name, text in (("k/kernel.cu", '#include "near.h"\n#include <far.h>\n'), ("k/near.h", '#if 0\n# include "x/other.h"\n#endif\n'),
                               ("x/other.h", '#include "near.h"\n#include "none.h"\n'), ("near.h", "")):  # fmt: skip
                (root / name).parent.mkdir(exist_ok=True)
                (root / name).write_text(text)
            found = nvcc12.included(root / "k/kernel.cu", [root])
            self.assertEqual(found, [root / name for name in ("k/kernel.cu", "k/near.h", "x/other.h", "near.h")])

    def test_a_toolkit_that_is_not_there_is_named(self):
        with tempfile.NamedTemporaryFile(suffix=".cu") as source:
            text = self.refused("-gencode", "arch=compute_80,code=[sm_80]", "-fatbin", source.name, "-o", os.devnull)
        self.assertIn("libnvrtc.so.12", text)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
