#!/usr/bin/python3
# tests/run: serial timeout=400
"""Disks that are full, read-only, gone or hung, damaged entries, a damaged index: the artifact is delivered where it can be, and the
daemon lives."""
import os
import random
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from lib import Daemon, Place, SLOW, Skip, build_dir, done, expect, failed, main, module, payload, until

T = {"target": "trn2"}


class Tmpfs:
    """A small file system of its own."""

    def __init__(self, size):
        if os.geteuid() != 0:
            raise Skip("needs root to mount a tmpfs")
        self.path = tempfile.mkdtemp(prefix="neffd-tmpfs-")
        out = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=0755", "tmpfs", self.path], capture_output=True, text=True)
        if out.returncode:
            os.rmdir(self.path)
            raise Skip(f"cannot mount a tmpfs: {out.stderr.strip()}")

    def fill(self):
        fd = os.open(f"{self.path}/ballast", os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            while True:
                os.write(fd, b"x" * 4096)
        except OSError:
            pass
        os.close(fd)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        subprocess.run(["umount", "-l", self.path], check=False)
        os.rmdir(self.path)


class FaultFs:
    """A mount that misbehaves on command."""

    def __init__(self):
        program = build_dir() / "tests/tools/faultfs"
        if not program.exists():
            raise Skip(f"{program} is not built")
        if not os.path.exists("/dev/fuse") or os.geteuid() != 0:
            raise Skip("needs /dev/fuse and root")
        self.dir = Path(tempfile.mkdtemp(prefix="neffd-fuse-"))
        self.path, self.control = self.dir / "mount", self.dir / "control"
        for d in ("backing", "mount"):
            (self.dir / d).mkdir()
        self.say("")
        self.proc = subprocess.Popen([program, self.dir / "backing", self.path, self.control, "-f"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until(lambda: os.path.ismount(self.path), 10, "the mount")

    def say(self, word):
        self.control.write_text(word)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.say("")
        subprocess.run(["umount", "-l", self.path], check=False)
        self.proc.terminate()
        self.proc.wait(10)
        shutil.rmtree(self.dir, ignore_errors=True)


def full_shared_tier():
    with Tmpfs("4M") as disk, Place(shared=f"{disk.path}/cache") as p:
        c = p.client()
        first = done(c.compile(module(1), **T)[0])
        disk.fill()
        last, events = c.compile(module(2), **T)
        expect(payload(done(last)["artifact"]), "nothing")
        lines = [e["log"]["line"] for e in events if e["log"] is not None and e["log"]["source"] == "cache"]
        expect(any("shared tier" in x and disk.path in x for x in lines), "nobody says what is wrong with which path", lines)
        expect(done(c.compile(module(2), **T)[0])["outcome"] == "OUTCOME_HIT_LOCAL", "not in the local tier")
        expect(done(c.compile(module(1), **T)[0])["artifact"]["sha256"] == first["artifact"]["sha256"], "the old one is lost")
        os.unlink(f"{disk.path}/ballast")
        done(c.compile(module(3), **T)[0])
        until(lambda: [e for e in c.entries() if e["name"] == ""] is not None, 1)


def full_local_tier():
    with Tmpfs("6M") as disk, Place(local=f"{disk.path}/local") as p:
        c = p.client()
        done(c.compile(module(1), **T)[0])
        disk.fill()
        d = done(c.compile(module(2), **T)[0])
        expect(len(payload(d["artifact"])) == d["artifact"]["size"], "nothing")
        d = done(c.compile(module(2), **T)[0])
        expect(d["artifact"]["size"] > 0, "lost")
        os.unlink(f"{disk.path}/ballast")
        done(c.compile(module(3), **T)[0])
        expect(done(c.compile(module(3), **T)[0])["outcome"] == "OUTCOME_HIT_LOCAL", "the local tier does not come back")


def both_tiers_full():
    with Tmpfs("6M") as a, Tmpfs("4M") as b, Place(local=f"{a.path}/local", shared=f"{b.path}/cache") as p:
        c = p.client()
        done(c.compile(module(1), **T)[0])
        a.fill()
        b.fill()
        d = done(c.compile(module(2), **T)[0])
        expect(len(payload(d["artifact"])) == d["artifact"]["size"], "nothing")
        expect(b"".join(x["data"] for x in c.fetch(sha256=d["artifact"]["sha256"])) == payload(d["artifact"]), "fetch")


def hung_mount():
    with FaultFs() as fs, Place(shared=fs.path, args=["--mount-timeout", "1"]) as p:
        c = p.client()
        d = done(c.compile(module(1), **T)[0])
        times = []
        fs.say("hang")
        for _ in range(20):
            began = time.time()
            expect(c.lookup(front_key=d["front_key"])["outcome"] == "OUTCOME_HIT_LOCAL", "no hit")
            times.append(time.time() - began)
        expect(sorted(times)[10] < 0.010 * SLOW, "a local hit took", sorted(times)[10])
        began = time.time()
        last, events = c.compile(module(2), timeout=60, **T)
        expect(payload(done(last)["artifact"]), "nothing")
        expect(time.time() - began < 15 * SLOW, "took", time.time() - began)
        expect(c.status()["cache"]["trouble"], "status says nothing", c.status()["cache"])
        began = time.time()
        expect(c.lookup(canonical_key=b"\x05" * 32)["outcome"] == "OUTCOME_MISS" and time.time() - began < 3 * SLOW, "a miss waits for the mount")
        for _ in range(5):
            expect(done(c.compile(module(1), front_key=d["front_key"], **T)[0])["outcome"] == "OUTCOME_HIT_LOCAL", "no hit")
        fs.say("")
        until(lambda: not c.status()["cache"]["trouble"], 20, "the end of the trouble")
        done(c.compile(module(3), **T)[0])


def failing_mount():
    with FaultFs() as fs, Place(shared=fs.path) as p:
        c = p.client()
        done(c.compile(module(1), **T)[0])
        for number, word in enumerate(("eio", "enospc", "erofs", "estale", "short-read", "lost-link"), 2):
            fs.say(word)
            d = done(c.compile(module(number), timeout=60, **T)[0])
            expect(len(payload(d["artifact"])) == d["artifact"]["size"], word)
            expect(done(c.compile(module(number), **T)[0])["outcome"].startswith("OUTCOME_HIT"), word, "no hit")
        fs.say("")
        expect(p.daemon.proc.poll() is None, "gone")


def damaged_entries():
    rng = random.Random(5)
    with Place() as p:
        c = p.client()
        for number, damage in enumerate(("empty", "cut", "flip", "both")):
            d = done(c.compile(module(number), **T)[0])
            files = [f for t in (p.daemon.local, p.daemon.shared) for f in Path(t, "entries").rglob(f"{d['canonical_key'].hex()}.neff")]
            expect(len(files) == 2, files)
            for f in files if damage == "both" else files[:1]:
                os.chmod(f, 0o640)
                data = bytearray(f.read_bytes())
                if damage == "empty":
                    data = b""
                elif damage == "cut":
                    data = data[: len(data) // 2]
                else:
                    at = rng.randrange(min(d["artifact"]["size"], len(data) // 3))   # on the mount it is packed
                    data[at] ^= 1 << rng.randrange(8)
                f.write_bytes(data)
            again = done(c.compile(module(number), timeout=60, **T)[0])
            expect(payload(again["artifact"]) and again["artifact"]["sha256"] == d["artifact"]["sha256"], damage, again)
        expect(c.counters()["quarantined"] >= 4, "quarantined", c.counters())
        expect(len(p.fake.starts()) == 5, "only what both tiers had lost is compiled again", len(p.fake.starts()))
        last = c.verify()[-1]
        expect(last["bad"] == 0, last)


def damaged_index():
    for damage in ("delete", "garbage"):
        with Place() as p:
            d = done(p.client().compile(module(1), name="one", **T)[0])
            p.daemon.stop()
            for f in Path(p.daemon.local).glob("index.sqlite*"):
                if damage == "delete":
                    f.unlink()
                elif f.name == "index.sqlite":
                    f.write_bytes(os.urandom(5000))
            p.daemon.start()
            c = p.client()
            expect(done(c.compile(module(1), **T)[0])["outcome"] == "OUTCOME_HIT_LOCAL", damage)
            expect(c.lookup(canonical_key=d["canonical_key"])["outcome"] == "OUTCOME_HIT_LOCAL", damage)
            rows = until(lambda: c.entries(), 5, "the index")
            expect(len(rows) == 1 and rows[0]["name"] == "one", rows)


def local_directory_goes_away():
    with Place() as p:
        c = p.client()
        done(c.compile(module(1), **T)[0])
        os.rename(p.daemon.local, f"{p.daemon.local}.away")
        d = done(c.compile(module(2), timeout=60, **T)[0])
        expect(len(payload(d["artifact"])) == d["artifact"]["size"], "nothing")
        expect(p.daemon.proc.poll() is None, "gone")


def directories_that_may_not_be_written():
    """Served all the same, from working files; status and log say which directory and why."""
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        raise Skip("needs root and setpriv")
    directory = tempfile.mkdtemp(prefix="neffd-test-")
    others = tempfile.mkdtemp(prefix="neffd-test-")
    try:
        os.chown(directory, 12345, 12345)
        os.chmod(directory, 0o755)
        os.chown(others, 54321, 54321)
        prefix = ["setpriv", "--reuid", "54321", "--regid", "54321", "--clear-groups"]
        with Daemon(others, prefix=prefix, local=f"{directory}/local", shared=f"{directory}/shared") as d, d.client() as c:
            artifact = done(c.compile(module(1), timeout=60)[0])["artifact"]
            expect(len(payload(artifact)) == artifact["size"], "nothing")
            expect(f"{directory}/local" in c.status()["cache"]["trouble"], c.status()["cache"])
            expect(f"{directory}/shared" in d.text() and "Permission denied" in d.text(), d.text())
    finally:
        shutil.rmtree(directory)
        shutil.rmtree(others)


def no_compiler():
    with Place(env={"NEFFD_NEURONX_CC": "/nonexistent/neuronx-cc"}) as p:
        error = failed(p.client().compile(module(1), **T)[0])
        expect(error["class"] == "FAILURE_CLASS_ENVIRONMENT" and "/nonexistent/neuronx-cc" in error["message"], error)


if __name__ == "__main__":
    main([full_shared_tier, full_local_tier, both_tiers_full, hung_mount, failing_mount, damaged_entries, damaged_index,
          local_directory_goes_away, directories_that_may_not_be_written, no_compiler])
