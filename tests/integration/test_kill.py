#!/usr/bin/python3
# tests/run: timeout=1500
"""kill -9 of a client, the uploader, a worker, the compiler or the daemon at seeded moments inside upload, keying, compile and publish.

After each: no wait over its limit, no torn entry, every digest that was acknowledged is still a hit, no process of ours is left after
two seconds, the next request works, a restarted daemon answers hits at once."""
import hashlib
import os
import random
import signal
import subprocess
import threading
import time
from pathlib import Path

from lib import Place, SLOW, done, expect, main, module, neffctl, payload, processes_with, until

T = {"target": "trn2"}
WAIT = 25


def children(pid):
    try:
        return [int(x) for t in os.listdir(f"/proc/{pid}/task") for x in Path(f"/proc/{pid}/task/{t}/children").read_text().split() if int(x) > 1]
    except OSError:
        return []


def tree(pid):
    found = []
    for c in children(pid):
        found += [c, *tree(c)]
    return found


def argv0(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")[0]
    except OSError:
        return ""


def state_of(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return None


class Round:
    """One graph, a few who want it, one victim."""

    def __init__(self, place, number, rng, known):
        self.p, self.rng, self.known = place, rng, known
        self.data = module(1000 + number) + b"// " + bytes(rng.choice(b"abcdef") for _ in range(2000)) * 400 + b"\n"   # 800 KB
        self.victim = rng.choice(["client", "uploader", "worker", "compiler", "daemon"])
        self.delay = rng.random() * rng.choice([0.02, 0.1, 0.4, 0.8])
        self.name = f"{number}: {self.victim} after {self.delay * 1000:.0f} ms"
        self.answers, self.errors = [], []

    def ask(self, data):
        try:
            c = self.p.client()
            last, _ = c.compile(data, timeout=WAIT * SLOW, **T)
            (self.answers if last["done"] is not None else self.errors).append(last)
        except Exception as e:
            self.errors.append(e)

    def kill(self):
        p = self.p
        if self.victim == "client":
            self.procs[0].kill()
        elif self.victim == "uploader":
            self.procs[-1].kill()
        elif self.victim == "daemon":
            os.kill(p.daemon.pid, signal.SIGKILL)
        else:
            end = time.time() + 1.0
            while time.time() < end:
                below = tree(p.daemon.pid)
                hits = [x for x in below if ("neuronx-cc" in argv0(x)) == (self.victim == "compiler") and state_of(x) not in (None, "Z")]
                if hits:
                    try:
                        os.kill(self.rng.choice(hits), signal.SIGKILL)
                    except OSError:
                        pass
                    return
                time.sleep(0.005)

    def run(self):
        p = self.p
        path = p.dir / "graph.mlir"
        path.write_bytes(self.data)
        began = time.time()
        marker = os.listdir(p.daemon.local / "run")
        self.procs = [neffctl(p.daemon, "compile", str(path), "--target", "trn2", "--json", wait=False) for _ in range(2)]
        threads = [threading.Thread(target=self.ask, args=(self.data,)) for _ in range(2)]
        for t in threads:
            t.start()
        time.sleep(self.delay)
        self.kill()
        for t in threads:
            t.join(WAIT * SLOW + 5)
            expect(not t.is_alive(), self.name, "a wait went over its limit")
        for proc in self.procs:
            try:
                proc.communicate(timeout=WAIT * SLOW)
            except subprocess.TimeoutExpired:
                proc.kill()
                raise AssertionError(f"{self.name}: neffctl waits on") from None
        if self.victim == "daemon":
            p.daemon.proc.wait()
            left = lambda: [x for m in marker for x in processes_with(m) if state_of(x) not in (None, "Z")]
            until(lambda: not left(), 2, f"{self.name}: the end of what the daemon had started ({[argv0(x) for x in left()]})")
            p.daemon.start()
        else:
            expect(p.daemon.proc.poll() is None, self.name, "the daemon is gone")
            expect(len(self.answers) == 2, self.name, self.errors)
        for a in self.answers:
            artifact = done(a)["artifact"]
            expect(hashlib.sha256(payload(artifact)).digest() == artifact["sha256"], self.name, "torn")
            self.known[done(a)["canonical_key"]] = artifact["sha256"]
        # The next request works, and what was acknowledged is a hit.
        with p.daemon.client() as c:
            key = self.rng.choice(list(self.known)) if self.known else None
            if key:
                found = c.lookup(canonical_key=key)
                expect(found["outcome"].startswith("OUTCOME_HIT") and found["artifact"]["sha256"] == self.known[key], self.name, found["outcome"])
            last, _ = c.compile(self.data, timeout=WAIT * SLOW, **T)
            self.known[done(last)["canonical_key"]] = done(last)["artifact"]["sha256"]
            until(lambda: not c.jobs(), 5, f"{self.name}: the end of all jobs")
        for cl in p.clients:
            cl.close()
        p.clients.clear()
        # No compiler is left; workers are the daemon's to keep.
        left = lambda: [x for x in tree(p.daemon.pid) if "neuronx-cc" in argv0(x) and state_of(x) not in (None, "Z")]
        until(lambda: not left(), 2, f"{self.name}: the end of the compilers")
        return time.time() - began


def seeded_kills(args):
    rounds = 12 if args.fast else 40
    until_time = time.time() + args.minutes * 60
    rng = random.Random(args.seed)
    known = {}
    with Place("slow:0.4", env={"NEFFD_RETRY_BACKOFF": "0.1"}) as p:
        number = 0
        while number < rounds or time.time() < until_time:
            r = Round(p, number, rng, known)
            try:
                took = r.run()
            except Exception:
                print(f"# in round {r.name}, seed {args.seed}")
                print("\n".join("# " + line for line in p.daemon.text()[-3000:].splitlines()))
                raise
            if args.verbose:
                print(f"# {r.name}: {took:.1f} s, {len(r.answers)} answers", flush=True)
            number += 1
        # At the end: everything that was ever acknowledged, after one more kill -9.
        os.kill(p.daemon.pid, signal.SIGKILL)
        p.daemon.proc.wait()
        began = time.time()
        p.daemon.start()
        with p.daemon.client() as c:
            for key, digest in known.items():
                found = c.lookup(canonical_key=key)
                expect(found["outcome"].startswith("OUTCOME_HIT") and found["artifact"]["sha256"] == digest, found["outcome"])
            took = time.time() - began
            last = c.verify()[-1]
            expect(last["bad"] == 0, last)
        print(f"# {number} kills, {len(known)} artifacts, all hits {took:.2f} s after the last kill")


def leftovers_are_swept_at_start():
    """Worker and daemon killed together: nobody is left to clean up but the next daemon."""
    with Place("slow:60,escape:60") as p:
        running = p.client().open(module(1), eager=True, **T)
        until(lambda: p.fake.starts(), 5, "start")
        marker = os.listdir(p.daemon.local / "run")[0]
        below = tree(p.daemon.pid)
        for pid in [p.daemon.pid, *[x for x in below if "neuronx-cc" not in argv0(x)]]:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        p.daemon.proc.wait()
        running.cancel()
        p.daemon.start()
        until(lambda: not [x for x in processes_with(marker) if state_of(x) not in (None, "Z")], 3, "end of the leftovers")
        expect(not [x for x in os.listdir(p.daemon.local / "work") if x == marker], "its working directory is left")


if __name__ == "__main__":
    main([seeded_kills, leftovers_are_swept_at_start])
