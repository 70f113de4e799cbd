"""Runs a kernel that compile.py has compiled on the first device, and compares it with numpy: run.py CASE FILE."""

import json
import pathlib
import sys

import numpy as np

sys.path.append(str(pathlib.Path(__file__).parent.parent))
import cases
import device


class Arrays:
    """Device memory for a case; tensor maps laid out as this compilation of its kernel wants them."""

    of, empty = device.Array.of, device.Array

    def __init__(self, about):
        self.described_as = about["tensordesc_meta"]

    def described(self, array, at):
        """The arguments that Triton passes for a descriptor: the map, the shape, the strides."""
        layout = self.described_as[at]
        rows, columns = array.shape
        return [array.described(layout["block_size"], layout["swizzle"]), rows, columns, np.int64(columns), np.int64(1)]


def main():
    case, file = cases.CASES[sys.argv[1]], pathlib.Path(sys.argv[2])
    about = json.loads(file.with_suffix(".json").read_text())
    gpu = device.Device()
    kernel = gpu.kernel(file.with_suffix(".ptx").read_text(), about["name"], about["shared"])

    def launch(grid, arguments):
        scratch = [
            device.Array(max(1, size * int(np.prod(grid))), np.uint8) if size else None
            for size in (about["global_scratch_size"], about["profile_scratch_size"])
        ]
        gpu.launch(
            kernel,
            grid,
            (32 * about["num_warps"],),
            about["shared"],
            [*arguments, *scratch],
            cooperative=about["launch_cooperative_grid"],
        )

    good = True
    for got in case.run(launch, Arrays(about), gpu.capability):
        good = device.close(*got) and good
    device.finish(good)


if __name__ == "__main__":
    main()
