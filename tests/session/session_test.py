"""scripts/gpu-session.sh, preflight.sh and profile.sh on a machine that has neither a GPU nor the profilers: nothing that did
not run may be reported as passed. Programs of the pack are stand-ins that print the test's text."""
import json
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
from gpu import goals, ncu, preflight, session, summary, tools, tune  # noqa: E402
from gpu.calls import Shape  # noqa: E402
from gpu.phases import PHASES, sanitized  # noqa: E402

FATBIN = struct.pack("<IHHQ", preflight.FATBIN, 1, 16, 8) + b"8 bytes."
COMMIT = "0123456789abcdef"
INFO = {"kernels": [{"name": name, "device": "cuda", "arch": name.split(".")[1], "available": True, "unavailable_reason": "",
                     "compute_dtypes": "f32" if name.endswith("simt") else "f16 bf16"}
                    for name in ("cuda.sm_90a.mma", "cuda.sm_90a.simt", "cuda.sm_80.mma")]}


class Session(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.folder = Path(self.temporary.name)
        self.bin = self.folder / "bin"
        self.pack = self.folder / "pack"
        for folder in (self.bin, *(self.pack / name for name in ("bin", "lib", "ported"))):
            folder.mkdir(parents=True)
        for name in ("python3", "sh", "bash", "git", "dirname", "readlink", "env", "nproc"):
            (self.bin / name).symlink_to(sys.executable if name == "python3" else f"/usr/bin/{name}")
        (self.pack / "ported" / "sm_80.mma.f16.32.fatbin").write_bytes(FATBIN)
        self.facts = {"commit": COMMIT, "changed": False, "sm": 90, "archs": ["sm_80", "sm_90a"], "nvcc": "13.0.0",
                      "files": ["bin/fa"], "ported": ["sm_80.mma.f16.32.fatbin"]}
        tools.write_json(self.pack / "pack.json", self.facts)

    def tearDown(self):
        self.temporary.cleanup()

    def tool(self, folder, name, text):
        """A stand-in: a shell program."""
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)

    def fa(self, check='echo "$3 19 right"; echo "All 76 checks are right"'):
        info = json.dumps(INFO)
        self.tool(self.pack / "bin", "fa", f"case $1 in info) echo '{info}';; check) {check};; *) true;; esac")

    def script(self, name, *arguments):
        environment = {"PATH": str(self.bin), "HOME": str(self.folder)}
        return subprocess.run([ROOT / "scripts" / name, *map(str, arguments)], env=environment, capture_output=True, text=True)

    def session(self, *arguments):
        """Runs a session; its exit status and the phases' JSON."""
        out = self.folder / "out"
        done = self.script("gpu-session.sh", "run", "--pack", self.pack, "--out", out, *arguments)
        file = out / "session.json"
        return done, json.loads(file.read_text())["phases"] if file.exists() else {}

    def test_phases_fit_three_calls(self):
        calls, left = [[]], 540
        for name, (_, seconds) in PHASES.items():
            if seconds > left:
                calls.append([])
                left = 540
            calls[-1].append(name)
            left -= seconds
        self.assertEqual(len(calls), 3, calls)
        self.assertEqual(calls[0], ["machine", "check", "capture", "goals"])
        listed = self.script("gpu-session.sh", "phases").stdout
        self.assertEqual([line.split()[0] for line in listed.splitlines()], list(PHASES))

    def tune(self, bench, *arguments, tiles=None):
        """Tables with the speeds of `bench`, in t; the exit status and tune.json. tiles: the text of tiles.txt."""
        for preset in ("standard", "deep", "wide"):
            (self.pack / "tune" / preset).mkdir(parents=True, exist_ok=True)
            if tiles:
                (self.pack / "tune" / preset / "tiles.txt").write_text(tiles[preset])
            (self.pack / "tune" / preset / "libfa.so.0").touch()
        self.tool(self.pack / "bin", "fa", f"""
case $1 in check) echo "All 76 checks are right"; exit; esac
for word in "$@"; do case $before in --json) file=$word;; --shape) shapes="$shapes $word";; esac; before=$word; done
{bench}
for shape in $shapes; do echo "{{\\"shape\\": \\"$shape\\", \\"median_seconds\\": $t}}"; done | paste -sd, > $file.rows
echo "{{\\"results\\": [$(cat $file.rows)]}}" > $file""")
        for name in ("paste", "cat"):
            (self.bin / name).exists() or (self.bin / name).symlink_to(f"/usr/bin/{name}")
        done = self.script("gpu-session.sh", "tune", "--pack", self.pack, "--out", self.folder / "out", *arguments)
        return done, json.loads((self.folder / "out" / "tune.json").read_text())

    def test_the_fastest_table_is_named(self):
        done, result = self.tune('case "$LD_LIBRARY_PATH" in *tune/deep:*) t=0.8;; *tune/wide:*) t=1.25;; *) t=1;; esac',
                                 "--dims", "64,128", "--turns", "1")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(result["gains"]["64"], {"standard": 1.0, "deep": 1.25, "wide": 0.8})
        self.assertEqual(result["commit"], COMMIT)
        missing = [item["name"] for item in result["items"] if item["status"] == "not available"]
        self.assertEqual(missing, ["loose"])
        self.assertIn("| 128 | 1.000 | 1.250 | 0.800 | deep |", done.stdout)
        self.assertIn("    {128, Preset::deep},\n", done.stdout)

    def test_the_same_tiles_are_measured_once(self):
        """Compared for the family and head dimension alone: wide has other tiles at 64, deep at 64 and 192/128."""
        line = lambda dim, entry, tiles: f"wgmma {dim} fa_forward_{entry} {tiles}\nmma {dim} fa_forward_{entry} 1 2\n"
        of = lambda at_64, at_128, narrow: line(64, "plain", at_64) + line(128, "plain", at_128) + line(192, "narrow", narrow)
        tables = {"standard": of("2 128", "2 64", "2 96"), "deep": of("2 96", "2 64", "3 64"), "wide": of("2 192", "2 64", "2 96")}
        done, result = self.tune('case "$LD_LIBRARY_PATH" in *tune/deep:*) t=0.5;; *) t=1;; esac', "--dims", "64,128,192/128", "--turns", "1",
                                 tiles=tables)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(result["gains"], {"64": {"standard": 1.0, "deep": 2.0, "wide": 1.0}, "128": {"standard": 1.0},
                                           "192/128": {"standard": 1.0, "deep": 2.0}})
        self.assertIn("| 192/128 | 1.000 | 2.000 |  | deep |", done.stdout)
        self.assertIn("At 192/128 it is deep: Entry::narrow", done.stdout)
        self.assertNotIn("{192", done.stdout)
        narrow = {one["shape"] for one in result["measured"] if one["shape"].endswith("192,128")}
        self.assertIn("1,10,10,16384,16384,192,128", narrow)

    def test_tables_say_what_their_tiles_are(self):
        """The tables of kernels/presets.inc, by this machine's compiler."""
        found = {}
        for preset in ("standard", "wide", "loose"):
            program = self.folder / preset
            subprocess.run(["c++", "-std=c++20", "-I", ROOT / "kernels", "-I", ROOT / "src", "-DFA_SM=90", f"-DFA_TILE_PRESET={preset}",
                            ROOT / "bench" / "gpu" / "tile_table.cpp", "-o", program], check=True)
            (self.folder / f"tune-{preset}").mkdir()
            (self.folder / f"tune-{preset}" / "tiles.txt").write_text(subprocess.run([program], capture_output=True, text=True).stdout)
            found[preset] = tune.tiles(self.folder / f"tune-{preset}", "wgmma")
        self.assertEqual(set(found["standard"]), set(tune.DIMS))
        self.assertEqual({dim for dim in tune.DIMS if found["wide"][dim] != found["standard"][dim]}, {"64"})
        self.assertEqual({dim for dim in tune.DIMS if found["loose"][dim] != found["standard"][dim]}, set(tune.DIMS))

    def test_a_table_that_spills_is_left_out_of_the_pack(self):
        """Tables are built strictly; one that fails does not affect the others, and shows in the exit status."""
        log = self.folder / "cmake.log"
        self.tool(self.bin, "cmake", f"""echo "$@" >>{log}
[ "$1" = --build ] || exit 0
case $2 in *tune-deep) exit 1;; *tune-*) mkdir -p $2/src; echo library >$2/src/libfa.so.0;; esac""")
        self.tool(self.bin, "c++", 'for word in "$@"; do out=$word; done; printf "#!/bin/sh\necho wgmma 64 fa_forward_plain 2\n" >$out; chmod +x $out')
        self.tool(self.bin, "strip", "true")
        for name in ("mkdir", "cp", "rm", "sed", "chmod"):
            (self.bin / name).symlink_to(f"/usr/bin/{name}")
        build, pack = self.folder / "build", self.folder / "new"
        done = self.script("gpu-session.sh", "prepare", "--sm", "90", "--tune", "--build", build, "--pack", pack)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("the table deep is left out", done.stderr)
        built = {folder.name for folder in (pack / "tune").iterdir()}
        self.assertLessEqual({"standard", "wide", "loose"}, built)
        self.assertNotIn("deep", built)
        self.assertEqual((pack / "tune" / "wide" / "tiles.txt").read_text(), "wgmma 64 fa_forward_plain 2\n")
        self.assertTrue(all("-DFA_STRICT_PTXAS=ON" in line for line in log.read_text().splitlines() if "-DFA_TILE_PRESET" in line))

    def test_the_default_stays_without_a_faster_table(self):
        done, _ = self.tune('t=1', "--dims", "96", "--turns", "2")
        self.assertIn("    {96, Preset::standard},\n", done.stdout)

    def test_a_table_that_fails_is_out(self):
        done, result = self.tune('case "$LD_LIBRARY_PATH" in *tune/deep:*) echo lost; exit 1;; esac; t=1', "--dims", "64", "--turns", "1")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(result["gains"]["64"], {"standard": 1.0, "wide": 1.0})
        self.assertIn("deep: failed: lost", done.stdout)

    def test_no_time_is_no_result(self):
        done, result = self.tune('t=1', "--seconds", "0")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(result["gains"], {})

    def test_dry_run_writes_every_phase(self):
        done, results = self.session("--dry-run")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(set(results), set(PHASES))
        for result in results.values():
            self.assertEqual(result["status"], "not run")
            self.assertEqual(result["commit"], COMMIT)
            self.assertRegex(result["command"], r"^bench/gpu/session\.py ")  # no path of the machine
            self.assertEqual(result["versions"]["nvcc"], "13.0.0")
        self.assertIn("| speed | not run |", done.stdout)

    def test_what_nothing_was_measured_for_is_not_kept(self):
        kept = set((ROOT / "bench" / "results").iterdir())
        done = self.script("gpu-session.sh", "run", "--pack", self.pack, "--dry-run")
        self.assertIn("build/session-results", done.stdout)
        self.assertEqual(set((ROOT / "bench" / "results").iterdir()), kept)

    def test_without_a_gpu_nothing_passes(self):
        self.tool(self.pack / "bin", "fa", """echo '{"kernels": []}'""")
        done, results = self.session()
        self.assertEqual({result["status"] for result in results.values()}, {"not available"}, done.stdout)
        self.assertEqual(done.returncode, 77)
        self.assertEqual(set(results), set(PHASES))
        for name, result in results.items():
            self.assertTrue(result["reason"] if name != "machine" else result["items"][0]["reason"])

    def test_checks_that_pass_and_fail(self):
        self.fa()
        done, results = self.session("--phases", "check")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual({file.name for file in (self.folder / "out").iterdir()}, {"session.json", "summary.md"})
        items = {item["name"]: item for item in results["check"]["items"]}
        self.assertEqual(set(items), {"cuda.sm_90a.mma", "cuda.sm_90a.simt", "many tiles", "layer0", "layer5"})
        self.assertEqual(items["cuda.sm_90a.mma"]["table"], "cuda.sm_90a.mma 19 right")
        for wrong in ("exit 1", "kill -9 $$", 'echo "All 76 checks are right"; exit 1', "echo nothing was checked",
                      'echo "All 0 checks are right"'):
            self.fa(wrong)
            done, results = self.session("--phases", "check", "--again")
            self.assertEqual((done.returncode, results["check"]["status"]), (1, "failed"), wrong)

    def test_ported_images_are_named_to_the_library(self):
        self.fa('[ "$FA_KERNEL_PATH" ] && [ "$CUDA_DISABLE_PTX_JIT" ] || exit 1; echo "All 76 checks are right"')
        done, results = self.session("--phases", "ported")
        self.assertEqual(results["ported"]["status"], "passed", done.stdout)
        self.assertEqual([item["name"] for item in results["ported"]["items"]],
                         ["cuda.sm_80.mma", "cuda.sm_80.mma: assembled beforehand", "cuda.sm_80.mma: compiled by the driver"])

    def test_suites_that_skip_everything_are_not_passed(self):
        self.fa()
        for text, status in [("exit 77", "not available"), ("exit 0", "passed"), ("exit 1", "failed"),
                             ('case "$2" in *Fuzz*bf16_sm_80) exit 139;; esac', "failed")]:
            self.tool(self.pack / "bin", "fa_test_engine", text)
            _, results = self.session("--phases", "engine", "--again")
            self.assertEqual(results["engine"]["status"], status, text)
        names = [item["name"] for item in results["engine"]["items"]]
        self.assertEqual((len(names), names[0]), (60, "Forward f16 sm_90a"))  # suites, types, architectures

    def test_gradients_are_of_the_first_kernel_with_halves(self):
        commands = []

        def run(command, seconds, environment=None):
            commands.append([str(part) for part in command])
            if commands[-1][1] == "info":
                return tools.Outcome(commands[-1], 0, json.dumps(INFO), 0, False)
            Path(commands[-1][commands[-1].index("--json") + 1]).write_text('{"results": [3]}')
            return tools.Outcome(commands[-1], int("--causal" in commands[-1]), "its output", 0, False)

        with mock.patch.object(tools, "run", run):
            one = session.Session(tools.Pack(self.pack), None, 500, {})
            one.begin(100)
            found = PHASES["gradients"][0](one)
        full, causal, _, any_order = [command for command in commands if command[1] == "bench"]
        self.assertEqual(full[full.index("--kernel") + 1 : full.index("--kernel") + 4], ["cuda.sm_90a.mma", "--dtype", "bf16"])
        self.assertIn("--backward", causal)
        self.assertNotIn("--nondeterministic", causal)
        self.assertEqual(any_order[-2:], ["--causal", "--nondeterministic"])
        self.assertEqual(found["status"], "failed")
        self.assertEqual([(item["status"], item["values"]) for item in found["items"]],
                         [("passed", {"results": [3]}), ("failed", {"results": [3]})] * 2)

    def test_time_that_is_up(self):
        self.fa("/bin/sleep 60")
        done, results = self.session("--phases", "check", "--seconds", 3)
        self.assertEqual((done.returncode, results["check"]["status"]), (1, "out of time"), done.stdout)

    def test_the_next_call_goes_on(self):
        """The first phase of a call is begun whatever time there is, and another only where its seconds fit."""
        self.fa()
        first, results = self.session("--phases", "check,ported,sanitizer", "--seconds", 90)
        self.assertEqual((set(results), first.returncode), ({"check"}, 0), first.stdout + first.stderr)
        self.assertIn("Left to the next call, which goes on with session.json: ported, sanitizer.", first.stdout)
        self.fa("exit 1")
        second, results = self.session("--phases", "check,ported", "--seconds", 90)
        self.assertEqual((results["check"]["status"], results["ported"]["status"]), ("passed", "failed"), second.stdout)
        self.assertIn("| check | passed |", second.stdout)
        self.assertEqual(second.returncode, 1)
        third, _ = self.session("--phases", "check,ported")
        self.assertIn("every phase that was asked for has results", third.stdout)
        elsewhere = self.folder / "elsewhere.json"
        (self.folder / "out" / "session.json").rename(elsewhere)
        self.fa()
        _, results = self.session("--phases", "check,ported,sanitizer", "--before", elsewhere)
        self.assertEqual([results[name]["status"] for name in ("check", "ported", "sanitizer")], ["passed", "failed", "not available"])

    def test_results_of_an_earlier_call_that_are_none(self):
        self.fa()
        file = self.folder / "file.json"
        for text in ("", "[1]", '{"phases": 3}', '{"phases": {"check": {}}'):
            file.write_text(text)
            done, _ = self.session("--phases", "check", "--before", file)
            self.assertEqual(done.returncode, 1, text)
            self.assertIn("is no session.json of an earlier call", done.stderr)
        done, _ = self.session("--phases", "check", "--before", self.folder / "none.json")
        self.assertIn("--before: there is no", done.stderr)

    def test_a_capture_that_fails_is_of_its_contender_alone(self):
        """Contenders whose capture fails are timed on the stream."""
        commands = []

        def run(command, seconds, environment=None):
            commands.append([str(part) for part in command])
            broken = commands[-1][1].endswith("capture.py") and commands[-1][-1] == "cudnn"
            return tools.Outcome(commands[-1], int(broken), "cannot be captured" if broken else "", 0, False)

        with mock.patch.object(tools, "run", run):
            one = session.Session(tools.Pack(self.pack), None, 500, {})
            one.begin(100)
            one.results["capture"] = PHASES["capture"][0](one)
            PHASES["speed"][0](one)
            PHASES["goals"][0](one)
        states = {item["name"]: item["status"] for item in one.results["capture"]["items"]}
        self.assertEqual(states, {"libfa": "passed", "cudnn": "not available", "flash": "passed", "efficient": "passed"})
        speed, of_goals = commands[-2:]
        self.assertEqual(speed[-2:], ["--stream", "cudnn"])
        self.assertEqual(speed[speed.index("--sweep") + 1 : speed.index("--seconds")], ["host", "forward", "decode"])
        self.assertEqual(of_goals[of_goals.index("--sweep") + 1 : of_goals.index("--seconds")], ["goals"])

    def test_a_sanitizer_that_sees_nothing_is_not_available(self):
        self.fa()
        for text, status in [("echo Device not supported; exit 1", "not available"), ("exit 0", "not available"),
                             ("echo ERROR SUMMARY: 0 errors; echo RACECHECK SUMMARY: 0 hazards", "passed"),
                             ("echo ERROR SUMMARY: 0 errors; [ x$2 != xracecheck ] || exit 9", "failed"),
                             ("echo ERROR SUMMARY: 0 errors", "failed")]:
            self.tool(self.bin, "compute-sanitizer", text)
            _, results = self.session("--phases", "sanitizer", "--again")
            self.assertEqual(results["sanitizer"]["status"], status, text)

    def test_the_sanitizer_watches_the_best_family_and_mma(self):
        """The checks of roles run on the card's own family, everything else on mma and simt."""
        kernels = INFO["kernels"][:2]
        self.assertEqual({kernel for kernel, _, _ in sanitized(kernels)}, {"cuda.sm_90a.mma", "cuda.sm_90a.simt"})
        calls = sanitized([{"name": "cuda.sm_90a.wgmma"}, *kernels])
        self.assertEqual([name for kernel, name, _ in calls if kernel == "cuda.sm_90a.wgmma"],
                         ["causal", "packed heads", "boxes of pages", "rows of pages", "softcap", "many tiles"])
        self.assertEqual([call for call in calls if call[0] != "cuda.sm_90a.wgmma"], sanitized(kernels))

    def test_decodes_are_profiled_on_mma(self):
        profiled = []
        info = {"kernels": [{**INFO["kernels"][0], "name": "cuda.sm_90a.wgmma"}, *INFO["kernels"]]}
        with mock.patch.object(tools, "run", lambda command, *_: tools.Outcome(command, 0, json.dumps(info), 0, False)), \
             mock.patch.object(ncu, "why_not", lambda: None), \
             mock.patch.object(ncu, "profile", lambda pack, name, shape, *_: profiled.append((name, shape)) or {"status": "passed"}):
            one = session.Session(tools.Pack(self.pack), None, 500, {})
            one.begin(100)
            PHASES["profile"][0](one)
        self.assertEqual(profiled, [("cuda.sm_90a.wgmma", "4,16,16,4096,4096,128"), ("cuda.sm_90a.mma", "16,32,8,1,8192,128")])

    def test_profiler(self):
        self.fa()
        self.assertEqual(self.script("profile.sh", "cuda.sm_90a.mma", "1,1,1,64,64,64", "--pack", self.pack).returncode, 77)
        table = '"ID","gpu__time_duration.sum"\\n"","us"\\n"0","12.5"\\n'
        self.tool(self.bin, "ncu", f"printf '==PROF== it\\n{table}'")
        done = self.script("profile.sh", "cuda.sm_90a.mma", "1,1,1,64,64,64", "--pack", self.pack)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"gpu__time_duration.sum +12.5 us")
        self.tool(self.bin, "ncu", "echo LibraryNotLoaded")
        _, results = self.session("--phases", "profile")
        self.assertEqual(results["profile"]["status"], "not available")
        self.assertEqual(ncu.metrics_of("==PROF== nothing"), {})
        names = ["sm__cycles.avg", "sm__cycles.max", "sm__cycles.sum.pct_of_peak", "device__attribute_clock", "dram__bytes.sum"]
        rows = [names, [""] * len(names), ["1"] * len(names)]
        table = "\n".join(",".join(f'"{word}"' for word in row) for row in rows)
        self.assertEqual(list(ncu.metrics_of(table)), ["sm__cycles.avg", "dram__bytes.sum"])

    def test_prepare_builds_what_the_card_runs(self):
        log = self.folder / "cmake.log"
        self.tool(self.bin, "cmake", f'echo "$@" >>{log}')
        for sm, archs, ported in [("90", "75;80;86;89;90a", True), ("120", "75;80;86;89;120", True), ("80", "75;80", True),
                                  ("75", "75", False)]:
            log.write_text("")
            done = self.script("gpu-session.sh", "prepare", "--sm", sm, "--build", self.folder / "none", "--pack", self.folder / "new")
            self.assertNotEqual(done.returncode, 0)  # nothing was built
            self.assertIn(f"-DFA_ARCHS={archs} -DFA_PORT_TO={sm}", log.read_text())
            self.assertEqual("fa_ported_kernels" in log.read_text(), ported)
        self.assertEqual(self.script("gpu-session.sh", "prepare").returncode, 2)

    def test_unknown_phase(self):
        done, _ = self.session("--phases", "chek")
        self.assertEqual(done.returncode, 2)
        self.assertIn("there is no phase chek; there are machine, check", done.stderr)

    def test_preflight_names_what_is_missing(self):
        pack = tools.Pack(self.pack)
        self.fa()
        of_pack = lambda: [problem for problem in preflight.pack_problems(tools.Pack(self.pack)) if "of commit" not in problem]
        self.assertEqual(of_pack(), [])
        image = pack.ported / "sm_80.mma.f16.32.fatbin"
        for content, said in [(FATBIN[:-1], "is cut off: 23 bytes of 24"), (b"long enough, and no image", "is no fatbin"),
                              (None, "is missing")]:
            image.unlink()
            if content is not None:
                image.write_bytes(content)
            self.assertEqual([problem.split("fatbin ", 1)[1] for problem in of_pack()], [said])
        done = self.script("preflight.sh", "--pack", self.pack)
        self.assertEqual(done.returncode, 1)
        self.assertIn("sm_80.mma.f16.32.fatbin is missing", done.stdout)
        self.assertIn("libfa does not load", done.stdout)
        self.assertIn(f"the pack is of commit {COMMIT[:10]}", done.stdout)

    def test_preflight_of_an_empty_folder_and_of_another_gpu(self):
        done = self.script("preflight.sh", "--pack", self.folder / "none")
        self.assertEqual(done.returncode, 1)
        self.assertIn("prepare --sm 90 makes it", done.stdout)
        tools.write_json(self.pack / "pack.json", {**self.facts, "archs": ["sm_80"]})
        self.assertTrue(any("no kernels for sm_90: it has sm_80" in problem for problem in preflight.pack_problems(tools.Pack(self.pack))))

    def driver(self, cases, *arguments):
        """The phase driver of a stand-in for fa_test_cuda; the exit status, the phase's items by name, and the tests that ran."""
        info = json.dumps({"kernels": [{**INFO["kernels"][0], "name": "cuda.sm_90a.wgmma"}, *INFO["kernels"]]})
        self.tool(self.pack / "bin", "fa", f"echo '{info}'")
        log = self.folder / "ran.log"
        log.write_text("")
        self.tool(self.pack / "bin", "fa_test_cuda", f"""case $1 in --gtest_list_tests) printf 'Running main() from gtest_main.cc
Context.
  Own
  Reset
Types/Offsets.
  Far/0  # GetParam() = 0
Fault.
  NoGpu
Gradients.
  Kernels
  CallsOfTheDriverMayFail
Wgmma.
  Tiles
Tcgen05.
  Tiles
'; exit;; esac
echo "$1" >>{log}
case $1 in {cases} *) echo "[  PASSED  ] 1 test.";; esac""")
        done, results = self.session("--phases", "driver", "--again", *arguments)
        ran = sorted(line.removeprefix("--gtest_filter=") for line in log.read_text().splitlines())
        return done.returncode, {item["name"]: item for item in results["driver"]["items"]}, ran

    def test_driver_tests_have_separate_processes(self):
        """Those for the emulator alone and for families of other cards are left out, and tests that are skipped have not passed."""
        code, items, ran = self.driver("""*Wgmma*) printf 'wgmma_test.cpp:1: Skipped\nno such kernel\n\n[  PASSED  ] 0 tests.\n';;""")
        self.assertEqual(code, 0)
        self.assertEqual(ran, ["Context.Own", "Context.Reset", "Gradients.Kernels", "Types/Offsets.Far/0", "Wgmma.Tiles"])
        states = {name: (item["status"], item["passed"], item["skipped"]) for name, item in items.items()}
        self.assertEqual(states, {"Context": ("passed", 2, {}), "Gradients": ("passed", 1, {}), "Types/Offsets": ("passed", 1, {}),
                                  "Wgmma": ("not available", 0, {"Wgmma.Tiles": "no such kernel"})})
        self.assertEqual(self.driver("", "--tests", "Con*.R*,Wgmma.*")[2], ["Context.Reset", "Wgmma.Tiles"])

    def test_failures_are_kept_whole(self):
        """In a file apart, by phase; a phase that passes when it is run again has none."""
        lines = "\\n".join(f"line {i}" for i in range(40))
        failing = f"""*Reset) printf 'a_test.cpp:84: Failure\nExpected equality:\n  result\n    Which is: 709\n{lines}\n1 FAILED TEST\n'; exit 1;;
*Own) kill -SEGV $$;;"""
        code, items, _ = self.driver(failing)
        self.assertEqual(code, 1)
        self.assertEqual(items["Context.Reset"]["reason"], "a_test.cpp:84: Failure Expected equality: result Which is: 709 line 0 line 1 line 2")
        self.assertEqual(items["Context.Own"]["reason"], "exit status -11")
        self.assertEqual({name: item["status"] for name, item in items.items()},
                         {"Context.Own": "failed", "Context.Reset": "failed", "Gradients": "passed", "Types/Offsets": "passed", "Wgmma": "passed"})
        out = self.folder / "out"
        self.assertNotIn("line 20", (out / "session.json").read_text())
        self.assertIn("- driver, Context.Reset: failed: a_test.cpp:84: Failure", (out / "summary.md").read_text())
        kept = (out / "failures.txt").read_text()
        self.assertIn("######## phase driver\n==== Context.Reset: failed\n$ ", kept)
        self.assertTrue(all(f"\nline {i}\n" in kept for i in range(40)), kept)
        self.fa("echo it is wrong; exit 1")
        self.session("--phases", "check")
        both = (out / "failures.txt").read_text()
        self.assertIn(kept.strip(), both)
        self.assertIn("\n######## phase check\n==== cuda.sm_90a.mma: failed\n", both)
        self.assertEqual(self.driver("")[0], 0)
        self.assertTrue((out / "failures.txt").read_text().startswith("######## phase check\n"))
        self.fa()
        self.session("--phases", "check", "--again")
        self.assertFalse((out / "failures.txt").exists())

    def test_a_test_that_does_not_end_is_named(self):
        code, items, _ = self.driver("*Own) /bin/sleep 60;;", "--seconds", 4)
        self.assertEqual((code, items["Context.Own"]["status"]), (1, "out of time"))
        self.assertRegex(items["Context.Own"]["reason"], "did not end in [1-5] s")
        self.assertEqual(items["Gradients"]["status"], "passed")

    def entry(self, shape, **ms):
        facts = {name: {"ms": value, "TFLOPs": 700 / value, "TBs": 3 / value} for name, value in ms.items()}
        return {"shape": str(shape), "contenders": facts}

    def verdicts(self, entries, gpu="NVIDIA H200", ceiling=None):
        rows = goals.judged(entries, {"copy_TBs": 4.0} if ceiling is None else ceiling, gpu)
        return {(row["shape"], row["goal"]): row["verdict"] for row in rows}

    def test_goals_are_judged(self):
        full, one, eight = goals.prefill(8192, 128, False), goals.decode(1, 1, 1024), goals.decode(1, 8, 1024)
        long = goals.decode(8, 1, 8192)
        for ours, times, speed in ((0.9, "reached", "reached"), (0.93, "missed", "missed"), (1.0, "missed", "missed")):
            found = self.verdicts([self.entry(full, libfa=ours, cudnn=1.0)])
            self.assertEqual(found[str(full), ">= 1.08 x cudnn"], times, ours)
            self.assertEqual(found[str(full), ">= 756 TFLOP/s"], speed, ours)
        found = self.verdicts([self.entry(one, libfa=0.0069), self.entry(eight, libfa=0.0081), self.entry(long, libfa=0.8)])
        self.assertEqual(found[str(one), "<= 7 us"], "reached")
        self.assertEqual(found[str(eight), "<= 1.15 times one query"], "missed")
        self.assertEqual(found[str(long), ">= 0.9 of the copy"], "reached")

    def test_goals_without_a_measurement_are_not_reached(self):
        full, long, eight = goals.prefill(8192, 128, False), goals.decode(8, 1, 8192), goals.decode(8, 8, 8192)
        found = self.verdicts([self.entry(full, cudnn=1.0), self.entry(long, libfa=0.1)], ceiling={})
        self.assertLessEqual(set(found.values()), {"no goal", "not measured", "missed"})
        self.assertEqual(found[str(full), ">= 1.08 x cudnn"], "not measured")
        self.assertEqual(found[str(long), ">= 0.9 of the copy"], "not measured")
        self.assertEqual(self.verdicts([self.entry(eight, libfa=0.1)])[str(eight), "<= 1.15 times one query"], "not measured")

    def test_goals_hold_for_their_card(self):
        shape = goals.prefill(8192, 128, True)._replace(gradients="any")
        measured = [self.entry(shape, libfa=1.0)]
        self.assertEqual(self.verdicts(measured, "NVIDIA L4")[str(shape), ""], "no goal")
        self.assertEqual(self.verdicts(measured, "NVIDIA A100-SXM4-80GB")[str(shape), ">= 180 TFLOP/s"], "reached")

    def test_gradients_on_hopper_are_held_to_torchs_flash_backend(self):
        wide, narrow = (goals.prefill(8192, dim, False)._replace(gradients="fixed") for dim in (128, 64))
        measured = [self.entry(wide, libfa=2.4, flash=2.7), self.entry(narrow, libfa=2.4, flash=2.3)]
        for gpu in ("NVIDIA H100 80GB HBM3", "NVIDIA H200"):
            found = self.verdicts(measured, gpu)
            goals_of = lambda shape: {goal: verdict for (its, goal), verdict in found.items() if its == str(shape)}
            self.assertEqual(goals_of(wide), {">= 280 TFLOP/s": "reached", ">= 1.1 x flash": "reached"})
            self.assertEqual(goals_of(narrow), {">= 1 x flash": "missed"})
            every = {row["goal"] for row in goals.judged([], {}, gpu) if "gradients" in row["shape"]}
            self.assertEqual(every, {">= 280 TFLOP/s", ">= 330 TFLOP/s", ">= 1.1 x flash", ">= 1 x flash"})

    def test_the_table_has_goals_and_what_others_published(self):
        full = goals.prefill(8192, 128, False)
        values = {"goals": goals.judged([self.entry(full, libfa=0.9, cudnn=1.0)], {}, "NVIDIA H200")}
        text = summary.table({"goals": {"status": "passed", "seconds": 1, "items": [], "values": values}})
        row = next(line for line in text.splitlines() if ">= 756 TFLOP/s" in line)
        self.assertIn("libfa 0.9000, cudnn 1.0000 | >= 756 TFLOP/s | 778 | reached |", row)
        self.assertIn("FlashAttention-4 756 TFLOP/s (H200, NVIDIA's cudnn-frontend)", row)

    def test_table_of_shapes(self):
        facts = {"ms": 1.5, "TFLOPs": 600.4, "TBs": 0.1, "of_product": 0.76, "spread": 0.01}
        shape = {"shape": str(Shape(4, 16, 16, 4096, 4096, 128, "bf16", True)), "causal": True, "contenders": {"libfa": facts},
                 "best_peer": "cudnn", "ratio": 1.1}
        wrong = {**shape, "contenders": {"libfa": {"not_measured": "wrong: error 0.5"}}}
        text = summary.table({"speed": {"status": "passed", "seconds": 1, "items": [], "values": {"shapes": [shape, wrong], "host": {}}}})
        self.assertIn("| 4 x 16/16 x 4096/4096 x 128 bf16, causal | 1.5000 | 600 | 0.10 | 76 % | cudnn | 1.10 | 1.0 % |", text)
        self.assertIn("| wrong: error 0.5 |", text)


if __name__ == "__main__":
    unittest.main()
