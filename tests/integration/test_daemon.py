#!/usr/bin/python3
# tests/run: timeout=300
"""The daemon as a program and as a server: starting, sockets, signals, health, reflection, refusals, administration."""
import os
import random
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from lib import (Client, Daemon, Place, SCHEMA, SLOW, Skip, binary, done, expect, failed, grpc_module, main, module, until)


def starts_and_ends():
    with Daemon() as d, d.client() as c:
        s = c.status()
        expect(s["pid"] == d.pid and s["api_version"] == 1 and s["version"], s)
        expect("cpu" in s["targets"] or until(lambda: "cpu" in c.status()["targets"]), s)
        expect(s["cache"]["local_dir"] == str(d.local), s["cache"])
        expect(stat.S_ISSOCK(os.stat(d.socket).st_mode), "socket")
        c.close()
        expect(d.stop() == 0, "exit", d.proc.returncode)
        expect(not os.path.exists(d.socket), "the socket is still there")
        expect(not list((d.local / "run").iterdir()), "an instance file is left")
        expect("daemon: ended" in d.text(), d.text())


def idle_memory():
    if os.environ.get("TEST_SANITIZE"):
        raise Skip("memory is not ours under a sanitizer")
    with Daemon() as d, d.client() as c:
        c.status()
        time.sleep(0.5)
        expect(d.rss_mib() < 30, "idle RSS", d.rss_mib())


def second_instance_is_refused():
    with Daemon() as d:
        out = subprocess.run(d.command(), env=d.env, capture_output=True, text=True, timeout=20)
        expect(out.returncode == 7, out)
        expect(f"pid {d.pid}" in out.stderr and "since 20" in out.stderr and "hint:" in out.stderr, out.stderr)
        with d.client() as c:
            expect(c.status()["pid"] == d.pid, "the first one has suffered")


def stale_socket_is_taken_over():
    with Daemon() as d:
        d.stop(signal.SIGKILL)
        expect(os.path.exists(d.socket), "no stale socket to try it with")
        d.start()
        with d.client() as c:
            expect(c.status()["pid"] == d.pid, "status")
        expect("stale socket taken over" in d.text(), d.text())


def foreign_socket_is_not_stolen():
    directory = tempfile.mkdtemp(prefix="neffd-test-")
    try:
        path = f"{directory}/s.sock"
        other = socket.socket(socket.AF_UNIX)
        other.bind(path)
        other.listen()
        d = Daemon(directory, wait=False)
        expect(d.proc.wait(20) == 7 and "another program" in d.text(), d.text())
        expect(os.path.exists(path), "its socket is gone")
        other.close()
        Path(path).unlink()
        Path(path).write_text("not a socket")
        d.start(wait=False)
        expect(d.proc.wait(20) == 2 and "not a socket" in d.text(), d.proc.returncode, d.text())
        expect(Path(path).read_text() == "not a socket", "a file was overwritten")
    finally:
        shutil.rmtree(directory)


def a_socket_that_is_swept_away_comes_back():
    """Cleaners of temporary files take what looks old: the socket alone, or its lock as well."""
    with Daemon() as d:
        for names in (["s.sock"], ["s.sock", "s.sock.lock"]):
            for name in names:
                (d.dir / name).unlink()
            until(lambda: os.path.exists(d.socket), 10, "the socket")
            with d.client() as c:
                expect(c.status()["pid"] == d.pid, "another daemon answers")
            second = subprocess.run(d.command(), env=d.env, capture_output=True, text=True, timeout=20)
            expect(second.returncode == 7 and f"pid {d.pid}" in second.stderr, second)
        d.stop()
        expect(not os.path.exists(d.socket), "the socket stays behind")


def a_socket_of_another_daemon_is_left_to_it():
    with Daemon() as d:
        os.unlink(d.socket)
        other = socket.socket(socket.AF_UNIX)
        other.bind(d.socket)
        d.wait_log("do not find this daemon", 10)
        d.stop()
        expect(os.path.exists(d.socket), "another program's socket was removed")
        other.close()


