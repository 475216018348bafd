#!/usr/bin/env python3
# tests/run: timeout=300
"""libneffd.so as a host program uses it: ctypes, threads, fork, hits without a daemon, execution."""
import array
import ctypes as C
import os
import re
import subprocess
import sys
import threading
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from support import *  # noqa: E402,F403

LIBRARY = os.path.join(BUILD, "client", "libneffd.so")


class Error(C.Structure):
    _fields_ = [("code", C.c_int), ("failure_class", C.c_int), ("retryable", C.c_bool), ("retry_after_ms", C.c_uint64), ("name", C.c_char * 32),
                ("message", C.c_char * 1024), ("location", C.c_char * 256), ("hint", C.c_char * 512)]


class ClientOptions(C.Structure):
    _fields_ = [("struct_size", C.c_size_t), ("socket", C.c_char_p), ("shared_dir", C.c_char_p), ("local_dir", C.c_char_p), ("start_daemon", C.c_bool),
                ("offline", C.c_bool)]


EVENT = C.CFUNCTYPE(C.c_int, C.c_void_p, C.c_char_p, C.c_void_p, C.c_size_t)


class Request(C.Structure):
    _fields_ = [("struct_size", C.c_size_t), ("graph", C.c_char_p), ("graph_bytes", C.c_size_t), ("input_kind", C.c_int), ("target", C.c_char_p),
                ("options", C.c_void_p), ("option_count", C.c_size_t), ("side_files", C.c_void_p), ("side_file_count", C.c_size_t), ("base_key", C.c_char_p),
                ("cache_namespace", C.c_char_p), ("name", C.c_char_p), ("priority", C.c_int), ("stop_after", C.c_int), ("timeout_ms", C.c_uint64),
                ("lock_timeout_ms", C.c_uint64), ("compile_timeout_ms", C.c_uint64), ("ignore_cache", C.c_bool), ("ignore_failures", C.c_bool),
                ("no_publish", C.c_bool), ("detach", C.c_bool), ("rank", C.c_char_p), ("job_id", C.c_char_p), ("world_size", C.c_uint32), ("on_event", EVENT),
                ("user", C.c_void_p)]


class Desc(C.Structure):
    _fields_ = [("name", C.c_char_p), ("dtype", C.c_char_p), ("rank", C.c_size_t), ("dims", C.POINTER(C.c_int64)), ("strides", C.POINTER(C.c_int64)),
                ("bytes", C.c_size_t), ("alias", C.c_int)]


def load_library():
    lib = C.CDLL(LIBRARY)
    for name in ("neffd_version", "neffd_artifact_path"):
        getattr(lib, name).restype = C.c_char_p
    for name in ("neffd_artifact_bytes", "neffd_program_inputs", "neffd_program_outputs"):
        getattr(lib, name).restype = C.c_size_t
    lib.neffd_artifact_sha256.restype = C.POINTER(C.c_uint8)
    return lib


class Client:
    def __init__(self, place, lib=None, **more):
        self.lib = lib or load_library()
        self.handle, self.err = C.c_void_p(), Error()
        options = ClientOptions(C.sizeof(ClientOptions), place.socket.encode(), place.shared.encode(), place.local.encode(), more.get("start", False),
                                more.get("offline", False))
        if self.lib.neffd_client_open(C.byref(options), C.byref(self.handle), C.byref(self.err)):
            raise RuntimeError(self.err.message)

    def compile(self, text, call="neffd_compile", **more):
        """(code, outcome, sha256, artifact)"""
        text = text.encode()
        request = Request(struct_size=C.sizeof(Request), graph=text, graph_bytes=len(text), target=b"cpu", **more)
        artifact, err = C.c_void_p(), Error()
        code = getattr(self.lib, call)(self.handle, C.byref(request), C.byref(artifact), C.byref(err))
        if code:
            return code, err, None, None
        return 0, self.lib.neffd_artifact_outcome(artifact), bytes(self.lib.neffd_artifact_sha256(artifact)[:32]), artifact

    def close(self):
        self.lib.neffd_client_close(self.handle)


COMPILED, JOINED, HIT_LOCAL = 1, 2, 3


