#!/usr/bin/python3
# tests/run: timeout=600
"""Jobs: hits, joining, merging, uploads, leaving, limits, priorities, retries, failures, drain; with the fake compiler."""
import hashlib
import os
import signal
import threading
import time
from pathlib import Path

from lib import Place, SLOW, Skip, done, expect, failed, main, module, neffctl, payload, processes_with, until

T = {"target": "trn2"}


def kinds(events):
    return [next(k for k, v in e.items() if k != "job_id" and v is not None) for e in events]


def compile_then_hits():
    with Place() as p:
        c = p.client()
        last, events = c.compile(module(1), name="first", **T)
        d = done(last)
        expect(d["outcome"] == "OUTCOME_COMPILED" and kinds(events)[0] == "send_input", kinds(events))
        a = d["artifact"]
        data = payload(a)
        expect(hashlib.sha256(data).digest() == a["sha256"] and len(data) == a["size"], "digest")
        expect(a["kind"] == "neff" and a["target"] == "trn2" and "neuronx-cc" in a["compiler"] and a["owner_uid"] == os.geteuid(), a)
        expect(d["provenance"]["attempts"] == 1 and d["times"]["compile_us"] > 0 and d["times"]["publish_us"] > 0, d)
        # By front key: nothing is sent. By the bytes alone: no parsing. By a twin: the canonical key.
        last, events = c.compile(module(1), front_key=d["front_key"], **T)
        expect(kinds(events) == ["done"] and done(last)["outcome"] == "OUTCOME_HIT_LOCAL", kinds(events))
        expect(done(last)["times"]["compile_us"] == 0 and done(last)["provenance"]["compile_us"] > 0, last)
        last, events = c.compile(module(1), eager=True, **T)
        expect(done(last)["outcome"] == "OUTCOME_HIT_LOCAL", last)
        before = c.counters()
        expect(before["front_hits"] == 2 and before["hits_local"] == 2 and before["canonical_hits"] == 0, before)
        last, _ = c.compile(module(1, rename=True), **T)
        expect(done(last)["outcome"] == "OUTCOME_HIT_LOCAL" and done(last)["canonical_key"] == d["canonical_key"], last)
        expect(c.counters()["canonical_hits"] == 1 and c.counters()["compiles"] == 1, c.counters())
        last, events = c.compile(module(1, rename=True), front_key=done(last)["front_key"], **T)
        expect(kinds(events) == ["done"], "the twin's alias was not recorded", kinds(events))
        for key in ("front_key", "canonical_key"):
            expect(c.lookup(**{key: d[key]})["artifact"]["sha256"] == a["sha256"], key)
        expect(c.lookup(sha256=a["sha256"])["canonical_key"] == d["canonical_key"], "by digest")
        expect(c.lookup(front_key=b"\x01" * 32)["outcome"] == "OUTCOME_MISS", "miss")
        chunks = c.fetch(sha256=a["sha256"])
        expect(b"".join(x["data"] for x in chunks) == data and chunks[0]["size"] == len(data), "fetch")
        rest = c.fetch(canonical_key=d["canonical_key"], offset=len(data) - 7)
        expect(b"".join(x["data"] for x in rest) == data[-7:], "fetch from an offset")
        expect(len(p.fake.starts()) == 1, p.fake.starts())


def restart_hits_without_upload():
    with Place() as p:
        c = p.client()
        d = done(c.compile(module(1), **T)[0])
        p.daemon.stop(signal.SIGKILL)
        p.daemon.start()
        c = p.client()
        last, events = c.compile(module(1), front_key=d["front_key"], **T)
        expect(kinds(events) == ["done"] and done(last)["outcome"] == "OUTCOME_HIT_LOCAL", kinds(events))
        # The local tier is gone, the mount has it; the alias says which.
        p.daemon.stop()
        for path in Path(p.daemon.local, "entries").rglob("*.neff"):
            path.unlink()
        p.daemon.start()
        last, events = p.client().compile(module(1), front_key=d["front_key"], **T)
        expect(kinds(events) == ["done"] and done(last)["outcome"] == "OUTCOME_HIT_SHARED", kinds(events), last)
        expect(len(p.fake.starts()) == 1, "compiled again")


