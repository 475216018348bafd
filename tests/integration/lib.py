"""What the integration tests share: a daemon in a directory of its own, a client over python3-grpcio (an implementation that is not
ours), a fake compiler, and a runner that counts cases."""
import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(Path(__file__).resolve().parent))
from pb import Schema  # noqa: E402
from stacks import stacks  # noqa: E402

SCHEMA = Schema(ROOT / "proto/neffd.proto")
CHUNK = 900_000
# An instrumented daemon is several times slower: limits that are about speed stretch with it.
SLOW = {"address": 4, "thread": 8}.get(os.environ.get("TEST_SANITIZE", ""), 1)


class Skip(Exception):
    """A case that this machine cannot run, with the reason."""


def grpc_module():
    try:
        import grpc
    except ImportError:
        raise Skip("python3-grpcio is not installed") from None
    return grpc


def build_dir():
    return Path(os.environ.get("TEST_BUILD") or os.environ.get("NEFFD_BUILD") or ROOT / "build")


def binary(name):
    path = build_dir() / "bin" / name
    if not path.exists():
        raise Skip(f"{path} is not built")
    return str(path)


def module(seed=0, rename=False, ops=3, dim=8):
    """A program of tier 0; `seed` makes it another one, `rename` the same one with other SSA names."""
    p = "renamed_" if rename else "x"
    t = f"tensor<{dim}xf32>"
    lines = [f"module @m{'_other' if rename else ''} {{", f"  func.func @main(%{p}a: {t}, %{p}b: {t}) -> {t} {{",
             f"    %{p}c = stablehlo.constant dense<{seed}.5> : {t}", f"    %{p}0 = stablehlo.add %{p}a, %{p}c : {t}"]
    for i in range(ops):
        lines.append(f"    %{p}{i + 1} = stablehlo.{['multiply', 'add', 'maximum'][i % 3]} %{p}{i}, %{p}b : {t}")
    return ("\n".join(lines + [f"    return %{p}{ops} : {t}", "  }", "}", ""])).encode()


class Daemon:
    def __init__(self, directory=None, env=None, args=(), prefix=(), wait=True, socket=None, log=None, local=None, shared=None):
        self.own = directory is None
        self.dir = Path(directory or tempfile.mkdtemp(prefix="neffd-test-"))
        self.dir.mkdir(exist_ok=True)
        self.socket = str(socket or self.dir / "s.sock")
        self.local, self.shared = Path(local or self.dir / "local"), Path(shared or self.dir / "shared")
        self.log = Path(log or self.dir / "log")
        self.args, self.prefix = list(args), list(prefix)
        self.env = {**os.environ, **(env or {})}
        self.proc = None
        self.start(wait)

    def command(self):
        address = self.socket if ":" in self.socket else f"unix:{self.socket}"
        return [*self.prefix, binary("neffd"), "--socket", address, "--cache-dir", str(self.shared), "--local-dir", str(self.local),
                "--log-level", "debug", *self.args]

    def start(self, wait=True):
        with open(self.log, "ab") as log:
            self.seen = log.tell()
            self.proc = subprocess.Popen(self.command(), env=self.env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        if wait:
            self.wait_log("daemon: ready", 20 * SLOW)

    @property
    def pid(self):
        return self.proc.pid

    def text(self):
        return self.log.read_bytes()[self.seen:].decode(errors="replace")

    def wait_log(self, words, seconds=10):
        end = time.time() + seconds
        while time.time() < end:
            if words in self.text():
                return self.text()
            if self.proc.poll() is not None:
                raise AssertionError(f"neffd ended with {self.proc.returncode} before {words!r}:\n{self.text()[-3000:]}")
            time.sleep(0.01)
        raise AssertionError(f"{words!r} not in the log after {seconds} s:\n{self.text()[-3000:]}")

    def stop(self, sig=signal.SIGTERM, seconds=20):
        if self.proc and self.proc.poll() is None:
            self.proc.send_signal(sig)
            self.ended(seconds)
        return self.proc.returncode

    def ended(self, seconds=20):
        """Waits for its end; when that does not come, the failure says what it was doing."""
        try:
            return self.proc.wait(seconds * SLOW)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"neffd did not end in {seconds * SLOW} s\n{stacks(self.pid)}\nits log:\n{self.text()[-6000:]}") from None

    def rss_mib(self):
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS"):
                return int(line.split()[1]) / 1024
        return 0

    def client(self, **kw):
        return Client(self.socket, **kw)

    def close(self):
        try:
            if self.proc and self.proc.poll() is None:
                self.stop(signal.SIGKILL)
        finally:
            if self.own:
                subprocess.run(["rm", "-rf", str(self.dir)], check=False)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        if exc[0] is None and os.environ.get("NEFFD_TEST_CLEAN_END", "1") == "1" and self.proc.poll() is None:
            try:
                code = self.stop()
                text = self.text()
                bad = [w for w in ("ERROR: AddressSanitizer", "ThreadSanitizer", "runtime error:", "LeakSanitizer") if w in text]
                if bad or code != 0:
                    raise AssertionError(f"neffd ended with {code} {bad}:\n{text[-6000:]}")
            finally:
                self.close()
        else:
            if exc[0] is not None and os.environ.get("NEFFD_TEST_VERBOSE"):
                print(self.text()[-6000:])
            self.close()


