#!/usr/bin/env python3
# tests/run: timeout=900
"""neffcc in neuronx-cc's place, with and without a daemon; the faults that users of other caches have reported, each under the name of
its kind. The compiler is tests/fake-neuronx-cc, whose own log counts its starts. One file: a class for each group of faults, all on the
one Case that sets up directories, a compiler and, where asked, a daemon."""
import json
import os
import signal
import subprocess
import sys
import tempfile
import shutil
import threading
import time
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("TEST_BUILD") or os.environ.get("NEFFD_BUILD") or os.path.join(ROOT, "build")
NEFFCC, NEFFD, NEFFCTL, NEFFOPT = (os.path.join(BUILD, "bin", n) for n in ("neffcc", "neffd", "neffctl", "neffopt"))
FAKE = os.path.join(BUILD, "tests", "fake-neuronx-cc", "fake-neuronx-cc")
SLOW = 10 if os.environ.get("TEST_SANITIZE") else 1


def graph(n=1, name="x", where=""):
    lines = [f"module @m_{name} {{", f"  func.func public @main(%{name}: tensor<4xf32>) -> tensor<4xf32> {{"]
    last = f"%{name}"
    for i in range(n):
        lines.append(f"    %{name}{i} = stablehlo.multiply {last}, %{name} : tensor<4xf32>{where}")
        last = f"%{name}{i}"
    return "\n".join(lines + [f"    return {last} : tensor<4xf32>", "  }", "}", ""])