def one_front_key_joins():
    with Place("slow:1.5") as p:
        c = p.client()
        first = c.open(module(1), eager=True, name="leader", **T)
        first.wait("stage")
        key = None
        results = []

        def run(i):
            results.append(p.client().compile(module(1), **T))

        threads = [threading.Thread(target=run, args=(i,)) for i in range(5)]
        for t in threads:
            t.start()
        key = done(first.result()[0])
        for t in threads:
            t.join(30)
        for last, events in results:
            d = done(last)
            expect(d["outcome"] == "OUTCOME_JOINED" and d["artifact"]["sha256"] == key["artifact"]["sha256"], d)
            joined = [e["joined"] for e in events if e["joined"] is not None]
            expect(joined and joined[0]["leader"]["pid"] == os.getpid() and joined[0]["waiters"] >= 2, events)
        expect(key["outcome"] == "OUTCOME_COMPILED" and len(p.fake.starts()) == 1, key["outcome"])
        expect(p.client().counters()["joined"] == 5, p.client().counters())


def canonical_twins_merge():
    with Place("slow:1.5") as p:
        a, b = p.client().open(module(1), eager=True, **T), p.client().open(module(1, rename=True), eager=True, **T)
        results = []
        threads = [threading.Thread(target=lambda x=x: results.append(x.result()[0])) for x in (a, b)]
        for t in threads:
            t.start()
        for t in threads:
            t.join(30)
        outcomes = sorted(done(r)["outcome"] for r in results)
        expect(outcomes == ["OUTCOME_COMPILED", "OUTCOME_JOINED"], outcomes)
        expect(len(p.fake.starts()) == 1 and p.client().counters()["merged"] == 1, p.client().counters())


def uploader_dies():
    """Two ask with one front key; the one that was asked for the bytes goes away half-way; the other is asked."""
    with Place() as p:
        big = module(1) + b"// " + b"x" * 3_000_000 + b"\n"
        d = done(p.client().compile(big, **T)[0])
        p.client().remove(canonical_keys=[d["canonical_key"]])
        for alias in Path(p.daemon.local, "aliases").rglob("*"):
            if alias.is_symlink():
                alias.unlink()
        first = p.client().open(big, front_key=d["front_key"], **T)
        second = p.client().open(big, front_key=d["front_key"], **T)
        expect(first.events or True, "")
        first.stop = True    # never sends
        for event in first.call:
            if event["send_input"] is not None:
                break
        joined = second.wait("joined")
        expect(joined["waiters"] == 2, joined)
        first.cancel()
        last, events = second.result()
        expect(done(last)["outcome"] in ("OUTCOME_COMPILED", "OUTCOME_JOINED"), last)
        expect("send_input" in kinds(second.events), kinds(second.events))


def silent_uploader():
    """The one that was asked for the bytes is alive and says nothing: after a while it is given up, and the other is asked."""
    with Place("ok", args=("--upload-timeout=1",)) as p:
        big = module(1) + b"// " + b"x" * 3_000_000 + b"\n"
        d = done(p.client().compile(big, **T)[0])
        p.client().remove(canonical_keys=[d["canonical_key"]])
        for alias in Path(p.daemon.local, "aliases").rglob("*"):
            if alias.is_symlink():
                alias.unlink()
        first = p.client().open(big, front_key=d["front_key"], **T)
        for event in first.call:    # and does not send, nor close its side
            if event["send_input"] is not None:
                break
        second = p.client().open(big, front_key=d["front_key"], **T)
        last, _ = second.result()
        expect(done(last)["outcome"] in ("OUTCOME_COMPILED", "OUTCOME_JOINED"), last)
        failed = None
        for event in first.call:
            failed = event["failed"] or failed
        first.stop = True
        expect(failed is not None and failed["code"] == "timeout" and "upload_timeout" in failed["hint"], failed)


def lying_front_key():
    """A caller whose bytes have another key than it said: those who meant that key are served their own graph."""
    with Place() as p:
        honest = done(p.client().compile(module(1), **T)[0])
        p.client().remove(canonical_keys=[honest["canonical_key"]])
        for alias in Path(p.daemon.local, "aliases").rglob("*"):
            if alias.is_symlink():
                alias.unlink()
        liar = p.client().open(module(2), front_key=honest["front_key"], **T)
        for event in liar.call:
            if event["send_input"] is not None:
                break
        victim = p.client().open(module(1), front_key=honest["front_key"], **T)
        victim.wait("joined")
        liar.ask.set()
        got = done(victim.result()[0])
        expect(got["canonical_key"] == honest["canonical_key"], "served another program")
        other = done(liar.result()[0])
        expect(other["canonical_key"] != honest["canonical_key"], "the lie was believed")
        last, _ = p.client().compile(module(1), front_key=honest["front_key"], **T)
        expect(done(last)["canonical_key"] == honest["canonical_key"], "poisoned alias")


