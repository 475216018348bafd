#!/usr/bin/env python3
# tests/run: timeout=600
"""neffctl: every command's text, JSON and exit code, with and without a daemon."""
import json
import os
import pty
import re
import select
import signal
import stat
import subprocess
import sys
import threading
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from support import *  # noqa: E402,F403

DONE = {"outcome", "front_key", "canonical_key", "artifact", "stages", "times", "explanation", "intermediates", "provenance"}
ARTIFACT = {"kind", "path", "sha256", "size", "target", "compiler", "owner_uid"}
ERROR = {"code", "class", "message", "location", "hint", "retryable", "retry_after_ms", "from_cache", "exit_code", "log_tail", "stage", "canonical_key"}
COUNTERS = {"requests", "compiles", "joined", "hits_local", "hits_shared", "misses", "failures_user", "failures_transient", "failures_environment",
            "failures_internal", "failures_from_cache", "retries", "worker_crashes", "lock_timeouts", "quarantined", "evicted", "canonical_hits", "compile_us",
            "compile_us_saved", "front_hits", "lowerings", "merged"}
KEY = re.compile(r"^[0-9a-f]{64}$")


def until_closed(terminal):
    """All that is written to a terminal until its other side is closed."""
    out = b""
    while True:
        try:
            part = os.read(terminal, 65536)
        except OSError:
            break
        if not part:
            break
        out += part
    os.close(terminal)
    return out


