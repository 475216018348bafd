# tests/run: timeout=300
"""The quickstart as a test: every number of every model on the native cpu target, and the proof that it notices a wrong one."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MODELS = os.path.join(ROOT, "tests", "models")


def quickstart(*arguments):
    env = dict(os.environ)
    env.setdefault("TEST_BUILD", os.path.join(ROOT, "build"))
    done = subprocess.run([sys.executable, os.path.join(ROOT, "deploy", "quickstart.py"), "--json", *arguments], capture_output=True, text=True, env=env, timeout=280)
    return done.returncode, json.loads(done.stdout)


class Quickstart(unittest.TestCase):
    def test_every_number_is_right(self):
        code, said = quickstart()
        self.assertEqual((code, said["problems"]), (0, []))
        self.assertEqual(len(said["models"]), 3)
        self.assertEqual(said["storm"]["compiles"], 1)
        self.assertTrue(said["hit"]["outcome"].startswith("hit_"))

    def test_a_flipped_bit_is_named(self):
        for byte, bit in ((-1, 0x40), (-4, 0x01)):  # an exponent; a mantissa's last place, which no tolerance sees
            with tempfile.TemporaryDirectory() as folder:
                shutil.copytree(os.path.join(MODELS, "mlp"), os.path.join(folder, "mlp"))
                path = os.path.join(folder, "mlp", "expected", "00.npy")
                with open(path, "rb") as f:
                    data = bytearray(f.read())
                data[byte] ^= bit
                with open(path, "wb") as f:
                    f.write(data)
                code, said = quickstart("--models", folder)
                self.assertEqual(code, 1)
                self.assertFalse(said["ok"])
                self.assertIn("mlp: tensor out (expected/00.npy)", said["problems"][0])


unittest.main()