def waiter_leaves_others_stay():
    with Place("slow:2") as p:
        a = p.client().open(module(1), eager=True, **T)
        a.wait("stage")
        b = p.client().open(module(1), eager=True, timeout=0.5, **T)
        try:
            b.result()
            raise AssertionError("no time-out")
        except b.client.grpc.RpcError as e:
            expect(e.code() == b.client.grpc.StatusCode.DEADLINE_EXCEEDED, e)
        c = p.client().open(module(1), eager=True, **T)
        c.wait("joined")
        a.cancel()   # the one that began it
        expect(done(c.result()[0])["artifact"]["size"] > 0, "nothing")
        expect(len(p.fake.starts()) == 1, "compiled again")


def last_waiter_cancels():
    with Place("slow:30") as p:
        a = p.client().open(module(1), eager=True, **T)
        a.wait("stage")
        until(lambda: p.fake.starts(), 5, "start of the compiler")
        pid = p.fake.starts()[0]["pid"]
        a.cancel()
        until(lambda: not os.path.exists(f"/proc/{pid}"), 3, "end of the compiler")
        until(lambda: not p.client().jobs(), 3, "end of the job")


def detached_goes_on():
    with Place("slow:1.5") as p:
        a = p.client().open(module(1), eager=True, detach=True, **T)
        a.wait("stage")
        a.cancel()
        last = until(lambda: (lambda r: r if r["done"] and r["done"]["outcome"].startswith("OUTCOME_HIT") else None)(
            p.client().compile(module(1), action="ACTION_LOOKUP", **T)[0]), 10, "artifact")
        expect(done(last)["artifact"]["size"] > 0, last)


def past_half_goes_on():
    with Place("slow:1") as p:
        for i in range(3):
            done(p.client().compile(module(i), **T)[0])   # teaches how long it takes
        a = p.client().open(module(9), eager=True, **T)
        a.wait("stage")
        until(lambda: len(p.fake.starts()) == 4, 5, "start")
        time.sleep(0.75)
        a.cancel()
        p.daemon.wait_log("goes on without waiters", 5)
        until(lambda: p.client().counters()["compile_us"] > 0 and not p.client().jobs(), 5, "end")
        expect(done(p.client().compile(module(9), **T)[0])["outcome"] == "OUTCOME_HIT_LOCAL", "lost")


def cancel_job():
    with Place("slow:30") as p:
        calls = [p.client().open(module(1), eager=True, **T) for _ in range(2)]
        calls[0].wait("stage")
        job = until(lambda: p.client().jobs(), 5)[0]
        expect(job["state"] in ("compiling", "queued", "keying", "waiting_lock", "rechecking"), job)
        until(lambda: p.client().jobs()[0]["waiters"] == 2, 5, "both")
        expect(p.client().cancel(job["id"]), "not found")
        for call in calls:
            expect(failed(call.result()[0])["code"] == "cancelled", call.events)
        expect(not p.client().cancel(job["id"]), "found twice")


def compile_timeout():
    with Place("hang") as p:
        began = time.time()
        error = failed(p.client().compile(module(1), compile_timeout_ms=700, **T)[0])
        expect(error["code"] == "compile_timeout" and error["class"] == "FAILURE_CLASS_TIMEOUT", error)
        expect(time.time() - began < 10 * SLOW, "took", time.time() - began)
        pid = p.fake.starts()[0]["pid"]
        until(lambda: not os.path.exists(f"/proc/{pid}"), 3, "end of the compiler")
        p.fake.tell("ok")
        done(p.client().compile(module(1), **T)[0])   # not remembered


def lock_timeout():
    """Another process of the host holds the key's lock: exit 5, and the holder is left alone."""
    import fcntl
    with Place() as p:
        d = done(p.client().compile(module(1), **T)[0])
        p.client().remove(canonical_keys=[d["canonical_key"]])
        lock = open(Path(p.daemon.local, "locks", d["canonical_key"].hex()), "a+")
        fcntl.flock(lock, fcntl.LOCK_EX)
        began = time.time()
        call = p.client().open(module(1), lock_timeout_ms=1500, **T)
        queued = call.wait("queued")
        expect("host lock" in queued["waiting_for"], queued)
        error = failed(call.result()[0])
        expect(error["code"] == "lock_timeout" and 1.2 < time.time() - began < 5 * SLOW, error, time.time() - began)
        expect(p.client().counters()["lock_timeouts"] == 1, p.client().counters())
        code = neffctl(p.daemon, "compile", str(write(p, module(1))), "--target", "trn2", env={"TORCH_NEURONX_NEFF_CACHE_LOCK_TIMEOUT": "1"})
        expect(code[0] == 5, code)
        # With patience it goes on as soon as the lock is free.
        call = p.client().open(module(1), lock_timeout_ms=30000, **T)
        call.wait("queued")
        fcntl.flock(lock, fcntl.LOCK_UN)
        lock.close()
        done(call.result()[0])


