#!/usr/bin/env python3
# tests/run: timeout=300
"""Caches that exist: libneuronxla's and TorchNeuron's trees come in with the keys that requests have, and go out again in the layout that
unmodified readers know; and NEFF files: neffctl neff info and check, beside Python's tarfile."""
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from test_neffcc import Case, FAKE, NEFFCTL, NEFFOPT, graph  # noqa: E402

VERSION = "2.21.18209.0+043b1bf7"


class Trees(Case):
    def ctl(self, *args, code=0):
        p = subprocess.run([NEFFCTL, *args], cwd=self.work, env=self.env, capture_output=True, text=True)
        self.assertEqual(p.returncode, code, p.stderr + p.stdout)
        return p.stdout

    def ctl_json(self, *args, code=0):
        return [json.loads(line) for line in self.ctl(*args, "--json", code=code).splitlines()]

    def compile_outside(self, file, *flags):
        """The real compiler, without us."""
        out = os.path.join(self.work, "outside.neff")
        subprocess.run([FAKE, "compile", file, "--framework=XLA", "--output", out, *flags], cwd=self.work, env=self.env, check=True, capture_output=True)
        os.unlink(self.path("cc.log"))
        return out

    def neuronxla(self, n, flags, neff=True, log=False, lock=False, target="trn2"):
        self.write(f"x{n}.mlir", graph(n))
        subprocess.run([NEFFOPT, f"x{n}.mlir", "--to-hlo-proto", "-o", f"x{n}.pb"], cwd=self.work, check=True)
        d = self.path(f"tree/neuronxcc-{VERSION}/MODULE_{1234567890 + n}+{hashlib.md5(' '.join(flags).encode()).hexdigest()[:8]}")
        os.makedirs(d)
        shutil.copy(os.path.join(self.work, f"x{n}.pb"), f"{d}/model.hlo_module.pb")
        with open(f"{d}/compile_flags.json", "w") as f:
            json.dump(flags, f)
        if neff:
            shutil.copy(self.compile_outside(f"x{n}.pb", *flags), f"{d}/model.neff")
            open(f"{d}/model.done", "w").close()
        if log:
            open(f"{d}/model.log", "w").close()
        if lock:
            open(f"{d}/model.hlo_module.pb.lock", "w").close()
        return d

    def test_libneuronxla_entries_have_real_keys(self):
        self.neuronxla(1, ["--target=trn2", "-O1"])
        self.neuronxla(2, ["--target=trn2", "--model-type=transformer", "--tensorizer-options=--a --b=2 "])
        *rows, total = self.ctl_json("cache", "import", self.path("tree"))
        self.assertEqual(total["imported"], 2, rows)
        self.ok("x1.pb", more=["-O1"])
        self.ok("x2.pb", more=["--tensorizer-options=--a --b=2 ", "--model-type", "transformer"])
        self.assertEqual(self.compiles, 0)
        self.ok("x2.pb")
        self.assertEqual(self.compiles, 1)
        *rows, total = self.ctl_json("cache", "import", self.path("tree"))
        self.assertEqual((total["imported"], total["already"]), (0, 2))

    def test_failed_locked_empty_and_bad_entries_are_not_copied(self):
        self.neuronxla(1, ["--target=trn2"], neff=False, log=True)
        self.neuronxla(2, ["--target=trn2"], neff=False, lock=True)
        self.neuronxla(3, ["--target=trn2"], neff=False)
        d = self.neuronxla(4, ["--target=trn2"])
        with open(f"{d}/model.neff", "r+b") as f:
            f.truncate(1500)
        self.neuronxla(5, [])
        *rows, total = self.ctl_json("cache", "import", self.path("tree"), code=1)
        self.assertEqual({r["path"][r["path"].index("MODULE_"):][:17]: r["state"] for r in rows}, {
            "MODULE_1234567891": "failed", "MODULE_1234567892": "locked", "MODULE_1234567893": "empty", "MODULE_1234567894": "bad", "MODULE_1234567895": "bad"})
        self.assertEqual(total["imported"], 0)
        self.assertEqual(self.entries(), [])
        *rows, total = self.ctl_json("cache", "import", self.path("tree"), "--target", "trn1", "--dry-run", code=1)
        self.assertEqual(total["imported"], 1)
        self.assertEqual(self.entries(), [])

    def test_torchneuron_trees_by_their_own_keys(self):
        neff = self.compile_outside("m.mlir", "--target=trn2")
        short, long_ = "0123456789abcdef" * 2, "fedcba9876543210" * 4
        for path in (f"t/{short[:2]}/{short[2:4]}/{short}.neff", f"t/{long_}/{long_}.neff", f"t/{short[:2]}/{short[2:4]}/.tmp.x1y2z3"):
            os.makedirs(os.path.dirname(self.path(path)), exist_ok=True)
            shutil.copy(neff, self.path(path))
        *rows, total = self.ctl_json("cache", "import", self.path("t"))
        self.assertEqual((total["imported"], total["bad"]), (2, 0))
        for key in (short, long_):
            self.ctl("lookup", key)
        self.ctl("lookup", "0" * 32, code=3)
        self.ctl("cache", "export-plain", self.path("out"))
        found = {os.path.relpath(os.path.join(b, n), self.path("out")) for b, _, names in os.walk(self.path("out")) for n in names}
        self.assertEqual(found, {f"{short[:2]}/{short[2:4]}/{short}.neff", f"{long_[:2]}/{long_[2:4]}/{long_}.neff"})
        for f in found:
            with open(self.path("out/" + f), "rb") as a, open(neff, "rb") as b:
                self.assertEqual(a.read(), b.read())
            self.assertTrue(os.stat(self.path("out/" + f)).st_mode & 0o004)

    def test_export_and_import_are_inverse(self):
        self.ok(out="a.neff")
        self.ok(out="b.neff", more=["-O1"])
        keys = {c["canonical_key"] for c in self.calls()}
        self.ctl("cache", "export-plain", self.path("out"))
        names = {n for _, _, names in os.walk(self.path("out")) for n in names}
        self.assertEqual(names, {k + ".neff" for k in keys})
        for d in ("local", "shared"):
            shutil.rmtree(self.path(d))
        *_, total = self.ctl_json("cache", "import", self.path("out"))
        self.assertEqual(total["imported"], 2)
        for k in keys:
            self.ctl("lookup", k)
        self.ok(out="c.neff")                       # under the very key that a request has
        self.assertEqual(self.compiles, 2)
        self.assertEqual(self.neff("c.neff"), self.neff("a.neff"))

    def test_not_a_directory(self):
        self.ctl("cache", "import", self.path("none"), code=1)
        self.ctl("cache", "export-plain", "/proc/none", code=7)

    def test_hostile_entries_harm_nobody(self):
        """Links out of the tree, pipes, flags that are no list of texts, names with newlines, folders that lead back up."""
        good = self.neuronxla(1, ["--target=trn2"])
        bad = [self.neuronxla(n, ["--target=trn2"]) for n in range(2, 7)]
        for d, put in zip(bad[:2], (lambda f: os.symlink("/etc/passwd", f), os.mkfifo)):
            os.unlink(f"{d}/model.neff")
            put(f"{d}/model.neff")
        for d, text in zip(bad[2:4], (b'["--target=trn2", 5]', b"[" * 100000)):
            with open(f"{d}/compile_flags.json", "wb") as f:
                f.write(text)
        with open(f"{bad[4]}/model.hlo_module.pb", "wb") as f:
            f.write(os.urandom(3000))
        os.symlink("../..", os.path.join(os.path.dirname(good), "loop"))
        os.rename(good, os.path.join(os.path.dirname(good), "MODULE_1\n2+d41d8cd9"))
        *rows, total = self.ctl_json("cache", "import", self.path("tree"), code=1)
        self.assertEqual((total["imported"], total["bad"]), (1, 5), rows)