class WithoutADaemon(unittest.TestCase):
    def setUp(self):
        self.place = Place()
        self.addCleanup(self.place.remove)
        self.file = self.place.write("m.mlir", GRAPH)

    def fails(self, code, name, *args, **more):
        text = self.place.ctl(*args, **more)
        self.assertEqual(text.code, code, text)
        self.assertEqual(text.out, "", text)
        self.assertRegex(text.err, r"^neffctl: .+: .+", text)
        result = self.place.ctl(*args, "--json", **more)
        self.assertEqual(result.code, code, result)
        self.assertEqual(set(result.json), {"error"}, result)
        self.assertEqual(set(result.json["error"]), ERROR)
        self.assertEqual(result.json["error"]["code"], name, result)
        return text, result.json["error"]

    def test_help_and_version(self):
        self.assertEqual(self.place.ctl("--version").out, "neffctl 0.1.0\n")
        everything = self.place.ctl("--help")
        self.assertEqual(everything.code, 0)
        commands = re.findall(r"^  ((?:cache |bundle |warm |neff )?[a-z-]+)", everything.out.split("options of every")[0], re.M)
        for name in ("compile", "lookup", "explain", "run", "jobs", "cancel", "status", "stats", "config", "ping", "drain", "doctor", "cache ls", "cache show",
                     "cache verify", "cache gc", "cache rm", "completion"):
            self.assertIn(name, commands)
        for command in commands:
            result = self.place.ctl(*command.split(), "--help")
            self.assertEqual(result.code, 0, result)
            self.assertTrue(result.out.startswith(f"usage: neffctl {command}"), result)
            self.assertIn("--json", result.out)
            self.assertEqual(result.err, "")
        with open(os.path.join(ROOT, "client/neffctl.1")) as f:
            manual = f.read().replace("\\-", "-")
        for command in commands:
            for option in re.findall("--[a-z-]+", self.place.ctl(*command.split(), "--help").out.split("\noptions", 1)[-1]):
                self.assertRegex(manual, f"{option}(?![a-z-])", f"the manual page lacks an option of {command}")
        self.assertEqual(self.place.ctl("help", "cache", "ls").out, self.place.ctl("cache", "ls", "--help").out)
        self.assertIn("cache verify", self.place.ctl("cache", "--help").out)

    def test_usage(self):
        for args, words in [([], "no command"), (["frobnicate"], "unknown command"), (["complie", "x"], "did you mean compile"), (["warm", "bogus"], "unknown command warm bogus"), (["compile"], "missing"),
                            (["compile", "a", "b"], "too many"), (["compile", "--taget=cpu", "x"], "did you mean --target"), (["cache"], "needs a command"),
                            (["compile", self.file, "-O", "nothing"], "NAME=VALUE"), (["compile", self.file, "--timeout", "soon"], "--timeout"),
                            (["compile", self.file, "--timeout"], "needs a value"), (["compile", self.file, "--stop-after", "lunch"], "import"),
                            (["cancel", "x"], "job"), (["cache", "show", "abc"], "64 hex"), (["cache", "rm"], "--failures"), (["cache", "gc", "--to", "big"], "size"),
                            (["completion", "tcsh"], "bash"), (["run", self.file, "--random", "1", "--inputs", "x"], "exclude"),
                            (["compile", self.file, "--json=1"], "takes no value"), (["-x", "status"], "unknown option")]:
            result = self.place.ctl(*args)
            self.assertEqual(result.code, 2, result)
            self.assertIn(words, result.err)
            self.assertIn("hint: ", result.err)
        result = self.place.ctl("compile", "--json")
        self.assertEqual((result.code, result.json["error"]["code"], result.err), (2, "usage", ""))

    def test_an_output_that_takes_nothing_is_said(self):
        for args in (["--help"], ["--version"], ["cache", "--help"], ["compile", "--help"], ["completion", "bash"], ["lookup", "ab" * 32, "--json"]):
            with open("/dev/full", "w") as full:
                done = subprocess.run([NEFFCTL, *args], stdout=full, stderr=subprocess.PIPE, text=True, env=self.place.env)
            self.assertIn("cannot write the result", done.stderr, args)
            self.assertNotEqual(done.returncode, 0, args)

    def test_a_missing_daemon(self):
        for args in (["status"], ["stats"], ["config"], ["ping"], ["drain"], ["jobs"], ["cancel", 1], ["cache", "ls"], ["cache", "verify"], ["cache", "gc"],
                     ["cache", "rm", "a" * 64], ["compile", self.file], ["explain", self.file], ["run", self.file]):
            text, _ = self.fails(4, "no_daemon", *args)
            self.assertIn("hint: start one", text.err)
            self.assertIn(self.place.socket, text.err)
        begin = time.monotonic()
        self.fails(4, "no_daemon", "ping", "--wait", "0.3")
        self.assertGreater(time.monotonic() - begin, 0.55)

    def test_files_that_are_not_there(self):
        self.fails(1, "invalid_argument", "compile", "/nonexistent.mlir")
        self.fails(1, "invalid_argument", "compile", self.place.dir)
        self.fails(1, "invalid_graph", "compile", self.place.write("empty.mlir", ""))
        self.fails(1, "invalid_argument", "run", "/nonexistent.neff")
        loop, long = os.path.join(self.place.dir, "loop"), "x" * 5000
        os.symlink("loop", loop)
        for path in (loop, long, os.path.join(loop, "m.mlir")):
            for command in (["compile"], ["lookup"], ["explain"], ["run"], ["neff", "info"], ["bundle", "import"], ["warm", "run"]):
                self.fails(1, "invalid_argument", *command, path)

    def test_a_port_that_is_none(self):
        for port in ("65536", "99999", "x", "-1", "80x"):
            wrong = self.place.ctl("ping", env={"NEFFD_SOCKET": "127.0.0.1:" + port})
            self.assertEqual((wrong.code, wrong.err.splitlines()[0]), (2, f'neffctl: ping: socket: "127.0.0.1:{port}" is no address'), wrong)

    @unittest.skipIf(SLOW > 1, "reads 2 GiB")
    def test_what_does_not_end_is_given_up(self):
        _, error = self.fails(1, "limit_exceeded", "compile", "/dev/zero")
        self.assertIn("does not end", error["message"])
        with open("/dev/zero") as zero:
            done = subprocess.run([NEFFCTL, "compile", "-"], stdin=zero, capture_output=True, text=True, env=self.place.env)
        self.assertEqual((done.returncode, done.stderr), (1, "neffctl: compile: cannot read standard input: it does not end within 2 GiB\n"))

    def test_a_miss_by_key_needs_no_daemon(self):
        result = self.place.ctl("lookup", "ab" * 32)
        self.assertEqual(result.code, 3, result)
        result = self.place.ctl("lookup", "ab" * 32, "--json")
        self.assertEqual((result.code, result.json["outcome"], result.json["artifact"]), (3, "miss", None))
        self.fails(3, "not_found", "cache", "show", "ab" * 32)

    def test_cache_only_never_starts_anything(self):
        for args, env in ((["--cache-only"], {}), ([], {"NEFFD_CACHE_ONLY": "1"})):
            _, error = self.fails(3, "not_found", "compile", self.file, "--start", *args, env=env)
            self.assertFalse(os.path.exists(self.place.socket_path))

    def test_doctor(self):
        result = self.place.ctl("doctor", "--json")
        self.assertEqual(result.code, 1, result)
        self.assertFalse(result.json["ok"])
        checks = {c["name"]: c for c in result.json["checks"]}
        for check in result.json["checks"]:
            self.assertEqual(set(check), {"name", "path", "ok", "detail", "fix"})
            self.assertEqual(check["fix"] != "", not check["ok"], check)
        self.assertFalse(checks["daemon"]["ok"])
        for name in ("local", "local writable", "local file system", "local space", "shared", "shared writable", "clock", "compiler", "socket"):
            self.assertTrue(checks[name]["ok"], checks[name])
        self.assertEqual(checks["local"]["path"], self.place.local)
        os.makedirs(self.place.local)
        os.chmod(self.place.local, 0o777)
        checks = {c["name"]: c for c in self.place.ctl("doctor", "--json").json["checks"]}
        self.assertFalse(checks["local mode"]["ok"])
        self.assertEqual([n for n in os.listdir(self.place.local)], [], "the probe leaves nothing")
        self.place.write("shared", "a file")
        checks = {c["name"]: c for c in self.place.ctl("doctor", "--json").json["checks"]}
        self.assertFalse(checks["shared"]["ok"])
        checks = {c["name"]: c for c in self.place.ctl("doctor", "--json", env={"NEFFD_NEURONX_CC": "/nonexistent/cc"}).json["checks"]}
        self.assertFalse(checks["compiler"]["ok"])
        text = self.place.ctl("doctor")
        self.assertEqual(text.code, 1)
        self.assertRegex(text.out, r"FAIL daemon .*\n +fix: ")

    def test_completion(self):
        script = self.place.ctl("completion", "bash").out
        path = self.place.write("c.bash", script)
        for line, want in (("neffctl co", {"compile", "config", "completion"}), ("neffctl cache ", {"ls", "show", "verify", "gc", "rm"}),
                           ("neffctl compile --targ", {"--target"}), ("neffctl compile --target t", {"trn1", "trn1n", "trn2", "trn3"}),
                           ("neffctl cache verify --rep", {"--repair"}), ("neffctl completion z", {"zsh"}), ("neffctl --json sta", {"status", "stats"})):
            words = line.split(" ")
            probe = f"source {path}; COMP_WORDS=({' '.join(repr(w) for w in words)}); COMP_CWORD={len(words) - 1}; _neffctl; echo ${{COMPREPLY[@]}}"
            got = subprocess.run(["bash", "-c", probe], stdout=subprocess.PIPE, text=True, env=self.place.env, check=True).stdout.split()
            self.assertTrue(want <= set(got), (line, got))
            self.assertTrue(all(g.startswith(words[-1]) for g in got), (line, got))
        for shell in ("zsh", "fish"):
            script = self.place.ctl("completion", shell).out
            for word in ("compile", "target", "verify", "repair"):
                self.assertIn(word, script)

    def test_starting_a_daemon(self):
        result = self.place.ctl("compile", self.file, "--start", "--json", env={"SECRET_OF_THE_JOB": "1", "NEURON_CC_FLAGS": "--x"})
        self.assertEqual(result.code, 0, result)
        pid = self.place.ctl("status", "--json").json["pid"]
        with open(f"/proc/{pid}/environ") as f:
            env = f.read()
        self.assertNotIn("SECRET_OF_THE_JOB", env)
        self.assertNotIn("NEURON_CC_FLAGS", env)
        with open(f"/proc/{pid}/stat") as f:
            fields = f.read().rsplit(")", 1)[1].split()
        self.assertEqual(int(fields[3]), os.getsid(pid))
        self.assertNotEqual(os.getsid(pid), os.getsid(0))
        self.assertEqual(os.readlink(f"/proc/{pid}/cwd"), "/")
        with open(f"/proc/{pid}/status") as f:
            self.assertIn("Umask:\t0022", f.read())
        self.place.stop_started()
        # And the hit needs none.
        again = self.place.ctl("compile", self.file, "--json")
        self.assertEqual((again.code, again.json["outcome"]), (0, "hit_local"), again)
        self.assertEqual(again.json["artifact"]["sha256"], result.json["artifact"]["sha256"])

    def test_sixteen_start_one(self):
        clients = [self.place.popen("compile", self.file, "--start", "--json") for _ in range(16)]
        outs = [c.communicate(timeout=60 * SLOW) for c in clients]
        for c, (out, err) in zip(clients, outs):
            self.assertEqual(c.returncode, 0, err)
        self.assertEqual(len({json.loads(out)["artifact"]["sha256"] for out, _ in outs}), 1)
        daemons = [p for p in os.listdir("/proc") if p.isdigit() and self.is_daemon(p)]
        self.assertEqual(len(daemons), 1, daemons)
        self.assertEqual(self.place.ctl("stats", "--json").json["since_start"]["compiles"], 1)

    def is_daemon(self, pid):
        try:
            with open(f"/proc/{pid}/cmdline") as f:
                argv = f.read().split("\0")
        except OSError:
            return False
        return os.path.basename(argv[0]) == "neffd" and f"--socket={self.place.socket}" in argv and "--worker" not in argv


