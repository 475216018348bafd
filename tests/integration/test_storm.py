#!/usr/bin/python3
# tests/run: serial timeout=300
"""The storm: many client processes ask for one graph that is not there, half of them with other names in it."""
import json
import os
import re
import subprocess
import tempfile
import threading
import time
from pathlib import Path

from lib import Place, SLOW, binary, done, expect, main, module, neffctl

CLIENTS = 256 if not os.environ.get("TEST_SANITIZE") else 64


# Three seconds are enough to start 256 processes on two free cores; where others work too the compile has to take longer than that.
COMPILE_S = 3 if os.getloadavg()[0] < 3 else min(40, 3 * int(os.getloadavg()[0]))


def storm_of_processes():
    """A busy machine may take the processor away for longer than the limits are: the best of three storms counts, of each the bytes."""
    for tries_left in (2, 1, 0):
        joined, spread_ms = one_storm()
        if (joined >= CLIENTS - 6 or os.environ.get("TEST_SANITIZE")) and spread_ms <= 50 * SLOW:
            return
        expect(tries_left, "joined", joined, "first to last answer", spread_ms, "ms")


def one_storm():
    with Place(f"slow:{COMPILE_S}") as p:
        a, b = p.dir / "a.mlir", p.dir / "b.mlir"
        a.write_bytes(module(1))
        b.write_bytes(module(1, rename=True))
        env = {"NEFFD_CONNECT_TIMEOUT": "60"}
        began = time.time()
        procs = [neffctl(p.daemon, "compile", str(b if i % 2 else a), "--target", "trn2", "--json", wait=False, env=env) for i in range(CLIENTS)]
        answers, errors = [], []
        for proc in procs:
            out, err = proc.communicate(timeout=120 * SLOW)
            if proc.returncode == 0:
                answers.append(json.loads(out))
            else:
                errors.append((proc.returncode, out.decode(), err.decode()))
        took = time.time() - began
        outcomes = [r["outcome"] for r in answers]
        print(f"# {took:.1f} s, {({o: outcomes.count(o) for o in set(outcomes)})}")
        expect(not errors, len(errors), errors[:2])
        expect(len(p.fake.starts()) == 1, "compiles", len(p.fake.starts()))
        joined = outcomes.count("joined")
        late = outcomes.count("hit_local")   # a process that needed longer than the compile to start
        expect(joined + late == CLIENTS - 1 and outcomes.count("compiled") == 1, outcomes)
        expect(len({r["artifact"]["sha256"] for r in answers}) == 1, "different bytes")
        record = re.search(r"job: answered id=\d+ answers=(\d+) joined=(\d+) gone=0 spread_us=(\d+)", p.daemon.wait_log("job: answered", 10))
        spread_ms = int(record[3]) / 1000
        print(f"# answers {record[1]}, joined {record[2]}, first to last {spread_ms:.1f} ms")
        c = p.client().counters()
        expect(c["compiles"] == 1 and c["joined"] == joined, c)
        if not os.environ.get("TEST_SANITIZE"):
            expect(p.daemon.rss_mib() < 60, "RSS after the storm", p.daemon.rss_mib())
            print(f"# RSS after it {p.daemon.rss_mib():.1f} MiB")
        return joined, spread_ms


def storm_of_different_graphs():
    """Many graphs at once, each asked for twice: as many compiles as graphs."""
    with Place("slow:0.05", args=["--workers", "2"]) as p:
        results, errors = [], []

        def run(i):
            try:
                results.append(done(p.client().compile(module(i // 2, rename=bool(i % 2)), timeout=120 * SLOW, eager=True, target="trn2")[0]))
            except Exception as e:
                errors.append(e)

        threads = [threading.Thread(target=run, args=(i,)) for i in range(60)]
        for t in threads:
            t.start()
        for t in threads:
            t.join(150 * SLOW)
        expect(not errors and len(results) == 60, errors[:2], len(results))
        expect(len({r["canonical_key"] for r in results}) == 30 and len(p.fake.starts()) == 30, len(p.fake.starts()))


def clients_elect_one_daemon():
    """Nobody serves, and everybody may start a daemon: one does, and one compile is made."""
    directory = Path(tempfile.mkdtemp(prefix="neffd-test-"))
    from lib import Fake
    try:
        fake = Fake(directory, "slow:1")
        graph = directory / "g.mlir"
        graph.write_bytes(module(1))
        env = {**os.environ, **fake.env, "NEFFD_SOCKET": f"unix:{directory}/s.sock", "TORCH_NEURONX_NEFF_CACHE_DIR": f"{directory}/shared",
               "TORCH_NEURONX_NEFF_LOCAL_CACHE_DIR": f"{directory}/local", "NEFFD_CONNECT_TIMEOUT": "30"}
        env.pop("FAKE_NEURONX_CC_LOG")   # a daemon that a client starts has a clean environment: count by its own counters
        n = 16
        procs = [subprocess.Popen([binary("neffctl"), "compile", str(graph), "--target", "cpu", "--start", "--json"], env=env,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(n)]
        outs = [(proc.communicate(timeout=120 * SLOW), proc.returncode) for proc in procs]
        bad = [o for o in outs if o[1] != 0]
        expect(not bad, bad[:2])
        status = json.loads(subprocess.run([binary("neffctl"), "status", "--json"], env=env, capture_output=True, timeout=30 * SLOW, check=True).stdout)
        expect(status["counters_lifetime"]["compiles"] == 1, status["counters_lifetime"])
        expect(len({json.loads(o[0][0])["artifact"]["sha256"] for o in outs}) == 1, "bytes")
        daemons = [int(x) for x in os.listdir("/proc") if x.isdigit() and is_daemon(int(x), f"unix:{directory}/s.sock")]
        expect(daemons == [status["pid"]], daemons, status["pid"])
    finally:
        try:
            status = json.loads(subprocess.run([binary("neffctl"), "status", "--json"], env=env, capture_output=True, timeout=30).stdout)
            os.kill(status["pid"], 15)
        except (ValueError, KeyError, OSError):
            pass
        time.sleep(0.5)
        subprocess.run(["rm", "-rf", str(directory)], check=False)


def is_daemon(pid, address):
    try:
        env, cmd = Path(f"/proc/{pid}/environ").read_bytes(), Path(f"/proc/{pid}/cmdline").read_bytes()
        return cmd.split(b"\0")[0].endswith(b"neffd") and b"--worker" not in cmd and address.encode() in env + cmd
    except OSError:
        return False


if __name__ == "__main__":
    main([storm_of_processes, storm_of_different_graphs, clients_elect_one_daemon])
