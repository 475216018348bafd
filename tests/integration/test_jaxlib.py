#!/usr/bin/env python3
# tests/run: timeout=900
"""jaxlib beside neffopt: whatever form jaxlib gives a program (pretty, generic, with and without debug information, portable bytecode of
several versions) it keeps its key, and jaxlib reads what neffopt writes.

A Python with jax 0.10.2 is named by TEST_JAX_PYTHON; the one that tests/bench installs is found by itself."""
import json
import os
import random
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

from test_evaluator import NOT_HOLDING

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("TEST_BUILD", ROOT / "build"))
NEFFOPT = BUILD / "bin/neffopt"
SHARED = Path(os.environ.get("NEFFD_SHARED", ROOT.parent / "shared"))
PYTHON = os.environ.get("TEST_JAX_PYTHON") or str(BUILD / "bench-venv/bin/python")

WRITTEN = {"generic.mlir": ["--print-generic"], "pretty.mlir": ["--print"], "debug.mlir": ["--print", "--debug-info"], "canonical.mlir": ["--canonical"],
           "new.mlir.bc": ["--to-bytecode=1.17.0"], "old.mlir.bc": ["--to-bytecode=1.9.0", "--debug-info"]}

TOKEN = "!stablehlo.token"
REDUCER = "({\n^bb0(%p: tensor<f32>, %q: tensor<f32>):\n%s = stablehlo.add %p, %q : tensor<f32>\nstablehlo.return %s : tensor<f32>\n})"
GROUPS = "replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>"
PAIRS = "source_target_pairs = dense<[[0, 1], [1, 2]]> : tensor<2x2xi64>"
# name: attributes, operand types, result types
TRANSFERS = {
    "send": (f"channel_handle = #stablehlo.channel_handle<handle = 5, type = 1>, is_host_transfer = false, {PAIRS}", ["tensor<2xf32>", TOKEN], [TOKEN]),
    "send_host": ("channel_handle = #stablehlo.channel_handle<handle = 5, type = 2>, is_host_transfer = true", ["tensor<2xf32>", TOKEN], [TOKEN]),
    "send_none": ("channel_handle = #stablehlo.channel_handle<handle = 5, type = 2>, is_host_transfer = true", [TOKEN], [TOKEN]),
    "recv": (f"channel_handle = #stablehlo.channel_handle<handle = 5, type = 1>, is_host_transfer = false, {PAIRS}", [TOKEN], ["tensor<2xf32>", TOKEN]),
    "recv_host": ("channel_handle = #stablehlo.channel_handle<handle = 5, type = 3>, is_host_transfer = true", [TOKEN], ["tensor<2xf32>", TOKEN]),
    "recv_none": ("channel_handle = #stablehlo.channel_handle<handle = 5, type = 3>, is_host_transfer = true", [TOKEN], [TOKEN]),
    # what XLA writes and its own importer cannot read back
    "send_two": ("channel_handle = #stablehlo.channel_handle<handle = 5, type = 2>, is_host_transfer = true", ["tensor<2xf32>", "tensor<3xi32>", TOKEN], [TOKEN]),
    "recv_two": ("channel_handle = #stablehlo.channel_handle<handle = 5, type = 3>, is_host_transfer = true", [TOKEN], ["tensor<2xf32>", "tensor<3xi32>", TOKEN]),
}
# operation: its region and attributes, operand type, result type
ASYNC = {
    "all_reduce": (f"{REDUCER} {{{GROUPS}, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids}}", "tensor<2xf32>", "tensor<2xf32>"),
    "all_gather": (f"{{all_gather_dim = 0 : i64, {GROUPS}}}", "tensor<2xf32>", "tensor<4xf32>"),
    "all_to_all": (f"{{split_dimension = 0 : i64, concat_dimension = 0 : i64, split_count = 2 : i64, {GROUPS}}}", "tensor<2xf32>", "tensor<2xf32>"),
    "collective_broadcast": (f"{{{GROUPS}}}", "tensor<2xf32>", "tensor<2xf32>"),
    "collective_permute": ("{source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>}", "tensor<2xf32>", "tensor<2xf32>"),
    "reduce_scatter": (f"{REDUCER} {{scatter_dimension = 0 : i64, {GROUPS}}}", "tensor<2xf32>", "tensor<1xf32>"),
    "slice": ("{start_indices = array<i64: 0>, limit_indices = array<i64: 1>, strides = array<i64: 1>}", "tensor<2xf32>", "tensor<1xf32>"),
}