class Neff(Case):
    def neff_json(self, verb, file, *more, code=0):
        p = subprocess.run([NEFFCTL, "neff", verb, file, "--json", *more], cwd=self.work, env=self.env, capture_output=True, text=True)
        self.assertEqual(p.returncode, code, p.stderr)
        return json.loads(p.stdout)

    def ours(self):
        self.start_daemon()
        p = subprocess.run([NEFFCTL, "compile", "m.mlir", "--target", "cpu", "--output", "cpu.neff"], cwd=self.work, env=self.env, capture_output=True, text=True)
        self.assertEqual(p.returncode, 0, p.stderr)
        return os.path.join(self.work, "cpu.neff")

    def test_ours_says_what_it_takes(self):
        j = self.neff_json("info", self.ours())
        self.assertEqual(set(j) & {"header", "members", "inputs", "outputs", "valid", "problems"}, {"header", "members", "inputs", "outputs", "valid", "problems"})
        self.assertTrue(j["valid"])
        self.assertEqual(j["inputs"][0]["dtype"], "f32")
        self.assertEqual(j["outputs"][0]["shape"], [4])
        self.assertEqual((j["target"], j["header"]["header_size"], j["header"]["hash_kind"]), ("cpu", 1024, "sha256"))

    def test_ours_is_a_tar_to_others(self):
        path = self.ours()
        with open(path, "rb") as f:
            data = f.read()
        self.assertEqual(hashlib.sha256(data[1024:]).digest(), data[172:204])
        with tarfile.open(fileobj=io.BytesIO(data[1024:]), mode="r:") as t:
            members = [(m.name, m.size) for m in t.getmembers()]
            manifest = t.extractfile("neffd/manifest").read().decode()
        self.assertTrue(manifest.startswith("neffd 1\ntarget cpu\n"))
        j = self.neff_json("info", path)
        self.assertEqual(members, [(m["name"], m["size"]) for m in j["members"]])
        if shutil.which("tar"):
            listed = subprocess.run(["tar", "tf", "-"], input=data[1024:], capture_output=True, check=True).stdout.decode().split()
            self.assertEqual(listed, [n for n, _ in members])

    def made(self, mode="w", fmt=tarfile.USTAR_FORMAT, names=("kelf-a.json", "sg00/def.json"), **header):
        """A NEFF by Python: header by the description, archive by tarfile."""
        b = io.BytesIO()
        with tarfile.open(fileobj=b, mode=mode, format=fmt) as t:
            for n in names:
                info = tarfile.TarInfo(n)
                info.size = 700
                t.addfile(info, io.BytesIO(b"x" * 700))
        data = b.getvalue()
        h = bytearray(1024)
        f = {0: 2, 8: 1024, 16: len(data), 24: 2, 32: 0, **{int(k[1:]): v for k, v in header.items()}}
        for at, v in f.items():
            h[at:at + 8] = v.to_bytes(8, "little")
        path = os.path.join(self.work, "made.neff")
        with open(path, "wb") as out:
            out.write(h + data)
        return path

    def test_archives_of_others_are_read(self):
        deep = "/".join(["d" * 30] * 5) + "/file"
        for mode, fmt in (("w", tarfile.USTAR_FORMAT), ("w", tarfile.GNU_FORMAT), ("w", tarfile.PAX_FORMAT), ("w:gz", tarfile.USTAR_FORMAT)):
            with self.subTest(mode + str(fmt)):
                j = self.neff_json("check", self.made(mode, fmt, names=("a", deep)))
                self.assertEqual([(m["name"], m["size"]) for m in j["members"]], [("a", 700), (deep, 700)])
                self.assertEqual(j["compressed"], mode == "w:gz")
                self.assertEqual(j["header"]["hash_kind"], "none")

    def test_problems_are_named(self):
        good = self.made()
        with open(good, "rb") as f:
            data = f.read()
        cases = [(b"", "empty"), (data[:1023], "1023 bytes"), (data[:1024], "data_size"), (data[:-1], "data_size"), (data + b"x", "data_size"),
                 (data[:1024 + 600] , "data_size"), (b"\x7fELF" + data[4:8] + bytes(8) + data[16:], "header_size")]
        bad = bytearray(data)
        bad[1024 + 5] ^= 1
        cases.append((bytes(bad), "checksum"))
        for content, word in cases:
            with open(good, "wb") as f:
                f.write(content)
            j = self.neff_json("check", good, code=1)
            self.assertFalse(j["valid"])
            self.assertTrue(any(word in p for p in j["problems"]), (word, j["problems"]))

    def test_names_that_leave_the_archive(self):
        j = self.neff_json("check", self.made(names=("../x", "/etc/passwd", "a/../../b")), code=1)
        self.assertEqual(len(j["problems"]), 3)

    def test_expectations(self):
        path = self.made(_544=1 << 8, _552=2)
        self.neff_json("check", path, "--features", "0x1ff", "--lnc", "2")
        self.assertIn("features 0x100", self.neff_json("check", path, "--features", "0xff", code=1)["problems"][0])
        self.assertIn("lnc_size", self.neff_json("check", path, "--lnc", "1", code=1)["problems"][0])
        p = subprocess.run([NEFFCTL, "neff", "check", path, "--features", "x"], env=self.env, capture_output=True)
        self.assertEqual(p.returncode, 2)
        p = subprocess.run([NEFFCTL, "neff", "info", "/nonexistent"], env=self.env, capture_output=True)
        self.assertEqual(p.returncode, 1)


del Case
if __name__ == "__main__":
    unittest.main()
