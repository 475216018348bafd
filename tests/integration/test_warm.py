#!/usr/bin/env python3
# tests/run: timeout=300
"""Warm-up: record what a command asks, compile it, look at it, compile again for a new compiler."""
import json
import os
import sys
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from support import *  # noqa: E402,F403

STATUS = {"total", "done", "hits", "failed", "running", "eta_p50_ms"}


class Warm(unittest.TestCase):
    def setUp(self):
        self.place = Place(NEFFD_NEURONX_CC=FAKE)
        self.addCleanup(self.place.remove)
        self.dir = os.path.join(self.place.dir, "warm")
        self.calls = os.path.join(self.place.dir, "calls")
        self.place.env["FAKE_NEURONX_CC_LOG"] = self.calls

    def starts(self):
        try:
            with open(self.calls) as f:
                return sum('"start"' in line for line in f)
        except OSError:
            return 0

    def record(self, *graphs):
        """A job that asks for graphs; there is no daemon, so nothing is compiled."""
        script = " ; ".join(f"{NEFFCTL} compile {self.place.write(f'g{i}.mlir', text)} -q --target trn1 -O optlevel=1" for i, text in enumerate(graphs))
        return self.place.ctl("warm", "record", "--output", self.dir, "sh", "-c", script + "; exit 0")

    def test_record_run_status(self):
        result = self.record(graph(1), graph(2), graph(1), graph(3))
        self.assertEqual(result.code, 0, result)
        self.assertIn("3 requests are recorded", result.err)
        self.assertEqual(self.place.ctl("warm", "status", "--json").code, 3)
        self.assertEqual(self.place.ctl("warm", "run", self.dir).code, 4)  # no daemon
        self.place.start("--target=trn1")
        run = self.place.ctl("warm", "run", self.dir, "--json")
        self.assertEqual(run.code, 0, run)
        self.assertEqual(set(run.json), STATUS | {"failures"})
        self.assertEqual({k: run.json[k] for k in STATUS}, {"total": 3, "done": 3, "hits": 0, "failed": 0, "running": 0, "eta_p50_ms": 0})
        self.assertEqual(self.starts(), 3)
        status = self.place.ctl("warm", "status", "--json")
        self.assertEqual((status.code, set(status.json), status.json["done"]), (0, STATUS, 3), status)
        # again: all hits; and the job's own request is one
        again = self.place.ctl("warm", "run", self.dir)
        self.assertEqual(again.code, 0, again)
        self.assertIn("3 hits, 0 compiled", again.out)
        job = self.place.ctl("compile", self.place.write("g2.mlir", graph(1)), "--target", "trn1", "-O", "optlevel=1", "--json")
        self.assertEqual(job.json["outcome"], "hit_local", job)
        self.assertEqual(self.starts(), 3)

    def test_failures_and_waiting(self):
        self.place.env["FAKE_NEURONX_CC_RULES"] = self.place.write("rules", "tensor<5xf32> => fail\n => slow:1\n")
        self.assertEqual(self.record(graph(1), GRAPH.replace("4xf32", "5xf32"), graph(2)).code, 0)
        self.place.start("--target=trn1")
        run = self.place.popen("warm", "run", self.dir, "--json")
        waiting = self.place.ctl("warm", "status", "--wait", "--json")
        out, _ = run.communicate(timeout=60 * SLOW)
        self.assertEqual(run.returncode, 1, out)
        summary = json.loads(out)
        self.assertEqual((summary["done"], summary["failed"]), (3, 1))
        self.assertEqual([f["code"] for f in summary["failures"]], ["compile_failed"])
        self.assertEqual((waiting.code, waiting.json["done"], waiting.json["failed"]), (1, 3, 1), waiting)

    def test_a_run_that_was_interrupted_goes_on(self):
        self.place.env["FAKE_NEURONX_CC_RULES"] = self.place.write("rules", " => slow:0.5\n")
        self.assertEqual(self.record(*(graph(n) for n in range(1, 7))).code, 0)
        self.place.start("--target=trn1")
        run = self.place.popen("warm", "run", self.dir, "--parallel", 2)
        end = time.monotonic() + 20 * SLOW
        while time.monotonic() < end and not (self.place.ctl("warm", "status", "--json").json.get("done", 0) >= 2):
            time.sleep(0.05)
        run.kill()
        run.communicate()
        status = self.place.ctl("warm", "status")
        self.assertEqual(status.code, 6, status)
        self.assertIn("interrupted", status.out)
        self.assertEqual(self.place.ctl("warm", "run", self.dir, "-q").code, 0)
        self.assertEqual(self.starts(), 6)

    def test_status_tells_a_run_that_lives_from_one_that_is_gone(self):
        """By a lock, not by its number: a probe may sit in another container, where that is nobody's."""
        self.place.env["FAKE_NEURONX_CC_RULES"] = self.place.write("rules", " => slow:3\n")
        self.assertEqual(self.record(graph(1)).code, 0)
        self.place.start("--target=trn1")
        early = self.place.ctl("warm", "status", "--wait", "--timeout", "0.5")
        self.assertEqual(early.code, 3, early)
        run = self.place.popen("warm", "run", self.dir)
        end = time.monotonic() + 10 * SLOW
        while self.starts() == 0:
            self.assertLess(time.monotonic(), end)
            time.sleep(0.02)
        self.assertEqual(self.place.ctl("warm", "status", "--wait", "--timeout", "0.5").code, 5)
        path = os.path.join(self.place.dir, "neffd-warm.json")
        with open(path) as f:
            state = json.load(f)
        state["pid"] = 4194304
        with open(path, "w") as f:
            json.dump(state, f)
        alive = self.place.ctl("warm", "status")
        self.assertEqual((alive.code, "interrupted" in alive.out), (6, False), alive)
        run.kill()
        run.communicate()
        gone = self.place.ctl("warm", "status", "--wait")
        self.assertEqual((gone.code, "interrupted" in gone.out), (6, True), gone)

    def test_a_damaged_record_fails_alone(self):
        self.assertEqual(self.record(graph(1), graph(2), graph(3)).code, 0)
        records = sorted(f for f in os.listdir(self.dir) if f.endswith(".json"))
        with open(os.path.join(self.dir, records[0]), "r+") as f:
            f.truncate(60)
        with open(os.path.join(self.dir, records[1])) as f:
            os.unlink(os.path.join(self.dir, json.load(f)["graph"]))
        self.place.start("--target=trn1")
        run = self.place.ctl("warm", "run", self.dir, "--json")
        self.assertEqual((run.code, run.json["total"], run.json["done"], run.json["failed"]), (1, 3, 3, 2), run)
        self.assertEqual([f["code"] for f in run.json["failures"]], ["invalid_argument"] * 2)
        self.assertEqual(self.starts(), 1)

    def test_the_expected_time_counts_what_waits(self):
        """Six compiles of two seconds, one at a time: after the first, about eight to ten are left, however many requests are out."""
        self.place.env["FAKE_NEURONX_CC_RULES"] = self.place.write("rules", " => slow:2\n")
        self.assertEqual(self.record(*(graph(n) for n in range(1, 7))).code, 0)
        self.place.start("--target=trn1", "--compile-slots=1")
        run = self.place.popen("warm", "run", self.dir, "--parallel", 6)
        end, seen = time.monotonic() + 40 * SLOW, {}
        while time.monotonic() < end and run.poll() is None:
            status = self.place.ctl("warm", "status", "--json").json
            if status.get("running"):
                seen.setdefault(status["done"], status["eta_p50_ms"])
            time.sleep(0.05)
        run.communicate()
        self.assertEqual(run.returncode, 0)
        for done, least, most in ((1, 6000, 13000), (3, 3000, 8000)):
            self.assertTrue(least < seen[done] < most * SLOW, seen)

    def test_interactive_requests_promote(self):
        self.place.env["FAKE_NEURONX_CC_RULES"] = self.place.write("rules", " => slow:2\n")
        self.assertEqual(self.record(graph(1)).code, 0)
        self.place.start("--target=trn1")
        run = self.place.popen("warm", "run", self.dir)
        end = time.monotonic() + 10 * SLOW
        jobs = []
        while time.monotonic() < end and not jobs:
            jobs = self.place.ctl("jobs", "--json").json["jobs"]
        self.assertEqual(jobs[0]["priority"], "warmup")
        job = self.place.ctl("compile", self.place.write("g0.mlir", graph(1)), "--target", "trn1", "-O", "optlevel=1", "--json")
        self.assertEqual(job.json["outcome"], "joined", job)
        self.assertEqual(run.wait(30 * SLOW), 0)
        run.communicate()
        self.assertEqual(self.starts(), 1)

    def test_upgrade(self):
        self.place.start("--target=trn1")
        for n in (1, 2):
            done = self.place.ctl("compile", self.place.write(f"u{n}.mlir", graph(n)), "-O", "optlevel=1", "--name", f"u{n}", "--json")
            self.assertEqual(done.code, 0, done)
        old = self.place.ctl("warm", "upgrade", "--to", "9.99")
        self.assertEqual(old.code, 7, old)
        self.assertIn("no compiler of version 9.99", old.err)
        self.assertEqual(self.place.stop(), 0)
        with open(FAKE, "rb") as f: # another binary: what a compiler is, is asked once a binary
            self.place.env["NEFFD_NEURONX_CC"] = self.place.write("new/neuronx-cc", f.read())
        os.chmod(self.place.env["NEFFD_NEURONX_CC"], 0o755)
        self.place.env["FAKE_NEURONX_CC_VERSION"] = "9.99.1.0+new"
        self.place.start("--target=trn1")
        before = self.starts()
        end = time.monotonic() + 10 * SLOW
        up = self.place.ctl("warm", "upgrade", "--to", "9.99", "--json")
        while up.code == 7 and time.monotonic() < end:  # it has not looked at its compiler yet
            time.sleep(0.05)
            up = self.place.ctl("warm", "upgrade", "--to", "9.99", "--json")
        self.assertEqual(up.code, 0, up)
        self.assertEqual((up.json["total"], up.json["failed"]), (2, 0), up)
        self.assertEqual(self.starts() - before, 2)
        # whoever asks now, with the new compiler, is served
        after = self.place.ctl("compile", self.place.write("u1.mlir", graph(1)), "-O", "optlevel=1", "--json")
        self.assertIn(after.json["outcome"], ("hit_local", "hit_shared"), after)
        self.assertIn("9.99", after.json["artifact"]["compiler"])
        self.assertEqual(self.starts() - before, 2)
        self.assertEqual(self.place.ctl("warm", "upgrade", "--to", "9.99", "--json").json["hits"], 2)

    def test_record_from_the_cache(self):
        self.place.start("--target=cpu")
        for n in (1, 2, 3):
            self.assertEqual(self.place.ctl("compile", self.place.write("c.mlir", graph(n)), "--name", f"c{n}").code, 0)
        result = self.place.ctl("warm", "record", "--from-cache", "--output", self.dir, "--json")
        self.assertEqual((result.code, result.json["requests"]), (0, 3), result)
        run = self.place.ctl("warm", "run", self.dir, "--json")
        self.assertEqual((run.code, run.json["hits"]), (0, 3), run)


