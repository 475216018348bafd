#!/usr/bin/python3
# tests/run: serial timeout=600
"""The cache as a daemon's callers see it: damage, full, read-only, vanished and hung directories, an index that is deleted or garbage."""
import json
import os
import random
import shutil
import statistics
import subprocess
import time
from pathlib import Path

from lib import SLOW, Daemon, Place, Skip, build_dir, done, expect, main, module, neffctl, payload, until


def entry(tier, key):
    found = list(Path(tier).glob(f"entries/*/??/??/{key.hex()}.neff"))
    return found[0] if found else None


def flip(path, share):
    data = bytearray(path.read_bytes())
    data[int(len(data) * share)] ^= 0x20
    path.write_bytes(data)


COMPILED, LOCAL, SHARED = "OUTCOME_COMPILED", "OUTCOME_HIT_LOCAL", "OUTCOME_HIT_SHARED"

DAMAGE = {
    "0 bytes": lambda p: p.write_bytes(b""),
    "cut": lambda p: os.truncate(p, p.stat().st_size // 2),
    "a flipped bit of the payload": lambda p: flip(p, 0.1),
    "a flipped bit of the footer": lambda p: flip(p, 0.99999),
    "something else": lambda p: p.write_bytes(random.Random(1).randbytes(3000)),
}


def damaged_entries_are_rebuilt_and_counted():
    with Place() as p:
        c = p.client()
        for number, (what, spoil) in enumerate(DAMAGE.items(), 1):
            first = done(c.compile(module(number), target="trn2")[0])
            bytes_ = payload(first["artifact"])
            key = first["canonical_key"]
            before = c.counters()
            spoil(entry(p.daemon.local, key))  # the local copy: comes back from the shared tier
            again = done(c.compile(module(number), target="trn2")[0])
            expect(again["outcome"] == SHARED and payload(again["artifact"]) == bytes_, what, again["outcome"])
            spoil(entry(p.daemon.local, key))
            spoil(entry(p.daemon.shared, key))  # both: compiled anew
            last = done(c.compile(module(number), target="trn2")[0])
            expect(last["outcome"] == COMPILED and payload(last["artifact"]) == bytes_, what, last["outcome"])
            after = c.counters()
            expect(after["quarantined"] - before["quarantined"] == 3, what, before["quarantined"], after["quarantined"])
            expect(done(c.compile(module(number), target="trn2")[0])["outcome"] == LOCAL, what)


def verify_and_repair_over_the_wire():
    with Place() as p:
        c = p.client()
        keys = [done(c.compile(module(i), target="trn2")[0])["canonical_key"] for i in range(4)]
        times = entry(p.daemon.local, keys[0]).stat()
        flip(entry(p.daemon.local, keys[0]), 0.1)
        os.utime(entry(p.daemon.local, keys[0]), ns=(times.st_atime_ns, times.st_mtime_ns))  # rot, which no time shows
        flip(entry(p.daemon.shared, keys[1]), 0.1)
        last = c.verify()[-1]
        expect(last["finished"] and last["bad"] == 2 and last["removed"] == 0 and last["total"] == 8, last)
        last = c.verify(repair=True)[-1]
        expect(last["bad"] == 2 and last["removed"] == 2, last)
        expect(entry(p.daemon.local, keys[0]) and not entry(p.daemon.shared, keys[1]))
        expect(c.verify()[-1]["bad"] == 0)
        expect(c.gc(target_bytes=1)[-1]["removed"] >= 4)
        expect(not entry(p.daemon.local, keys[0]))


def an_index_that_is_deleted_or_garbage_costs_nothing():
    with Place() as p:
        c = p.client()
        wanted = {i: payload(done(c.compile(module(i), target="trn2")[0])["artifact"]) for i in range(3)}
        index = p.daemon.local / "index.sqlite"

        def hits():
            for i, bytes_ in wanted.items():
                d = done(c.compile(module(i), target="trn2")[0])
                expect(d["outcome"] == LOCAL and payload(d["artifact"]) == bytes_, d["outcome"])

        for spoil in (index.unlink, lambda: index.write_bytes(b"garbage" * 3000), lambda: index.write_bytes(b"")):
            spoil()  # under the running daemon
            hits()
            wanted[len(wanted)] = payload(done(c.compile(module(len(wanted)), target="trn2")[0])["artifact"])
            hits()
            p.daemon.stop()
            spoil()  # and while there is none
            p.daemon.start()
            c = p.client()
            began = time.time()
            hits()
            expect(time.time() - began < 5 * SLOW)
            until(lambda: len(c.entries()) == len(wanted), 10, "the index is rebuilt")
            expect(c.counters()["compiles"] == 0 and c.status()["cache"]["entries"] == len(wanted), c.status()["cache"])


def root():
    if os.geteuid() != 0:
        raise Skip("mounts need root")


def mounted(path, size):
    Path(path).mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(path)], check=True)


