"""A session on an emulated GPU with the programs of a build: emulated_test.py BUILD. Its newest kernel and one of an older
architecture are checked; images with the older one's PTX replace those assembled beforehand. The programs of compute-sanitizer are
called without it."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OLDER = "cuda.sm_80.simt"
DRIVER_TESTS = ["Context.*", "Streams.*", "Graphs.*", "Place.*", "Gradients.*", "Merges.*", "Wgmma.ManyTilesOf64Columns"]
sys.path.insert(0, str(ROOT / "bench"))
from gpu.phases import PLAIN, sanitized  # noqa: E402
from gpu.tools import Pack  # noqa: E402


def serves_what_is_sanitized(pack):
    """A kernel that is forced by name computes every call or fails."""
    kernels = pack.native(pack.kernels()[0])
    for kernel, name, case in [(kernels[0]["name"], "plain", PLAIN), *sanitized(kernels)]:
        ran = subprocess.run([pack.program("fa"), "run", "--kernel", kernel, "--case", case], env={**os.environ, **pack.environment()})
        assert ran.returncode == 0, f"{kernel}: {name}"


def tune(pack, out):
    """Tables of tiles of which one has the library's own, which is as fast as the standard one: in small calls."""
    for preset in ("standard", "deep"):
        (pack / "tune" / preset).mkdir(parents=True)
        shutil.copy(pack / "lib" / "libfa.so.0", pack / "tune" / preset)
    small = ["--unchecked", "--dims", "64", "--tokens", "64", "--turns", "1", "--rounds", "1", "--time", "0.001"]
    ran = subprocess.run([ROOT / "scripts" / "gpu-session.sh", "tune", "--pack", pack, "--out", out, *small])
    assert ran.returncode == 0
    assert set(json.loads((out / "tune.json").read_text())["gains"]["64"]) == {"standard", "deep"}


def main():
    build = Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        pack, out = Path(folder) / "pack", Path(folder) / "out"
        packed = subprocess.run([sys.executable, ROOT / "bench" / "gpu" / "pack.py", "--build", build, "--pack", pack, "--sm", "90"],
                                capture_output=True, text=True)
        print(packed.stdout, packed.stderr)
        (pack / "ported").mkdir(exist_ok=True)
        for family in ("simt", "combine", "delta", "backward_simt", "merge", "append"):
            for image in (build / "kernels").glob(f"sm_80.{family}.*.fatbin"):
                shutil.copy(image, pack / "ported")
        ran = subprocess.run([ROOT / "scripts" / "gpu-session.sh", "run", "--phases", "ported,driver", "--kernels", OLDER, "--pack", pack,
                              "--tests", ",".join(DRIVER_TESTS), "--out", out, "--seconds", "99999", "--patience", "100"])
        phases = json.loads((out / "session.json").read_text())["phases"]
        result = phases["ported"]
        print(json.dumps(result, indent=1))
        assert ran.returncode == 0 and result["status"] == "passed"
        assert [item["status"] for item in result["items"]] == ["passed"] * 3
        driver = phases["driver"]
        print(json.dumps(driver, indent=1))
        own = {"Wgmma"} if any((build / "kernels").glob("sm_90a.wgmma.*")) else set()
        suites = {pattern.split(".")[0] for pattern in DRIVER_TESTS} - {"Wgmma"} | own
        assert {(item["name"], item["status"]) for item in driver["items"]} == {(name, "passed") for name in suites}
        assert not (out / "failures.txt").exists()
        assert f"{OLDER} " in result["items"][0]["table"]
        serves_what_is_sanitized(Pack(pack))
        if any((build / "kernels").glob("sm_90a.wgmma.*")):
            tune(pack, out)


main()
