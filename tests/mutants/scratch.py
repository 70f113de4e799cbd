"""A copy of the tree and its builds, in which one fault at a time is planted and judged."""

import os
import re
import shutil
import subprocess
from pathlib import Path

LONGEST = 900  # seconds of a fault's tests: some make a test hang

COMMON = ["-G", "Ninja", "-DFA_BUILD_BENCH=OFF", "-DFA_BUILD_EXAMPLES=OFF", "-DFA_BUILD_EMULATOR=OFF", "-DFA_WERROR=OFF"]
# Little optimised, as compiling takes longer than the tests do.
OPTIMISED = ["-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_CXX_FLAGS_RELEASE=-O1"]
BUILDS = {
    "host": [*OPTIMISED, "-DFA_KERNELS=off"],
    "bindings": [*OPTIMISED, "-DFA_KERNELS=off", "-DFA_BUILD_BINDINGS=ON"],
    "emulated": [*OPTIMISED, "-DFA_KERNELS=file", "-DFA_ARCHS=80;75"],
    "tsan": ["--preset", "tsan"],
}


def run(command, **options):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, errors="replace", **options)


class Scratch:
    def __init__(self, root, work, emulated_by, jobs):
        self.root, self.work, self.emulated_by, self.jobs = root, work.resolve(), emulated_by, jobs
        self.tree = self.work / "tree"
        self.clean = {}  # tests of a build that pass without a fault
        self.configured = set()
        self.copy_tree()

    def copy_tree(self):
        """Brings the copy up to date: files that are the same keep their times, for the build."""
        listed = set(run(["git", "ls-files", "-co", "--exclude-standard"], cwd=self.root, check=True).stdout.splitlines())
        for name in sorted(listed):
            source, copy = self.root / name, self.tree / name
            if not source.is_file() and not source.is_symlink():
                continue
            if source.is_symlink():
                if not copy.is_symlink():
                    copy.parent.mkdir(parents=True, exist_ok=True)
                    copy.symlink_to(os.readlink(source))
            elif not copy.is_file() or copy.read_bytes() != source.read_bytes():
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(source, copy)
        for copy in list(self.tree.rglob("*")):
            if copy.is_file() and str(copy.relative_to(self.tree)) not in listed:
                copy.unlink()

    def configure(self, build):
        folder = self.work / build
        if build in self.configured:
            return folder
        options = BUILDS[build]
        if build == "emulated":
            options = [*options, f"-DFA_EMULATED_BY={self.emulated_by.resolve()}"]
        done = run(["cmake", "-S", self.tree, "-B", folder, *options, *COMMON], cwd=self.tree)
        if done.returncode:
            raise SystemExit(f"{build} is not configured:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        self.configured.add(build)
        return folder

    def tests_of(self, folder, pattern):
        """The commands of the tests that a pattern selects, by their names. ctest itself does not say those of programs that
        are not built yet."""
        tests = {}
        for file in folder.rglob("CTestTestfile.cmake"):
            for name, command in re.findall(r"^\s*add_test\(\[=\[(.+?)\]=\] (.*)\)$", file.read_text(), re.MULTILINE):
                if re.search(pattern, name):
                    tests[name] = command
        return tests

    def build(self, folder, mutant, tests):
        """Builds the programs of the tests, as far as ninja knows them."""
        words = {word for command in tests.values() for word in re.findall(r'"([^"]*)"', command)}
        programs = {word for word in words if word.startswith(f"{folder}/")}
        known = run(["ninja", "-C", folder, "-t", "targets", "all"]).stdout
        outputs = {line.split(":")[0] for line in known.splitlines()}
        targets = {str(Path(each).relative_to(folder)) for each in programs} & outputs
        return run(["ninja", "-C", folder, "-j", self.jobs, *sorted(targets), *(mutant.targets or ["build.ninja"])])

    def failures(self, folder, pattern):
        """The text of the tests' failure; "" where none fails."""
        tests = ["ctest", "--test-dir", folder, "-C", "slow", "-R", pattern, "-j", self.jobs, "--stop-on-failure"]
        done = run(["timeout", LONGEST, *tests])
        if done.returncode == 0:
            return ""
        if done.returncode == 124:
            return f"not done within {LONGEST} s"
        failed = re.findall(r"^\s*\d+ - (\S+) \((?!Skipped)", done.stdout.split("tests failed")[-1], re.MULTILINE)
        return ", ".join(failed) or done.stdout[-500:]

    def judge(self, mutant):
        if mutant.build == "emulated" and not self.emulated_by:
            return "left out", "it takes --emulated-by"
        folder = self.configure(mutant.build)
        tests = self.tests_of(folder, mutant.tests)
        if not tests:
            raise SystemExit(f"{mutant.name}: no test is called {mutant.tests}")
        if (mutant.build, mutant.tests) not in self.clean:
            built = self.build(folder, mutant, tests)
            failed = built.stdout[-2000:] if built.returncode else self.failures(folder, mutant.tests)
            if failed:
                raise SystemExit(f"{mutant.name}: without the fault {mutant.tests} fails: {failed}")
            self.clean[mutant.build, mutant.tests] = True
        path = self.tree / mutant.file
        whole = path.read_text(encoding="utf-8")
        try:
            path.write_text(whole.replace(mutant.old, mutant.new), encoding="utf-8")
            if self.build(folder, mutant, tests).returncode:
                return "does not compile", mutant.file
            failed = self.failures(folder, mutant.tests)
        finally:
            path.write_text(whole, encoding="utf-8")
        return ("caught", failed) if failed else ("survived", f"all of {mutant.tests} pass")