def write(p, data, name="g.mlir"):
    path = p.dir / name
    path.write_bytes(data)
    return path


def ignore_cache_and_no_publish():
    with Place("unique") as p:
        c = p.client()
        first = done(c.compile(module(1), **T)[0])
        again = done(c.compile(module(1), ignore_cache=True, **T)[0])
        expect(again["outcome"] == "OUTCOME_COMPILED" and len(p.fake.starts()) == 2, again["outcome"])
        expect(again["artifact"]["sha256"] != first["artifact"]["sha256"], "same bytes")
        hit = done(c.compile(module(1), **T)[0])
        expect(hit["artifact"]["sha256"] == again["artifact"]["sha256"], "the new one is not in the old one's place")
        private = done(c.compile(module(1), no_publish=True, **T)[0])
        expect(private["outcome"] == "OUTCOME_COMPILED" and len(p.fake.starts()) == 3, private["outcome"])
        expect(hashlib.sha256(payload(private["artifact"])).digest() == private["artifact"]["sha256"], "bytes")
        expect(b"".join(x["data"] for x in c.fetch(sha256=private["artifact"]["sha256"])) == payload(private["artifact"]), "fetch")
        expect(done(c.compile(module(1), **T)[0])["artifact"]["sha256"] == again["artifact"]["sha256"], "it was stored")
        p.fake.tell("slow:1,unique")
        results = []
        calls = [p.client().open(module(7), eager=True, no_publish=True, **T) for _ in range(4)]
        threads = [threading.Thread(target=lambda x=x: results.append(done(x.result()[0]))) for x in calls]
        for t in threads:
            t.start()
        for t in threads:
            t.join(30)
        expect(len({r["artifact"]["sha256"] for r in results}) == 1 and len(p.fake.starts()) == 4, "not merged", len(p.fake.starts()))
        expect(c.compile(module(7), action="ACTION_LOOKUP", **T)[0]["done"]["outcome"] == "OUTCOME_MISS", "stored")


def failures_are_remembered_by_class():
    with Place("fail") as p:
        c = p.client()
        error = failed(c.compile(module(1), **T)[0])
        expect(error["class"] == "FAILURE_CLASS_USER" and not error["from_cache"] and error["exit_code"] == 70, error)
        expect(error["log_tail"] and error["canonical_key"], error)
        error = failed(c.compile(module(1), **T)[0])
        expect(error["from_cache"] and error["log_tail"] and len(p.fake.starts()) == 1, error)
        p.fake.tell("ok")
        done(c.compile(module(1), ignore_failures=True, **T)[0])
        expect(done(c.compile(module(1), **T)[0])["outcome"] == "OUTCOME_HIT_LOCAL", "the artifact does not count")
        p.fake.tell("sig:SEGV")
        error = failed(c.compile(module(2), **T)[0])
        expect(error["class"] == "FAILURE_CLASS_INTERNAL" and error["exit_code"] == -11, error)
        expect(len(p.fake.starts()) == 4, "one retry", len(p.fake.starts()))
        expect(failed(c.compile(module(2), **T)[0])["from_cache"], "not remembered")
        n = c.counters()
        expect(n["failures_user"] == 1 and n["failures_internal"] == 1 and n["failures_from_cache"] == 2 and n["retries"] == 1, n)


def transient_failures_are_repeated():
    with Place("kill-then-ok:1", env={"NEFFD_RETRY_BACKOFF": "0.2"}) as p:
        c = p.client()
        d = done(c.compile(module(1), **T)[0])
        expect(d["provenance"]["attempts"] == 2 and len(p.fake.starts()) == 2, d["provenance"])
        p.fake.tell("killed")
        error = failed(c.compile(module(2), **T)[0])
        expect(error["class"] == "FAILURE_CLASS_TRANSIENT" and error["retryable"], error)
        expect(len(p.fake.starts()) == 5, "retries", len(p.fake.starts()))
        p.fake.tell("ok")
        done(c.compile(module(2), **T)[0])   # never remembered
        n = c.counters()
        expect(n["compiles"] == 6 and n["retries"] == 3 and n["failures_transient"] == 1, n)


def bad_output_is_no_success():
    with Place() as p:
        for number, action in enumerate(("none", "empty", "header", "cut", "badsize")):
            p.fake.tell(action)
            error = failed(p.client().compile(module(number), **T)[0])
            expect(error["message"] and error["class"] != "FAILURE_CLASS_UNSPECIFIED", action, error)
        expect(not [e for e in p.client().entries() if e["failure"] is None], "stored")