class Bundle(unittest.TestCase):
    def test_export_import(self):
        with Place() as one, Place() as two:
            one.start()
            keys = {}
            for n in (1, 2, 3):
                done = one.ctl("compile", one.write("b.mlir", graph(n)), "--name", f"b{n}", "--json").json
                keys[done["canonical_key"]] = done["artifact"]["sha256"]
            path = os.path.join(one.dir, "all.bundle")
            out = one.ctl("bundle", "export", path, "--json")
            self.assertEqual((out.code, out.json["exported"], out.json["bad"]), (0, 3, 0), out)
            again = os.path.join(one.dir, "one.bundle")
            self.assertEqual(one.ctl("bundle", "export", again, "--name", "b2", "--json").json["exported"], 1)
            self.assertEqual(one.ctl("bundle", "export", again, "--key", next(iter(keys)), "--json").json["exported"], 1)
            # into a cache that has no daemon yet
            dry = two.ctl("bundle", "import", path, "--dry-run", "--json")
            self.assertEqual((dry.code, dry.json["total"], dry.json["imported"]), (0, 3, 0), dry)
            got = two.ctl("bundle", "import", path, "--json")
            self.assertEqual((got.code, got.json["imported"], got.json["bad"]), (0, 3, 0), got)
            self.assertEqual(two.ctl("bundle", "import", path, "--json").json["already"], 3)
            for key, sha in keys.items():
                self.assertEqual(two.ctl("lookup", key, "--json").json["artifact"]["sha256"], sha)
            two.start()
            hit = two.ctl("compile", two.write("b.mlir", graph(2)), "--json")
            self.assertIn(hit.json["outcome"], ("hit_local", "hit_shared"), hit)
            # explaining works from what was imported, too
            near = two.ctl("explain", two.write("w.mlir", graph(2).replace("4xf32", "8xf32")), "--json")
            self.assertTrue(near.json["explanation"]["found"], near)

    def test_damaged_bundles(self):
        with Place() as one, Place() as two:
            one.start()
            self.assertEqual(one.ctl("compile", one.write("b.mlir", graph(1))).code, 0)
            path = os.path.join(one.dir, "b")
            self.assertEqual(one.ctl("bundle", "export", path).code, 0)
            with open(path, "rb") as f:
                data = f.read()
            flipped = bytearray(data)
            flipped[len(data) // 2] ^= 1
            for bad in (b"", data[:-1], data[: len(data) // 2], bytes(flipped), data + b"x", b"NEFFDBN1" + b"\0" * 100, b"something else"):
                result = two.ctl("bundle", "import", one.write("bad", bad))
                self.assertEqual(result.code, 1, result)
                self.assertIn("damaged", result.err)
                self.assertRegex(result.err, r"^neffctl: bundle import: \S+/bad: byte [0-9]+: the bundle is damaged")
            self.assertFalse(os.path.exists(os.path.join(two.local, "entries", "_")))


if __name__ == "__main__":
    unittest.main()
