#!/usr/bin/env python3
"""Runs lock specs: sessions are processes, steps are commands, a permutation is an order with what must happen.

    run_specs.py LOCK_SESSION SPEC...        prints TAP, one case a permutation

A spec:

    # comment
    session a
      lock    lock k            # step name, then a command of lock_session.c
      free    unlock k
    session b
      ...
    permutation the holder lets go
      a.lock: granted           # begins the step; what it answers
      b.lock: waits             # no answer for a while
      a.free: done
      - b.lock: granted within 50    # an answer of an earlier step, milliseconds after that of the last step begun
      - one of b.lock c.lock: granted within 50    # binds `winner` to the session
      a.epoch: epoch grows      # above every epoch seen in this permutation

Besides commands, steps may be `die` (kill -9), `exit` (end of input), `freeze`, `thaw`, `pause MS`.
A missed `within` is tried again twice, since a busy machine may take the processor away for longer; anything else fails at once.
"""
import os, re, select, shutil, signal, subprocess, sys, tempfile, time

QUIET = 0.08           # how long "waits" listens
LIMIT = 20.0           # for anything that must come


class Late(Exception):
    pass


class Wrong(Exception):
    pass


class Skip(Exception):
    pass


def parse(path):
    sessions, order, perms, where = {}, [], [], None
    for n, raw in enumerate(open(path, encoding="utf-8"), 1):
        line = re.sub(r"(^|\s)#.*", "", raw).strip()
        if not line:
            continue
        words = line.split()
        if words[0] == "session" and len(words) == 2:
            where = sessions[words[1]] = {}
            order.append(words[1])
        elif words[0] == "permutation":
            where = []
            perms.append((n, " ".join(words[1:]), where))
        elif isinstance(where, dict) and len(words) >= 2:
            where[words[0]] = words[1:]
        elif isinstance(where, list) and ":" in line:
            who, what = line.split(":", 1)
            later = who.startswith("- ")
            where.append((n, not later, who[2 * later:].strip(), what.strip()))
        else:
            raise SystemExit(f"{path}:{n}: cannot read: {line}")
    if not sessions or not perms:
        raise SystemExit(f"{path}: no session or no permutation")
    return sessions, perms