def transfer(name):
    attributes, operands, results = TRANSFERS[name]
    names = [f"%{i}" for i in range(len(operands))]
    out = [f"%r#{i}" for i in range(len(results))]
    return (f"func.func @main({', '.join(f'{n}: {t}' for n, t in zip(names, operands))}) -> ({', '.join(results)}) {{\n%r:{len(results)} = \"stablehlo.{name[:4]}\"({', '.join(names)}) {{{attributes}}} : "
            f"({', '.join(operands)}) -> ({', '.join(results)})\nreturn {', '.join(out)} : {', '.join(results)}\n}}\n")


def asynchronous(name):
    rest, taken, given = ASYNC[name]
    body = f"%1 = \"stablehlo.{name}\"(%x) {rest} : ({taken}) -> {given}"
    region = f"({{\n^bb0(%x: {taken}):\n{body}\nstablehlo.return %1 : {given}\n}})"
    return (f"func.func @main(%a: {taken}) -> {given} {{\n%f = \"stablehlo.async_start\"(%a) {region} : ({taken}) -> !stablehlo.future<{given}>\n"
            f"%r = \"stablehlo.async_done\"(%f) : (!stablehlo.future<{given}>) -> {given}\nreturn %r : {given}\n}}\n")


def forms(*arguments):
    return subprocess.run([PYTHON, str(Path(__file__).with_name("jaxlib_forms.py")), *map(str, arguments)], capture_output=True, text=True, timeout=300)


def neffopt(*arguments):
    return subprocess.run([NEFFOPT, *map(str, arguments)], capture_output=True, text=True, timeout=300)


def key(path):
    done = neffopt(path, "--key")
    if done.returncode:
        raise AssertionError(f"{path}: {done.stderr}")
    return done.stdout.strip()


