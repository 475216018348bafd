"""Builds, runs benchmarks, prints a table or JSON lines.

usage: tests/bench [NAME...] [--json] [--list]        without names: all of them

A benchmark is build/tests/benchmarks/bench_NAME or tests/benchmarks/bench_NAME.py. It prints one JSON object a line:
    {"name", "value", "unit", "ratio_to", "ratio", "median", "p99", "n"}
`value` is what counts; `ratio_to` names the line of the same run that it is compared with ("" if there is none), and `ratio` is value
over value of that one. Lines that do not begin with { are remarks and go to stderr.
"""
import argparse
import json
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.join(ROOT, "build")
PYTHON = "/usr/bin/python3"
FIELDS = ("name", "value", "unit", "ratio_to", "ratio", "median", "p99", "n")


def build():
    if not os.path.exists(os.path.join(BUILD, "build.ninja")):
        subprocess.run(["meson", "setup", BUILD], check=True, stdout=subprocess.DEVNULL, cwd=ROOT)
    done = subprocess.run(["ninja", "-C", BUILD], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        sys.exit("\n".join(done.stdout.splitlines()[-40:]) + "\ntests/bench: the build failed")


def programs():
    found = {}
    folder = os.path.join(BUILD, "tests", "benchmarks")
    for entry in os.listdir(folder) if os.path.isdir(folder) else []:
        path = os.path.join(folder, entry)
        if entry.startswith("bench_") and os.path.isfile(path) and os.access(path, os.X_OK):
            found[entry[6:]] = [path]
    here = os.path.dirname(os.path.abspath(__file__))
    for entry in os.listdir(here):
        if entry.startswith("bench_") and entry.endswith(".py"):
            found[entry[6:-3]] = [PYTHON, os.path.join(here, entry)]
    return found


def number(value):
    if value is None or value == "":
        return ""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def main():
    parser = argparse.ArgumentParser(prog="tests/bench")
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    build()
    known = programs()
    if options.list:
        print("\n".join(sorted(known)))
        return 0
    unknown = [n for n in options.names if n not in known]
    if unknown:
        print(f"tests/bench: no benchmark is called {', '.join(unknown)}\nhint: there are {' '.join(sorted(known))}", file=sys.stderr)
        return 2
    bad = 0
    env = dict(os.environ, NEFFD_BUILD=BUILD, TEST_BUILD=BUILD, PATH=os.path.join(BUILD, "bin") + ":" + os.environ.get("PATH", "/usr/bin:/bin"))
    if not options.json:
        print(f"{'what':44} {'value':>12} {'unit':8} {'median':>12} {'p99':>12} {'n':>10}  compared with")
    for name in options.names or sorted(known):
        process = subprocess.Popen(known[name], stdout=subprocess.PIPE, text=True, env=env, cwd=ROOT)
        for line in process.stdout:
            if not line.startswith("{"):
                print(line.rstrip(), file=sys.stderr)
                continue
            row = json.loads(line)
            if options.json:
                print(json.dumps({field: row.get(field) for field in FIELDS}), flush=True)
                continue
            against = f"{row['ratio']:.2f} x {row['ratio_to']}" if row.get("ratio_to") else ""
            print(f"{row['name']:44} {number(row['value']):>12} {row['unit']:8} {number(row.get('median')):>12} {number(row.get('p99')):>12} "
                  f"{number(row.get('n')):>10}  {against}", flush=True)
        if process.wait():
            print(f"tests/bench: {name} ended with status {process.returncode}", file=sys.stderr)
            bad = 1
    return bad


sys.exit(main())