class Session:
    def __init__(self, name, binary, local):
        self.name = name
        self.p = subprocess.Popen([binary, name, local], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.buf = b""

    def send(self, text):
        self.p.stdin.write(text.encode() + b"\n")
        self.p.stdin.flush()


class Run:
    def __init__(self, binary, sessions, expected):
        self.sessions, self.expected = sessions, expected
        self.dir = tempfile.mkdtemp(prefix="lockspec-")
        os.chmod(self.dir, 0o777)
        self.procs = {n: Session(n, binary, self.dir) for n in sessions}
        self.ids, self.answers, self.waiting = {}, [], {}
        self.next_id, self.event_ns, self.winner, self.epochs, self.children = 1, 0, None, {}, []

    def close(self):
        for s in self.procs.values():
            if s.p.poll() is None:
                s.p.send_signal(signal.SIGCONT)
                s.p.kill()
            s.p.wait()
            s.p.stdin.close()
            s.p.stdout.close()
        for pid in self.children:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        shutil.rmtree(self.dir, ignore_errors=True)

    def poll(self, seconds):
        """Reads what has been answered; True if there is something."""
        fds = {s.p.stdout.fileno(): s for s in self.procs.values() if not s.p.stdout.closed}
        ready, _, _ = select.select(list(fds), [], [], max(0, seconds))
        for fd in ready:
            s = fds[fd]
            data = os.read(fd, 65536)
            if not data:
                time.sleep(0.001)
                continue
            s.buf += data
            while b"\n" in s.buf:
                line, s.buf = s.buf.split(b"\n", 1)
                num, ns, text = line.decode("utf-8", "replace").split(" ", 2)
                self.answers.append((self.ids[int(num)], int(ns), text))

    def begin(self, step):
        session, name = step.split(".", 1)
        if session == "winner":
            session = self.winner
        command = self.sessions[session].get(name)
        if command is None:
            raise SystemExit(f"no step {session}.{name}")
        label = f"{session}.{name}"
        s = self.procs[session]
        if command[0] in ("die", "exit", "freeze", "thaw", "pause"):
            now = time.monotonic_ns()
            if command[0] == "die":
                s.p.kill()
                s.p.wait()
                now = time.monotonic_ns()
            elif command[0] == "exit":
                s.p.stdin.close()
                s.p.wait()
                now = time.monotonic_ns()
            elif command[0] == "pause":
                time.sleep(float(command[1]) / 1000)
            else:
                s.p.send_signal(signal.SIGSTOP if command[0] == "freeze" else signal.SIGCONT)
            self.answers.append((label, now, "done"))
        else:
            num = self.next_id
            self.next_id += 1
            self.ids[num] = label
            s.send(f"{num} {' '.join(command)}")
        return label

    def take(self, labels):
        for i, (label, ns, text) in enumerate(self.answers):
            if label in labels:
                return self.answers.pop(i)
        return None

    def expect(self, line, who, what):
        if what == "waits":
            end = time.monotonic() + QUIET
            while time.monotonic() < end:
                self.poll(end - time.monotonic())
                got = self.take([who])
                if got:
                    raise Wrong(f"line {line}: {who} should wait, but answered {got[2]!r}")
            return
        labels = who[len("one of "):].split() if who.startswith("one of ") else [who]
        labels = [(self.winner + l[6:]) if l.startswith("winner.") else l for l in labels]
        end = time.monotonic() + LIMIT
        got = self.take(labels)
        while not got:
            if time.monotonic() > end:
                raise Wrong(f"line {line}: no answer of {' '.join(labels)}; expected {what!r}")
            self.poll(0.5)
            got = self.take(labels)
        label, ns, text = got
        m = re.fullmatch(r"(.*?)(?: within (\d+))?", what)
        want, within = m.group(1), m.group(2)
        if re.fullmatch(r"child [1-9][0-9]+", text):
            self.children.append(int(text.split()[1]))
            text = "done"
        if text == "skip":
            raise Skip("needs root")
        if want == "epoch grows":
            last = self.epochs.get("", 0)
            value = int(text.split()[1]) if text.startswith("epoch ") else -1
            if value <= last:
                raise Wrong(f"line {line}: {label}: {text!r}, the last one was {last}")
            self.epochs[""] = value
        elif text != want:
            raise Wrong(f"line {line}: {label} answered {text!r}, expected {want!r}")
        if len(labels) > 1:
            self.winner = label.split(".")[0]
        if within:
            late = (ns - self.event_ns) / 1e6
            if late > int(within):
                raise Late(f"line {line}: {label} came {late:.1f} ms after the event, {within} allowed")
        if label == self.current:
            self.event_ns = ns

    def run(self):
        for line, begins, who, what in self.expected:
            if begins:
                who = self.current = self.begin(who)
            self.expect(line, who, what)
        self.poll(0)
        if self.answers:
            raise Wrong(f"not expected: {self.answers[0][0]}: {self.answers[0][2]}")


def main():
    binary, specs = sys.argv[1], sys.argv[2:]
    cases = [(spec, parse(spec)) for spec in specs]
    total = sum(len(perms) for _, (_, perms) in cases)
    print(f"1..{total}", flush=True)
    n = failed = 0
    for spec, (sessions, perms) in cases:
        for line, name, expected in perms:
            n += 1
            title = f"{os.path.basename(spec)}:{line} {name}"
            problem, skip = None, ""
            for attempt in range(3):
                run = Run(binary, sessions, expected)
                try:
                    run.run()
                    problem = None
                    break
                except Late as e:
                    problem = str(e)
                except Skip as e:
                    skip = f" # SKIP {e}"
                    break
                except Wrong as e:
                    problem = str(e)
                    break
                finally:
                    run.close()
            failed += problem is not None
            print(f"{'not ok' if problem else 'ok'} {n} - {title}{skip}", flush=True)
            if problem:
                print(f"# {problem}", flush=True)
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