class Jaxlib(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not os.path.exists(PYTHON):
            raise unittest.SkipTest(f"no Python with jaxlib: {PYTHON} is not there (tests/bench compile makes it, or set TEST_JAX_PYTHON)")
        found = subprocess.run([PYTHON, "-c", "import jax; from jaxlib.mlir.dialects import stablehlo"], capture_output=True, text=True)
        if found.returncode:
            raise unittest.SkipTest(f"{PYTHON} cannot import jaxlib: {found.stderr.strip().splitlines()[-1]}")
        if not (SHARED / "models").is_dir():
            raise unittest.SkipTest(f"no models: {SHARED / 'models'} is not there")
        cls.models = sorted((SHARED / "models").glob("*/module.mlir"))

    def test_every_form_has_the_same_key(self):
        """With locations where the model has them; programs with chlo or sdy operations have no portable form, and keep their text's."""
        bytecode = 0
        with tempfile.TemporaryDirectory() as root:
            folders = {model: Path(root) / model.parent.name for model in self.models}
            arguments = []
            for model, folder in folders.items():
                folder.mkdir()
                debug = model.with_name("module.debug.mlir")
                arguments += [debug if debug.exists() else model, folder]
            done = forms("write", *arguments)
            self.assertEqual(done.returncode, 0, done.stderr)
            for model, folder in folders.items():
                with self.subTest(model=model.parent.name):
                    files = sorted(folder.iterdir())
                    self.assertGreaterEqual(len(files), 5)
                    want = key(model)
                    for file in files:
                        self.assertEqual(key(file), want, file.name)
                    bytecode += sum(file.suffix == ".bc" for file in files)
        self.assertGreater(bytecode, 20)

    def test_jaxlib_reads_what_neffopt_writes(self):
        made = []
        with tempfile.TemporaryDirectory() as root:
            for model in self.models:
                for name, options in WRITTEN.items():
                    path = Path(root) / f"{model.parent.name}.{name}"
                    done = neffopt(model, *options, "-o", path)
                    if done.returncode == 0 or "bytecode" not in options[0]:  # else no portable form: neffopt says which operation
                        self.assertEqual(done.returncode, 0, done.stderr)
                        made.append((model, path))
            done = forms("read", *(path for _, path in made))
            self.assertEqual(done.returncode, 0, done.stderr[-2000:])
            for model, path in made:
                with self.subTest(path.name):
                    self.assertEqual(key(f"{path}.back.mlir"), key(model))
        self.assertGreater(len(made), 60)

    def test_xla_reads_the_hlo_that_neffopt_writes(self):
        """And makes the same function of it: what XLA's importer gives back has the model's results."""
        with tempfile.TemporaryDirectory() as folder:
            made = {model.parent: Path(folder) / f"{model.parent.name}.hlo.pb" for model in self.models}
            for model, path in made.items():
                done = neffopt(model / "module.mlir", "--passes=chlo", "--to-hlo-proto", "-o", path)
                self.assertEqual(done.returncode, 0, done.stderr)
            done = forms("read", *made.values())
            self.assertEqual(done.returncode, 0, done.stderr[-2000:])
            evaluated = 0
            for model, path in made.items():
                back = Path(f"{path}.back.mlir")
                text = back.read_text()
                if model.name in ("sharded_allreduce", "replica_allreduce") or "-> tuple<" in text:
                    continue  # the form does not say how many devices there are; XLA's importer leaves tuples of custom calls whole
                with self.subTest(model=model.name):
                    done = neffopt(back, "--eval", "--inputs", model / "inputs", "--expected", model / "expected")
                    self.assertEqual(done.returncode, 0, done.stderr)
                    evaluated += 1
            self.assertGreaterEqual(evaluated, 18)

    def test_conformance_programs_hold_through_xlas_importer(self):
        """Written as HLO protobuf by neffopt and read by XLA, a program still passes its own checks."""
        seed = int(os.environ.get("TEST_SEED", random.randrange(1 << 32)))
        files = sorted((SHARED / "conformance/testdata").glob("*.mlir"))
        with tempfile.TemporaryDirectory() as folder:
            made = []
            for path in random.Random(seed).sample(files, 100):
                if path.stem in NOT_HOLDING:
                    continue
                made.append(Path(folder) / f"{path.stem}.hlo.pb")
                done = neffopt(path, "--passes=legalise,chlo", "--to-hlo-proto", "-o", made[-1])
                self.assertEqual(done.returncode, 0, f"seed {seed}: {path.name}: {done.stderr}")
            done = forms("read", *made)
            self.assertEqual(done.returncode, 0, f"seed {seed}: {done.stderr[-2000:]}")
            cases = Path(folder) / "cases"
            cases.mkdir()
            for path in made:  # XLA's importer gives a custom call without results an empty tuple
                text = re.sub(r"%\w+ = (stablehlo.custom_call @check.*) -> tuple<>", r"\1 -> ()", Path(f"{path}.back.mlir").read_text())
                (cases / f"{path.name}.mlir").write_text(text)
            report = json.loads(neffopt("--check", "--json", cases).stdout)
            self.assertEqual(report["failures"], [], f"seed {seed}")
            self.assertGreaterEqual(report["checks"], len(made))

    def test_transfers_and_asynchronous_operations_are_what_xla_makes_of_them(self):
        """neffopt reads XLA's form of each as the program that it was; XLA reads neffopt's form of it as its own."""
        with tempfile.TemporaryDirectory() as folder:
            paths = {}
            for name, make in [(name, transfer) for name in TRANSFERS] + [(name, asynchronous) for name in ASYNC]:
                paths[name] = Path(folder) / f"{name}.mlir"
                paths[name].write_text(make(name))
            done = forms("hlo", *paths.values())
            self.assertEqual(done.returncode, 0, done.stderr[-2000:])
            both = []
            for name, path in paths.items():
                ours = Path(folder) / f"{name}.ours.hlo.pb"
                done = neffopt(path, "--to-hlo-proto", "-o", ours)
                self.assertEqual(done.returncode, 0, f"{name}: {done.stderr}")
                if name == "slice":  # no collective: XLA's exporter refuses it, its importer leaves it outside of StableHLO
                    self.assertIn("unsupported op in async_start", Path(f"{path}.refused").read_text())
                    continue
                for form in (Path(f"{path}.hlo.pb"), ours):
                    with self.subTest(name=name, form=form.name):
                        done = neffopt(form, "--print")
                        self.assertEqual(done.returncode, 0, done.stderr)
                        back = Path(folder) / "back.mlir"  # without what only HLO says: names, and how many devices the groups have
                        back.write_text(re.sub(r"^module @\S+( attributes \{[^}]*\})?", "module", re.sub(r" \{neffd.name = \"[^\"]*\"\}", "", done.stdout)))
                        self.assertEqual(key(back), key(path), done.stdout)
                    if not name.endswith("_two"):
                        both.append(form)
            done = forms("read", *both)
            self.assertEqual(done.returncode, 0, done.stderr[-2000:])
            for theirs, ours in zip(both[::2], both[1::2]):
                with self.subTest(name=ours.name):
                    self.assertEqual(key(f"{ours}.back.mlir"), key(f"{theirs}.back.mlir"))
            self.assertEqual(len(both), 24)


if __name__ == "__main__":
    unittest.main()
