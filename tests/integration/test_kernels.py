#!/usr/bin/env python3
# tests/run: timeout=300
"""Native code in the daemon: kernels that are kept between compiles, and an LLVM module that is missing or another build's."""
import os
import random
import re
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from support import *  # noqa: E402,F403

OTHER_LLVM = os.path.join(BUILD, "tests", "tools", "other-llvm.so")
SAID = re.compile(r"(\d+) kernels, (\d+) of them as machine code, (\d+) from the cache")


def layers(*ops):
    """A product between any two of the operations, so that each is a kernel of its own."""
    lines, last = ["func.func public @main(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {"], "%x"
    for i, op in enumerate(ops):
        lines.append(f"  %k{i} = stablehlo.{op} {last} : tensor<8x8xf32>")
        lines.append(f"  %d{i} = stablehlo.dot_general %k{i}, %x, contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>")
        last = f"%d{i}"
    return "\n".join(lines + [f"  return {last} : tensor<8x8xf32>", "}", ""])


class Kernels(unittest.TestCase):
    def setUp(self):
        self.place = Place()
        self.addCleanup(self.place.remove)
        self.kernels = os.path.join(self.place.local, "kernels")

    def compile(self, *ops, **more):
        """(kernels, as machine code, from the cache)"""
        file = self.place.write("-".join(ops) + ".mlir", layers(*ops))
        result = self.place.ctl("compile", file, "--target", "cpu", "-O", "native=1", "-v", "--ignore-cache", **more)
        self.assertEqual(result.code, 0, result)
        said = SAID.search(result.err)
        self.assertTrue(said, result)
        return tuple(map(int, said.groups()))

    def numbers(self, *ops):
        """What the program computes natively from what the cache has, held against the evaluator's."""
        file, inputs, expected = self.place.write("n.mlir", layers(*ops)), os.path.join(self.place.dir, "in"), os.path.join(self.place.dir, "want")
        if not os.path.exists(os.path.join(inputs, "00.npy")):
            write_npy(os.path.join(inputs, "00.npy"), "<f4", (8, 8), [((i * 7) % 11 - 5) / 8 for i in range(64)])
        for args in (["--output", expected, "-O", "native=0"], ["--expected", expected, "-O", "native=1"]):
            result = self.place.ctl("run", file, "--target", "cpu", "--inputs", inputs, "--json", "--ignore-cache", *args)
            self.assertEqual(result.code, 0, result)
        self.assertEqual(result.json["device"], "cpu")

    def kept(self):
        files = {}
        for name in sorted(os.listdir(self.kernels)):
            with open(os.path.join(self.kernels, name), "rb") as f:
                files[name] = f.read()
        return files

    def test_modules_share_kernels(self):
        self.place.start()
        self.assertEqual(self.compile("tanh", "sine"), (2, 2, 0))
        self.assertEqual(self.compile("sine", "cosine", "tanh"), (3, 3, 2))
        self.assertEqual(len(self.kept()), 3)
        self.place.stop()
        self.place.start()  # they outlive the daemon
        self.assertEqual(self.compile("cosine", "logistic"), (2, 2, 1))
        self.assertEqual(self.compile("cosine", "logistic", env={}), (2, 2, 2))
        self.numbers("tanh", "cosine", "logistic")

    def test_damage_is_found_and_mended(self):
        self.place.start()
        self.compile("tanh", "sine")
        good = self.kept()
        rng = random.Random(1)
        for name in good:
            path, data = os.path.join(self.kernels, name), bytearray(good[name])
            for at in [0, 9, 41, len(data) - 1, rng.randrange(len(data))]:
                with self.subTest(name=name, at=at):
                    data[at] ^= 0x20
                    with open(path, "wb") as f:
                        f.write(data)
                    self.assertEqual(self.compile("tanh", "sine"), (2, 2, 1))
                    self.assertEqual(self.kept(), good)
                    data[at] ^= 0x20
            for cut in (0, 48, len(data) - 1):
                with open(path, "wb") as f:
                    f.write(data[:cut])
                self.assertEqual(self.compile("tanh", "sine"), (2, 2, 1))
                self.assertEqual(self.kept(), good)
            os.chmod(path, 0o666)  # others could have written it
            self.assertEqual(self.compile("tanh", "sine"), (2, 2, 1))
            self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)
        self.numbers("tanh", "sine")

    def test_a_kill_in_the_middle_of_a_write(self):
        self.place.start()
        self.compile("tanh", "sine")
        good = self.kept()
        self.place.stop(signal.SIGKILL)
        for name, data in good.items():  # what a kill leaves: a part of the new file, and none of its name yet
            os.unlink(os.path.join(self.kernels, name))
            with open(os.path.join(self.kernels, name + ".new"), "wb") as f:
                f.write(data[:len(data) // 2])
        self.place.start()
        self.assertEqual(self.compile("tanh", "sine"), (2, 2, 0))
        self.assertEqual(self.kept(), good)  # and nothing is left over
        self.numbers("tanh", "sine")

    def test_kills_at_any_moment(self):
        ops = ("tanh", "sine", "cosine", "logistic", "exponential", "sqrt", "rsqrt", "cbrt")
        file = self.place.write("all.mlir", layers(*ops))
        rng = random.Random(2)
        for _ in range(3 if os.environ.get("TEST_FAST") else 6):
            self.place.start()
            shutil.rmtree(self.kernels, ignore_errors=True)
            client = self.place.popen("compile", file, "--target", "cpu", "-O", "native=1", "--ignore-cache")
            end = time.monotonic() + 20
            while not (os.path.isdir(self.kernels) and os.listdir(self.kernels)) and client.poll() is None and time.monotonic() < end:
                time.sleep(0.0002)  # the first kernel is being kept
            time.sleep(rng.random() * 0.002)
            os.killpg(self.place.process.pid, signal.SIGKILL)
            self.place.stop(signal.SIGKILL)
            client.kill()
            client.communicate()
            self.place.start()
            kernels, native, cached = self.compile(*ops)
            self.assertEqual((kernels, native), (8, 8))
            self.assertLessEqual(cached, 8)
            self.assertEqual(self.compile(*ops), (8, 8, 8))
            self.assertEqual(len(self.kept()), 8)
            self.place.stop()
        self.place.start()
        self.numbers(*ops)


class Module(unittest.TestCase):
    """Without LLVM the daemon works, and says what it does not do: in its log, in its status, and to whom it compiles for."""

    def status(self, place):
        """Once the compilers are known."""
        end = time.monotonic() + 30 * SLOW
        while True:
            status = place.ctl("status", "--json")
            if status.json["targets"] or time.monotonic() > end:
                return status
            time.sleep(0.02)

    def degraded(self, path, why):
        place = Place()
        self.addCleanup(place.remove)
        place.start(f"--llvm-module={path}")
        file = place.write("g.mlir", layers("tanh"))
        status = self.status(place)
        self.assertEqual(len(status.json["remarks"]), 1, status)
        self.assertRegex(status.json["remarks"][0], "^cpu: programs run on the evaluator, which is slow: native code for cpu needs its LLVM module: .*" + why)
        self.assertIn("remark", place.ctl("status").out)
        self.assertRegex(place.log(), "warning toolchain: .*target=cpu .*" + why)
        result = place.ctl("compile", file, "--target", "cpu")
        self.assertEqual(result.code, 0, result)
        self.assertRegex(result.err, "warning: cpu: the program will run on the evaluator: native code for cpu needs its LLVM module: .*" + why)
        run = place.ctl("run", file, "--target", "cpu", "--random", 1, "--json")
        self.assertEqual((run.code, run.json["device"]), (0, "evaluator"), run)
        strict = place.ctl("compile", file, "--target", "cpu", "-O", "native=1", "--json")
        self.assertEqual(strict.code, 7, strict)
        # The same cache with a daemon that has the module: what was made without it is another entry.
        place.stop()
        place.start()
        self.assertEqual(self.status(place).json["remarks"], [])
        run = place.ctl("run", file, "--target", "cpu", "--random", 1, "--json")
        self.assertEqual((run.code, run.json["device"]), (0, "cpu"), run)
        self.assertEqual(place.ctl("compile", file, "--target", "cpu", "-O", "native=1").code, 0)

    def test_missing(self):
        self.degraded("/nowhere/neffd-llvm.so", "/nowhere/neffd-llvm.so, which llvm_module names, cannot be read: No such file")

    def test_of_another_version(self):
        self.degraded(OTHER_LLVM, "other-llvm.so is of another version")

    def test_no_module_at_all(self):
        self.degraded(NEFFD, "is none")


if __name__ == "__main__":
    unittest.main()
