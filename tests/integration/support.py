"""What the integration tests share: a private place, a daemon in it, neffctl, graphs, .npy files. Standard library only."""
import array
import ast
import json
import os
import shutil
import signal
import struct
import subprocess
import tempfile
import time

from stacks import stacks

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("TEST_BUILD") or os.environ.get("NEFFD_BUILD") or os.path.join(ROOT, "build")
BIN = os.path.join(BUILD, "bin")
NEFFD = os.path.join(BIN, "neffd")
NEFFCTL = os.path.join(BIN, "neffctl")
FAKE = os.path.join(BUILD, "tests", "fake-neuronx-cc", "fake-neuronx-cc")
SLOW = 10 if os.environ.get("TEST_SANITIZE") else 1  # factor on time limits

GRAPH = """module @jit_f {
  func.func public @main(%arg0: tensor<4xf32>, %arg1: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.multiply %arg0, %arg1 : tensor<4xf32>
    %1 = stablehlo.add %0, %arg1 : tensor<4xf32>
    return %1 : tensor<4xf32>
  }
}
"""
# The same program under other names: another front key, one canonical key.
TWIN = GRAPH.replace("%0", "%product").replace("%1 ", "%sum ").replace("return %1", "return %sum").replace("jit_f", "jit_g")
WIDER = GRAPH.replace("tensor<4xf32>", "tensor<8xf32>")


def graph(n):
    """A family of different graphs: n multiplications in a row."""
    lines = ["func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {"]
    last = "%x"
    for i in range(n):
        lines.append(f"  %{i} = stablehlo.multiply {last}, %x : tensor<4xf32>")
        last = f"%{i}"
    return "\n".join(lines + [f"  return {last} : tensor<4xf32>", "}", ""])


class Result:
    def __init__(self, done, seconds):
        self.code, self.out, self.err, self.seconds = done.returncode, done.stdout, done.stderr, seconds

    @property
    def json(self):
        return json.loads(self.out)

    @property
    def lines(self):
        return [json.loads(line) for line in self.out.splitlines()]

    def __repr__(self):
        return f"exit {self.code}\n--- stdout\n{self.out}\n--- stderr\n{self.err}"


class Place:
    """A directory of its own with the paths of one daemon; nothing of the caller's environment reaches what runs in it."""

    def __init__(self, **env):
        self.dir = tempfile.mkdtemp(prefix="neffd-")
        self.shared = os.path.join(self.dir, "shared")
        self.local = os.path.join(self.dir, "local")
        self.socket_path = os.path.join(self.dir, "s")
        self.socket = "unix:" + self.socket_path
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("NEFFD_", "TORCH_NEURONX_", "NEURON", "NKI_", "NEFFCC"))}
        self.env.update(
            NEFFD_SOCKET=self.socket,
            TORCH_NEURONX_NEFF_CACHE_DIR=self.shared,
            TORCH_NEURONX_NEFF_LOCAL_CACHE_DIR=self.local,
            NEFFD_CONFIG="",
            XDG_RUNTIME_DIR=self.dir,
            PATH=BIN + ":" + self.env.get("PATH", "/usr/bin:/bin"),
        )
        self.env.update(env)
        self.process = None
        self.log_path = os.path.join(self.dir, "neffd.log")

    # -- files
    def write(self, name, text):
        path = os.path.join(self.dir, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as f:
            f.write(text if isinstance(text, bytes) else text.encode())
        return path

    # -- neffctl
    def ctl(self, *args, timeout=60, env=None, input=None):
        begin = time.monotonic()
        done = subprocess.run([NEFFCTL, *map(str, args)], env={**self.env, **(env or {})}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              timeout=timeout * SLOW, input=input, stdin=None if input is not None else subprocess.DEVNULL)
        return Result(done, time.monotonic() - begin)

    def popen(self, *args, env=None, **more):
        return subprocess.Popen([NEFFCTL, *map(str, args)], env={**self.env, **(env or {})}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                stdin=subprocess.DEVNULL, **more)

    # -- the daemon
    def start(self, *args, wait=15):
        log = open(self.log_path, "ab")
        self.process = subprocess.Popen([NEFFD, *args], env=self.env, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        log.close()
        result = self.ctl("ping", "--wait", wait * SLOW)
        if result.code != 0:
            raise RuntimeError(f"the daemon does not serve: {result}\n{self.log()}")
        return self

    def log(self):
        try:
            with open(self.log_path, errors="replace") as f:
                return f.read()
        except OSError:
            return ""

    def stop(self, sig=signal.SIGTERM, wait=30):
        if self.process is None:
            return None
        process, self.process = self.process, None
        if process.poll() is None:
            process.send_signal(sig)
        try:
            return process.wait(wait * SLOW)
        except subprocess.TimeoutExpired:
            what = stacks(process.pid)
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise RuntimeError(f"the daemon did not end in {wait * SLOW} s\n{what}\nits log:\n{self.log()[-6000:]}") from None

    def stop_started(self, wait=30):
        """Ends a daemon that a client started: it is nobody's child."""
        status = self.ctl("status", "--json")
        if status.code != 0:
            return
        pid = status.json["pid"]
        os.kill(pid, signal.SIGTERM)
        end = time.monotonic() + wait * SLOW
        while alive(pid):
            if time.monotonic() > end:
                what = stacks(pid)
                os.kill(pid, signal.SIGKILL)
                raise RuntimeError(f"the daemon did not end in {wait * SLOW} s\n{what}")
            time.sleep(0.02)

    def remove(self):
        try:
            self.stop(signal.SIGKILL)
            self.stop_started()
        finally:
            shutil.rmtree(self.dir, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.remove()


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


# ------------------------------------------------------------------------------------------------------------ .npy files

def write_npy(path, descr, shape, values):
    """values: a flat list; descr as NumPy writes it ("<f4")."""
    code = {"<f4": "f", "<f8": "d", "<i4": "i", "<i8": "q", "|u1": "B", "<u2": "H", "|b1": "B"}[descr]
    head = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': ({''.join(f'{d}, ' for d in shape)}), }}"
    head += " " * (-(10 + len(head) + 1) % 64) + "\n"
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + array.array(code, values).tobytes())


def read_npy(path):
    with open(path, "rb") as f:
        data = f.read()
    assert data[:6] == b"\x93NUMPY", path
    size = 2 if data[6] == 1 else 4
    length = int.from_bytes(data[8:8 + size], "little")
    head = ast.literal_eval(data[8 + size:8 + size + length].decode())
    code = {"<f4": "f", "<f8": "d", "<i4": "i", "<i8": "q", "|u1": "B", "<u2": "H", "|b1": "B"}[head["descr"]]
    return head["descr"], head["shape"], array.array(code, data[8 + size + length:]).tolist()