class Client:
    """Plain gRPC, messages as dicts."""

    def __init__(self, address, options=()):
        grpc = grpc_module()
        target = address if not address.startswith("/") else f"unix:{address}"
        self.grpc = grpc
        self.channel = grpc.insecure_channel(target, options=[("grpc.use_local_subchannel_pool", 1), ("grpc.enable_http_proxy", 0), *options])

    def close(self):
        self.channel.close()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()

    def _method(self, service, name, request, reply, kind):
        make = {"uu": self.channel.unary_unary, "us": self.channel.unary_stream, "ss": self.channel.stream_stream}[kind]
        return make(f"/neffd.v1.{service}/{name}", request_serializer=lambda m: SCHEMA.encode(request, m),
                    response_deserializer=lambda b: SCHEMA.decode(reply, b))

    def status(self, **kw):
        return self._method("Admin", "Status", "StatusRequest", "StatusReply", "uu")({}, timeout=kw.pop("timeout", 10), wait_for_ready=True)

    def counters(self):
        return self.status()["counters"]

    def jobs(self):
        return next(iter(self._method("Admin", "Jobs", "JobsRequest", "JobsReply", "us")({}, timeout=10)))["jobs"]

    def jobs_watch(self, timeout=10):
        return self._method("Admin", "Jobs", "JobsRequest", "JobsReply", "us")({"watch": True}, timeout=timeout)

    def cancel(self, job):
        return self._method("Admin", "CancelJob", "CancelJobRequest", "CancelJobReply", "uu")({"id": job}, timeout=10)["found"]

    def config(self):
        reply = self._method("Admin", "GetConfig", "GetConfigRequest", "GetConfigReply", "uu")({}, timeout=10)
        return {s["name"]: s for s in reply["settings"]}

    def entries(self, **kw):
        return list(self._method("Admin", "ListEntries", "ListEntriesRequest", "Entry", "us")(kw, timeout=20))

    def verify(self, repair=False):
        return list(self._method("Admin", "VerifyCache", "VerifyCacheRequest", "CacheProgress", "us")({"repair": repair}, timeout=60))

    def gc(self, **kw):
        return list(self._method("Admin", "CollectGarbage", "CollectGarbageRequest", "CacheProgress", "us")(kw, timeout=60))

    def remove(self, **kw):
        return self._method("Admin", "RemoveEntries", "RemoveEntriesRequest", "RemoveEntriesReply", "uu")(kw, timeout=60)["removed"]

    def drain(self, **kw):
        return self._method("Admin", "Drain", "DrainRequest", "DrainReply", "uu")(kw, timeout=10)

    def lookup(self, timeout=10, **kw):
        return self._method("Compiler", "Lookup", "LookupRequest", "Done", "uu")(kw, timeout=timeout)

    def fetch(self, timeout=60, **kw):
        return list(self._method("Compiler", "Fetch", "FetchRequest", "FetchChunk", "us")(kw, timeout=timeout))

    def compile(self, data, timeout=60, eager=False, on_event=None, stream=None, side=(), **start):
        """Sends the graph when asked (or at once, `eager`); returns (last event, all events)."""
        return Compile(self, data, timeout, eager, side, start).result(on_event)

    def open(self, data, timeout=60, eager=False, side=(), **start):
        return Compile(self, data, timeout, eager, side, start)


class Compile:
    def __init__(self, client, data, timeout=60, eager=False, side=(), start=None):
        self.client, self.data, self.side = client, data, list(side)
        start = dict(start or {})
        start.setdefault("input_bytes", len(data))
        start.setdefault("client", {"tool": "integration test", "pid": os.getpid()})
        if self.side:
            import hashlib
            start["side_files"] = [{"name": n, "sha256": hashlib.sha256(b).digest(), "size": len(b)} for n, b in self.side]
        self.ask = threading.Event()
        self.stop = False
        if eager:
            self.ask.set()

        def messages():
            yield {"start": start}
            while not self.ask.wait(0.05):
                if self.stop:
                    return
            if self.stop:
                return
            for part, data in enumerate([self.data] + [b for _, b in self.side]):
                for at in range(0, max(len(data), 1), CHUNK):
                    yield {"chunk": {"part": part, "data": data[at:at + CHUNK]}}

        self.events = []
        self.call = client._method("Compiler", "Compile", "CompileRequest", "CompileEvent", "ss")(messages(), timeout=timeout)

    def wait(self, kind, seconds=20):
        """Reads on until an event of that kind."""
        end = time.time() + seconds
        for event in self.call:
            self.events.append(event)
            if event["send_input"] is not None and not self.stop:
                self.ask.set()
            if event[kind] is not None:
                return event[kind]
            if event["done"] is not None or event["failed"] is not None or time.time() > end:
                break
        raise AssertionError(f"no {kind} among {[list(k for k, v in e.items() if v) for e in self.events]}")

    def result(self, on_event=None):
        try:
            for event in self.call:
                self.events.append(event)
                if event["send_input"] is not None:
                    self.ask.set()
                if on_event:
                    on_event(event)
        finally:
            self.stop = True
        last = self.events[-1] if self.events else None
        return last, self.events

    def cancel(self):
        self.stop = True
        self.call.cancel()