def tcp_on_loopback():
    with Daemon(socket="127.0.0.1:0") as d:
        address = d.wait_log("socket=\"127.0.0.1:").split('socket="')[-1].split('"')[0]
        with Client(address) as c:
            expect(c.status()["pid"] == d.pid, "status")
            last, _ = c.compile(module(1))
            artifact = done(last)["artifact"]
            expect(artifact["path"] == "", "a path was given over TCP", artifact)
            data = b"".join(x["data"] for x in c.fetch(sha256=artifact["sha256"]))
            expect(len(data) == artifact["size"], len(data))
            try:
                c.drain()
                raise AssertionError("Drain was answered over TCP")
            except c.grpc.RpcError as e:
                expect(e.code() == c.grpc.StatusCode.PERMISSION_DENIED, e)
        # The port is ours alone.
        out = subprocess.run([binary("neffd"), "--socket", address, "--local-dir", f"{d.dir}/l2", "--cache-dir", f"{d.dir}/s2"],
                             env=d.env, capture_output=True, text=True, timeout=20)
        expect(out.returncode == 7 and "in use" in out.stderr, out)


def tcp_elsewhere_is_refused():
    for address in ("0.0.0.0:4317", "192.0.2.1:4317", "[::]:4317", "example.com:80"):
        directory = tempfile.mkdtemp(prefix="neffd-test-")
        try:
            d = Daemon(directory, socket=address, wait=False)
            expect(d.proc.wait(20) == 2 and "loopback" in d.text() and "hint:" in d.text(), address, d.text())
        finally:
            shutil.rmtree(directory)


def print_and_check_config():
    out = subprocess.run([binary("neffd"), "--workers", "3", "--print-config"], capture_output=True, text=True, timeout=20)
    expect(out.returncode == 0 and "workers = 3" in out.stdout, out)
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as f:
        f.write(out.stdout)
        f.flush()
        back = subprocess.run([binary("neffd"), "--config", f.name, "--check-config"], capture_output=True, text=True, timeout=20)
        expect(back.returncode == 0, back)
        f.write("\nworkres = 3\n")
        f.flush()
        bad = subprocess.run([binary("neffd"), "--config", f.name, "--check-config"], capture_output=True, text=True, timeout=20)
        expect(bad.returncode == 2 and "workers" in bad.stderr, bad)
    expect(subprocess.run([binary("neffd"), "--version"], capture_output=True, text=True).stdout.startswith("neffd "), "version")
    expect("--local-dir" in subprocess.run([binary("neffd"), "--help"], capture_output=True, text=True).stdout, "help")
    expect(subprocess.run([binary("neffd"), "--no-such"], capture_output=True).returncode == 2, "unknown option")
    with open("/dev/full", "w") as full:
        for what in ("--print-config", "--help", "--version"):
            cut = subprocess.run([binary("neffd"), what], stdout=full, stderr=subprocess.PIPE, text=True, timeout=20)
            expect(cut.returncode == 7 and "cannot write" in cut.stderr, what, cut)
    lost = subprocess.run([binary("neffd"), "--log-file", "/proc/nowhere/log"], capture_output=True, text=True, timeout=20)
    expect(lost.returncode == 7 and "cannot open the log file" in lost.stderr, lost)


def health():
    grpc = grpc_module()
    with Daemon() as d, d.client() as c:
        check = c.channel.unary_unary("/grpc.health.v1.Health/Check")
        expect(check(b"", timeout=10, wait_for_ready=True) == b"\x08\x01", "not SERVING")
        expect(check(b"\x0a\x11neffd.v1.Compiler", timeout=10) == b"\x08\x01", "not SERVING by name")
        try:
            check(b"\x0a\x03who", timeout=10)
            raise AssertionError("an unknown service is healthy")
        except grpc.RpcError as e:
            expect(e.code() == grpc.StatusCode.NOT_FOUND, e)
        watch = c.channel.unary_stream("/grpc.health.v1.Health/Watch")(b"", timeout=30)
        expect(next(watch) == b"\x08\x01", "watch")
        hold = c.open(module(5), timeout=30)   # something to drain
        hold.wait("send_input")
        c.drain(timeout_ms=20000)
        expect(next(watch) == b"\x08\x02", "watch does not hear of the drain")
        watch.cancel()
        hold.cancel()
        d.proc.wait(20)