class WithADaemon(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.place = Place()
        cls.place.start()
        cls.file = cls.place.write("m.mlir", GRAPH)

    @classmethod
    def tearDownClass(cls):
        cls.place.remove()

    def ok(self, *args, **more):
        result = self.place.ctl(*args, **more)
        self.assertEqual(result.code, 0, result)
        return result

    def test_compile_lookup_hit(self):
        file = self.place.write("a.mlir", graph(3))
        miss = self.place.ctl("lookup", file, "--json")
        self.assertEqual((miss.code, miss.json["outcome"], miss.json["artifact"]), (3, "miss", None), miss)
        done = self.ok("compile", file, "--json").json
        self.assertEqual(set(done), DONE)
        self.assertEqual(set(done["artifact"]), ARTIFACT)
        self.assertEqual(done["outcome"], "compiled")
        self.assertRegex(done["canonical_key"], KEY)
        self.assertRegex(done["artifact"]["sha256"], KEY)
        self.assertEqual(done["artifact"]["target"], "cpu")
        self.assertEqual(done["artifact"]["owner_uid"], os.geteuid())
        self.assertGreaterEqual(os.stat(done["artifact"]["path"]).st_size, done["artifact"]["size"])
        self.assertGreater(done["times"]["total_us"], 0)
        hit = self.ok("compile", file, "--json").json
        self.assertEqual(set(hit), DONE)
        self.assertEqual(hit["outcome"], "hit_local")
        for field in ("canonical_key", "front_key"):
            self.assertEqual(hit[field], done[field])
        self.assertEqual(hit["artifact"], {**done["artifact"], "path": hit["artifact"]["path"]})
        found = self.ok("lookup", done["canonical_key"], "--json").json
        self.assertEqual(found["artifact"]["sha256"], done["artifact"]["sha256"])
        self.assertEqual(self.ok("lookup", file, "--json").json["outcome"], "hit_local")
        text = self.ok("compile", file)
        self.assertTrue(text.out.startswith("hit local in "), text)
        self.assertIn(done["canonical_key"], text.out)
        self.assertEqual(text.err, "")

    def test_a_twin_is_found_by_its_canonical_key(self):
        one = self.ok("compile", self.place.write("b.mlir", GRAPH), "--json").json
        twin = self.place.write("twin.mlir", TWIN)
        self.assertEqual(self.ok("lookup", twin, "--json").json["canonical_key"], one["canonical_key"])
        two = self.ok("compile", twin, "--json").json
        self.assertEqual(two["canonical_key"], one["canonical_key"])
        self.assertNotEqual(two["outcome"], "compiled")

    def test_stdin_and_output(self):
        path = os.path.join(self.place.dir, "out.neff")
        done = self.ok("compile", "-", "--json", "--output", path, input=graph(4)).json
        self.assertEqual(os.stat(path).st_size, done["artifact"]["size"])
        import hashlib
        with open(path, "rb") as f:
            self.assertEqual(hashlib.sha256(f.read()).hexdigest(), done["artifact"]["sha256"])

    def test_an_output_that_cannot_be_written_is_no_miss(self):
        file = self.place.write("out.mlir", GRAPH)
        key = self.ok("compile", file, "--json").json["canonical_key"]
        nowhere = os.path.join(self.place.dir, "nowhere", "x")
        for args in (["compile", file, "-o", nowhere], ["lookup", file, "-o", nowhere], ["lookup", key, "-o", nowhere], ["bundle", "export", nowhere],
                     ["run", file, "--random", 1, f"--profile={nowhere}"], ["run", file, "--random", 1, "-o", "/proc/nowhere"], ["cache", "export-plain", "/proc/nowhere"],
                     ["warm", "record", "--from-cache", "-o", "/proc/nowhere"]):
            result = self.place.ctl(*args, "--json")
            self.assertEqual((result.code, result.json.get("error", {}).get("class")), (7, "environment"), (args, result))

    def test_explain(self):
        self.ok("compile", self.place.write("c.mlir", GRAPH), "--name", "narrow")
        wider = self.place.write("wider.mlir", WIDER)
        result = self.place.ctl("explain", wider, "--json")
        self.assertEqual(result.code, 0, result)
        explanation = result.json["explanation"]
        self.assertTrue(explanation["found"])
        names = {(d["component"], d["name"]) for d in explanation["differences"]}
        self.assertTrue({("input", "input 0"), ("input", "input 1"), ("output", "output 0")} >= names and names, explanation)
        self.assertIn("input 0", self.place.ctl("explain", wider).out)
        # compile says it in one line, unasked
        said = self.ok("compile", wider)
        lines = [line for line in said.err.splitlines() if line.startswith("miss: ")]
        self.assertEqual(len(lines), 1, said)
        self.assertIn("input 0", lines[0])
        only = self.place.ctl("compile", self.place.write("w2.mlir", GRAPH.replace("4xf32", "16xf32")), "--cache-only")
        self.assertEqual(only.code, 3, only)
        self.assertIn("input 0", only.err)

    def test_options_enter_the_key(self):
        one = self.ok("compile", self.file, "--json", "-O", "optlevel=1").json
        two = self.ok("compile", self.file, "--json", "-O", "optlevel=2").json
        self.assertNotEqual(one["canonical_key"], two["canonical_key"])
        last = self.ok("compile", self.file, "--json", "-Ooptlevel=2", "--option=optlevel=1").json
        self.assertEqual(last["canonical_key"], one["canonical_key"])

    def test_wrong_graphs(self):
        for text in ("this is no graph", GRAPH.replace("multiply", "multiplicate"), GRAPH[:120]):
            file = self.place.write("wrong.mlir", text)
            result = self.place.ctl("compile", file, "--json")
            self.assertEqual(result.code, 1, result)
            error = result.json["error"]
            self.assertEqual((error["class"], error["retryable"]), ("user", False), error)
            self.assertRegex(error["location"], f"^{re.escape(file)}:[0-9]+:[0-9]+$")
            for command in (["compile"], ["lookup"], ["explain"], ["run", "--random", 1]):
                plain = self.place.ctl(command[0], file, *command[1:])
                self.assertEqual(plain.code, 1)
                self.assertRegex(plain.err, f"(?m)^neffctl: {command[0]}: {re.escape(file)}:[0-9]+:[0-9]+: .+")
        file = self.place.write("wrong.mlir", "")
        self.assertEqual(self.place.ctl("compile", file).err, f"neffctl: compile: {file}: byte 0: the graph is empty\n")
        self.assertRegex(self.place.ctl("compile", "-", input="this is no graph").err, "(?m)^neffctl: compile: 1:1: .+")

    def test_run(self):
        inputs, expected, out = (os.path.join(self.place.dir, "model", d) for d in ("inputs", "expected", "out"))
        write_npy(os.path.join(inputs, "00.npy"), "<f4", (4,), [1, 2, 3, 4])
        write_npy(os.path.join(inputs, "01.npy"), "<f4", (4,), [10, 20, 30, 40])
        write_npy(os.path.join(expected, "00.npy"), "<f4", (4,), [20, 60, 120, 200])
        args = ["run", self.file, "--inputs", inputs, "--expected", expected]
        result = self.ok(*args, "--json", "--output", out, "--repeat", 5)
        j = result.json
        self.assertEqual(set(j), {"outcome", "device", "outputs", "times", "peak_bytes"})
        self.assertEqual(set(j["times"]), {"compile_us", "load_us", "first_us", "median_us", "min_us"})
        self.assertEqual(j["outputs"], [{"dtype": "f32", "shape": [4], "max_abs_err": 0, "max_rel_err": 0, "mismatched": 0, "matches": True}])
        self.assertGreater(j["peak_bytes"], 0)
        self.assertEqual(read_npy(os.path.join(out, "00.npy")), ("<f4", (4,), [20, 60, 120, 200]))
        self.assertEqual(self.ok(*args, "--json").json["times"]["compile_us"], 0)
        # one wrong element: exit 1, named
        write_npy(os.path.join(expected, "00.npy"), "<f4", (4,), [20, 60, 121, 200])
        wrong = self.place.ctl(*args, "--json")
        self.assertEqual((wrong.code, wrong.json["outputs"][0]["mismatched"], wrong.json["outputs"][0]["matches"]), (1, 1, False), wrong)
        text = self.place.ctl(*args)
        self.assertEqual(text.code, 1)
        self.assertIn("result 0", text.err)
        self.assertIn("[2]", text.err)
        self.assertEqual(self.place.ctl(*args, "--atol", 2).code, 0)
        with open(os.path.join(self.place.dir, "model", "manifest.json"), "w") as f:
            json.dump({"outputs": [{"name": "loss", "rtol": 0, "atol": 1.5}]}, f)
        self.assertEqual(self.ok(*args).out.count("loss"), 1)
        self.assertEqual(self.place.ctl(*args, "--atol", 0.5).code, 1)
        # an artifact file, random arguments, arguments that do not fit
        path = os.path.join(self.place.dir, "r.neff")
        self.ok("compile", self.file, "--output", path)
        self.assertEqual(self.ok("run", path, "--inputs", inputs, "--expected", expected, "--json").json["outputs"][0]["matches"], True)
        self.ok("run", path, "--random", 7)
        self.assertEqual(self.place.ctl("run", path).code, 2)
        write_npy(os.path.join(inputs, "01.npy"), "<f4", (5,), [1, 2, 3, 4, 5])
        bad = self.place.ctl("run", path, "--inputs", inputs)
        self.assertEqual(bad.code, 1, bad)
        self.assertIn("argument 1", bad.err)
        # a NEFF that is cut or damaged is a wrong argument, and no graph
        with open(path, "rb") as f:
            neff = f.read()
        for bad in (neff[:20], neff[:1500], neff[:1200] + b"XX" + neff[1202:]):
            wrong = self.place.ctl("run", self.place.write("bad.neff", bad), "--random", 1)
            self.assertEqual(wrong.code, 1, wrong)
            self.assertRegex(wrong.err, r"^neffctl: run: .*bad\.neff: .*NEFF")
            self.assertIn("hint: neffctl neff check", wrong.err)
            self.assertEqual(wrong.err.count("bad.neff"), 2, wrong)
        # one bit of it, wherever: nothing of it runs
        for at in (*range(1024, len(neff), len(neff) // 40), len(neff) - 1):
            wrong = self.place.ctl("run", self.place.write("bad.neff", neff[:at] + bytes([neff[at] ^ 16]) + neff[at + 1:]), "--random", 1, "--json")
            self.assertEqual((wrong.code, wrong.json["error"]["code"]), (1, "invalid_argument"), (at, wrong))
        with open(os.path.join(inputs, "01.npy"), "ab") as f:
            f.write(b"more")
        self.assertRegex(self.place.ctl("run", path, "--inputs", inputs).err, r"^neffctl: run: \S+/01\.npy: byte [0-9]+: argument 1: the NumPy array")
        # a file too many is another program's directory; a directory is no array
        write_npy(os.path.join(inputs, "01.npy"), "<f4", (4,), [10, 20, 30, 40])
        write_npy(os.path.join(inputs, "02.npy"), "<f4", (4,), [0, 0, 0, 0])
        bad = self.place.ctl("run", path, "--inputs", inputs, "--json")
        self.assertEqual((bad.code, bad.json["error"]["code"]), (1, "invalid_argument"), bad)
        self.assertIn("02.npy", bad.json["error"]["message"])
        os.unlink(os.path.join(inputs, "02.npy"))
        os.unlink(os.path.join(inputs, "01.npy"))
        os.mkdir(os.path.join(inputs, "01.npy"))
        bad = self.place.ctl("run", path, "--inputs", inputs, "--json")
        self.assertEqual((bad.code, bad.json["error"]["code"]), (1, "invalid_argument"), bad)

    def test_run_names_the_users_line(self):
        """What fails when it runs is named by its place in what the user wrote, natively and on the evaluator."""
        program = """module @m {

  // a comment
  func.func @main(%%x: tensor<2xi32>, %%root: tensor<1xi32>) -> tensor<2xi32> {
    %%unused = stablehlo.add %%x, %%x : tensor<2xi32>
    %%0 = "stablehlo.collective_broadcast"(%%x, %%root) {replica_groups = dense<[[0]]> : tensor<1x1xi64>, has_dynamic_root} : (tensor<2xi32>, tensor<1xi32>) -> tensor<2xi32>%s
    return %%0 : tensor<2xi32>
  }
}
"""
        inputs = os.path.join(self.place.dir, "bad")
        write_npy(os.path.join(inputs, "00.npy"), "<i4", (2,), [1, 2])
        write_npy(os.path.join(inputs, "01.npy"), "<i4", (1,), [5])
        for native in ("0", "1"):
            for loc, where in (("", "6:10"), (' loc("train.py":12:3)', '"train.py":12:3')):
                with self.subTest(native=native, loc=loc):
                    file = self.place.write(f"bad{native}{bool(loc)}.mlir", program % loc)
                    result = self.place.ctl("run", file, "--target", "cpu", "--inputs", inputs, "-O", f"native={native}", "--ignore-cache")
                    self.assertEqual(result.code, 1, result)
                    self.assertIn(where, result.err)
                    self.assertIn("is not in the group of 1", result.err)

    def test_run_profile(self):
        """The table always; a Chrome trace where a path is given, behind = or as the next word; the program's own name is no path."""
        trace = os.path.join(self.place.dir, "trace.json")
        for words, traced in ((["--random", 1, "--profile"], False), (["--random", 1, "--profile", "--quiet"], False), (["--random", 1, "--profile", "-"], False),
                              (["--random", 1, f"--profile={trace}"], True), (["--random", 1, "--profile", trace], True)):
            with self.subTest(words):
                result = self.ok("run", self.file, *words)
                self.assertRegex(result.err, r"(?m)^ *us a run +share +MB a run +GB/s +step +source$")
                self.assertRegex(result.err, r"(?m)^ +[0-9.]+ +[0-9.]+% .* kernel ")
                self.assertEqual(os.path.exists(trace), traced)
                if traced:
                    with open(trace) as f:
                        events = json.load(f)
                    self.assertTrue(events["traceEvents"] if isinstance(events, dict) else events)
                    os.unlink(trace)
        for words in (["--profile", self.file, "--random", 1], ["--random", 1, "--profile", self.file]):
            result = self.ok("run", *words)
            self.assertIn("us a run", result.err)
        with open(self.file) as f:
            self.assertIn("stablehlo", f.read())
        self.assertEqual(self.place.ctl("run", "--profile").code, 2)

    def test_status_stats_config(self):
        status = self.ok("status", "--json").json
        self.assertEqual(set(status), {"version", "pid", "uptime_us", "rss_bytes", "draining", "jobs_queued", "jobs_running", "waiters", "workers", "counters",
                                       "counters_lifetime", "cache", "default_target", "targets", "api_version", "features", "remarks"})
        self.assertEqual(status["pid"], self.place.process.pid)
        self.assertEqual(status["version"], "0.1.0")
        self.assertEqual(status["api_version"], 1)
        self.assertEqual(status["cache"]["shared_dir"], self.place.shared)
        self.assertIn("cpu", status["targets"])
        self.assertIn("neffd 0.1.0", self.ok("status").out)
        stats = self.ok("stats", "--json").json
        self.assertEqual(set(stats), {"since_start", "lifetime"})
        self.assertEqual(set(stats["since_start"]), COUNTERS)
        self.assertEqual(set(re.findall(r"^(\w+) +\d+ +\d+$", self.ok("stats").out, re.M)), COUNTERS)
        settings = {s["name"]: s for s in self.ok("config", "--json").json["settings"]}
        self.assertEqual(set(settings["cache_dir"]), {"name", "value", "source", "default_value", "help", "scope", "in_effect", "env"})
        self.assertEqual((settings["cache_dir"]["value"], settings["cache_dir"]["source"]), (self.place.shared, "env"))
        self.assertEqual(self.ok("config", "cache-dir", "--json").json, settings["cache_dir"])
        self.assertIn("TORCH_NEURONX_NEFF_CACHE_DIR", self.ok("config", "cache_dir").out)
        self.assertIn("cache_dir", self.ok("config", "--changed").out)
        self.assertIn("hint: neffctl config lists them", self.place.ctl("config", "frobnication").err)
        unknown = self.place.ctl("config", "cache_dri")
        self.assertEqual(unknown.code, 3)
        self.assertIn("did you mean cache_dir", unknown.err)

    def test_ping_jobs_cancel(self):
        self.assertEqual(self.ok("ping", "--json").json["serving"], True)
        self.assertTrue(self.ok("ping").out.startswith("serving"))
        self.assertEqual(self.ok("jobs", "--json").json, {"jobs": []})
        self.assertEqual(self.ok("jobs").out, "no jobs\n")
        self.assertEqual(self.place.ctl("cancel", 4711, "--json").json, {"found": False})
        self.assertEqual(self.place.ctl("cancel", 4711).code, 3)

    def test_cache_commands(self):
        done = self.ok("compile", self.place.write("kept.mlir", graph(11)), "--name", "kept", "--json").json
        key = done["canonical_key"]
        entries = {e["canonical_key"]: e for e in self.ok("cache", "ls", "--json").lines}
        self.assertEqual(set(entries[key]), {"canonical_key", "name", "artifact", "created_us", "last_used_us", "compile_us", "cache_namespace", "failure", "created_by"})
        self.assertEqual((entries[key]["name"], entries[key]["failure"]), ("kept", None))
        self.assertEqual([e["canonical_key"] for e in self.ok("cache", "ls", "kept", "--json").lines], [key])
        self.assertIn(key, self.ok("cache", "ls").out)
        self.assertEqual(self.ok("cache", "show", key, "--json").json["canonical_key"], key)
        self.assertIn("kept", self.ok("cache", "show", key).out)
        last = self.ok("cache", "verify", "--json").lines[-1]
        self.assertEqual(set(last), {"done", "total", "bad", "removed", "bytes_freed", "note", "finished"})
        self.assertEqual((last["finished"], last["bad"]), (True, 0))
        dry = self.ok("cache", "gc", "--to", "0", "--dry-run", "--json").lines[-1]
        self.assertTrue(dry["finished"])
        self.ok("cache", "show", key)
        self.assertEqual(self.ok("cache", "rm", key, "--json").json, {"removed": 1})
        self.assertEqual(self.place.ctl("cache", "show", key).code, 3)
        self.assertEqual(self.place.ctl("cache", "rm", key).code, 3)
        again = self.ok("compile", self.place.write("kept.mlir", graph(11)), "--json").json
        self.assertEqual((again["outcome"], again["canonical_key"]), ("compiled", key))

    def test_remembered_failures(self):
        file = self.place.write("fails.mlir", GRAPH.replace("multiply", "multiplicate"))
        self.assertEqual(self.place.ctl("compile", file).code, 1)
        self.ok("cache", "rm", "--failures")

    def test_forms_of_the_terminal(self):
        """Colours and progress only on a terminal; none with NO_COLOR."""
        for extra, colored in (({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)):
            main, side = pty.openpty()
            child = subprocess.Popen([NEFFCTL, "status"], stdin=side, stdout=side, stderr=side, env={**self.place.env, "TERM": "xterm", **extra})
            os.close(side)
            out = until_closed(main)
            self.assertEqual(child.wait(), 0)
            self.assertEqual(b"\033[" in out, colored, out)
        self.assertNotIn("\033", self.ok("status").out)

    def test_run_says_what_an_option_does_not_change(self):
        path = os.path.join(self.place.dir, "given.neff")
        self.ok("compile", self.file, "-o", path)
        told = self.ok("run", path, "--random", 1, "--target", "cpu", "-O", "tier=0")
        self.assertEqual(told.err, f"neffctl: run: {path} is compiled already, without effect: --target, -O\n")
        for args in (["run", path, "--random", 1, "-q", "-O", "tier=0"], ["run", path, "--random", 1], ["run", self.file, "--random", 1, "--target", "cpu", "-q"]):
            self.assertEqual(self.ok(*args).err, "", args)
        for option in ("rtol", "atol"):
            wrong = self.place.ctl("run", path, "--random", 1, "--" + option, "0.5")
            self.assertEqual((wrong.code, wrong.err.splitlines()[0]), (2, f"neffctl: run: --{option} says how closely results match: of what, says --expected DIR"), wrong)

    def test_a_file_that_is_no_neff_has_one_problem(self):
        found = self.place.ctl("neff", "check", self.place.write("long.mlir", GRAPH * 20))
        self.assertEqual(found.code, 1, found)
        self.assertRegex(found.out, r"^problem +it is no NEFF: header_size is \d+, not 1024\n$")

    def test_options_of_cpu_say_what_they_can_be(self):
        for option, can in (("tier=9", "0, 1"), ("native=yes", "auto, 0, 1"), ("optlevel=", "1, 2, 3")):
            wrong = self.place.ctl("compile", self.file, "--target", "cpu", "-O", option)
            name, _, value = option.partition("=")
            self.assertEqual((wrong.code, wrong.err), (1, f"neffctl: compile: option {name} of target cpu cannot be '{value}'\nhint: it can be {can}\n"), wrong)

    def test_what_is_written_to_leaves_pipes_and_links_in_their_place(self):
        """Root's -o /dev/null must not make a file of it."""
        pipe = os.path.join(self.place.dir, "pipe")
        os.mkfifo(pipe)
        neff = os.path.join(self.place.dir, "plain.neff")
        self.ok("compile", self.file, "-o", neff)

        def read(path):
            with open(path, "rb") as f:
                return f.read()

        for args, head in ((["compile", self.file, "-o", pipe], read(neff)), (["bundle", "export", pipe], b"NEFFDBN1"),
                           (["run", neff, "--random", 1, "--profile", pipe], b'{"')):
            got = []
            reader = threading.Thread(target=lambda: got.append(read(pipe)), daemon=True)
            reader.start()
            self.ok(*args)
            reader.join(20 * SLOW)
            self.assertTrue(got, args)
            self.assertTrue(got[0].startswith(head), (args, got[0][:40]))
            self.assertTrue(stat.S_ISFIFO(os.lstat(pipe).st_mode), args)
        link = os.path.join(self.place.dir, "link")
        for args in (["compile", self.file, "-o", link], ["bundle", "export", link]):
            with open(link + ".target", "w") as f:
                f.write("old")
            if not os.path.islink(link):
                os.symlink("link.target", link)
            self.ok(*args)
            self.assertTrue(os.path.islink(link), args)
            self.assertGreater(os.path.getsize(link + ".target"), 3, args)

    def test_a_closed_pipe_is_no_error(self):
        done = subprocess.run(["sh", "-c", f"{NEFFCTL} config | head -1"], env=self.place.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        full = subprocess.run(["sh", "-c", f"{NEFFCTL} config > /dev/full"], env=self.place.env, stderr=subprocess.PIPE, text=True)
        self.assertEqual(full.returncode, 7, full)


class WithASlowCompiler(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.place = Place(NEFFD_NEURONX_CC=FAKE)
        cls.calls = os.path.join(cls.place.dir, "calls")
        rules = cls.place.write("rules", "tensor<5xf32> => fail\ntensor<6xf32> => slow:30\ntensor<7xf32> => slow:0\n => slow:1.5\n")
        cls.place.env.update(FAKE_NEURONX_CC_RULES=rules, FAKE_NEURONX_CC_LOG=cls.calls)
        cls.place.start("--target=trn1")

    @classmethod
    def tearDownClass(cls):
        cls.place.remove()

    def wait_for(self, what, seconds=10):
        end = time.monotonic() + seconds * SLOW
        while time.monotonic() < end:
            got = what()
            if got:
                return got
            time.sleep(0.02)
        self.fail("in vain")

    def jobs(self, name):
        return [j for j in self.place.ctl("jobs", "--json").json["jobs"] if j["name"] == name]

    def test_eight_ask_one_compiles(self):
        file = self.place.write("eight.mlir", graph(20))
        clients = [self.place.popen("compile", file, "--json") for _ in range(8)]
        answers = []
        for client in clients:
            out, err = client.communicate(timeout=60 * SLOW)
            self.assertEqual(client.returncode, 0, err)
            answers.append(json.loads(out))
        outcomes = [a["outcome"] for a in answers]
        self.assertEqual(outcomes.count("compiled"), 1, outcomes)
        self.assertEqual(outcomes.count("joined"), 7, outcomes)
        self.assertEqual(len({a["artifact"]["sha256"] for a in answers}), 1)
        self.assertEqual(answers[0]["artifact"]["target"], "trn1")
        # the next one needs no call, although nobody names the target
        hit = self.place.ctl("compile", file, "--json")
        self.assertEqual((hit.code, hit.json["outcome"]), (0, "hit_local"), hit)
        for a in answers:
            if a["outcome"] == "compiled":
                self.assertGreater(a["times"]["compile_us"], 1400000)

    def test_jobs_watch_and_cancel(self):
        file = self.place.write("long.mlir", GRAPH.replace("4xf32", "6xf32"))
        watch = self.place.popen("jobs", "--watch", "--json")
        client = self.place.popen("compile", file, "--name", "long one", "--json")
        try:
            seen = []
            self.wait_for(lambda: select.select([watch.stdout], [], [], 0.5)[0] and seen.extend(
                j["name"] for j in json.loads(watch.stdout.readline())["jobs"]) or "long one" in seen)
        finally:
            watch.kill()
            watch.communicate()
        job = self.wait_for(lambda: [j for j in self.jobs("long one") if j["stage"] == "compile"])[0]
        self.assertEqual(set(job), {"id", "canonical_key", "name", "target", "state", "stage", "waiters", "leader", "age_us", "fraction", "eta_p50_ms", "priority",
                                    "rss_bytes"})
        self.assertEqual((job["waiters"], job["target"], job["leader"]["pid"]), (1, "trn1", client.pid))
        self.assertIn("long one", self.place.ctl("jobs").out)
        # one who has no patience leaves the job alone
        late = self.place.ctl("compile", file, "--timeout", "0.3", "--json")
        self.assertEqual((late.code, late.json["error"]["class"]), (5, "timeout"), late)
        self.assertRegex(late.json["error"]["message"], r"^not done in time: .+ within 0\.3 s$")
        self.assertIn("longer timeout", late.json["error"]["hint"])
        self.assertEqual(len(self.jobs("long one")), 1)
        cancelled = self.place.ctl("cancel", job["id"])
        self.assertEqual((cancelled.code, cancelled.out), (0, f"job {job['id']} is cancelled\n"), cancelled)
        out, err = client.communicate(timeout=20 * SLOW)
        self.assertEqual(client.returncode, 6, (out, err))
        self.assertEqual(json.loads(out)["error"]["code"], "cancelled")
        self.wait_for(lambda: not self.jobs("long one"))

    def test_a_failure_shows_the_log(self):
        file = self.place.write("fails.mlir", GRAPH.replace("4xf32", "5xf32"))
        result = self.place.ctl("compile", file, "--json")
        error = result.json["error"]
        self.assertEqual(result.code, 1, result)
        self.assertEqual((error["code"], error["class"], error["from_cache"]), ("compile_failed", "user", False), error)
        self.assertEqual(error["exit_code"], 70)
        self.assertTrue(error["log_tail"])
        self.wait_for(lambda: self.place.ctl("compile", file, "--json").json["error"]["from_cache"])  # it is written behind the answer
        text = self.place.ctl("compile", file)
        self.assertEqual(text.code, 1)
        self.assertIn("  | ", text.err)
        self.assertIn("(a remembered failure)", text.err)
        self.wait_for(lambda: [e for e in self.place.ctl("cache", "ls", "--json").lines if e["failure"]])
        self.assertEqual(self.place.ctl("cache", "rm", "--failures", "--json").json, {"removed": 1})
        self.assertFalse(self.place.ctl("compile", file, "--json").json["error"]["from_cache"])

    def test_a_line_of_the_compiler_stands_once_on_a_terminal(self):
        """Lines that were shown as they came are not shown again behind the failure; a file and --json have them as ever."""
        file = self.place.write("told.mlir", graph(31).replace("4xf32", "5xf32"))  # fails
        for options, live in (((), 1), (("--verbose",), 1), (("--quiet",), 0)):
            main, side = pty.openpty()
            child = subprocess.Popen([NEFFCTL, "compile", file, "--ignore-failures", *options], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                     stderr=side, env={**self.place.env, "TERM": "xterm"})
            os.close(side)
            out = until_closed(main).decode()
            self.assertEqual(child.wait(), 1, out)
            for line in ("Error message: ", "Error class: CompilerError", "Command line: ", "failed with NCC_EVRF001"):
                self.assertEqual(out.count(line), 1, out)
            self.assertTrue(live or "neuronx-cc: Error" not in out, out)
            result = self.place.ctl("compile", file, "--ignore-failures", *options)
            self.assertIn("  | Error class: CompilerError\n", result.err)
            tail = self.place.ctl("compile", file, "--ignore-failures", "--json", *options).json["error"]["log_tail"]
            self.assertIn("Error class: CompilerError", tail)
        remembered = self.place.ctl("compile", file)   # shown by nobody yet
        self.assertIn("  | Error class: CompilerError\n", remembered.err)

    def test_progress_only_on_a_terminal(self):
        main, side = pty.openpty()
        file = self.place.write("bar.mlir", graph(23))
        child = subprocess.Popen([NEFFCTL, "compile", file], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=side, env={**self.place.env, "TERM": "xterm"})
        os.close(side)
        out = until_closed(main)
        self.assertEqual(child.wait(), 0)
        self.assertIn(b"compile", out)
        self.assertIn(b"\r", out)
        self.assertTrue(out.endswith(b"\r\x1b[K"), "the line is taken away at the end")
        quiet = self.place.ctl("compile", self.place.write("bar2.mlir", GRAPH.replace("4xf32", "7xf32").replace("multiply", "subtract")))
        self.assertEqual(quiet.code, 0)
        self.assertNotIn("\r", quiet.err)
        verbose = self.place.ctl("compile", self.place.write("bar3.mlir", graph(24)), "--verbose")
        self.assertIn("compile", verbose.err)


class OnANeuronDevice(unittest.TestCase):
    """What neuronx-cc makes runs through libnrt; here the ones of tests/, whose program adds 1 to what it is given."""

    @classmethod
    def setUpClass(cls):
        cls.place = Place(NEFFD_NEURONX_CC=FAKE, NEFFD_LIBNRT=os.path.join(BUILD, "tests", "fake-libnrt", "libnrt.so"))
        cls.trace = os.path.join(cls.place.dir, "trace")
        cls.place.env["FAKE_NRT_TRACE"] = cls.trace
        cls.place.env["FAKE_NEURONX_CC_RULES"] = cls.place.write("rules", "tensor<5xf32> => feature:8\n => ok\n")
        cls.place.start("--target=trn2")
        cls.graph = cls.place.write("g.mlir", "func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n  %0 = stablehlo.add %x, %x : tensor<4xf32>\n"
                                    "  return %0 : tensor<4xf32>\n}\n")
        os.mkdir(os.path.join(cls.place.dir, "in"))
        write_npy(os.path.join(cls.place.dir, "in", "00.npy"), "<f4", (4,), [1, 2, 3, 4])

    @classmethod
    def tearDownClass(cls):
        cls.place.remove()

    def setUp(self):
        if os.path.exists(self.trace):
            os.unlink(self.trace)

    def calls(self):
        try:
            with open(self.trace) as f:
                return [line.split()[0] for line in f]
        except FileNotFoundError:
            return []

    def run_it(self, what, *more, **env):
        saved = dict(self.place.env)
        self.place.env.update(env)
        try:
            return self.place.ctl("run", what, "--inputs", os.path.join(self.place.dir, "in"), *more)
        finally:
            self.place.env = saved

    def test_graphs_and_files_run_there(self):
        neff, out = os.path.join(self.place.dir, "a.neff"), os.path.join(self.place.dir, "out")
        self.assertEqual(self.place.ctl("compile", self.graph, "--target", "trn2", "--output", neff).code, 0)
        for what in ((self.graph, "--target", "trn2"), (neff,), (self.graph, "--target", "trn2")):
            result = self.run_it(*what, "--output", out, "--json")
            self.assertEqual((result.code, result.json["device"]), (0, "neuron:0"), result)
            self.assertEqual(list(read_npy(os.path.join(out, "00.npy"))[2]), [2, 3, 4, 5])
        self.assertEqual({c: self.calls().count(c) for c in ("init", "load", "execute", "unload", "close")},
                         {"init": 3, "load": 3, "execute": 3, "unload": 3, "close": 3})
        self.assertNotIn("misuse:", self.calls())
        self.assertEqual(self.run_it(neff, "--device", "neuron:1", "--json").json["device"], "neuron:1")

    def test_what_is_wrong_is_told_by_name(self):
        neff = os.path.join(self.place.dir, "b.neff")
        self.assertEqual(self.place.ctl("compile", self.graph, "--target", "trn2", "--output", neff).code, 0)
        for env, code, words in (({"FAKE_NRT_INIT": "1"}, 7, "cannot initialise"), ({"FAKE_NRT_LOAD": "10"}, 1, "UNSUPPORTED_NEFF_VERSION"),
                                 ({"FAKE_NRT_EXECUTE": "1201"}, 7, "HBM_UE"), ({"FAKE_NRT_MAJOR": "3"}, 1, "version 3"), ({"NEFFD_LIBNRT": "/etc/passwd"}, 7, "cannot be loaded")):
            result = self.run_it(neff, **env)
            self.assertEqual(result.code, code, (env, result))
            self.assertIn(words, result.err)
        result = self.run_it(neff, "--device", "neuron:9")
        self.assertEqual((result.code, "2 cores are visible" in result.err), (7, True), result)

    def test_features_that_the_runtime_lacks_are_not_sent(self):
        newer = self.place.write("n.mlir", graph(1).replace("4xf32", "5xf32"))
        neff = os.path.join(self.place.dir, "n.neff")
        self.assertEqual(self.place.ctl("compile", newer, "--target", "trn2", "--output", neff).code, 0)
        result = self.run_it(neff, NEFFD_NEFF_FEATURES="0xff")
        self.assertEqual(result.code, 1, result)
        self.assertIn("features 0x100", result.err)
        self.assertNotIn("load", self.calls())


class Ends(unittest.TestCase):
    def test_drain(self):
        with Place() as place:
            place.start()
            drained = place.ctl("drain", "--timeout", 10, "--json")
            self.assertEqual((drained.code, drained.json), (0, {"jobs_left": 0}), drained)
            self.assertEqual(place.process.wait(20 * SLOW), 0, place.log())
            place.process = None
            self.assertEqual(place.ctl("ping").code, 4)

    def test_a_daemon_that_dies_is_asked_again(self):
        with Place() as place:
            place.start()
            file = place.write("m.mlir", GRAPH)
            os.kill(place.process.pid, signal.SIGSTOP)
            client = place.popen("compile", file, "--json")
            time.sleep(0.3)
            os.kill(place.process.pid, signal.SIGKILL)
            place.process.wait()
            place.process = None
            place.start()
            out, err = client.communicate(timeout=30 * SLOW)
            self.assertEqual(client.returncode, 0, err)
            self.assertIn(json.loads(out)["outcome"], ("compiled", "joined"))

    def test_patience_ends_with_exit_5(self):
        with Place() as place:
            place.start()
            file = place.write("m.mlir", GRAPH)
            os.kill(place.process.pid, signal.SIGSTOP)
            try:
                result = place.ctl("compile", file, "--timeout", "300ms", "--json")
            finally:
                os.kill(place.process.pid, signal.SIGCONT)
            self.assertEqual((result.code, result.json["error"]["class"]), (5, "timeout"), result)
            self.assertEqual(place.ctl("compile", file).code, 0)


if __name__ == "__main__":
    unittest.main()
