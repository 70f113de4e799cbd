"""A ggml that differs from the headers of libggml-fa.so refuses it with the reason, and so does a program that is no ggml.

Usage: headers.py CC LIBGGML_FA FOLDER; FOLDER is for what is compiled here
"""
import ctypes as c
import pathlib
import subprocess
import sys

import stock

FAULTS = {  # of other_ggml.c, and the reason that names it
    "none": "",
    "operation": "operation RESHAPE is number",
    "order": "operations are in another order: NONE is not before FLASH_ATTN_EXT",
    "type": 'type 8 of the ggml that runs is "q8_1", and "q8_0" of the headers',
    "no type": "type 8 of the ggml that runs is nothing",
    "block": "type q8_0 has 36 bytes for 32 elements",
    "size": "a tensor has",
    "field": "ggml_tensor has another layout",
    "table": "ggml_backend's graph_compute is at byte 120 in the ggml that runs, and at byte 104 in the headers",
    "properties": "the properties of a device have 256 bytes in the ggml that runs",
}


def load(loader, library, fault):
    """In a separate process: whether the backend registers, and what is printed."""
    program = "import ctypes, sys; print(ctypes.CDLL(sys.argv[1]).loads(sys.argv[2].encode(), sys.argv[3].encode()))"
    done = subprocess.run([sys.executable, "-c", program, loader, library, fault], capture_output=True, text=True)
    assert done.returncode == 0, f"{fault}: {done.returncode}: {done.stderr}"
    return int(done.stdout), done.stderr


def main(compiler, library, folder):
    base = stock.libraries(stock.fetch()[1])[1]
    folder = pathlib.Path(folder)
    source = pathlib.Path(__file__).with_name("other_ggml.c")
    linked = {"ggml": [base, f"-Wl,-rpath,{base.parent}"], "nothing": []}
    for name, libraries in linked.items():
        subprocess.run([compiler, "-shared", "-fPIC", "-D_GNU_SOURCE", source, "-o", folder / f"libother-{name}.so",
                        "-Wl,--no-as-needed", *libraries, "-ldl"], check=True)
    for fault, reason in FAULTS.items():
        registered, printed = load(folder / "libother-ggml.so", library, fault)
        assert registered == (fault == "none"), f"{fault}: {registered}, {printed}"
        assert reason in printed and bool(printed) != bool(registered), f"{fault}: {printed}"
        assert registered or "not used by ggml of the test" in printed and "FA_GGML_INCLUDE" in printed, printed
    registered, printed = load(folder / "libother-nothing.so", library, "none")
    assert registered == 0 and "ggml_blck_size is not in " in printed, printed
    print(f"{len(FAULTS)} other ggmls refused")


if __name__ == "__main__":
    stock.or_skip(main, *sys.argv[1:])