def reflection():
    with Daemon() as d, d.client() as c:
        for version in ("v1", "v1alpha"):
            ask = c.channel.stream_stream(f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo")
            replies = list(ask(iter([b"\x3a\x00", b"\x22\x11neffd.v1.Compiler", b"\x1a\x0bneffd.proto", b"\x22\x07no.such"]), timeout=10, wait_for_ready=True))
            expect(len(replies) == 4, len(replies))
            for name in (b"neffd.v1.Compiler", b"neffd.v1.Admin", b"grpc.health.v1.Health", b"grpc.reflection.v1.ServerReflection"):
                expect(name in replies[0], name, replies[0])
            expect(b"CompileRequest" in replies[1] and b"CompileRequest" in replies[2], "no descriptor")
            expect(b"no such symbol" in replies[3], replies[3])


def unknown_methods_and_bad_messages():
    grpc = grpc_module()

    def status(call):
        try:
            call()
        except grpc.RpcError as e:
            return e
        raise AssertionError("it was answered")

    with Daemon() as d, d.client() as c:
        e = status(lambda: c.channel.unary_unary("/neffd.v1.Compiler/Nothing")(b"", timeout=10, wait_for_ready=True))
        expect(e.code() == grpc.StatusCode.UNIMPLEMENTED, e)
        e = status(lambda: c.channel.unary_unary("/no.such.Service/Status")(b"", timeout=10))
        expect(e.code() == grpc.StatusCode.UNIMPLEMENTED, e)
        e = status(lambda: c.channel.unary_unary("/neffd.v1.Compiler/Lookup")(b"\xff\xff\xff", timeout=10))
        expect(e.code() == grpc.StatusCode.INVALID_ARGUMENT, e)
        detail = dict(e.trailing_metadata()).get("neffd-error-bin")
        expect(detail and b"invalid_argument" in detail, e.trailing_metadata())
        e = status(lambda: c.channel.unary_unary("/neffd.v1.Compiler/Lookup")(b"", timeout=10))
        expect(e.code() == grpc.StatusCode.INVALID_ARGUMENT, e)
        e = status(lambda: c.channel.unary_unary("/neffd.v1.Admin/Status")(b"x" * (1 << 20 | 1), timeout=10))
        expect(e.code() == grpc.StatusCode.RESOURCE_EXHAUSTED, e)
        stream = c.channel.stream_stream("/neffd.v1.Compiler/Compile")
        for first in ([b"\x12\x02\x08\x00"], [b""], [b"\xff"], [], [b"\x0a\x00", b"\x0a\x00"]):
            e = status(lambda: list(stream(iter(first), timeout=10)))
            expect(e.code() == grpc.StatusCode.INVALID_ARGUMENT, first, e)
        expect(c.status()["pid"] == d.pid, "status")


def bad_requests():
    with Daemon() as d, d.client() as c:
        for start, words in (({"front_key": b"short"}, "front_key"), ({"target": "trn9"}, "trn9"), ({"keep": ["everything"]}, "everything"),
                             ({"cache_namespace": "../x"}, "namespace"), ({"cache_namespace": "other"}, "other"),
                             ({"input_bytes": 1 << 60}, "max_input"), ({"stop_after": 77}, "stage"), ({"action": 9}, "action"),
                             ({"side_files": [{"name": "a", "sha256": b"x"}]}, "sha256")):
            error = failed(c.compile(module(1), timeout=10, **start)[0])
            expect(words in error["message"] + error["hint"], start, error)
            expect(error["class"] == "FAILURE_CLASS_USER" or error["code"] == "permission_denied", error)
        error = failed(c.compile(module(1), timeout=10, eager=True, input_bytes=10)[0])
        expect(error["code"] == "invalid_argument", error)
        error = failed(c.compile(module(1), timeout=10, eager=True, input_bytes=100000)[0])
        expect("ended after" in error["message"], error)
        error = failed(c.compile(b"", timeout=10, eager=True)[0])
        expect("empty" in error["message"], error)


def malformed_graphs():
    text = module(1)
    bad_type = text.replace(b"tensor<8xf32> {", b"tensor<8xf99> {", 1)
    cases = [b"func.func @main(", bad_type, text.replace(b"stablehlo.add", b"stablehlo.nonsense"), b"\x00" * 64, b"\xff\xfe" * 32,
             b"ML\xefR" + b"\xff" * 100, text[: len(text) // 2], b"(" * 100000, text.replace(b"%xb : ", b"%nobody : ", 1)]
    with Daemon() as d, d.client() as c:
        for data in cases:
            error = failed(c.compile(data, timeout=30, eager=True)[0])
            expect(error["class"] == "FAILURE_CLASS_USER", data[:40], error)
            expect(error["location"] or error["code"] == "unsupported", "no location", data[:40], error)
        expect(c.counters()["worker_crashes"] == 0, c.counters())
        done(c.compile(text, timeout=30)[0])


def limits_of_graphs_name_their_options():
    constant = b"func.func @main() -> tensor<2xf32> {\n  %0 = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf32>\n  return %0 : tensor<2xf32>\n}\n"
    for option, text in (("max-ops", module(1)), ("max-depth", module(1)), ("max-graph-memory", module(1)), ("max-literal", constant)):
        with Daemon(args=[f"--{option}", "1"]) as d, d.client() as c:
            error = failed(c.compile(text, timeout=30, eager=True)[0])
            expect(error["code"] == "limit_exceeded" and error["hint"] == f"raise the option {option.replace('-', '_')}", option, error)
    ones = "x".join(["1"] * 1200)
    with Daemon() as d, d.client() as c:
        error = failed(c.compile(f"func.func @main(%a: tensor<{ones}xf32>) {{\n  return\n}}\n".encode(), timeout=30, eager=True)[0])
        expect(error["code"] == "limit_exceeded" and not error["hint"], "a limit that is no option", error)


def configuration_over_the_wire():
    with Daemon(args=["--workers", "2"], env={"NEFFD_RETRIES": "5"}) as d, d.client() as c:
        config = c.config()
        expect(config["workers"]["value"] == "2" and config["workers"]["source"] == "command line", config["workers"])
        expect(config["retries"]["value"] == "5" and config["retries"]["source"] == "env", config["retries"])
        expect("NEFFD_RETRIES" in config["retries"]["env"], config["retries"])
        expect(config["lock_timeout"]["default_value"] == "1200", config["lock_timeout"])


def sighup_rereads():
    with tempfile.TemporaryDirectory(prefix="neffd-test-") as directory:
        conf = Path(directory) / "conf"
        conf.write_text("retries = 1\n")
        with Daemon(args=["--config", str(conf)]) as d, d.client() as c:
            expect(c.config()["retries"]["value"] == "1", "before")
            conf.write_text("retries = 7\n")
            d.proc.send_signal(signal.SIGHUP)
            d.wait_log("daemon: reloaded")
            expect(c.config()["retries"]["value"] == "7", "after")
            conf.write_text("retries = lots\n")
            d.proc.send_signal(signal.SIGHUP)
            d.wait_log("not reread")
            expect(c.config()["retries"]["value"] == "7", "a wrong file has had an effect")
            done(c.compile(module(1))[0])


def notify_and_activation():
    directory = tempfile.mkdtemp(prefix="neffd-test-")
    try:
        notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        notify.bind(f"{directory}/notify")
        notify.settimeout(20)
        listening = socket.socket(socket.AF_UNIX)
        listening.bind(f"{directory}/s.sock")
        listening.listen()

        log = open(f"{directory}/log", "wb")
        env = {**os.environ, "NOTIFY_SOCKET": f"{directory}/notify", "LISTEN_FDS": "1"}
        script = "import os,sys; os.environ['LISTEN_PID']=str(os.getpid()); os.execv(sys.argv[1], sys.argv[1:])"
        if listening.fileno() != 3:
            os.set_inheritable(listening.fileno(), True)
            script = f"import os,sys; os.dup2({listening.fileno()},3); " + script
        p = subprocess.Popen(["/usr/bin/python3", "-c", script, binary("neffd"), "--local-dir", f"{directory}/l", "--cache-dir", f"{directory}/c"],
                             env=env, stdout=log, stderr=log, close_fds=False)
        expect(notify.recv(4096).startswith(b"READY=1"), "no READY")
        with Client(f"{directory}/s.sock") as c:
            expect(c.status()["pid"] == p.pid, "status")
        p.terminate()
        expect(notify.recv(4096).startswith(b"STOPPING=1"), "no STOPPING")
        expect(p.wait(20) == 0, "exit")
        expect(os.path.exists(f"{directory}/s.sock"), "systemd's socket was removed")
        listening.close()
        notify.close()
    finally:
        shutil.rmtree(directory)


def foreign_uid():
    if os.geteuid() != 0:
        raise Skip("needs root to become another user")
    directory = tempfile.mkdtemp(prefix="neffd-test-")
    os.chmod(directory, 0o755)
    try:
        with Daemon(directory) as d:
            script = f"""
import sys, os
sys.path.insert(0, {str(Path(__file__).parent)!r})
os.setgid(65534); os.setuid(65534); os.umask(0o077)
from lib import *
with Client({d.socket!r}) as c:
    c.status()
    artifact = done(c.compile(module(1))[0])["artifact"]
    data = b"".join(x["data"] for x in c.fetch(sha256=artifact["sha256"]))
    expect(len(data) == artifact["size"], "fetch")
    if artifact["path"]:
        expect(payload(artifact) == data, "a path was given that cannot be read")
    for call in (lambda: c.drain(), lambda: c.cancel(1), lambda: c.gc(), lambda: c.remove(failures_only=True), lambda: c.verify()):
        try:
            call()
            raise AssertionError("an administrative call was answered")
        except c.grpc.RpcError as e:
            expect(e.code() == c.grpc.StatusCode.PERMISSION_DENIED, e)
print("fine")
"""
            out = subprocess.run(["/usr/bin/python3", "-c", script], capture_output=True, text=True, timeout=60 * SLOW)
            expect("fine" in out.stdout, out.stdout, out.stderr)
            with d.client() as c:
                expect(c.compile(module(1))[0]["done"]["outcome"] == "OUTCOME_HIT_LOCAL", "not for everybody")
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def few_descriptors():
    """RLIMIT_NOFILE of 256 and 200 clients at once: they wait, nobody fails, nothing crashes."""
    with Place("slow:0.3", prefix=["sh", "-c", 'ulimit -n 256; exec "$@"', "sh"]) as p:
        clients = [p.client() for _ in range(200)]
        calls = [c.open(module(i % 5), timeout=90, target="trn2") for i, c in enumerate(clients)]
        outcomes = {}

        def run(call):
            last, _ = call.result()
            outcomes.setdefault(done(last)["outcome"], []).append(1)

        threads = [threading.Thread(target=run, args=(call,)) for call in calls]
        for t in threads:
            t.start()
        for t in threads:
            t.join(120)
        expect(sum(map(len, outcomes.values())) == 200, {k: len(v) for k, v in outcomes.items()})
        expect(len(p.fake.starts()) == 5, len(p.fake.starts()), p.daemon.text() if os.environ.get("NEFFD_TEST_VERBOSE") else "")
        expect(p.daemon.proc.poll() is None, "it is gone")


def max_clients_is_back_pressure():
    """More callers than `max_clients`: the next one waits until one leaves, and is then served."""
    with Place(args=["--max-clients=2"]) as p:
        first, second, third = p.client(), p.client(), p.client()
        first.status()
        second.status()
        grpc = third.grpc
        try:
            third.status(timeout=1)
            raise AssertionError("a third connection was served")
        except grpc.RpcError as e:
            expect(e.code() == grpc.StatusCode.DEADLINE_EXCEEDED, e)
        first.status()                       # those who are in stay in
        second.close()
        third.status(timeout=20 * SLOW)


def pings_of_a_waiter_are_welcome():
    """A waiter for a long compile pings to notice a dead daemon; by gRPC's defaults the fourth ping would cost it the connection."""
    with Place("slow:26") as p:
        options = [("grpc.keepalive_time_ms", 5500), ("grpc.keepalive_permit_without_calls", 1), ("grpc.http2.max_pings_without_data", 0)]
        clients = [p.client(options=options) for _ in range(2)]
        states = []                          # of both connections, as they change
        waiter = clients[0].open(module(1), timeout=60 * SLOW, target="trn2", eager=True)
        clients[1].status()
        for c in clients:
            c.channel.subscribe(states.append)
        last, _ = waiter.result()
        expect(done(last)["outcome"] == "OUTCOME_COMPILED", last)
        expect(states and all(s == c.grpc.ChannelConnectivity.READY for s in states), states)


def slow_reader_costs_little():
    """Callers that never read: the daemon stays small and the others are answered."""
    with Place("slow:1,flood:2048") as p:
        quiet = []
        for i in range(50):
            s = p.client().open(module(1), timeout=60, target="trn2", eager=True)
            quiet.append(s)
        last, _ = p.client().compile(module(1), timeout=60, target="trn2", eager=True)
        done(last)
        for q in quiet:
            q.cancel()
        if not os.environ.get("TEST_SANITIZE"):
            expect(p.daemon.rss_mib() < 60, p.daemon.rss_mib())


def signals_are_the_loops():
    """No thread takes a signal: ThreadSanitizer keeps one back for ever that meets a thread of gRPC, and a SIGTERM was lost so."""
    with Place() as p:
        done(p.client().compile(module(1), target="trn2")[0])   # all threads are there
        for task in Path(f"/proc/{p.daemon.pid}/task").iterdir():
            rows = dict(line.split(":", 1) for line in (task / "status").read_text().splitlines())
            blocked = int(rows["SigBlk"], 16)
            for sig in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
                expect(blocked >> (sig - 1) & 1, rows["Name"].strip(), "takes", sig.name)
        # With one signal pending for the first thread, the kernel looks for another one to take the next.
        for _ in range(20):
            p.daemon.proc.send_signal(signal.SIGCHLD)
        p.daemon.proc.send_signal(signal.SIGTERM)
        expect(p.daemon.ended() == 0, "exit")


def ignored_signals_are_taken():
    """A parent that ignores SIGCHLD and SIGHUP hands that down: workers' ends are seen all the same, and SIGHUP rereads."""
    with Place(prefix=["sh", "-c", "trap '' HUP INT; exec \"$@\"", "sh", sys.executable, "-c",
                       "import os, signal, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN); os.execv(sys.argv[1], sys.argv[1:])"]) as p:
        done(p.client().compile(module(1), target="trn2")[0])
        p.daemon.proc.send_signal(signal.SIGHUP)
        p.daemon.wait_log("daemon: reloaded")
        call = p.client().open(module(2), eager=True, target="trn2")
        done(call.result()[0])
        expect(p.daemon.stop() == 0, "exit")


def a_peer_that_does_not_read_does_not_hold_up_the_end():
    """gRPC closes no connection whose last write is not through; a stopped process never takes it."""
    size = 1 << 20
    text = random.Random(1).randbytes(4 * size).hex()
    graph = (f'func.func @main(%x: tensor<{size}xf32>) -> tensor<{size}xf32> {{ %c = stablehlo.constant dense<"0x{text}"> : tensor<{size}xf32> '
             f'%0 = stablehlo.add %x, %c : tensor<{size}xf32> return %0 : tensor<{size}xf32> }}').encode()

    def literal(name, value):
        return b"\0" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()

    def frame(kind, flags, stream, body):
        return len(body).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + body

    with Place() as p, socket.socket(socket.AF_UNIX) as s:
        d = done(p.client().compile(graph, target="cpu")[0])
        expect(d["artifact"]["size"] > 4 * size, d["artifact"])
        # All of it may come, and nobody reads it: windows of 2 GiB, then Fetch.
        request = SCHEMA.encode("FetchRequest", {"sha256": d["artifact"]["sha256"]})
        headers = {":method": "POST", ":scheme": "http", ":path": "/neffd.v1.Compiler/Fetch", ":authority": "x", "te": "trailers",
                   "content-type": "application/grpc"}
        s.connect(p.daemon.socket)
        s.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, b"\0\4\x7f\xff\xff\xff") + frame(4, 1, 0, b"") +
                  frame(8, 0, 0, (0x7ffe_ffff).to_bytes(4, "big")) + frame(1, 4, 1, b"".join(literal(*h) for h in headers.items())) +
                  frame(0, 1, 1, b"\0" + len(request).to_bytes(4, "big") + request))
        until(lambda: len(s.recv(1 << 20, socket.MSG_PEEK)) > 100_000, 5, "bytes")
        time.sleep(0.5)
        p.daemon.proc.send_signal(signal.SIGTERM)
        expect(p.daemon.ended(15) == 0, "exit")
        expect(f"a peer that does not read is cut off pid={os.getpid()}" in p.daemon.text(), p.daemon.text()[-1500:])


def a_worker_that_is_traced_does_not_hold_up_the_end():
    """Its tracer is told of its end, and its parent only after that: after ten seconds the daemon ends without it."""
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)
    with Place() as p:
        done(p.client().compile(module(1), target="trn2")[0])
        worker = int(Path(f"/proc/{p.daemon.pid}/task/{p.daemon.pid}/children").read_text().split()[0])
        if libc.ptrace(0x4206, worker, None, None) != 0:   # PTRACE_SEIZE
            raise Skip(f"processes cannot be traced here: {os.strerror(ctypes.get_errno())}")
        try:
            p.daemon.proc.send_signal(signal.SIGTERM)
            expect(p.daemon.ended(30) == 0, "exit")
            text = p.daemon.text()
            expect(f"does not end, and is left pid={worker}" in text, text[-1500:])
            expect(f'daemon: still ending for_s=4 waits_for="1 worker process (pid {worker})"' in text, text[-1500:])
        finally:
            os.waitpid(worker, 0x40000000)   # __WALL: its end is ours to take


