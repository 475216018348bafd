#!/usr/bin/env python3
"""neffopt as a program: its errors, as text and as JSON, and its exit codes."""
import json
import os
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from support import *  # noqa: E402,F403

NEFFOPT = os.path.join(BIN, "neffopt")
ERROR = {"code", "class", "message", "location", "hint", "retryable", "retry_after_ms", "from_cache", "exit_code", "log_tail", "stage", "canonical_key"}


class Errors(unittest.TestCase):
    def setUp(self):
        self.place = Place()
        self.addCleanup(self.place.remove)
        self.file = self.place.write("m.mlir", GRAPH)

    def run_it(self, *args, **more):
        return subprocess.run([NEFFOPT, *args], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=60 * SLOW,
                              **{"stdout": subprocess.PIPE, **more})

    def test_every_error_has_its_code_as_text_and_as_json(self):
        empty, junk, folder = self.place.write("empty.mlir", ""), self.place.write("junk.mlir", "module {\n  what\n}\n"), os.path.join(self.place.dir, "folder")
        os.mkdir(folder)
        os.symlink("around", os.path.join(folder, "around"))
        nothing = os.path.join(self.place.dir, "nothing")
        for code, args in ((1, [nothing, "--print"]), (1, [folder, "--key"]), (1, [empty, "--verify"]), (1, [junk, "--eval"]), (1, ["--check", nothing]),
                           (1, ["--check", folder]), (1, [self.file, "--eval", "--inputs", nothing]), (1, [self.file, "--eval", "--function", "nope"]),
                           (7, [self.file, "--print", "-o", os.path.join(nothing, "x")]), (2, [self.file, "--frobnicate"]), (2, [self.file]), (2, ["--print"]),
                           (2, [self.file, "--print", "--passes=nope"]), (2, ["--check", folder, "--jobs", "many"])):
            text = self.run_it(*args)
            self.assertEqual((text.returncode, text.stdout), (code, ""), (args, text))
            self.assertRegex(text.stderr, "^neffopt: .+", args)
            result = self.run_it(*args, "--json")
            self.assertEqual((result.returncode, result.stderr), (code, ""), (args, result))
            answer = json.loads(result.stdout)
            self.assertEqual((set(answer), set(answer["error"])), ({"error"}, ERROR), args)
            self.assertIn(answer["error"]["message"], text.stderr)
        self.assertRegex(self.run_it(junk, "--print").stderr, f"^neffopt: {junk}:2:3: ")
        none = self.place.write("none", b"\1\2\3")
        self.assertRegex(self.run_it(none, "--print").stderr, f"^neffopt: {none}: byte 0: ")
        stage = self.place.write("stage.txt", "graph replicas=1 partitions=1 alias=-1\n%0:f32[4] = what\nreturn %0\n")
        wrong = self.run_it(stage, "--native-stage=plan")
        self.assertEqual((wrong.returncode, wrong.stderr), (1, f'neffopt: {stage}:2:1: this is no graph of the native code generator: "%0:f32[4] = what"\n'))

    def test_an_output_that_takes_nothing_is_said(self):
        for args in (["--help"], ["--list-ops"], ["--list-passes", "--json"], [self.file, "--print"], ["--check", self.file], ["--check", self.file, "--json"]):
            with open("/dev/full", "w") as full:
                result = self.run_it(*args, stdout=full)
            self.assertEqual(result.returncode, 7, (args, result))
            self.assertIn("cannot write", result.stderr)


if __name__ == "__main__":
    unittest.main()