def unmounted(path):
    subprocess.run(["umount", "-l", str(path)], check=False)


def a_full_disk_still_delivers():
    root()
    for full in ("local", "shared"):
        with Place() as p:
            p.daemon.stop()
            directory = getattr(p.daemon, full)
            shutil.rmtree(directory, ignore_errors=True)
            mounted(directory, "4m")
            try:
                p.daemon.start()
                c = p.client()
                filler = directory / "filler"
                with open(filler, "wb", buffering=0) as f:
                    try:
                        while f.write(bytes(4096)):
                            pass
                    except OSError:
                        pass
                d = done(c.compile(module(1), target="trn2")[0])
                expect(d["outcome"] == COMPILED and len(payload(d["artifact"])) == d["artifact"]["size"], d)
                trouble = c.status()["cache"]["trouble"]
                expect(str(directory) in trouble and "pace" in trouble, trouble)
                again = done(c.compile(module(1), target="trn2")[0])
                expect(payload(again["artifact"]) == payload(d["artifact"]) and again["outcome"] in (LOCAL, SHARED), again["outcome"])
                filler.unlink()
                done(c.compile(module(2), target="trn2")[0])
                expect(c.status()["cache"]["trouble"] == "", c.status()["cache"]["trouble"])
                p.daemon.stop()
            finally:
                unmounted(directory)


def a_read_only_shared_tier_serves_hits():
    root()
    with Place() as p:
        c = p.client()
        old = done(c.compile(module(1), target="trn2")[0])
        p.daemon.stop()
        shutil.rmtree(p.daemon.local)
        subprocess.run(["mount", "--bind", str(p.daemon.shared), str(p.daemon.shared)], check=True)
        try:
            subprocess.run(["mount", "-o", "remount,ro,bind", str(p.daemon.shared)], check=True)
            p.daemon.start()
            c = p.client()
            expect(done(c.compile(module(1), target="trn2")[0])["outcome"] == SHARED)
            fresh = done(c.compile(module(2), target="trn2")[0])
            expect(fresh["outcome"] == COMPILED and entry(p.daemon.local, fresh["canonical_key"]), fresh["outcome"])
            expect(done(c.compile(module(2), target="trn2")[0])["outcome"] == LOCAL)
            expect(not c.status()["cache"]["shared_writable"])
            expect(entry(p.daemon.local, old["canonical_key"]))
            p.daemon.stop()
        finally:
            unmounted(p.daemon.shared)


def vanish(directory):
    """Takes a directory away from a daemon at work: at once, since what is removed name by name may grow again meanwhile."""
    gone = directory.with_name(directory.name + ".gone")
    directory.rename(gone)
    shutil.rmtree(gone, ignore_errors=True)


def vanished_directories_come_back():
    with Place() as p:
        c = p.client()
        first = payload(done(c.compile(module(1), target="trn2")[0])["artifact"])
        vanish(p.daemon.shared)
        expect(done(c.compile(module(1), target="trn2")[0])["outcome"] == LOCAL)
        d = done(c.compile(module(2), target="trn2")[0])
        expect(d["outcome"] == COMPILED and entry(p.daemon.shared, d["canonical_key"]))
        vanish(p.daemon.local / "entries")
        vanish(p.daemon.local / "aliases")
        again = done(c.compile(module(2), target="trn2")[0])
        expect(again["outcome"] == SHARED, again["outcome"])
        last = done(c.compile(module(1), target="trn2")[0])
        expect(last["outcome"] == COMPILED and payload(last["artifact"]) == first, last["outcome"])