def administration():
    with Place() as p:
        c = p.client()
        first = done(c.compile(module(1), target="trn2", name="one")[0])
        done(c.compile(module(2), target="trn2", name="two")[0])
        p.fake.tell("fail")
        failed(c.compile(module(3), target="trn2", name="three")[0])
        p.fake.tell("ok")
        rows = until(lambda: (lambda r: r if len(r) == 3 else None)(c.entries()))
        by_name = {r["name"]: r for r in rows}
        expect(by_name["one"]["artifact"]["sha256"] == first["artifact"]["sha256"], by_name)
        expect(by_name["three"]["failure"]["code"] == "compile_failed", by_name["three"])
        expect(len(c.entries(limit=1)) == 1 and len(c.entries(filter="two")) == 1, "filter")
        last = c.verify()[-1]
        expect(last["finished"] and last["bad"] == 0 and last["done"] >= 2, last)
        expect(c.remove(failures_only=True) == 1, "remove failures")
        expect(c.remove(canonical_keys=[first["canonical_key"]]) >= 1, "remove")
        expect(c.lookup(canonical_key=first["canonical_key"])["outcome"] == "OUTCOME_MISS", "still there")
        expect(done(c.compile(module(1), target="trn2")[0])["outcome"] == "OUTCOME_COMPILED", "not compiled again")
        expect(c.gc(dry_run=True)[-1]["finished"], "gc")
        done(c.compile(module(3), target="trn2")[0])


