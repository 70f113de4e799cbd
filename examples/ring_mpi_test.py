"""ring_mpi on 2 and 4 ranks: its results, its bytes, and the end of all ranks when one fails.

Usage: ring_mpi_test.py PROGRAM MPIEXEC"""

import os
import subprocess
import sys
import time
import unittest

PROGRAM, MPIEXEC = sys.argv[1:3]
# Open MPI asks for these of root, and where there are more ranks than CPUs.
ENVIRONMENT = {
    **os.environ,
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_mpi_yield_when_idle": "1",
    "OMPI_MCA_hwloc_base_binding_policy": "none",
}
KEYS = 2 * 2 * 64 * 2 * 32 * 4  # bytes of a rank's keys and values: k and v, chunks, rows, heads, columns, bytes


def run(*arguments):
    began = time.monotonic()
    done = subprocess.run([MPIEXEC, *arguments], env=ENVIRONMENT, capture_output=True, text=True, timeout=100)
    return done, time.monotonic() - began


class RingMpi(unittest.TestCase):
    def test_results_and_bytes(self):
        for ranks in (2, 4):
            done, _ = run("-n", str(ranks), PROGRAM)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertIn(f"{ranks} ranks and one call differ by ", done.stdout)
            # Keys and values of every rank go to all others in either pass, their gradients around and home.
            self.assertIn(f"\n{(2 * (ranks - 1) + ranks) * ranks * KEYS} bytes sent", done.stdout)

    def test_a_rank_that_fails_ends_all(self):
        done, seconds = run("-n", "1", PROGRAM, ":", "-n", "1", "env", "FA_FORCE_KERNEL=none", PROGRAM)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn('rank 1: FA_FORCE_KERNEL is "none": there is no such kernel', done.stderr)
        self.assertNotIn("differ", done.stdout)
        self.assertLess(seconds, 20)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