def failed_work_is_kept_on_request():
    with Place("fail", env={"NEFFD_KEEP_WORK": "1"}) as p:
        failed(p.client().compile(module(1), **T)[0])
        kept = until(lambda: [x for x in os.listdir(p.daemon.local / "work") if x.startswith("failed-")], 3, "the directory")
        expect(any("module" in f for _, _, files in os.walk(p.daemon.local / "work" / kept[0]) for f in files), "empty")
        p.fake.tell("ok")
        done(p.client().compile(module(2), **T)[0])
        expect(len([x for x in os.listdir(p.daemon.local / "work") if x.startswith("failed-")]) == 1, "kept without a failure")


def uploads_have_a_limit():
    with Place(args=["--max-uploads", "1M"]) as p:
        big = module(1) + b"// " + b"x" * 3_000_000 + b"\n"
        c = p.client()
        try:
            c.compile(big, **T)
            raise AssertionError("it was taken")
        except c.grpc.RpcError as e:
            expect(e.code() == c.grpc.StatusCode.RESOURCE_EXHAUSTED and "max_uploads" in e.details(), e)
        for i in range(5):
            done(c.compile(module(i) + b"// " + b"x" * 400_000 + b"\n", **T)[0])   # what is done with does not count


def nothing_escapes():
    with Place("escape:60") as p:
        done(p.client().compile(module(1), **T)[0])
        marker = [x for x in os.listdir(p.daemon.local / "run")][0]
        until(lambda: len([x for x in processes_with(marker) if "fake" in argv0(x)]) == 0, 3, "end of the grandchild")