def counters_survive():
    with Place() as p:
        c = p.client()
        done(c.compile(module(1), target="trn2")[0])
        done(c.compile(module(1), target="trn2")[0])
        expect(c.counters()["hits_local"] == 1 and c.counters()["compiles"] == 1, c.counters())
        p.daemon.stop()
        p.daemon.start()
        s = p.client().status()
        expect(s["counters"]["compiles"] == 0 and s["counters_lifetime"]["compiles"] == 1, s)
        expect(s["counters_lifetime"]["hits_local"] == 1, s["counters_lifetime"])


if __name__ == "__main__":
    main([starts_and_ends, idle_memory, second_instance_is_refused, stale_socket_is_taken_over, foreign_socket_is_not_stolen,
          a_socket_that_is_swept_away_comes_back, a_socket_of_another_daemon_is_left_to_it, tcp_on_loopback,
          tcp_elsewhere_is_refused, print_and_check_config, health, reflection, unknown_methods_and_bad_messages, bad_requests, malformed_graphs,
          limits_of_graphs_name_their_options,
          configuration_over_the_wire, sighup_rereads, notify_and_activation, foreign_uid, few_descriptors, max_clients_is_back_pressure,
          pings_of_a_waiter_are_welcome, slow_reader_costs_little, signals_are_the_loops, ignored_signals_are_taken,
          a_peer_that_does_not_read_does_not_hold_up_the_end, a_worker_that_is_traced_does_not_hold_up_the_end, administration,
          counters_survive])
