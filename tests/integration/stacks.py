"""What a process that does not end is doing: its threads' stacks (gdb, where it is installed), their signals, what it has started."""
import os
import shutil
import subprocess
from pathlib import Path


def _fields(path, names):
    rows = dict(line.split(":", 1) for line in path.read_text().splitlines() if ":" in line)
    return " ".join(f"{n}={rows[n].strip()}" for n in names if n in rows)


def stacks(pid, frames=14):
    text = [f"process {pid}:"]
    try:
        for task in sorted(Path(f"/proc/{pid}/task").iterdir(), key=lambda p: int(p.name)):
            where = task / "wchan"
            text.append(f"  {task.name} {_fields(task / 'status', ['Name', 'State', 'SigPnd', 'ShdPnd', 'SigBlk'])} in "
                        f"{where.read_text() if os.access(where, os.R_OK) else '?'}")
        children = (Path(f"/proc/{pid}/task/{pid}/children")).read_text().split()
        for child in children:
            text.append(f"  child {child} {_fields(Path(f'/proc/{child}/status'), ['Name', 'State', 'TracerPid'])}")
    except OSError as e:
        text.append(f"  /proc: {e}")
    gdb = shutil.which("gdb")
    if not gdb:
        return "\n".join(text + ["  (no gdb, no stacks)"])
    try:
        out = subprocess.run([gdb, "-q", "-nx", "-batch", "-p", str(pid), "-ex", f"thread apply all bt {frames}"], stdin=subprocess.DEVNULL,
                             capture_output=True, text=True, errors="replace", timeout=120).stdout
        text += [line for line in out.splitlines() if line.startswith(("Thread", "#"))]
    except subprocess.TimeoutExpired:
        text.append("  gdb did not end either")
    return "\n".join(text)