def expect(condition, *what):
    if not condition:
        raise AssertionError(" ".join(str(w) for w in what))


def done(last):
    expect(last and last["done"] is not None, "not done:", last)
    return last["done"]


def failed(last):
    expect(last and last["failed"] is not None, "not failed:", last)
    return last["failed"]


def payload(artifact):
    with open(artifact["path"], "rb") as f:
        return f.read(artifact["size"])


def until(condition, seconds=5, what="condition"):
    end = time.time() + seconds * SLOW
    while time.time() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError(f"{what}: not within {seconds} s")


def processes_with(text):
    """Living processes whose command line or environment holds `text`."""
    found = []
    for p in Path("/proc").iterdir():
        if not p.name.isdigit() or int(p.name) == os.getpid():
            continue
        try:
            if text.encode() in (p / "cmdline").read_bytes() + (p / "environ").read_bytes():
                if (p / "stat").read_text().rsplit(")", 1)[1].split()[0] != "Z":
                    found.append(int(p.name))
        except OSError:
            pass
    return found


class Fake:
    """tests/fake-neuronx-cc: what it is told, and what it says that it did."""

    def __init__(self, directory, actions="ok"):
        self.file, self.log = Path(directory) / "fake.actions", Path(directory) / "fake.log"
        self.tell(actions)
        path = build_dir() / "tests/fake-neuronx-cc/fake-neuronx-cc"
        if not path.exists():
            raise Skip(f"{path} is not built")
        self.env = {"NEFFD_NEURONX_CC": str(path), "FAKE_NEURONX_CC_FILE": str(self.file), "FAKE_NEURONX_CC_LOG": str(self.log)}

    def tell(self, actions):
        self.file.write_text(actions + "\n")

    def starts(self):
        if not self.log.exists():
            return []
        lines = self.log.read_text().split("\n")[:-1]  # the last one may be half written
        return [row for row in map(json.loads, lines) if row["event"] == "start"]


class Place:
    """A daemon with the fake compiler behind it: `with Place("slow:3") as p: p.daemon, p.fake, p.client()`."""

    def __init__(self, actions="ok", args=(), env=None, **kw):
        self.dir = Path(tempfile.mkdtemp(prefix="neffd-test-"))
        self.fake = Fake(self.dir, actions)
        self.daemon = Daemon(self.dir, env={**self.fake.env, **(env or {})}, args=args, **kw)
        self.clients = []

    def client(self, **kw):
        c = self.daemon.client(**kw)
        self.clients.append(c)
        return c

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        for c in self.clients:
            c.close()
        try:
            self.daemon.__exit__(*exc)
        finally:
            subprocess.run(["rm", "-rf", str(self.dir)], check=False)


def neffctl(daemon, *args, timeout=60, wait=True, env=None):
    """The project's own client, for cases about processes."""
    full = {**os.environ, "NEFFD_SOCKET": f"unix:{daemon.socket}", "TORCH_NEURONX_NEFF_CACHE_DIR": str(daemon.shared),
            "TORCH_NEURONX_NEFF_LOCAL_CACHE_DIR": str(daemon.local), **(env or {})}
    p = subprocess.Popen([binary("neffctl"), *args], env=full, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if not wait:
        return p
    out, err = p.communicate(timeout=timeout * SLOW)
    return p.returncode, out.decode(), err.decode()


def main(cases):
    """Runs the cases (functions) and prints TAP."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--minutes", type=float, default=float(os.environ.get("TEST_MINUTES") or 0))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--fast", action="store_true", default=bool(os.environ.get("TEST_FAST")))
    parser.add_argument("-v", "--verbose", action="store_true")
    args = parser.parse_args()
    cases = [c for c in cases if args.only in c.__name__]
    if args.list:
        print("\n".join(c.__name__ for c in cases))
        return
    bad = 0
    print(f"1..{len(cases)}", flush=True)
    for number, case in enumerate(cases, 1):
        began = time.time()
        name = f"{number} - {case.__name__}"
        try:
            case(args) if case.__code__.co_argcount else case()
            print(f"ok {name}", flush=True)
        except Skip as reason:
            print(f"ok {name} # SKIP {reason}", flush=True)
        except Exception:
            bad += 1
            print(f"not ok {name}", flush=True)
            print("".join(f"# {line}\n" for line in traceback.format_exc().splitlines()), end="", flush=True)
        if args.verbose:
            print(f"# {time.time() - began:.1f} s", flush=True)
    sys.exit(1 if bad else 0)