class Library(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.place = Place()
        cls.place.start()
        os.environ["NEFFD_CONFIG"] = ""

    @classmethod
    def tearDownClass(cls):
        cls.place.remove()

    def test_compile_map_execute(self):
        client = Client(self.place)
        code, outcome, sha, artifact = client.compile(GRAPH)
        self.assertEqual((code, outcome in (COMPILED, HIT_LOCAL)), (0, True))
        data = C.c_void_p()
        self.assertEqual(client.lib.neffd_artifact_map(artifact, C.byref(data), C.byref(client.err)), 0)
        import hashlib
        self.assertEqual(hashlib.sha256(C.string_at(data, client.lib.neffd_artifact_bytes(artifact))).digest(), sha)
        program, err, descs = C.c_void_p(), Error(), C.POINTER(Desc)()
        self.assertEqual(client.lib.neffd_program_load(client.handle, artifact, None, C.byref(program), C.byref(err)), 0, err.message)
        self.assertEqual(client.lib.neffd_program_inputs(program, C.byref(descs)), 2)
        self.assertEqual((descs[0].dtype, descs[0].rank, descs[0].dims[0], descs[0].bytes, descs[0].alias), (b"f32", 1, 4, 16, -1))
        self.assertEqual(client.lib.neffd_program_outputs(program, C.byref(descs)), 1)
        errors = []

        def run(scale):
            a, b, out = array.array("f", [1 * scale, 2, 3, 4]), array.array("f", [10, 20, 30, 40]), array.array("f", [0] * 4)
            inputs = (C.c_void_p * 2)(a.buffer_info()[0], b.buffer_info()[0])
            outputs = (C.c_void_p * 1)(out.buffer_info()[0])
            for _ in range(20):
                why = Error()
                if client.lib.neffd_program_execute(program, inputs, outputs, C.byref(why)) or out.tolist() != [10 * scale + 10, 60, 120, 200]:
                    errors.append((why.message, out.tolist()))

        threads = [threading.Thread(target=run, args=(k,)) for k in range(4)]
        [t.start() for t in threads]
        [t.join() for t in threads]
        self.assertEqual(errors, [])
        client.lib.neffd_program_unload(program)
        client.lib.neffd_artifact_unref(artifact)
        client.close()

    def test_threads_share_a_client(self):
        client = Client(self.place)
        results = [None] * 8

        def ask(k):
            results[k] = client.compile(graph(30 + k // 2))

        threads = [threading.Thread(target=ask, args=(k,)) for k in range(8)]
        [t.start() for t in threads]
        [t.join() for t in threads]
        self.assertEqual([r[0] for r in results], [0] * 8, [r[1].message for r in results if r[0]])
        for k in range(0, 8, 2):
            self.assertEqual(results[k][2], results[k + 1][2])
        [client.lib.neffd_artifact_unref(r[3]) for r in results]
        client.close()

    def test_a_forked_child_goes_on(self):
        client = Client(self.place)
        self.assertEqual(client.compile(graph(40))[0], 0)
        pid = os.fork()
        if pid == 0:
            code = client.compile(graph(41))[0]
            os._exit(0 if code == 0 else 1)
        self.assertEqual(client.compile(graph(42))[0], 0)
        self.assertEqual(os.waitpid(pid, 0)[1], 0)
        self.assertEqual(client.compile(graph(43))[0], 0)
        client.close()

    def test_events(self):
        client = Client(self.place)
        lines = []

        def on_event(user, line, event, size):
            lines.append(line.decode())
            return 0

        self.assertEqual(client.compile(graph(50), on_event=EVENT(on_event))[0], 0)
        self.assertTrue(lines[-1].startswith("compiled in "), lines)
        client.close()

    def test_no_threads_and_no_heavy_libraries(self):
        code = f"""if True:
            import ctypes, os, sys
            sys.path.insert(0, {os.path.dirname(os.path.abspath(__file__))!r})
            import test_library as t
            class P: socket, shared, local = {self.place.socket!r}, {self.place.shared!r}, {self.place.local!r}
            client = t.Client(P)
            assert client.compile({graph(60)!r})[0] == 0
            print(len(os.listdir("/proc/self/task")))
            print(open("/proc/self/maps").read())
            """
        out = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=self.place.env, check=True).stdout
        self.assertEqual(out.split("\n")[0], "1")
        for heavy in ("libgrpc", "libLLVM", "libsqlite3", "libuv"):
            self.assertNotIn(heavy, out)

    def test_under_five_milliseconds_from_load_to_hit(self):
        self.assertEqual(Client(self.place).compile(GRAPH)[0], 0)
        code = f"""if True:
            import sys, time
            sys.path.insert(0, {os.path.dirname(os.path.abspath(__file__))!r})
            import test_library as t
            class P: socket, shared, local = {self.place.socket!r}, {self.place.shared!r}, {self.place.local!r}
            begin = time.perf_counter()
            client = t.Client(P, offline=True)
            code, outcome, sha, artifact = client.compile({GRAPH!r})
            print(code, outcome, time.perf_counter() - begin)
            """
        best = 1
        for _ in range(10):
            out = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=self.place.env, check=True).stdout.split()
            self.assertEqual(out[:2], ["0", str(HIT_LOCAL)])
            best = min(best, float(out[2]))
        self.assertLess(best, 0.005 * SLOW)
        print(f"load to first hit: {best * 1e3:.2f} ms", file=sys.stderr)


class WithoutADaemon(unittest.TestCase):
    def test_hits_stay(self):
        with Place() as place:
            place.start()
            client = Client(place)
            first = client.compile(GRAPH)
            self.assertEqual(first[0], 0)
            self.assertEqual(place.stop(), 0)
            again = client.compile(GRAPH)
            self.assertEqual(again[:3], (0, HIT_LOCAL, first[2]))
            code, err, _, _ = client.compile(WIDER)
            self.assertEqual((code, err.name), (-9, b"no_daemon"))
            # also when the host's tier has lost it, and the alias leads to the mount
            for folder, _, files in os.walk(os.path.join(place.local, "entries")):
                for name in files:
                    os.unlink(os.path.join(folder, name))
            third = client.compile(GRAPH)
            self.assertEqual((third[0], third[2]), (0, first[2]), third[1].message if third[0] else "")
            client.close()

    def test_the_library_starts_a_daemon(self):
        with Place() as place:
            os.environ["NEFFD_DAEMON"] = NEFFD
            try:
                client = Client(place, start=True)
                code, outcome, _, _ = client.compile(GRAPH)
                self.assertEqual((code, outcome), (0, COMPILED), outcome)
                client.close()
            finally:
                del os.environ["NEFFD_DAEMON"]

    def test_a_missing_path_is_fetched(self):
        """One socket does not mean one mount namespace: what cannot be opened comes over the wire."""
        with Place() as place:
            place.start()
            other = Place()
            self.addCleanup(other.remove)
            done = place.ctl("compile", place.write("m.mlir", GRAPH), "--json").json
            out = os.path.join(place.dir, "out.neff")
            # a client that lives in another tree sees the daemon's files as strangers' or not at all: here, not at all
            code = ("mount --make-rprivate / && mkdir -p {d}/empty && mount --bind {d}/empty {shared} && mount --bind {d}/empty {local} && "
                    "exec {ctl} compile {d}/m.mlir --json --output {out}").format(d=place.dir, shared=place.shared, local=place.local, ctl=NEFFCTL, out=out)
            env = {k: v for k, v in place.env.items() if k != "LD_PRELOAD"}  # mount(8) does not live with a sanitizer
            got = subprocess.run(["unshare", "--mount", "sh", "-c", code], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            if "Operation not permitted" in got.stderr or "unshare failed" in got.stderr:
                self.skipTest("no right to make a mount namespace")
            self.assertEqual(got.returncode, 0, got.stderr)
            import hashlib
            with open(out, "rb") as f:
                self.assertEqual(hashlib.sha256(f.read()).hexdigest(), done["artifact"]["sha256"])


def under_the_sanitizer():
    """An instrumented library needs its run-time loaded before Python itself."""
    needed = subprocess.run(["ldd", LIBRARY], capture_output=True, text=True).stdout
    runtime = re.search(r"=> (\S*/lib[at]san\S*)", needed)
    if runtime and "LD_PRELOAD" not in os.environ:
        options = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"  # Python ends with its memory allocated
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, "LD_PRELOAD": runtime.group(1), "ASAN_OPTIONS": options})


if __name__ == "__main__":
    under_the_sanitizer()
    unittest.main()