class Case(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="neffcc-test-")
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        self.work = self.path("w")
        for d in ("w", "bin", "real"):
            os.mkdir(self.path(d))
        os.symlink(NEFFCC, self.path("bin/neuronx-cc"))
        os.symlink(FAKE, self.path("real/neuronx-cc"))
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("NEFF", "TORCH_NEURONX", "NEURON", "FAKE_", "XLA_", "NKI_"))}
        self.env.update(PATH=f"{self.path('bin')}:{self.path('real')}:{os.environ['PATH']}", NEFFD_SOCKET=self.path("s"),
                        TORCH_NEURONX_NEFF_CACHE_DIR=self.path("shared"), TORCH_NEURONX_NEFF_LOCAL_CACHE_DIR=self.path("local"),
                        FAKE_NEURONX_CC_LOG=self.path("cc.log"), FAKE_NEURONX_CC_FILE=self.path("act"), FAKE_NEURONX_CC_RULES=self.path("rules"),
                        NEFFCC_LOG=self.path("neffcc.log"), NEFFD_RETRY_BACKOFF="0", NEFFD_CONFIG="", NEFFD_COMPILE_SLOTS="4", TMPDIR=self.dir)
        self.env.pop("NEFFD_CONFIG")
        self.act("ok")
        self.write("m.mlir", graph())
        self.daemon = None

    # ---------------------------------------------------------------------------------------------------------- tools
    def path(self, name):
        return os.path.join(self.dir, name)

    def write(self, name, text):
        path = os.path.join(self.work, name)
        with open(path, "wb") as f:
            f.write(text if isinstance(text, bytes) else text.encode())
        return path

    def act(self, actions, rules=""):
        for name, text in (("act", actions + "\n"), ("rules", rules)):
            with open(self.path(name) + ".new", "w") as f:
                f.write(text)
            os.rename(self.path(name) + ".new", self.path(name))

    def args(self, file="m.mlir", target="trn2", out="o.neff", more=()):
        return ["neuronx-cc", "compile", file, "--framework", "XLA", "--target", target, "--output", out, *more]

    def start(self, args, **env):
        cwd = env.pop("cwd", self.work)
        return subprocess.Popen(args, cwd=cwd, env={**self.env, **env}, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def cc(self, *a, timeout=60, **k):
        env = {n: k.pop(n) for n in list(k) if n.isupper()}
        cwd = k.pop("cwd", self.work)
        p = subprocess.run(self.args(*a, **k), cwd=cwd, env={**self.env, **env}, capture_output=True, timeout=timeout * SLOW)
        p.out, p.err = p.stdout.decode("utf-8", "replace"), p.stderr.decode("utf-8", "replace")
        return p

    def ok(self, *a, **k):
        p = self.cc(*a, **k)
        self.assertEqual(p.returncode, 0, p.err)
        return p

    def neff(self, name="o.neff"):
        with open(os.path.join(self.work, name), "rb") as f:
            data = f.read()
        self.assertGreater(len(data), 1024)
        self.assertEqual(int.from_bytes(data[16:24], "little"), len(data) - 1024)
        return data

    def events(self, kind="start"):
        try:
            with open(self.path("cc.log")) as f:
                lines = [line for line in f if line.endswith("\n")]  # the last one may be half written
                return [e for e in map(json.loads, lines) if e["event"] == kind]
        except FileNotFoundError:
            return []

    @property
    def compiles(self):
        return len(self.events())

    def left(self):
        """Processes that the compiler has left running."""
        try:
            with open(self.path("cc.log.left")) as f:
                return [int(line) for line in f]
        except FileNotFoundError:
            return []

    @staticmethod
    def lives(pid):
        try:
            with open(f"/proc/{pid}/stat") as f:
                return f.read().rsplit(")", 1)[1].split()[0] != "Z"
        except (FileNotFoundError, ProcessLookupError):
            return False

    def calls(self):
        with open(self.path("neffcc.log")) as f:
            return [json.loads(line) for line in f]

    def last(self):
        return self.calls()[-1]

    def start_daemon(self, *more, **env):
        with open(self.path("neffd.log"), "ab") as log:
            self.daemon = subprocess.Popen([NEFFD, *more], env={**self.env, **env}, stdout=log, stderr=log)
        self.addCleanup(self.stop_daemon, signal.SIGKILL)
        subprocess.run([NEFFCTL, "ping", "--wait", "20"], env=self.env, check=True, capture_output=True)
        return self.daemon

    def stop_daemon(self, sig=signal.SIGTERM):
        if self.daemon:
            if self.daemon.poll() is None:
                self.daemon.send_signal(sig)
            self.daemon.wait(30)
            self.daemon = None

    def wait_for(self, what, seconds=20):
        end = time.time() + seconds * SLOW
        while not what():
            self.assertLess(time.time(), end, "waited too long")
            time.sleep(0.01)

    def rss_of_compilers(self):
        total = 0
        for e in self.events():
            try:
                with open(f"/proc/{e['pid']}/statm") as f:
                    total += int(f.read().split()[1]) * os.sysconf("SC_PAGESIZE")
            except (FileNotFoundError, ProcessLookupError):
                pass
        return total

    def entries(self, tier="local", suffix=".neff"):
        found = []
        for base, _, names in os.walk(os.path.join(self.path(tier), "entries")):
            found += [os.path.join(base, n) for n in names if n.endswith(suffix)]
        return found

    def both(self, test):
        """Without a daemon, then with one and empty directories."""
        with self.subTest("no daemon"):
            test()
        self.reset()
        self.start_daemon()
        with self.subTest("daemon"):
            test()

    def reset(self):
        self.stop_daemon(signal.SIGKILL)
        for name in ("shared", "local"):
            shutil.rmtree(self.path(name), ignore_errors=True)
        for name in os.listdir(self.dir):
            if name.startswith(("cc.log", "neffcc.log")):
                os.unlink(self.path(name))
        self.act("ok")


class InItsPlace(Case):
    def test_other_commands_pass_through(self):
        real = lambda *a: subprocess.run([FAKE, *a], cwd=self.work, env=self.env, capture_output=True)
        for a in (["--version"], ["list-operators", "--framework", "XLA"], ["bogus", "--x"], ["compile"], [], ["--help"], ["compile", "--help"]):
            p = subprocess.run(["neuronx-cc", *a], cwd=self.work, env=self.env, capture_output=True)
            r = real(*a)
            self.assertEqual((p.returncode, p.stdout, p.stderr), (r.returncode, r.stdout, r.stderr), a)
        self.assertEqual(self.last()["via"], "exec")

    def test_a_hit_is_a_hit(self):
        def test():
            first = self.ok(out="a.neff")
            self.assertIn("Compiler status PASS", first.out)
            second = self.ok(out="b.neff")
            self.assertIn("Compiler status PASS", second.out)
            self.assertEqual(self.neff("a.neff"), self.neff("b.neff"))
            self.assertEqual(self.compiles, 1)
            self.assertEqual([c["outcome"] for c in self.calls()], ["compiled", "hit_local"])
            self.assertRegex(self.last()["canonical_key"], "^[0-9a-f]{64}$")
            self.assertTrue(os.path.exists(os.path.join(self.work, "log-neuron-cc.txt")))
        self.both(test)

    def test_a_renamed_twin_hits(self):
        def test():
            self.write("t.mlir", graph(name="other"))
            self.ok()
            self.ok("t.mlir")
            self.assertEqual(self.compiles, 1)
        self.both(test)

    def test_hlo_protobuf_and_bytecode_are_served(self):
        def test():
            subprocess.run([NEFFOPT, "m.mlir", "--to-hlo-proto", "-o", "m.hlo.pb"], cwd=self.work, check=True)
            subprocess.run([NEFFOPT, "m.mlir", "--to-bytecode", "-o", "m.mlir.bc"], cwd=self.work, check=True)
            for name in ("m.hlo.pb", "m.mlir.bc"):
                before = self.compiles
                self.ok(name, more=[f"--x={name}"])
                self.ok(name, more=[f"--x={name}"])
                self.assertEqual(self.compiles, before + 1, name)
            self.assertEqual(self.events()[0]["argv"][2].rsplit("/", 1)[1], "module.hlo.pb")
            self.ok("m.mlir", more=["--x=m.mlir.bc"])         # bytecode and text of one program are one program
            self.assertEqual(self.compiles, 2)
        self.both(test)

    def test_what_one_made_the_other_finds(self):
        self.ok()
        self.start_daemon()
        self.ok()
        self.ok(more=["-O1"])
        self.stop_daemon()
        self.ok(more=["-O1"])
        self.assertEqual(self.compiles, 2)
        self.assertEqual([c["outcome"] for c in self.calls()], ["compiled", "hit_local", "compiled", "hit_local"])
        self.assertEqual([self.calls()[i]["via"] for i in (0, 2, 3)], ["cache", "daemon", "cache"])

    def test_the_default_output_is_file_neff(self):
        subprocess.run(["neuronx-cc", "compile", "m.mlir", "--framework=XLA", "--target=trn1"], cwd=self.work, env=self.env, check=True, capture_output=True)
        self.neff("file.neff")

    def test_a_compile_error_has_the_compilers_code_and_words(self):
        def test():
            self.act("fail:70")
            for remembered in (False, True):
                p = self.cc()
                self.assertEqual(p.returncode, 70)
                self.assertIn("NCC_EVRF001", p.err)
                self.assertIn("hint:", p.err)
                self.assertFalse(os.path.exists(os.path.join(self.work, "o.neff")))
                self.assertEqual(self.last()["outcome"], "failure_from_cache" if remembered else "failed")
            self.assertEqual(self.compiles, 1)
        self.both(test)

    def test_who_waits_sees_that_something_happens(self):
        """Dots, as the compiler prints them, and the compiler's lines in the log file, for the one that compiles and the one that waits."""
        def test():
            self.act("slow:3.5")
            p = self.start(self.args())
            self.wait_for(lambda: self.compiles == 1)
            other = self.start(self.args(out="b.neff"))
            for q in (p, other):
                out, err = q.communicate(timeout=60 * SLOW)
                self.assertEqual(q.returncode, 0, err)
                self.assertRegex(out.decode(), r"^\.{3,}\nCompiler status PASS\n$")
            self.assertEqual(self.compiles, 1)
        self.both(test)

    def test_cache_only_never_compiles(self):
        def test():
            p = self.cc(NEFFD_CACHE_ONLY="1")
            self.assertEqual(p.returncode, 3, p.err)
            self.assertEqual(self.compiles, 0)
            self.ok()
            self.ok(NEFFD_CACHE_ONLY="1")
            self.assertEqual(self.compiles, 1)
        self.both(test)

    def test_cache_only_holds_for_what_is_not_understood(self):
        """What would go to the real compiler as it came is a compile too; what is none goes there still."""
        self.write("empty.mlir", "")
        self.write("junk.mlir", "module { this is no program }")
        calls = [self.args("empty.mlir"), self.args("junk.mlir"), self.args(more=["-q"]), self.args(more=["other.mlir"]), self.args("none.mlir"),
                 self.args(out="nowhere/o.neff"), ["neuronx-cc", "compile", "m.mlir", "--framework", "XLA", "--output", "o.neff"]]
        for args in calls:
            for more in ({}, {"TORCH_NEURONX_NEFF_LOCAL_CACHE_DIR": "/proc/none", "TORCH_NEURONX_NEFF_CACHE_DIR": "/proc/none"}, {"NEFFD_RETRIES": "many"}):
                p = self.start(args, NEFFD_CACHE_ONLY="1", **more)
                _, err = p.communicate(timeout=20 * SLOW)
                self.assertEqual(p.returncode, 3, (args, err))
                self.assertRegex(err.decode(), r"neffcc: cache_only: .+\nhint: ", args)
        self.assertEqual(self.compiles, 0)
        p = subprocess.run(["neuronx-cc", "--version"], env={**self.env, "NEFFD_CACHE_ONLY": "1"}, capture_output=True, timeout=20 * SLOW)
        self.assertEqual(p.returncode, 0, p.stderr)

    def test_cache_only_explains_a_miss(self):
        self.start_daemon()
        self.ok()
        p = self.cc(more=["-O1"], NEFFD_CACHE_ONLY="1")
        self.assertEqual(p.returncode, 3, p.err)
        self.assertRegex(p.err, r"neffcc: cache_only: this graph is not in the cache: nearest: .*option optlevel: 2 -> 1")

    def test_the_output_may_be_a_pipe(self):
        p = self.cc(out="/dev/stderr")
        self.assertEqual(p.returncode, 0)
        self.assertGreater(len(p.stderr), 1024)

    def test_a_wrapper_that_finds_us_again_is_not_led_in_circles(self):
        os.unlink(self.path("real/neuronx-cc"))
        with open(self.path("real/neuronx-cc"), "w") as f:
            f.write(f'#!/bin/sh\n[ "$1" = compile ] && [ -z "$AGAIN" ] && AGAIN=1 exec neuronx-cc "$@"\nexec {FAKE} "$@"\n')
        os.chmod(self.path("real/neuronx-cc"), 0o755)
        p = self.cc(timeout=20, TORCH_NEURONX_NEFF_LOCAL_CACHE_DIR="/proc/none", TMPDIR="/proc/none")
        self.assertEqual(p.returncode, 0, p.err)


class NeverBreaksABuild(Case):
    def test_a_wrong_setting_does_not_take_the_compiler_away(self):
        os.unlink(self.path("real/neuronx-cc"))
        p = self.cc(NEFFD_RETRIES="many", NEFFD_NEURONX_CC=FAKE)
        self.assertEqual(p.returncode, 0, p.err)
        self.assertIn("NEFFD_RETRIES", p.err)
        self.neff()

    def test_a_compiler_that_cannot_be_started_is_named(self):
        for name in ("/etc/passwd", self.work, "/proc/none/cc"):
            p = subprocess.run([NEFFCC, "--version"], env={**self.env, "NEFFD_NEURONX_CC": name}, capture_output=True, text=True, timeout=20 * SLOW)
            self.assertEqual(p.returncode, 127, p.stderr)
            self.assertRegex(p.stderr, f"^neffcc: the real compiler cannot be found: .*{name} cannot be executed.*\nhint: ")

    def test_no_usable_cache(self):
        """No directory can be written: the real compiler runs."""
        self.ok(TORCH_NEURONX_NEFF_LOCAL_CACHE_DIR="/proc/none", TORCH_NEURONX_NEFF_CACHE_DIR="/proc/none", TMPDIR="/proc/none")
        self.assertEqual(self.last()["via"], "exec")
        self.neff()

    def test_a_graph_that_cannot_be_read(self):
        self.write("m.mlir", "module { this is no program }")
        self.ok()
        self.assertEqual(self.last()["via"], "exec")

    def test_a_graph_that_comes_through_a_pipe(self):
        """It can be read once: by the real compiler."""
        os.unlink(self.path("real/neuronx-cc"))
        with open(self.path("real/neuronx-cc"), "w") as f:
            f.write('#!/bin/sh\n[ "$1" = compile ] && cat "$2" > seen\n')
        os.chmod(self.path("real/neuronx-cc"), 0o755)
        p = subprocess.run(self.args("/dev/stdin"), cwd=self.work, env=self.env, input=graph().encode(), capture_output=True, timeout=20 * SLOW)
        self.assertEqual(p.returncode, 0, p.stderr)
        with open(os.path.join(self.work, "seen")) as f:
            self.assertEqual(f.read(), graph())

    def test_flags_that_are_not_understood(self):
        self.ok(more=["-q"])
        self.assertEqual(self.last()["via"], "exec")

    def test_signals_reach_the_real_compiler(self):
        """Also with a log to write, when we stand before it: it gets the signal, and we end as it did. One that is ignored stays so."""
        os.unlink(self.path("real/neuronx-cc"))
        with open(self.path("real/neuronx-cc"), "w") as f:
            f.write('#!/bin/sh\ntrap "echo got it >seen; exit 9" TERM\ngrep SigIgn /proc/self/status >ignored\n: >ready\nwhile :; do sleep 0.05; done\n')
        os.chmod(self.path("real/neuronx-cc"), 0o755)
        for log in (self.path("neffcc.log"), ""):
            p = self.start(["neuronx-cc", "bogus"], NEFFCC_LOG=log)
            self.wait_for(lambda: os.path.exists(os.path.join(self.work, "ready")))
            p.send_signal(signal.SIGTERM)
            p.communicate(timeout=20 * SLOW)
            self.assertEqual(p.returncode, 9)
            with open(os.path.join(self.work, "ignored")) as f:          # SIGPIPE is not, though we ignore it
                self.assertEqual(int(f.read().split()[1], 16) >> (signal.SIGPIPE - 1) & 1, 0)
            for name in ("seen", "ready"):
                os.unlink(os.path.join(self.work, name))
        p = subprocess.Popen(["neuronx-cc", "bogus"], cwd=self.work, env=self.env, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        self.wait_for(lambda: os.path.exists(os.path.join(self.work, "ready")))
        p.send_signal(signal.SIGHUP)
        time.sleep(0.3)
        self.assertIsNone(p.poll())
        p.send_signal(signal.SIGTERM)
        self.assertEqual(p.wait(20 * SLOW), 9)

    def test_a_broken_configuration(self):
        p = self.cc(NEFFD_RETRIES="many")
        self.assertEqual(p.returncode, 0, p.err)
        self.assertIn("retries", p.err)

    def test_no_compiler_at_all(self):
        os.unlink(self.path("real/neuronx-cc"))
        p = self.cc()
        self.assertEqual(p.returncode, 127)
        self.assertIn("hint:", p.err)

    def test_a_compiler_that_does_not_start(self):
        os.unlink(self.path("real/neuronx-cc"))
        with open(self.path("real/neuronx-cc"), "w") as f:
            f.write("#!/nonexistent\n")
        os.chmod(self.path("real/neuronx-cc"), 0o755)
        self.assertEqual(self.cc().returncode, 126)

    def test_the_daemon_dies_midway(self):
        self.start_daemon()
        self.act("slow:3")
        p = self.start(self.args())
        self.wait_for(lambda: self.compiles == 1)
        self.act("ok")
        self.daemon.kill()
        out, err = p.communicate(timeout=60 * SLOW)
        self.assertEqual(p.returncode, 0, err)
        self.neff()
        self.assertEqual(self.last()["via"], "cache")

    def test_a_daemon_that_drains(self):
        self.start_daemon()
        self.act("slow:2")
        other = self.start(self.args(out="x.neff"))
        self.wait_for(lambda: self.compiles == 1)
        self.daemon.terminate()
        self.act("ok")
        self.write("n.mlir", graph(3))
        self.ok("n.mlir")
        other.communicate(timeout=60 * SLOW)
        self.assertEqual(other.returncode, 0)

    def test_a_local_directory_of_somebody_else(self):
        if os.geteuid() != 0:
            self.skipTest("needs root")
        self.ok()
        for d in (self.dir, self.work):
            os.chmod(d, 0o777)
        drop = lambda: (os.setgroups([]), os.setgid(65534), os.setuid(65534))
        for i in range(2):
            p = subprocess.run(self.args(out="n.neff"), cwd=self.work, env=self.env, capture_output=True, preexec_fn=drop)
            self.assertEqual(p.returncode, 0, p.stderr)
        self.assertLessEqual(self.compiles, 2)           # its second call hits, wherever it kept the first

    def test_a_daemon_of_somebody_else(self):
        """Another user's call is served: by call, or by itself where the daemon lets others read its entries."""
        if os.geteuid() != 0:
            self.skipTest("needs root")
        for d in (self.dir, self.work):
            os.chmod(d, 0o777)
        drop = lambda: (os.setgroups([]), os.setgid(65534), os.setuid(65534))
        for mode, via in (("0640", "daemon"), ("0644", "cache")):
            self.reset()
            for name in ("local", "shared"):
                os.mkdir(self.path(name))
                os.chmod(self.path(name), 0o755)
            self.start_daemon(NEFFD_CACHE_MODE=mode)
            open(self.path("neffcc.log"), "w").close()
            os.chmod(self.path("neffcc.log"), 0o666)
            for _ in range(2):
                p = subprocess.run(self.args(out="n.neff"), cwd=self.work, env=self.env, capture_output=True, preexec_fn=drop)
                self.assertEqual(p.returncode, 0, p.stderr)
                self.neff("n.neff")
            self.assertEqual([(c["outcome"], c["via"]) for c in self.calls()], [("compiled", "daemon"), ("hit_local", via)], mode)
            self.assertEqual(self.compiles, 1)

    def test_a_read_only_shared_tier(self):
        if os.geteuid() != 0:
            self.skipTest("needs root")
        self.ok()
        shutil.rmtree(self.path("local"))
        if subprocess.run(["mount", "--bind", self.path("shared"), self.path("shared")], capture_output=True).returncode != 0:
            self.skipTest("cannot mount")
        try:
            subprocess.run(["mount", "-o", "remount,ro,bind", self.path("shared")], check=True, capture_output=True)
            self.ok(out="b.neff")
            self.assertEqual(self.compiles, 1)
            self.assertEqual(self.last()["outcome"], "hit_shared")
            self.ok(more=["-O1"])
            self.ok(more=["-O1"])
            self.assertEqual(self.compiles, 2)
        finally:
            subprocess.run(["umount", self.path("shared")])

    def test_read_only_tiers(self):
        """Both on a mount that takes nothing, as in an image: hits are hits, and a miss is kept where this user may write."""
        if os.geteuid() != 0:
            self.skipTest("needs root")
        self.ok()
        tiers = [self.path(t) for t in ("local", "shared")]
        for t in tiers:
            if subprocess.run(["mount", "--bind", t, t], capture_output=True).returncode != 0:
                self.skipTest("cannot mount")
            self.addCleanup(subprocess.run, ["umount", t])
            subprocess.run(["mount", "-o", "remount,ro,bind", t], check=True, capture_output=True)
        self.ok(out="b.neff")
        self.assertEqual((self.last()["outcome"], self.compiles), ("hit_local", 1))
        self.ok(more=["-O1"])
        self.ok(more=["-O1"])
        self.assertEqual(self.compiles, 2)
        self.assertTrue(self.last()["outcome"].startswith("hit"), self.last())

    def test_a_full_disk(self):
        if os.geteuid() != 0:
            self.skipTest("needs root")
        for name in ("local", "shared"):
            os.mkdir(self.path(name))
            if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32k", "none", self.path(name)], capture_output=True).returncode != 0:
                self.skipTest("cannot mount")
            self.addCleanup(subprocess.run, ["umount", self.path(name)])
        self.write("m.mlir", graph(200))
        self.ok()
        self.neff()
        self.assertEqual(self.compiles, 1)


class Outputs(Case):
    """Where the artifact goes, and what stands in its way: what the compiler itself could write must be written."""

    def test_streams_that_are_closed(self):
        """What is printed must not end in the files that are opened next."""
        def test():
            for i, closed in enumerate(((0,), (1,), (2,), (0, 1), (1, 2), (0, 1, 2))):
                script = "exec " + " ".join(f"{n}>&-" for n in closed) + '; exec "$@"'
                args = ["sh", "-c", script, "sh", *self.args(out=f"c{i}.neff", more=[f"--x={i}"])]
                self.act("slow:1")
                p = subprocess.Popen(args, cwd=self.work, env=self.env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                self.wait_for(lambda: self.compiles == i + 1)
                for fd in range(3):
                    self.assertEqual(os.readlink(f"/proc/{p.pid}/fd/{fd}"), "/dev/null", f"{fd} of those without {closed}")
                self.assertEqual(p.wait(60 * SLOW), 0, closed)
                self.neff(f"c{i}.neff")
                self.assertEqual(subprocess.run(args, cwd=self.work, env=self.env, stdout=subprocess.DEVNULL, timeout=60 * SLOW).returncode, 0)
                self.neff(f"c{i}.neff")
            self.assertEqual(self.compiles, 6)
        self.both(test)

    def test_paths_of_any_kind(self):
        odd = os.fsdecode(b" a\nb'\"\xff ")
        os.mkdir(os.path.join(self.work, odd))
        shutil.copy(self.path("w/m.mlir"), os.path.join(self.work, odd, odd + ".mlir"))
        self.ok(f"{odd}/{odd}.mlir", out=f"./{odd}/../{odd}/o.neff")
        self.neff(f"{odd}/o.neff")
        self.ok(f"../w/{odd}/{odd}.mlir", out=f"{odd}/" + "n" * 255)
        self.neff(f"{odd}/" + "n" * 255)
        self.assertEqual([c["outcome"] for c in self.calls()], ["compiled", "hit_local"])

    def test_an_output_that_is_a_link(self):
        os.symlink("there.neff", os.path.join(self.work, "o.neff"))
        for _ in range(2):                             # it leads nowhere, then to a file
            self.ok()
            self.assertTrue(os.path.islink(os.path.join(self.work, "o.neff")))
            self.neff("there.neff")
            with open(os.path.join(self.work, "there.neff"), "w") as f:
                f.write("old")

    def test_a_folder_that_takes_no_new_file(self):
        if os.geteuid() != 0:
            self.skipTest("needs root")
        os.chmod(self.dir, 0o777)
        os.mkdir(os.path.join(self.work, "ro"))
        out = self.write("ro/o.neff", "old")
        os.chmod(out, 0o666)
        os.chmod(os.path.dirname(out), 0o555)
        for i in range(2):
            p = subprocess.run(self.args(out="ro/o.neff"), cwd=self.work, env=self.env, capture_output=True,
                               preexec_fn=lambda: (os.setgroups([]), os.setgid(65534), os.setuid(65534)))
            self.assertEqual(p.returncode, 0, p.stderr)
            self.neff("ro/o.neff")
        self.assertEqual(self.compiles, 1)

    def test_what_cannot_be_written_is_said_before_the_compile(self):
        os.mkdir(os.path.join(self.work, "folder"))
        for out in ("none/o.neff", "folder", ""):
            p = self.cc(out=out)
            real = subprocess.run([FAKE, *self.args(out=out)[1:]], cwd=self.work, env=self.env, capture_output=True)
            self.assertEqual((p.returncode, p.stderr), (real.returncode, real.stderr))
            self.assertEqual(self.last()["via"], "exec")
        self.assertEqual(self.compiles, 6)

    def test_a_full_disk_where_the_output_goes(self):
        if os.geteuid() != 0:
            self.skipTest("needs root")
        os.mkdir(os.path.join(self.work, "tiny"))
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4k", "none", os.path.join(self.work, "tiny")], capture_output=True).returncode != 0:
            self.skipTest("cannot mount")
        self.addCleanup(subprocess.run, ["umount", os.path.join(self.work, "tiny")])

        def test():
            for _ in range(2):                         # a miss, then a hit
                p = self.cc(out="tiny/o.neff")
                self.assertEqual(p.returncode, 70, p.err)
                self.assertIn("tiny/o.neff", p.err)
                self.assertEqual(os.listdir(os.path.join(self.work, "tiny")), [])
            self.ok()
            self.assertEqual(self.compiles, 1)
        self.both(test)

    def test_one_output_of_many(self):
        """Several write one path: at each moment there is nothing or a whole one, and nothing is left beside it."""
        self.ok(out="first.neff")
        all_ = [self.start(["sh", "-c", 'for i in 1 2 3 4 5 6; do "$@" || exit 1; done', "sh", *self.args()]) for _ in range(6)]
        path = os.path.join(self.work, "o.neff")
        while any(p.poll() is None for p in all_):
            if os.path.exists(path):
                self.neff()
        for p in all_:
            out, err = p.communicate()
            self.assertEqual(p.returncode, 0, err)
        self.assertEqual(sorted(f for f in os.listdir(self.work) if "neff" in f and not f.endswith(".txt")), ["first.neff", "o.neff"])


class Locks(Case):
    """Reported under L."""

    def test_existence_lock_without_liveness(self):
        """A killed holder leaves its file; the next must start at once."""
        self.act("slow:30")
        first = self.start(self.args())
        self.wait_for(lambda: self.compiles == 1)
        second = self.start(self.args(out="b.neff"))
        time.sleep(0.3)
        self.act("ok")
        first.kill()
        t = time.time()
        second.communicate(timeout=60 * SLOW)
        self.assertEqual(second.returncode, 0)
        self.assertLess(time.time() - t, 2 * SLOW)
        self.assertEqual(self.compiles, 2)
        first.communicate()

    def test_stale_lock_files_without_holder(self):
        self.ok()
        key = self.last()["canonical_key"]
        shutil.rmtree(self.path("local/entries"))
        shutil.rmtree(self.path("shared/entries"))
        with open(self.path(f"local/locks/{key}"), "w") as f:
            f.write("epoch 3\npid 999999\nsince_us 1\nhost gone\nwhat neffcc\n")
        t = time.time()
        self.ok()
        self.assertLess(time.time() - t, 3 * SLOW)

    def test_lock_survives_a_killed_process_group(self):
        """Holder and compiler die together, as under a cgroup's OOM kill; the key compiles again."""
        self.act("slow:30")
        p = subprocess.Popen(self.args(), cwd=self.work, env=self.env, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.wait_for(lambda: self.compiles == 1)
        os.kill(self.events()[0]["pid"], signal.SIGKILL)
        os.killpg(p.pid, signal.SIGKILL)
        p.wait()
        self.act("ok")
        self.ok()

    def test_lock_taken_for_hits(self):
        self.ok()
        key = self.last()["canonical_key"]
        with open(self.path(f"local/locks/{key}"), "a") as f:
            import fcntl
            fcntl.flock(f, fcntl.LOCK_EX)
            self.ok(timeout=10)
        self.assertEqual(self.last()["outcome"], "hit_local")

    def test_time_out_breaks_a_live_lock(self):
        self.act("slow:5")
        first = self.start(self.args())
        self.wait_for(lambda: self.compiles == 1)
        waiters = [self.start(self.args(out=f"w{i}.neff"), TORCH_NEURONX_NEFF_CACHE_LOCK_TIMEOUT="1") for i in range(8)]
        for w in waiters:
            out, err = w.communicate(timeout=60 * SLOW)
            self.assertNotEqual(w.returncode, 0)
            self.assertIn(b"is held by pid", err)
        self.assertEqual(self.compiles, 1)
        first.communicate(timeout=60 * SLOW)
        self.assertEqual(first.returncode, 0)
        self.assertEqual(self.compiles, 1)

    def test_coarse_lock(self):
        """Different keys compile side by side."""
        for i in range(2):
            self.write(f"g{i}.mlir", graph(i + 2))
        self.act("slow:2")
        both = [self.start(self.args(f"g{i}.mlir", out=f"g{i}.neff")) for i in range(2)]
        for p in both:
            p.communicate(timeout=60 * SLOW)
            self.assertEqual(p.returncode, 0)
        starts, ends = (sorted(e["time_ns"] for e in self.events(k)) for k in ("start", "end"))
        self.assertLess(starts[1], ends[0])

    def test_skewed_completion(self):
        """All who wait have the answer within a second of each other."""
        self.act("slow:2")
        times = []

        def run(i):
            p = self.start(self.args(out=f"s{i}.neff"))
            p.communicate(timeout=120 * SLOW)
            times.append((time.time(), p.returncode))
        threads = [threading.Thread(target=run, args=(i,)) for i in range(16)]
        [t.start() for t in threads]
        [t.join() for t in threads]
        self.assertEqual({rc for _, rc in times}, {0})
        self.assertLess(max(t for t, _ in times) - min(t for t, _ in times), 1 * SLOW)
        self.assertEqual(self.compiles, 1)


class Artifacts(Case):
    """Reported under C."""

    def test_readers_see_partial_files(self):
        self.act("slow:0.5")
        p = self.start(self.args())
        path = os.path.join(self.work, "o.neff")
        while p.poll() is None:
            if os.path.exists(path):
                self.neff()
        p.communicate()
        self.neff()

    def test_result_handed_off_after_success(self):
        def test():
            for i, a in enumerate(("late:400", "elsewhere", "rename")):
                self.act(a)
                self.ok(more=[f"--x={i}"], out=f"o{i}.neff")
                self.neff(f"o{i}.neff")
        self.both(test)

    def test_index_says_done_but_the_file_is_gone(self):
        def test():
            self.ok()
            for tier in ("local", "shared"):
                for f in self.entries(tier):
                    os.unlink(f)
            self.ok(out="b.neff")
            self.neff("b.neff")
            self.assertEqual(self.compiles, 2)
        self.both(test)

    def test_bad_output_accepted(self):
        def test():
            for a in ("none", "empty", "cut:1023", "cut:5000", "header", "badsize", "link"):
                self.act(a)
                p = self.cc(more=[f"--x={a}"])
                self.assertNotEqual(p.returncode, 0, a)
                self.assertFalse(os.path.exists(os.path.join(self.work, "o.neff")), a)
            self.assertEqual(self.entries(), [])
            self.assertEqual(self.entries("shared"), [])
        self.both(test)

    def test_damaged_entries_are_rebuilt(self):
        for damage in ("empty", "cut", "flip"):
            with self.subTest(damage):
                self.reset()
                self.ok()
                for tier in ("local", "shared"):
                    for f in self.entries(tier):
                        os.chmod(f, 0o644)
                        with open(f, "r+b") as e:
                            if damage == "flip":
                                e.seek(2000)
                                b = e.read(1)
                                e.seek(2000)
                                e.write(bytes([b[0] ^ 1]))
                            else:
                                e.truncate(0 if damage == "empty" else 3000)
                self.ok(out="b.neff")
                self.assertEqual(self.neff("b.neff"), self.neff())
                self.assertEqual(self.compiles, 2)

    def test_working_directories_are_private(self):
        self.act("cwdcheck,slow:0.5")
        all_ = [self.start(self.args(out=f"p{i}.neff", more=[f"--x={i}"])) for i in range(4)]
        for p in all_:
            out, err = p.communicate(timeout=60 * SLOW)
            self.assertEqual(p.returncode, 0, err)
        self.assertEqual(len({e["cwd"] for e in self.events()}), 4)
        self.assertFalse(any(os.path.exists(e["cwd"]) for e in self.events()))

    def test_one_winner_of_outputs_that_differ(self):
        """Compilers are not deterministic: whoever asks for one key gets one winner's bytes, with and without the host's lock."""
        self.act("unique,slow:0.3")
        some = [self.start(self.args(out=f"u{i}.neff"), TORCH_NEURONX_NEFF_LOCAL_CACHE_DIR=self.path(f"local{i % 2}")) for i in range(6)]
        for p in some:
            p.communicate(timeout=60 * SLOW)
            self.assertEqual(p.returncode, 0)
        self.assertEqual(len({self.neff(f"u{i}.neff") for i in range(6)}), 1)
        self.assertLessEqual(self.compiles, 2)


class Failures(Case):
    """Reported under F."""

    def test_negative_cache_without_cause(self):
        """Killed, out of memory, interrupted, disk full: never remembered."""
        def test():
            for i, a in enumerate(("killed", "f137", "pool", "sig:TERM", "diskfull", "code:NCC_EVRF065", "exit:70")):
                self.act(a)
                p = self.cc(more=[f"--x={i}"], NEFFD_RETRIES="0")
                self.assertNotEqual(p.returncode, 0, a)
                self.act("ok")
                self.ok(more=[f"--x={i}"])
        with self.subTest("no daemon"):
            test()
        self.reset()
        self.start_daemon(NEFFD_RETRIES="0")
        with self.subTest("daemon"):
            test()

    def test_the_wrappers_flags_are_ours_too(self):
        """--retry_failed_compilation and --no_cache in NEURON_CC_FLAGS never reach the compiler; they are meant for the cache."""
        def test():
            self.act("fail")
            self.assertEqual(self.cc().returncode, 70)
            self.act("ok")
            self.assertEqual(self.cc().returncode, 70)
            self.ok(NEURON_CC_FLAGS="--model-type=generic --retry_failed_compilation")
            self.assertEqual(self.compiles, 2)
            self.ok(NEURON_CC_FLAGS="--no_cache")
            self.assertEqual(self.compiles, 3)
            self.ok()
            self.assertEqual(self.compiles, 3)
        self.both(test)

    def test_glued_flags_are_diagnosed(self):
        p = self.ok(NEURON_CC_FLAGS="--model-type=transformer--cache_dir=/x")
        self.assertIn("glued", p.err)
        self.assertIn("hint:", p.err)

    def test_interrupted_is_not_failed(self):
        """Whatever it is doing when a signal ends it: it dies of that signal as the compiler would, leaves nothing, and fails nobody."""
        def compiling(more):
            self.act("fork:60,slow:30")
            return self.start(self.args(more=more))

        def behind_the_lock(more):
            first = self.start(self.args(out="first.neff", more=more))
            self.wait_for(lambda: self.compiles == before + 1)
            others.append(first)
            p = self.start(self.args(more=more))
            time.sleep(0.5 * SLOW)
            return p

        def behind_the_slot(more):
            others.append(self.start(self.args(out="first.neff", more=[*more, "--other"]), NEFFD_COMPILE_SLOTS="1"))
            self.wait_for(lambda: self.compiles == before + 1)
            p = self.start(self.args(more=more), NEFFD_COMPILE_SLOTS="1")
            time.sleep(0.5 * SLOW)
            return p

        def between_two_tries(more):
            self.act("exit:70")
            p = self.start(self.args(more=more), NEFFD_RETRY_BACKOFF="60")
            self.wait_for(lambda: self.compiles == before + 1 and len(self.events("end")) == ended + 1)
            time.sleep(0.3 * SLOW)
            return p

        n = 0
        for phase in (compiling, behind_the_lock, behind_the_slot, between_two_tries):
            for sig in (signal.SIGINT, signal.SIGTERM):
                with self.subTest(f"{phase.__name__} {sig.name}"):
                    n += 1
                    self.act("slow:30")
                    before, ended, others = self.compiles, len(self.events("end")), []
                    p = phase([f"--x={n}"])
                    self.wait_for(lambda: self.compiles == before + 1)
                    p.send_signal(sig)
                    out, err = p.communicate(timeout=20 * SLOW)
                    self.assertEqual(p.returncode, -sig, err)
                    for other in others:
                        other.terminate()
                        other.communicate(timeout=20 * SLOW)
                    self.wait_for(lambda: not any(self.lives(e["pid"]) for e in self.events()) and not any(map(self.lives, self.left())))
                    left = os.listdir(self.path("local")) + os.listdir(self.work)
                    self.assertFalse([f for f in left if "neffcc-" in f or f.startswith("o.neff")], left)
                    self.act("ok")
                    self.ok(more=[f"--x={n}"])
                    os.unlink(os.path.join(self.work, "o.neff"))

    def test_what_a_killed_one_leaves_is_swept(self):
        self.act("slow:30")
        p = self.start(self.args())
        self.wait_for(lambda: self.compiles == 1)
        p.kill()
        p.communicate()
        left = [f for f in os.listdir(self.path("local")) if f.startswith("work-neffcc-")]
        self.assertEqual(len(left), 1)
        old = os.path.join(self.path("local"), left[0])
        os.utime(old, (1, 1))
        self.act("slow:1")
        p = self.start(self.args())
        self.wait_for(lambda: self.compiles == 2)
        self.assertFalse(os.path.exists(old))
        for f in os.listdir(self.path("local")):
            if f.startswith("work-neffcc-"):
                os.utime(os.path.join(self.path("local"), f), (1, 1))
        self.act("ok")
        self.ok(more=["--x"])                              # the one that is at work is not swept, old as it may look
        p.communicate(timeout=60 * SLOW)
        self.assertEqual(p.returncode, 0)

    def test_transient_failures_are_tried_again(self):
        def test():
            self.act("fail-then-ok:2")
            ranks = [self.start(self.args(out=f"r{i}.neff")) for i in range(64)]
            for p in ranks:
                out, err = p.communicate(timeout=120 * SLOW)
                self.assertEqual(p.returncode, 0, err)
            self.assertEqual(self.compiles, 3)
        self.both(test)

    def test_killed_compilers_are_tried_again(self):
        def test():
            self.act("kill-then-ok:1")
            self.ok()
            self.assertEqual(self.compiles, 2)
        self.both(test)

    def test_no_deadline(self):
        def test():
            self.act("escape,hang")
            p = self.cc(timeout=30)
            self.assertNotEqual(p.returncode, 0)
            for pid in self.left():
                self.assertFalse(self.lives(pid))
            self.act("ok")
            self.ok()
        self.env["NEFFD_COMPILE_TIMEOUT"] = "1"
        self.both(test)

    def overlaps(self, which=lambda e: True):
        """How many compiles ran at once, at most, of those that `which` takes."""
        ends = {e["pid"]: e["time_ns"] for e in self.events("end")}
        spans = [(e["time_ns"], ends.get(e["pid"], e["time_ns"])) for e in self.events() if which(e)]
        return max((sum(b <= begin < end for b, end in spans) for begin, _ in spans), default=0)

    def test_out_of_memory_runs_alone(self):
        """Four at once get killed; each alone passes. All succeed."""
        self.act("f137")

        def mend():
            self.wait_for(lambda: self.compiles >= 4)
            self.act("slow:0.4")
        t = threading.Thread(target=mend)
        t.start()
        all_ = [self.start(self.args(out=f"m{i}.neff", more=[f"--x={i}"]), NEFFD_RETRIES="6", NEFFD_RETRY_BACKOFF="1") for i in range(4)]
        for p in all_:
            out, err = p.communicate(timeout=120 * SLOW)
            self.assertEqual(p.returncode, 0, err)
        t.join()
        self.assertEqual(self.overlaps(lambda e: "slow" in e["actions"]), 1)

    def test_no_admission_by_memory(self):
        """What a compile of this size took once is kept free for the next: two of 300 MiB do not fit into 500 MiB, two of 100 do."""
        for mb, at_once in ((300, 1), (100, 4)):
            self.reset()
            self.env["NEFFD_MEMORY_LIMIT"] = "500M"
            self.act(f"alloc:{mb}:1")
            self.ok(more=["--first"])
            all_ = [self.start(self.args(out=f"a{i}.neff", more=[f"--x={i}"])) for i in range(4)]
            peak = 0
            while any(p.poll() is None for p in all_):
                peak = max(peak, self.rss_of_compilers())
                time.sleep(0.02)
            for p in all_:
                out, err = p.communicate()
                self.assertEqual(p.returncode, 0, err)
            self.assertLess(peak, 500 << 20)
            self.assertGreater(peak, mb << 19)
            self.assertEqual(self.compiles, 5)
            if at_once == 1:
                self.assertEqual(self.overlaps(), 1)
            else:
                self.assertGreater(self.overlaps(), 1)

    def cgroup(self, limit):
        """A cgroup of our own with a memory limit, v1 or v2; a process enters it by writing to the file that is returned."""
        with open("/proc/self/cgroup") as f:
            places = dict((line.split(":")[1], line.strip().split(":", 2)[2]) for line in f)
        for controller, mount, name, procs in (("memory", "/sys/fs/cgroup/memory", "memory.limit_in_bytes", "tasks"), ("", "/sys/fs/cgroup", "memory.max", "cgroup.procs")):
            if controller not in places:
                continue
            path = f"{mount}{places[controller]}/neffcc-test-{os.getpid()}"
            try:
                os.mkdir(path)
                self.addCleanup(os.rmdir, path)
                with open(f"{path}/{name}", "w") as f:
                    f.write(str(limit))
                return f"{path}/{procs}"
            except OSError:
                continue
        self.skipTest("no cgroup can be made")

    def test_killed_by_the_kernel_for_memory(self):
        """Four compiles of 150 MiB in a cgroup of 320: some are killed, and run again when nothing else does."""
        tasks = self.cgroup(320 << 20)
        enter = ["sh", "-c", f'echo $$ > {tasks} && exec "$@"', "sh"]
        self.act("alloc:150:1")
        all_ = [self.start([*enter, *self.args(out=f"k{i}.neff", more=[f"--x={i}"])]) for i in range(4)]
        for p in all_:
            out, err = p.communicate(timeout=60 * SLOW)
            self.assertEqual(p.returncode, 0, err)
        self.assertGreater(self.compiles, 4)
        # What never fits is told as what it is, in the end and at once, and is not remembered.
        self.act("alloc:400")
        before = self.compiles
        for retries in (1, 0):
            p = subprocess.run([*enter, *self.args(more=["--big"])], cwd=self.work, env={**self.env, "NEFFD_RETRIES": str(retries)}, capture_output=True, timeout=60 * SLOW)
            self.assertEqual(p.returncode, 137, p.stderr)
            self.assertIn(b"was killed for memory", p.stderr)
        self.assertEqual(self.compiles, before + 3)

    def test_memory_that_others_use_is_not_there(self):
        """The limit is the machine's, but what is free decides: a compile waits beside another one while too little is."""
        with open("/proc/meminfo") as f:
            available = next(int(line.split()[1]) << 10 for line in f if line.startswith("MemAvailable:"))
        self.env["NEFFD_MEMORY_LIMIT"] = str(available * 8)
        self.act("slow:2")
        first = self.start(self.args(out="first.neff", more=["--first"]))
        self.wait_for(lambda: self.compiles == 1)
        with open(self.path("local/estimates"), "w") as f:     # as if graphs of this size took more than there is
            f.write(f"neffd-estimates 1\ntrn2 2 1000 {available * 2}\ntrn2 1 1000 {available * 2}\ntrn2 0 1000 {available * 2}\n")
        second = self.start(self.args(out="second.neff", more=["--second"]))
        for p in (first, second):
            out, err = p.communicate(timeout=60 * SLOW)
            self.assertEqual(p.returncode, 0, err)
        self.assertEqual((self.compiles, self.overlaps()), (2, 1))

    def test_a_big_one_is_not_overtaken_for_ever(self):
        """Who needs all the memory is let in before those who came later and would fit."""
        self.env["NEFFD_MEMORY_LIMIT"] = "500M"
        self.act(f"slow:{2 * SLOW}")
        first = self.start(self.args(out="first.neff", more=["--first"]))
        self.wait_for(lambda: self.compiles == 1)
        self.write("big.mlir", graph(40))
        with open(self.path("local/estimates"), "w") as f:           # what a daemon learned about graphs of that size
            f.write("neffd-estimates 1\ntrn2 5 1000 600000000\n")
        self.act("slow:0.5")
        big = self.start(self.args("big.mlir", out="big.neff"))
        time.sleep(0.7 * SLOW)
        self.assertEqual(self.compiles, 1)
        small = [self.start(self.args(out=f"s{i}.neff", more=[f"--x={i}"])) for i in range(2)]
        for p in (first, big, *small):
            out, err = p.communicate(timeout=60 * SLOW)
            self.assertEqual(p.returncode, 0, err)
        order = [e["graph"] for e in self.events()]
        self.assertEqual(len(set(order)), 2)
        self.assertNotEqual(order[1], order[0])
        begin, end = self.events()[1], next(e for e in self.events("end") if e["pid"] == self.events()[1]["pid"])
        self.assertFalse([e for e in self.events()[2:] if e["time_ns"] < end["time_ns"]], begin)


class Keys(Case):
    """Reported under K."""

    def test_a_fetch_in_progress_is_no_miss(self):
        """Sixteen at once on a host whose local tier is empty, an artifact of 64 MiB in the shared one: nobody compiles while it comes."""
        def test():
            before = self.compiles
            self.act("unique,sparse:67108864")
            self.ok()
            shutil.rmtree(self.path("local/entries"))
            ranks = [self.start(self.args(out=f"k{i}.neff")) for i in range(16)]
            for p in ranks:
                out, err = p.communicate(timeout=60 * SLOW)
                self.assertEqual(p.returncode, 0, err)
            self.assertEqual(self.compiles - before, 1)
            for i in range(16):
                self.assertEqual(os.path.getsize(os.path.join(self.work, f"k{i}.neff")), os.path.getsize(os.path.join(self.work, "o.neff")))
        self.both(test)

    def test_a_key_costs_no_compile(self):
        """200 MB of constants: a lookup is answered in bounded time, and no compiler is started for it."""
        n = 25 << 20
        with open(os.path.join(self.work, "big.mlir"), "w") as f:
            f.write(f"module {{\n  func.func @main(%a: tensor<{n}xf32>) -> tensor<{n}xf32> {{\n    %c = stablehlo.constant dense<\"0x")
            for _ in range(n // (1 << 20)):
                f.write("0000803F" * (1 << 20))
            f.write(f"\"> : tensor<{n}xf32>\n    %0 = stablehlo.add %a, %c : tensor<{n}xf32>\n    return %0 : tensor<{n}xf32>\n  }}\n}}\n")
        self.assertGreater(os.path.getsize(os.path.join(self.work, "big.mlir")), 200 << 20)
        self.start_daemon()
        p = subprocess.run([NEFFCTL, "lookup", "big.mlir", "--target", "trn2", "--json"], cwd=self.work, env=self.env, capture_output=True, timeout=60 * SLOW)
        self.assertEqual(p.returncode, 3, p.stderr)
        self.assertEqual(self.compiles, 0)
        self.ok("big.mlir", timeout=60)
        self.ok("big.mlir", out="again.neff", timeout=60)
        self.assertEqual(self.compiles, 1)

    def hits(self, first, second):
        before = self.compiles
        first()
        second()
        return self.compiles == before + 1

    def test_the_environment_does_not_leak_in(self):
        other = self.path("elsewhere")
        os.mkdir(other)
        shutil.copy(self.path("w/m.mlir"), other)
        self.assertTrue(self.hits(lambda: self.ok(), lambda: self.ok(cwd=other, VIRTUAL_ENV="/x", HOME="/y", RANK="7", MASTER_ADDR="h", MASTER_PORT="9",
                                                                    PYTHONHASHSEED="3", USER="somebody")))

    def test_verbosity_and_log_files_do_not_count(self):
        self.assertTrue(self.hits(lambda: self.ok(), lambda: self.ok(more=["--verbose=debug", "--logfile", "x.txt"])))

    def test_flags_that_say_what_is_so_anyway(self):
        self.assertTrue(self.hits(lambda: self.ok(), lambda: self.ok(more=["-O2", "--model-type=generic", "--lnc=2", "--auto-cast-type", "bf16"])))

    def test_the_right_most_flag_wins(self):
        self.assertTrue(self.hits(lambda: self.ok(more=["-O1"]), lambda: self.ok(more=["-O3", "--optlevel=1"])))
        self.assertFalse(self.hits(lambda: self.ok(more=["-O3", "-O1", "--y"]), lambda: self.ok(more=["-O1", "-O3", "--y"])))

    def test_everything_declared_counts(self):
        variants = [dict(more=[]), dict(more=["-O1"]), dict(more=["-O3"]), dict(more=["--auto-cast=all"]), dict(more=["--auto-cast=matmult"]),
                    dict(more=["--model-type=transformer"]), dict(more=["--lnc=1"]), dict(more=["--enable-saturate-infinity"]),
                    dict(more=["--disable-mixed-precision-accumulation"]), dict(more=["--a=b"]), dict(more=["--a-b"]), dict(more=["--a", "b"]),
                    dict(more=["--x=1 2"]), dict(more=["--x=1_2"]), dict(more=["--x=1", "2.x"]), dict(target="trn1"), dict(target="inf2"),
                    dict(NEURON_FRAMEWORK_DEBUG="1"), dict(NKI_DEBUG_INFO="1"), dict(XLA_IR_DEBUG="1"), dict(XLA_HLO_DEBUG="1"),
                    dict(NEURON_USE_SPLIT_ALLGATHER="1"), dict(NEURON_USE_SPLIT_ALLGATHER="0"), dict(NEURON_USE_SPLIT_REDUCE_SCATTER="1"),
                    dict(NEURON_USE_NKI_ALLTOALLV="0"), dict(COLLECTIVE_BUCKETSIZE_IN_MB="256")]
        keys = set()
        for v in variants:
            self.ok(**v)
            keys.add(self.last()["canonical_key"])
        self.assertEqual(len(keys), len(variants))
        self.assertEqual(self.compiles, len(variants))

    def test_neffctl_asks_what_neffcc_asks(self):
        """The same graph, flags and variables by either tool are one compile."""
        self.start_daemon()
        ctl = lambda *a, **env: subprocess.run([NEFFCTL, "compile", "m.mlir", "--target", "trn2", "--json", *a], cwd=self.work, env={**self.env, **env}, check=True,
                                               capture_output=True)
        self.ok(more=["--model-type=transformer"])
        ctl("-O", "model-type=transformer")
        self.assertEqual(self.compiles, 1)
        ctl("-O", "model-type=transformer", NKI_DEBUG_INFO="1", COLLECTIVE_BUCKETSIZE_IN_MB="64")
        self.assertEqual(self.compiles, 2)
        self.ok(more=["--model-type=transformer"], NKI_DEBUG_INFO="1", COLLECTIVE_BUCKETSIZE_IN_MB="64")
        self.assertEqual(self.compiles, 2)

    def test_keys_are_the_same_in_every_process(self):
        for i in range(12):
            self.ok(more=["--x=1", "-O1"], TORCH_NEURONX_NEFF_LOCAL_CACHE_DIR=self.path(f"local{i}"), RANK=str(i))
        self.assertEqual(len({c["canonical_key"] for c in self.calls()}), 1)
        self.assertEqual(self.compiles, 1)

    def test_source_locations_do_not_count(self):
        self.write("l.mlir", graph(where=' loc("/home/a/model.py":3:4)'))
        self.write("k.mlir", graph(where=' loc("/root/b.py":30:1)'))
        self.assertTrue(self.hits(lambda: self.ok("l.mlir"), lambda: self.ok("k.mlir")))

    def test_the_compilers_version_counts(self):
        self.ok()
        os.unlink(self.path("real/neuronx-cc"))
        shutil.copy(FAKE, self.path("real/neuronx-cc"))
        self.ok(FAKE_NEURONX_CC_VERSION="2.22.1.0+new")
        self.assertEqual(self.compiles, 2)

    def test_the_version_is_asked_once_a_binary(self):
        for i in range(4):
            self.ok(more=[f"--x={i}"])
        with open(self.path("cc.log.version")) as f:
            self.assertEqual(len(f.readlines()), 1)

    def test_versions_that_are_told_in_odd_ways(self):
        """A warning before it, no hurry; and a compiler that does not say runs as if nobody stood before it."""
        def test(daemon):
            for mode, kept in (("warning", True), ("slow:2", True), ("fail", False), ("none", False)):
                self.reset()
                self.env["FAKE_NEURONX_CC_VERSION_MODE"] = mode
                if daemon:
                    self.start_daemon()
                for _ in range(2):
                    self.ok()
                self.assertEqual(self.compiles, 1 if kept else 2, mode)
                self.assertEqual(self.last()["via"], "cache" if kept else "exec", mode)
        for daemon in (False, True):
            with self.subTest("daemon" if daemon else "no daemon"):
                test(daemon)

    def test_kernels_count_by_content_not_by_path(self):
        def kernel_graph(path):
            return ('module @k {\n  func.func public @main(%a: tensor<4xf32>) -> tensor<4xf32> {\n    %0 = stablehlo.custom_call @AwsNeuronCustomNativeKernel(%a) '
                    f'{{backend_config = "{path}"}} : (tensor<4xf32>) -> tensor<4xf32>\n    return %0 : tensor<4xf32>\n  }}\n}}\n')
        for user in ("u1", "u2"):
            os.makedirs(self.path(f"{user}/k1"))
            with open(self.path(f"{user}/k1/a.bin"), "w") as f:
                f.write("kernel")
            self.write(f"{user}.mlir", kernel_graph(self.path(f"{user}/k1/a.bin")))
        self.act("needfile:k1/a.bin")
        self.assertTrue(self.hits(lambda: self.ok("u1.mlir"), lambda: self.ok("u2.mlir")))
        with open(self.path("u2/k1/a.bin"), "w") as f:
            f.write("edited")
        self.ok("u2.mlir")
        self.assertEqual(self.compiles, 2)

    def test_a_kernel_that_is_no_file(self):
        """A pipe, a device and a folder are no kernels: nobody waits for them."""
        os.mkfifo(self.path("w/fifo"))
        for path in (self.path("w/fifo"), "/dev/zero", "/dev/pts"):
            self.write("m.mlir", 'module { func.func public @main(%a: tensor<4xf32>) -> tensor<4xf32> { %0 = stablehlo.custom_call '
                       f'@AwsNeuronCustomNativeKernel(%a) {{backend_config = "{path}"}} : (tensor<4xf32>) -> tensor<4xf32> return %0 : tensor<4xf32> }} }}')
            p = self.cc(timeout=20)
            self.assertEqual(p.returncode, 70)
            self.assertIn(path, p.err)
        self.assertEqual(self.compiles, 0)

    def test_a_missing_kernel_is_an_early_error(self):
        self.write("m.mlir", 'module { func.func public @main(%a: tensor<4xf32>) -> tensor<4xf32> { %0 = stablehlo.custom_call '
                   '@AwsNeuronCustomNativeKernel(%a) {backend_config = "/tmp/gone/k1/a.bin"} : (tensor<4xf32>) -> tensor<4xf32> return %0 : tensor<4xf32> } }')
        p = self.cc()
        self.assertNotEqual(p.returncode, 0)
        self.assertIn("/tmp/gone/k1/a.bin", p.err)
        self.assertIn("hint:", p.err)
        self.assertEqual(self.compiles, 0)


class Processes(Case):
    """Reported under P."""

    def test_arguments_are_never_joined(self):
        dump = self.path("argv.json")
        self.act(f"argvdump:{dump}")
        more = ["--tensorizer-options=--a --b=2 ", "--q=\"x\" 'y' \\z", "--e=", "--u=\u00e9", "--m", "one", "two", "--r=1", "--r=2"]

        def test():
            self.ok(more=more)
            with open(dump) as f:
                argv = json.load(f)["argv"]
            tail = argv[argv.index("--framework=XLA") + 1:argv.index("--output")]
            self.assertEqual(tail, more)
        self.both(test)

    def test_pipes_do_not_dead_lock(self):
        def test():
            self.act("flood:4096,flood-out:4096,badutf8,longline")
            self.ok(timeout=60)
            with open(os.path.join(self.work, "log-neuron-cc.txt"), "rb") as f:
                log = f.read()
            log.decode()                                 # mended: it is UTF-8
            self.assertLess(len(log), 5 << 20)           # of 16 MiB and one line of 10
        self.both(test)

    def test_nothing_is_left_behind(self):
        def test():
            self.act("fork:60,escape:60")
            self.ok()
            pids = self.left()
            self.assertEqual(len(pids), 2)
            for pid in pids:
                self.assertFalse(self.lives(pid))
        self.both(test)

    def test_a_killed_neffcc_leaves_nothing(self):
        self.act("fork:60,escape:60,slow:60")
        p = self.start(self.args())
        self.wait_for(lambda: len(self.left()) == 2)
        pids = self.left() + [self.events()[0]["pid"]]
        p.kill()
        p.communicate()
        end = time.time() + 2 * SLOW
        for pid in pids:
            while self.lives(pid):
                self.assertLess(time.time(), end, f"process {pid} is left")
                time.sleep(0.02)

    def test_storm(self):
        """64 processes for one popular graph and 8 others. The compiler fails at first or is killed for memory, and one that holds a lock (with a
        daemon: one that asked) is shot. Each graph is compiled once besides what failed, the rest succeed, those who asked for one
        graph have one winner's bytes, and all compilers together stay below the limit."""
        limit, each = 200 << 20, 60

        def test():
            shapes = {"m.mlir": 4, **{f"g{i}.mlir": 10 + i for i in range(8)}}
            for name, n in shapes.items():
                self.write(name, graph(3).replace("4xf32", f"{n}xf32"))
            self.write("first.mlir", graph(3).replace("4xf32", "99xf32"))
            rules = f"tensor<99xf32> => alloc:{each}:0.1\n" + "".join(f"tensor<{n}xf32> => unique,{'kill' if n % 3 == 0 else 'fail'}-then-ok:1,alloc:{each}:0.4\n" for n in shapes.values())
            self.act("ok", rules)
            self.ok("first.mlir")                        # what such a compile takes is known from here on
            self.act("ok", "tensor<4xf32> => unique,slow:4\n" + rules)
            procs = [(0, "m.mlir", self.start(self.args(out="st0.neff")))]
            self.wait_for(lambda: self.compiles == 2)
            self.act("ok", rules)
            peak, over, victim = [0], threading.Event(), procs[0][2].pid

            def watch():
                while not over.wait(0.01):
                    peak[0] = max(peak[0], self.rss_of_compilers())
            watcher = threading.Thread(target=watch)
            watcher.start()
            self.addCleanup(over.set)
            for i in range(1, 64):
                file = f"g{i // 2 % 8}.mlir" if i % 2 else "m.mlir"
                procs.append((i, file, self.start(self.args(file, out=f"st{i}.neff"))))
                if i == 8:
                    os.kill(victim, signal.SIGKILL)
            for _, _, p in procs:
                p.wait(300 * SLOW)
            over.set()
            watcher.join()
            bytes_of = {}
            for i, file, p in procs:
                out, err = p.communicate()
                if p.pid != victim:
                    self.assertEqual(p.returncode, 0, err)
                    bytes_of.setdefault(file, set()).add(self.neff(f"st{i}.neff"))
            self.assertEqual({f: len(b) for f, b in bytes_of.items()}, {f: 1 for f in shapes})
            self.assertEqual(len(set.union(*bytes_of.values())), len(shapes))
            starts, good = {}, {}
            ended = {e["pid"]: e["actions"] for e in self.events("end")}
            for e in self.events():
                starts[e["graph"]] = starts.get(e["graph"], 0) + 1
                good[e["graph"]] = good.get(e["graph"], 0) + (ended.get(e["pid"]) == "exit 0")
            self.assertEqual(len(good), len(shapes) + 1)
            self.assertEqual(set(good.values()), {1})
            self.assertLessEqual(sum(starts.values()), 1 + 2 * len(shapes) + 1)
            self.assertLess(peak[0], limit)
            self.assertGreater(peak[0], each << 20)
        self.env["NEFFD_MEMORY_LIMIT"] = str(limit)
        self.both(test)


if __name__ == "__main__":
    unittest.main()