def a_hung_mount_delays_no_answer_that_does_not_need_it():
    root()
    faultfs = build_dir() / "tests/tools/faultfs"
    if not faultfs.exists() or not os.access("/dev/fuse", os.W_OK):
        raise Skip("needs faultfs and /dev/fuse")
    with Place(args=["--mount-timeout", "1"]) as p:
        p.daemon.stop()
        backing, control = p.dir / "backing", p.dir / "control"
        shutil.rmtree(p.daemon.shared, ignore_errors=True)
        for d in (backing, p.daemon.shared):
            d.mkdir()
        control.write_text("")
        fs = subprocess.Popen([str(faultfs), str(backing), str(p.daemon.shared), str(control), "-f", "-o", "allow_other,default_permissions"],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            until(lambda: os.path.ismount(p.daemon.shared), 5, "the mount")
            p.daemon.start()
            c = p.client()
            known = done(c.compile(module(1), target="trn2")[0])
            control.write_text("hang")
            times = []
            for _ in range(30):
                began = time.time()
                hit = c.lookup(canonical_key=known["canonical_key"])
                times.append(time.time() - began)
                expect(hit["outcome"] == LOCAL, hit["outcome"])
            expect(statistics.median(times) < 0.010 * SLOW, f"{statistics.median(times) * 1000:.1f} ms")
            began = time.time()
            fresh = done(c.compile(module(2), target="trn2")[0])  # finds out that it hangs, and goes on without it
            expect(fresh["outcome"] == COMPILED and time.time() - began < 15 * SLOW, time.time() - began)
            began = time.time()
            done(c.compile(module(3), target="trn2")[0])  # knows by now
            expect(time.time() - began < 5 * SLOW, time.time() - began)
            expect("does not answer" in c.status()["cache"]["trouble"], c.status()["cache"])
            control.write_text("")
            until(lambda: c.status()["cache"]["trouble"] == "", 15, "the mount is used again")
            until(lambda: entry(backing, fresh["canonical_key"]), 30, "what was published meanwhile reaches it")
            p.daemon.stop()
        finally:
            control.write_text("")
            unmounted(p.daemon.shared)
            fs.kill()
            fs.wait()


def a_miss_is_explained_to_the_point():
    with Daemon() as d:
        source = d.dir / "m.mlir"
        source.write_bytes(module(1))
        code, _, err = neffctl(d, "compile", str(source), "--target", "cpu")
        expect(code == 0, err)
        cases = {
            "constant": module(2),
            "input": module(1, dim=16),
            "structure": module(1).replace(b"stablehlo.maximum", b"stablehlo.minimum"),
        }
        for what, text in cases.items():
            source.write_bytes(text)
            code, out, err = neffctl(d, "explain", str(source), "--target", "cpu", "--json")
            found = json.loads(out)["explanation"]
            kinds = {x["component"] for x in found["differences"]}
            expect(found["found"] and kinds == ({what, "output"} if what == "input" else {what}), what, found)
        source.write_bytes(module(1))
        code, out, err = neffctl(d, "explain", str(source), "--target", "cpu", "-O", "optlevel=1", "--json")
        differences = json.loads(out)["explanation"]["differences"]
        expect([(x["component"], x["cached"], x["requested"]) for x in differences] == [("option", "2", "1")], differences)
        code, out, err = neffctl(d, "compile", str(source), "--target", "cpu", "-O", "optlevel=1")
        expect(code == 0 and "optlevel: 2 -> 1" in err + out, err, out)


if __name__ == "__main__":
    main([damaged_entries_are_rebuilt_and_counted, verify_and_repair_over_the_wire, an_index_that_is_deleted_or_garbage_costs_nothing,
          a_full_disk_still_delivers, a_read_only_shared_tier_serves_hits, vanished_directories_come_back,
          a_hung_mount_delays_no_answer_that_does_not_need_it, a_miss_is_explained_to_the_point])
