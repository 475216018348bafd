#!/usr/bin/env python3
# tests/run: slow timeout=900
"""Native code for cpu: conformance programs and models, against the checks and numbers that the evaluator is held to."""
import json
import os
import sys
import unittest
from pathlib import Path

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from support import *  # noqa: E402,F403
from test_evaluator import NOT_HOLDING, SHARED  # noqa: E402

NEFFOPT = os.path.join(BIN, "neffopt")


def check(threads, *paths):
    done = subprocess.run([NEFFOPT, "--check", "--json", "--target", "cpu", *map(str, paths)], capture_output=True, text=True, timeout=850,
                          env={**os.environ, "NEFFD_CPU_THREADS": str(threads)})
    return json.loads(done.stdout)


@unittest.skipUnless((SHARED / "conformance").is_dir(), "the conformance data is not beside the repository")
class Conformance(unittest.TestCase):
    """What holds on the evaluator holds natively; only what carries an order between devices by tokens is refused, by name."""

    def holds(self, threads, *folders):
        report = check(threads, *(SHARED / "conformance" / f for f in folders))
        failed = {Path(f["file"]).stem: f for f in report["failures"]}
        refused = failed.pop("send_recv", None)
        if "interpret" in folders:
            self.assertIn("native code for cpu does not do tokens that carry an order", refused["reason"])
        self.assertEqual({k: v for k, v in failed.items() if k not in NOT_HOLDING}, {})
        return report

    def test_all_on_one_thread(self):
        self.assertGreater(self.holds(1, "interpret", "math", "testdata")["checks"], 1500)

    def test_the_longer_ones_on_two_threads(self):
        self.assertGreater(self.holds(2, "interpret", "math")["checks"], 200)


@unittest.skipUnless((SHARED / "models").is_dir(), "the models are not beside the repository")
class Models(unittest.TestCase):
    NOT_NATIVE = {"sharded_allreduce": "sdy.manual_computation"}

    def test_all_within_their_tolerance_on_one_and_two_threads(self):
        with Place() as place:
            place.start()
            native = 0
            for manifest in sorted((SHARED / "models").glob("*/manifest.json")):
                folder = manifest.parent
                for threads in (1, 2):
                    with self.subTest(folder.name, threads=threads):
                        done = place.ctl("run", folder / "module.mlir", "-O", "native=1", "--inputs", folder / "inputs", "--expected", folder / "expected", "--threads", threads, "--json", timeout=120)
                        if folder.name in self.NOT_NATIVE:
                            self.assertEqual(done.code, 1, done)
                            self.assertIn(self.NOT_NATIVE[folder.name], done.out + done.err)
                            continue
                        self.assertEqual(done.code, 0, done)
                        self.assertTrue(all(o["matches"] for o in done.json["outputs"]), done)
                        native += 1
            self.assertGreaterEqual(native, 40)


if __name__ == "__main__":
    unittest.main()
