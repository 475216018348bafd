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
    """What holds on the evaluator holds natively."""

    def holds(self, threads, *folders):
        report = check(threads, *(SHARED / "conformance" / f for f in folders))
        failed = {Path(f["file"]).stem: f for f in report["failures"]}
        self.assertEqual({k: v for k, v in failed.items() if k not in NOT_HOLDING}, {})
        return report

    def test_all_on_one_thread(self):
        self.assertGreater(self.holds(1, "interpret", "math", "testdata")["checks"], 1500)

    def test_the_longer_ones_on_two_threads(self):
        self.assertGreater(self.holds(2, "interpret", "math")["checks"], 200)


@unittest.skipUnless((SHARED / "models").is_dir(), "the models are not beside the repository")
class Models(unittest.TestCase):
    def test_all_within_their_tolerance_on_one_and_two_threads(self):
        with Place() as place:
            place.start()
            native = 0
            for manifest in sorted((SHARED / "models").glob("*/manifest.json")):
                folder = manifest.parent
                for threads in (1, 2):
                    with self.subTest(folder.name, threads=threads):
                        done = place.ctl("run", folder / "module.mlir", "-O", "native=1", "--inputs", folder / "inputs", "--expected", folder / "expected", "--threads", threads, "--json", timeout=120)
                        self.assertEqual(done.code, 0, done)
                        self.assertTrue(all(o["matches"] for o in done.json["outputs"]), done)
                        native += 1
            self.assertGreaterEqual(native, 40)


MANUAL = """module @m attributes {mhlo.num_partitions = 2 : i32} {
  sdy.mesh @mesh = <["d"=2]>
  func.func public @main(%%x: tensor<4xf32>) -> tensor<4xf32> {
    %s
    %%0 = sdy.manual_computation(%%y) in_shardings=[<@mesh, [{"d"}]>] out_shardings=[<@mesh, [{"d"}]%s>] manual_axes={%s} (%%p: tensor<2xf32>) {
      %s
    } : (tensor<4xf32>) -> tensor<4xf32>
    return %%0 : tensor<4xf32>
  }
}
"""
RETURN = "sdy.return %p : tensor<2xf32>"
SUM = """"stablehlo.all_reduce"(%p) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> ({
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %r = stablehlo.add %a, %b : tensor<f32>
        stablehlo.return %r : tensor<f32>
      }) : (tensor<2xf32>) -> tensor<2xf32>"""


class ManualComputations(unittest.TestCase):
    def setUp(self):
        self.place = Place()
        self.addCleanup(self.place.__exit__, None, None, None)
        self.place.start()

    def run_it(self, native, before="%y = stablehlo.add %x, %x : tensor<4xf32>", more="", axes='"d"', region=RETURN):
        path = self.place.write("manual.mlir", MANUAL % (before, more, axes, region))
        return self.place.ctl("run", path, "-O", f"native={native}", "--random", 1, "--json", timeout=60)

    def test_what_is_refused_is_refused_by_name_and_line(self):
        inner = """%q = sdy.manual_computation(%p) in_shardings=[<@mesh, [{"d"}]>] out_shardings=[<@mesh, [{"d"}]>] manual_axes={"d"} (%i: tensor<1xf32>) {
        sdy.return %i : tensor<1xf32>
      } : (tensor<2xf32>) -> tensor<2xf32>
      sdy.return %q : tensor<2xf32>"""
        for line, why, program in ((6, "cuts arrays inside another by its axes, or over another mesh", {"region": inner}),
                                   (5, "its shardings have unreduced axes", {"more": ', unreduced={"d"}'}),
                                   (5, "dimension 0 of operand 0 is 2 in the region, its manual axes make it 4", {"axes": ""})):
            with self.subTest(why):
                done = self.run_it(1, **program)
                self.assertEqual(done.code, 1, done)
                self.assertIn(f"native code for cpu does not do sdy.manual_computation: {why}", done.out + done.err)
                self.assertIn(f":{line}:", done.out + done.err)
                done = self.run_it(0, **program)
                self.assertIn(why, done.out + done.err)
        self.assertEqual(self.run_it(1).code, 0)

    def test_what_a_program_does_outside_of_them_it_does_alone(self):
        number = """%i = stablehlo.partition_id : tensor<ui32>
    %n = stablehlo.convert %i : (tensor<ui32>) -> tensor<f32>
    %b = stablehlo.broadcast_in_dim %n, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %y = stablehlo.add %b, %x : tensor<4xf32>"""
        runs = [self.run_it(native, before=number) for native in (0, 1)]
        self.assertEqual([d.code for d in runs], [0, 0], runs)
        self.assertEqual(*(d.json["outputs"] for d in runs))

    def test_devices_that_would_wait_for_ever_are_an_error(self):
        region = f"""%i = stablehlo.partition_id : tensor<ui32>
      %n = stablehlo.convert %i : (tensor<ui32>) -> tensor<i1>
      %q = "stablehlo.if"(%n) ({{
        %s = {SUM}
        stablehlo.return %s : tensor<2xf32>
      }}, {{
        stablehlo.return %p : tensor<2xf32>
      }}) : (tensor<i1>) -> tensor<2xf32>
      sdy.return %q : tensor<2xf32>"""
        for native in (0, 1):
            done = self.run_it(native, region=region)
            self.assertEqual(done.code, 1, done)
            self.assertIn("not every member of a group runs", done.out + done.err)


SAYS = """func.func public @main() -> (tensor<2xi32>, tensor<f32>) {
  %%x = stablehlo.constant dense<[1, 2]> : tensor<2xi32>
  interpreter.print %%x : tensor<2xi32>
  check.expect_eq_const %%x, dense<[1, %d]> : tensor<2xi32>
  %%a = stablehlo.constant dense<0.0> : tensor<f32>
  %%b = stablehlo.constant dense<1.0> : tensor<f32>
  %%s = stablehlo.constant dense<> : tensor<0xi64>
  %%r = stablehlo.rng %%a, %%b, %%s, distribution = UNIFORM : (tensor<f32>, tensor<f32>, tensor<0xi64>) -> tensor<f32>
  return %%x, %%r : tensor<2xi32>, tensor<f32>
}
"""


class WhatProgramsSay(unittest.TestCase):
    """In native code and in the evaluator's form the same."""

    def test_prints_checks_and_random_numbers(self):
        with Place() as place:
            place.start()
            outputs = []
            for native in (0, 1):
                for second in (2, 3):
                    with self.subTest(native=native, second=second):
                        out = Path(place.dir) / f"out{native}{second}"
                        done = place.ctl("run", place.write(f"says{second}.mlir", SAYS % second), "-O", f"native={native}", "--json", "-o", out, timeout=60)
                        self.assertIn("tensor<2xi32> {[1, 2]}\n", done.err)
                        self.assertEqual(done.code, 0 if second == 2 else 1, done)
                        if second == 2:
                            outputs.append([f.read_bytes() for f in sorted(out.glob("*.npy"))])
                        else:
                            self.assertIn("check.expect_eq_const: 1 of 2 elements differ; first at [1]: 2 instead of 3", done.out + done.err)
                            self.assertIn("4:3", done.out + done.err)
            self.assertEqual(len(outputs[0]), 2)
            self.assertEqual(*outputs)


if __name__ == "__main__":
    unittest.main()
