#!/usr/bin/env python3
# tests/run: timeout=900
"""The reference evaluator through neffopt: models against XLA's numbers, conformance programs against their own checks; and that a
spoiled expectation is noticed."""
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NEFFOPT = Path(os.environ.get("TEST_BUILD", ROOT / "build")) / "bin/neffopt"
SHARED = Path(os.environ.get("NEFFD_SHARED", ROOT.parent / "shared"))

# What the data set itself marks as not to be executed; pipeline/hlo/EVALUATOR.md says what was measured of each.
NOT_HOLDING = {"fft_complex128_14_15_16_17", "fft_complex64_14_15_16_17", "fft_float32_14_15_16_17", "fft_float64_14_15_16_17",
               "cumprod_complex64_8_9", "sin_complex64_20_20", "top_k_float32_5_chlo"}


def evaluate(module, inputs, expected):
    return subprocess.run([NEFFOPT, module, "--eval", "--inputs", inputs, "--expected", expected], capture_output=True, text=True, timeout=300)


# What neffopt makes of a program; the oldest portable version is the first that has what these programs use.
MADE = {"old.mlir.bc": ["--to-bytecode=1.1.0"], "new.mlir.bc": ["--to-bytecode=1.20.0", "--debug-info"], "made.hlo.pb": ["--to-hlo-proto"]}


def key(path):
    p = subprocess.run([NEFFOPT, path, "--key"], capture_output=True, text=True, timeout=300)
    return p.stdout.strip() if p.returncode == 0 else p.stderr


def check(*paths):
    p = subprocess.run([NEFFOPT, "--check", "--json", *paths], capture_output=True, text=True, timeout=850)
    return json.loads(p.stdout)


def spoil_array(source, folder):
    """A copy of the expected files in which the last byte (sign, exponent) of the very first element differs."""
    expected = folder / "expected"
    shutil.copytree(source / "expected", expected)
    shutil.copy(source / "manifest.json", folder / "manifest.json")
    manifest = json.loads((source / "manifest.json").read_text())
    output = manifest["outputs"][0]
    name = output["device_files"][0] if manifest["num_replicas"] > 1 else output["file"]
    path = expected / Path(name).name
    data = bytearray(path.read_bytes())
    start = 10 + int.from_bytes(data[8:10], "little")
    width = {"i1": 1, "i8": 1, "bf16": 2, "f16": 2, "i64": 8, "f64": 8}.get(output["dtype"], 4)
    data[start + width - 1] ^= 1 if output["dtype"] == "i1" else 0x41
    path.write_bytes(bytes(data))
    return expected


class Models(unittest.TestCase):
    """One method for each folder, made below."""

    def model(self, folder):
        modules = sorted(folder.glob("module*.mlir")) + sorted(folder.glob("module*.bc")) + sorted(folder.glob("module*.hlo.pb"))
        for module in modules:
            with self.subTest(module.name):
                p = evaluate(module, folder / "inputs", folder / "expected")
                self.assertEqual(p.returncode, 0, p.stdout + p.stderr)
        with tempfile.TemporaryDirectory() as tmp:
            for module in [m for m in modules if m.name in ("module.mlir", "module.bc.mlir", "module.hlo.pb")]:
                for name, options in MADE.items():
                    with self.subTest(module.name, made=name):
                        made = Path(tmp) / name
                        p = subprocess.run([NEFFOPT, module, "--passes=chlo", *options, "-o", made], capture_output=True, text=True, timeout=300)
                        self.assertEqual(p.returncode, 0, p.stderr)
                        p = evaluate(made, folder / "inputs", folder / "expected")
                        self.assertEqual(p.returncode, 0, p.stdout + p.stderr)
            p = evaluate(modules[0], folder / "inputs", spoil_array(folder, Path(tmp)))
            self.assertEqual(p.returncode, 1, p.stdout + p.stderr)
            self.assertIn("output 0", p.stderr)


class Keys(unittest.TestCase):
    """JAX's text has one key with and without locations, and its bytecode of every version one with the text that says what it holds."""

    def test_forms_of_one_program_share_a_key(self):
        compared = 0
        for folder in sorted(p.parent for root in (ROOT / "tests/models", SHARED / "models") for p in root.glob("*/manifest.json")):
            sets = [sorted(folder.glob("module.mlir")) + sorted(folder.glob("module.debug.mlir")),
                    sorted(folder.glob("module.bc.mlir")) + sorted(folder.glob("module*.mlir.bc"))]
            for files in sets:
                keys = {f.name: key(f) for f in files}
                with self.subTest(folder.name):
                    self.assertEqual(set(keys.values()), {next(iter(keys.values()))} if keys else set(), keys)
                compared += max(len(keys) - 1, 0)
        self.assertGreaterEqual(compared, 29 if (SHARED / "models").is_dir() else 0)