def argv0(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")[0]
    except OSError:
        return ""


def priorities():
    with Place(f"slow:{SLOW}", args=["--workers", "1"]) as p:
        order = []
        lock = threading.Lock()

        def run(i, **kw):
            done(p.client().compile(module(i), eager=True, **kw, **T)[0])
            with lock:
                order.append(i)

        threads = [threading.Thread(target=run, args=(0,))]
        threads[0].start()
        until(lambda: p.fake.starts(), 10, "first")
        for i in (1, 2, 3):
            threads.append(threading.Thread(target=run, args=(i,), kwargs={"priority": "PRIORITY_WARMUP"}))
            threads[-1].start()
        until(lambda: sum(j["state"] == "queued" for j in p.client().jobs()) == 3, 10, "queue")
        threads.append(threading.Thread(target=run, args=(4,)))
        threads[-1].start()
        until(lambda: sum(j["state"] == "queued" for j in p.client().jobs()) == 4, 10, "queue")
        # An interactive caller joins the last warm-up job: it is promoted.
        threads.append(threading.Thread(target=run, args=(3,)))
        threads[-1].start()
        for t in threads:
            t.join(60)
        expect(set(order[1:4]) == {3, 4} and order[4:] in ([1, 2], [2, 1]), order)


def queue_limit_says_when():
    with Place("slow:2", args=["--workers", "1", "--max-queue", "3"]) as p:
        calls = [p.client().open(module(i), eager=True, **T) for i in range(3)]
        until(lambda: len(p.client().jobs()) == 3, 5, "jobs")
        extra = p.client()
        try:
            extra.compile(module(9), eager=True, **T)
            raise AssertionError("it was taken")
        except extra.grpc.RpcError as e:
            expect(e.code() == extra.grpc.StatusCode.RESOURCE_EXHAUSTED, e)
            trailers = dict(e.trailing_metadata())
            expect(int(trailers["grpc-retry-pushback-ms"]) > 0 and b"overloaded" in trailers["neffd-error-bin"], trailers)
        for c in calls:
            c.cancel()


def workers_that_cannot_live_are_told():
    """Without a worker nothing can be compiled: who waits hears so."""
    if os.environ.get("TEST_SANITIZE"):
        raise Skip("a sanitizer dies of the limit in its own words")
    with Place(env={"NEFFD_WORKER_MEMORY": "1M"}) as p:
        for _ in range(2):
            began = time.time()
            error = failed(p.client().compile(module(1), eager=True, timeout=60 * SLOW, **T)[0])
            expect(error["code"] == "no_compiler" and "cannot ask for this host's compilers: worker process" in error["message"], error)
            expect("report it with the graph" not in error["hint"], error)
            expect(time.time() - began < 15 * SLOW, time.time() - began)


def a_lock_timeout_of_nothing_takes_a_free_lock():
    with Place(args=["--lock-timeout", "0"]) as p:
        done(p.client().compile(module(1), **T)[0])


def memory_admission():
    """Two compiles that were seen to need 150 MB do not run beside each other in 250 MB."""
    if os.environ.get("TEST_SANITIZE") == "thread":
        raise Skip("ThreadSanitizer makes 400 MB of the compiler's 150")
    with Place("alloc:150:0.8", args=["--workers", "2", "--memory-limit", "400M"]) as p:
        done(p.client().compile(module(0), **T)[0])
        p.daemon.stop()
        p.daemon.args[-1] = "250M"
        p.daemon.start()
        threads = [threading.Thread(target=lambda i=i: done(p.client().compile(module(i), eager=True, **T)[0])) for i in (1, 2)]
        for t in threads:
            t.start()
        for t in threads:
            t.join(30 * SLOW)
        starts = p.fake.starts()
        expect(len(starts) == 3, starts)
        expect(abs(starts[2]["time_ns"] - starts[1]["time_ns"]) > 0.6e9, "they ran side by side")


def explain():
    with Place() as p:
        c = p.client()
        expect(c.compile(module(1), action="ACTION_EXPLAIN", **T)[0]["done"]["explanation"]["found"] is False, "an empty cache has a neighbour")
        near = done(c.compile(module(1), name="near", **T)[0])
        p_ops = [{"name": "optlevel", "value": "1"}]

        def differences(data, **kw):
            d = c.compile(data, action="ACTION_EXPLAIN", **{**T, **kw})[0]["done"]
            expect(d["outcome"] == "OUTCOME_MISS" and d["explanation"]["found"], d)
            expect(d["explanation"]["nearest_key"] == near["canonical_key"] and d["explanation"]["nearest_name"] == "near", d["explanation"])
            return [(x["component"], x["name"], x["cached"], x["requested"], x["location"]) for x in d["explanation"]["differences"]]

        diff = differences(module(1), options=p_ops)
        expect([d[0] for d in diff] == ["option"] and diff[0][3] == "1", diff)
        diff = differences(module(1, dim=16))
        expect({d[0] for d in diff} <= {"input", "output"} and ("input", "input 0") in [(d[0], d[1]) for d in diff], diff)
        diff = differences(module(2))
        expect([d[0] for d in diff] == ["constant"], diff)
        diff = differences(module(1).replace(b"stablehlo.multiply", b"stablehlo.subtract"))
        expect([d[0] for d in diff] == ["structure"] and "subtract" in diff[0][3] and diff[0][4], diff)
        hit = c.compile(module(1), action="ACTION_EXPLAIN", **T)[0]["done"]
        expect(hit["outcome"] == "OUTCOME_HIT_LOCAL" and hit["explanation"]["similarity"] == 1, hit)
        expect(len(p.fake.starts()) == 1, "explaining compiles")
        # A compile that misses hears it as a line of the log, unasked.
        last, events = c.compile(module(1), options=p_ops, **T)
        lines = [e["log"]["line"] for e in events if e["log"] is not None and e["log"]["source"] == "explain"]
        expect(lines and "optlevel" in lines[0], events)


def stages_and_intermediates():
    with Place() as p:
        c = p.client()
        d = done(c.compile(module(1), stop_after="STAGE_STABLEHLO", **T)[0])
        expect(d["artifact"]["kind"] == "stablehlo" and b"stablehlo.add" in payload(d["artifact"]), d)
        expect(not p.fake.starts(), "compiled")
        d = done(c.compile(module(1), keep=["stablehlo", "log"], **T)[0])
        kept = {a["kind"]: payload(a) for a in d["intermediates"]}
        expect(b"stablehlo.add" in kept["stablehlo"] and "log" in kept, kept.keys())
        d = done(c.compile(module(1), keep=["stablehlo"], **T)[0])
        expect(d["outcome"] == "OUTCOME_HIT_LOCAL" and payload(d["intermediates"][0]) == kept["stablehlo"], d["intermediates"])
        expect({s["stage"] for s in done(c.compile(module(2), **T)[0])["stages"]} >= {"STAGE_IMPORT", "STAGE_COMPILE"}, "stages")


def side_files_and_namespaces():
    with Place(env={"NEFFD_NAMESPACES": "team-a,team-b"}) as p:
        c = p.client()
        plain = done(c.compile(module(1), **T)[0])
        a = done(c.compile(module(1), cache_namespace="team-a", **T)[0])
        expect(a["outcome"] == "OUTCOME_COMPILED" and a["canonical_key"] != plain["canonical_key"], "namespaces share")
        expect(done(c.compile(module(1), cache_namespace="team-a", **T)[0])["outcome"] == "OUTCOME_HIT_LOCAL", "no hit in its own")
        expect({e["cache_namespace"] for e in c.entries()} == {"", "team-a"} and len(c.entries(cache_namespace="team-a")) == 1, "list")
        side = [("kernels/k0.bin", b"kernel one" * 1000), ("kernels/k1.bin", b"")]
        s1 = done(c.compile(module(1), side=side, **T)[0])
        expect(s1["canonical_key"] != plain["canonical_key"], "side files are not in the key")
        expect(done(c.compile(module(1), side=side, **T)[0])["outcome"] == "OUTCOME_HIT_LOCAL", "no hit with side files")
        s2 = done(c.compile(module(1), side=[("kernels/k0.bin", b"another"), side[1]], **T)[0])
        expect(s2["canonical_key"] != s1["canonical_key"], "the content of side files is not in the key")
        wrong = {"side_files": [{"name": "k", "sha256": b"\x07" * 32, "size": 3}]}
        call = c.open(module(1), side=[("k", b"abc")], **T)
        call.cancel()
        del wrong


def base_keys():
    with Place() as p:
        c = p.client()
        a = done(c.compile(module(1), base_key="k1", **T)[0])
        b = done(c.compile(module(2), base_key="k1", **T)[0])
        expect(b["outcome"].startswith("OUTCOME_HIT") and b["canonical_key"] == a["canonical_key"], "the base key does not stand for the graph", b["outcome"])
        other = done(c.compile(module(1), base_key="k2", **T)[0])
        plain = done(c.compile(module(1), **T)[0])
        expect(len({a["canonical_key"], other["canonical_key"], plain["canonical_key"]}) == 3, "keys collide")


def drain():
    with Place("slow:1.5") as p:
        running = p.client().open(module(1), eager=True, **T)
        running.wait("stage")
        until(lambda: p.fake.starts(), 5, "start")
        late = p.client()
        late.status()
        p.daemon.proc.send_signal(signal.SIGTERM)
        p.daemon.wait_log("daemon: draining")
        try:
            late.compile(module(2), **T)
            raise AssertionError("a new request was taken")
        except late.grpc.RpcError as e:
            expect(e.code() == late.grpc.StatusCode.UNAVAILABLE, e)
        done(running.result()[0])
        expect(p.daemon.ended(10) == 0, "exit")
        expect(not os.path.exists(p.daemon.socket), "socket")


def drain_runs_out():
    with Place("slow:60", args=["--drain-timeout", "1"]) as p:
        running = p.client().open(module(1), eager=True, **T)
        until(lambda: p.fake.starts(), 5, "start")
        pid = p.fake.starts()[0]["pid"]
        p.daemon.proc.send_signal(signal.SIGTERM)
        error = failed(running.result()[0])
        expect(error["code"] == "draining" and error["retryable"], error)
        expect(p.daemon.ended(10) == 0, "exit")
        until(lambda: not os.path.exists(f"/proc/{pid}"), 2, "end of the compiler")


def second_signal_stops_at_once():
    with Place("slow:60") as p:
        running = p.client().open(module(1), eager=True, **T)
        until(lambda: p.fake.starts(), 5, "start")
        p.daemon.proc.send_signal(signal.SIGTERM)
        p.daemon.wait_log("daemon: draining")
        expect(not running.call.done(), "ended by the first one")
        began = time.time()
        p.daemon.proc.send_signal(signal.SIGTERM)
        expect(p.daemon.ended(10) == 0 and time.time() - began < 4 * SLOW, "took", time.time() - began)


def progress_and_jobs():
    with Place("slow:2.5") as p:
        watch = p.client().jobs_watch()
        expect(next(watch)["jobs"] == [], "jobs at first")
        last, events = p.client().compile(module(1), name="watched", **T)
        done(last)
        expect(sum(e["progress"] is not None for e in events) >= 2, "no sign of life", kinds(events))
        seen = set()
        for reply in watch:
            for job in reply["jobs"]:
                expect(job["name"] == "watched" and job["target"] == "trn2" and job["leader"]["tool"] == "integration test", job)
                seen.add(job["state"])
            if seen and not reply["jobs"]:
                break
        expect("compiling" in seen, seen)
        last, events = p.client().compile(module(2), **T)
        etas = [e["progress"]["eta_p50_ms"] for e in events if e["progress"] is not None]
        expect(any(500 < x < 4000 * SLOW for x in etas), "nothing was learned", etas)


def the_sixth_of_a_class_is_foreseen():
    """After five compiles of graphs of one size the expected time (median) of the sixth is right within 30 %."""
    with Place("slow:2") as p:
        for n in range(1, 6):
            done(p.client().compile(module(n), **T)[0])
        told = []
        began = [0.0]

        def on_event(e):
            if e["stage"] is not None and e["stage"]["stage"] == "STAGE_COMPILE":
                began[0] = time.monotonic()
            if e["progress"] is not None and e["progress"]["eta_p50_ms"]:
                told.append(e["progress"]["eta_p50_ms"] / 1000 + time.monotonic() - began[0])
        last = done(p.client().compile(module(6), on_event=on_event, **T)[0])
        took = last["times"]["compile_us"] / 1e6
        expect(told, "nothing was foreseen")
        print(f"# took {took:.2f} s, foreseen {told[0]:.2f} s")
        expect(abs(told[0] - took) <= 0.3 * took, told, took)


def ranks_drift_apart():
    """Two ranks of one job ask for different graphs as their fifth: both are told of both, once."""
    with Place("slow:1.5") as p:
        def ask(rank, graph, name, job="train-7", ordinal=4, tool="neffd-torch 0.1.0", warnings=None):
            client = {"tool": tool, "pid": 100 + rank, "rank": str(rank), "job_id": job, "world_size": 4, "ordinal": ordinal}
            last, events = p.client().compile(module(graph), name=name, client=client, timeout=60 * SLOW, **T)
            done(last)
            said = [e["log"]["line"] for e in events if e["log"] is not None and e["log"]["level"] == 1 and "drifted apart" in e["log"]["line"]]
            if warnings is not None:
                warnings[rank] = said
            return said

        warnings = {}
        threads = [threading.Thread(target=ask, args=(r, 1 + (r == 1), f"model{r}"), kwargs={"warnings": warnings}) for r in (0, 1)]
        for t in threads:
            t.start()
            time.sleep(0.5)
        for t in threads:
            t.join(60 * SLOW)
        expect(len(warnings[0]) == 1 and warnings[0] == warnings[1], warnings)
        for word in ("train-7", "number 5", "rank 0", "rank 1", "model0", "model1"):
            expect(word in warnings[0][0], word, warnings)
        p.daemon.wait_log("ranks have drifted apart", 10)
        # Told once a job; equal graphs, other ordinals, other jobs and programs that are a process a graph are no reason.
        expect(ask(2, 3, "model2") == [], "told again")
        p.fake.tell("ok")
        expect(ask(0, 4, "a", "other") + ask(1, 4, "a", "other") == [], "equal graphs")
        expect(ask(0, 5, "a", "other", 9) + ask(0, 6, "a", "other", 9) + ask(1, 7, "a", "other", 10) == [], "one rank, other ordinals")
        expect(ask(0, 8, "a", "cc", tool="neffcc 0.1.0") + ask(1, 9, "a", "cc", tool="neffcc 0.1.0") == [], "neffcc")


def full_and_broken_places():
    """The artifact is delivered although a tier cannot take it."""
    with Place() as p:
        c = p.client()
        done(c.compile(module(1), **T)[0])
        os.chmod(p.daemon.shared, 0o500)
        shared = p.daemon.shared
        os.rename(shared, str(shared) + ".away")
        Path(shared).write_text("a file where the directory was")
        d = done(c.compile(module(2), **T)[0])
        expect(payload(d["artifact"]), "nothing")
        expect(done(c.compile(module(2), **T)[0])["outcome"] == "OUTCOME_HIT_LOCAL", "not in the local tier")
        os.unlink(shared)
        os.rename(str(shared) + ".away", shared)
        os.chmod(shared, 0o755)


if __name__ == "__main__":
    main([compile_then_hits, restart_hits_without_upload, one_front_key_joins, canonical_twins_merge, uploader_dies, silent_uploader, lying_front_key,
          waiter_leaves_others_stay, last_waiter_cancels, detached_goes_on, past_half_goes_on, cancel_job, compile_timeout, lock_timeout,
          ignore_cache_and_no_publish, failures_are_remembered_by_class, transient_failures_are_repeated, bad_output_is_no_success,
          failed_work_is_kept_on_request, uploads_have_a_limit, nothing_escapes, priorities, queue_limit_says_when, workers_that_cannot_live_are_told,
          a_lock_timeout_of_nothing_takes_a_free_lock, memory_admission, explain, stages_and_intermediates, side_files_and_namespaces,
          base_keys, drain, drain_runs_out, second_signal_stops_at_once, progress_and_jobs, the_sixth_of_a_class_is_foreseen, ranks_drift_apart, full_and_broken_places])