def add_models():
    for root in (ROOT / "tests/models", SHARED / "models"):
        for manifest in sorted(root.glob("*/manifest.json")):
            folder = manifest.parent
            name = f"test_{'own' if root.parent.name == 'tests' else 'shared'}_{folder.name}"
            setattr(Models, name, lambda self, folder=folder: self.model(folder))


add_models()


def spoil_text(text, rng):
    """The text with one element of @expected's first constant changed; None where it has none that can be."""
    at = text.find("func.func private @expected()")
    m = re.compile(r"dense<([^>]*)> : tensor<([^>]*>?)>").search(text, at)
    if at < 0 or not m:
        return None
    body, elem = m.group(1), m.group(2).split("x")[-1]
    if body.startswith('"0x'):
        width = {"i1": 1, "f32": 4, "f64": 8, "i32": 4, "ui32": 4, "i64": 8, "ui64": 8, "f16": 2, "bf16": 2, "i16": 2, "ui16": 2, "i8": 1, "ui8": 1}.get(elem)
        if not width:
            return None
        digits = body[3:-1]
        count = len(digits) // (2 * width)
        last = 2 * width * rng.randrange(max(count, 1)) + 2 * (width - 1)
        changed = f"{int(digits[last:last + 2], 16) ^ (1 if elem == 'i1' else 0x41):02X}"
        body = body[:3] + digits[:last] + changed + digits[last + 2:] + '"'
    else:
        tokens = list(re.finditer(r"true|false|0x[0-9A-Fa-f]+|-?[0-9.]+(?:[eE][+-]?[0-9]+)?", body))
        if not tokens:
            return None
        t = rng.choice(tokens)
        word = t.group(0)
        if word in ("true", "false"):
            new = "false" if word == "true" else "true"
        elif word.startswith("0x"):
            new = "3.5" if elem[0] in "fb" else "3"
        elif elem[0] in "iu":
            new = str(int(word) - 1) if int(word) > 0 else str(int(word) + 1)
        else:
            x = float(word)
            new = repr(x * -1.5 + 3.0 if abs(x * -2.5 + 3.0) > 1 else -x)  # never x itself, which 1.2 would be
        body = body[:t.start()] + new + body[t.end():]
    return text[:m.start(1)] + body + text[m.end(1):]


@unittest.skipUnless((SHARED / "conformance").is_dir(), "the conformance data is not beside the repository")
class Conformance(unittest.TestCase):
    def holds(self, folder, allowed=()):
        report = check(SHARED / "conformance" / folder)
        unexpected = [f for f in report["failures"] if Path(f["file"]).stem not in allowed]
        self.assertEqual(unexpected, [])
        self.assertGreater(report["checks"], 0)

    def test_interpret(self):
        self.holds("interpret")

    def test_math(self):
        self.holds("math")

    def test_testdata(self):
        self.holds("testdata", NOT_HOLDING)

    def test_programs_hold_through_hlo_protobuf(self):
        """Written as HLO protobuf and read back, a program still passes its own checks."""
        seed = int(os.environ.get("TEST_SEED", random.randrange(1 << 32)))
        files = [f for f in sorted((SHARED / "conformance/testdata").glob("*.mlir")) if f.stem not in NOT_HOLDING]
        with tempfile.TemporaryDirectory() as tmp:
            proto, cases = Path(tmp) / "case.hlo.pb", Path(tmp) / "cases"
            cases.mkdir()
            sample = random.Random(seed).sample(files, 150)
            for path in sample:
                for options in ([path, "--passes=legalise,chlo", "--to-hlo-proto", "-o", proto], [proto, "--print", "-o", cases / path.name]):
                    p = subprocess.run([NEFFOPT, *options], capture_output=True, text=True, timeout=60)
                    self.assertEqual(p.returncode, 0, f"seed {seed}: {path.name}: {p.stderr}")
            report = check(cases)
            self.assertEqual(report["failures"], [], f"seed {seed}")
            self.assertGreaterEqual(report["checks"], len(sample))

    def test_one_changed_element_fails_each_of_200_cases(self):
        seed = int(os.environ.get("TEST_SEED", random.randrange(1 << 32)))
        rng = random.Random(seed)
        files = sorted((SHARED / "conformance/testdata").glob("*.mlir"))
        rng.shuffle(files)
        with tempfile.TemporaryDirectory() as tmp:
            names = []
            for path in files:
                text = spoil_text(path.read_text(), rng) if path.stem not in NOT_HOLDING else None
                if text and not re.search(r"[<x]0x", text):  # of an empty tensor nothing can be changed
                    (Path(tmp) / path.name).write_text(text)
                    names.append(path.name)
                if len(names) == 200:
                    break
            self.assertEqual(len(names), 200)
            report = check(tmp)
            failed = {Path(f["file"]).name for f in report["failures"]}
            self.assertEqual(sorted(set(names) - failed), [], f"seed {seed}")


if __name__ == "__main__":
    unittest.main()
