#!/usr/bin/python3
"""Installs what is missing, builds, and runs the tests; the last line is `N passed, N failed`.

usage: tests/run [--only REGEX] [--sanitize=address|thread] [--fast] [--minutes N] [--again] [--list] [--jobs N] [--verbose]

  --only REGEX    only tests whose name matches (see --list); `--only fuzz` also takes --minutes
  --sanitize=S    address: with AddressSanitizer and UBSan, in build-asan/; thread: with ThreadSanitizer, in build-tsan/,
                  the tests of daemon, lockmgr, cache and client
  --fast          leave out the slow ones (suite `slow`); the rest may shorten itself (TEST_FAST=1)
  --minutes N     with --only fuzz: fuzz for N minutes in all (build-fuzz/, clang) and print executions and coverage;
                  else: how long tests that can run for any time go on (TEST_MINUTES=N)
  --again         a program that failed is run once more, alone, and what it does then counts: a busy machine fails tests that
                  watch the clock. Both results are printed. A crash, a sanitizer's report and a time-out are never tried again
  --list          print the names of the tests and end

N counts cases: Check tests, TAP lines, unittest methods; a program that reports none of these is one case. A program that
crashes or runs out of time is a failed case of its own. Where tests come from: the ones that meson knows, and
tests/integration/test_*.py. What a test finds in its environment: tests/README.md.
"""
import argparse
import concurrent.futures
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PYTHON = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable
THREAD_TESTS = re.compile(r"daemon|jobs|storm|faults|kill|lock|cache|client|library|rpc|proto|base|^native-|cpu-(group|pool)|codegen-programs")
SANITIZERS = {
    None: ("build", []),
    "address": ("build-asan", ["-Db_sanitize=address,undefined", "-Db_lundef=false"]),
    "thread": ("build-tsan", ["-Db_sanitize=thread", "-Db_lundef=false"]),
}
print_lock = threading.Lock()


def say(text=""):
    with print_lock:
        print(text, flush=True)


def give_up(text, output=""):
    if output:
        say(output)
    say(f"tests/run: {text}")
    say("0 passed, 1 failed")
    sys.exit(1)


# ------------------------------------------------------------------------------------------------------------- build


def quiet(command, what, env=None):
    """Runs a step; shows its output only when it fails."""
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", env=env)
    if done.returncode:
        give_up(f"{what} failed", "\n".join(done.stdout.splitlines()[-60:]))
    return done.stdout


def configure(directory, options, env=None):
    path = os.path.join(ROOT, directory)
    if not os.path.exists(os.path.join(path, "build.ninja")):
        quiet(["meson", "setup", path, *options], "meson setup", env)
    else:  # the quickstart sets up without tests where the tests' packages are missing
        settings = {o["name"]: o["value"] for o in json.loads(quiet(["meson", "introspect", "--buildoptions", path], "meson introspect", env))}
        if settings.get("tests") is False:
            quiet(["meson", "configure", path, "-Dtests=true"], "meson configure", env)
        quiet(["ninja", "-C", path, "build.ninja"], "meson", env)  # what a changed meson.build says, before its tests are listed
    return path


def build(directory, options, env=None, targets=()):
    path = configure(directory, options, env)
    quiet(["ninja", "-C", path, *targets], "the build", env)
    return path


def programs_of(tests, path):
    """What a few chosen tests need to be built, as ninja's targets; none: everything, because one of them does not say."""
    whole = [[os.path.normpath(os.path.join(path, word)) for word in t.command if "/" in word] for t in tests]
    inside = [[os.path.relpath(word, path) for word in words if word.startswith(path + os.sep)] for words in whole]
    return sorted({word for words in inside for word in words} | {f for t in tests for f in t.needs}) if all(inside) else []


# --------------------------------------------------------------------------------------------------------- discovery


class Test:
    def __init__(self, name, command, suites=(), timeout=120, protocol="exitcode", env=None, cwd=None, needs=()):
        self.name, self.command, self.suites, self.timeout = name, command, list(suites), timeout
        self.protocol, self.env, self.cwd = protocol, env or {}, cwd or ROOT
        self.needs = list(needs)  # files in the build directory, beside the command's
        self.serial = "serial" in self.suites


def from_meson(path):
    made = {t["id"]: t["filename"] for t in json.loads(quiet(["meson", "introspect", "--targets", path], "meson introspect"))}
    for row in json.loads(quiet(["meson", "introspect", "--tests", path], "meson introspect")):
        suites = [s.split(":")[-1] for s in row["suite"]]
        yield Test(row["name"], row["cmd"], suites, max(row["timeout"], 120), row["protocol"], row["env"], row["workdir"] or path,
                   [os.path.relpath(f, path) for d in row["depends"] for f in made.get(d, [])])


def from_python(known):
    folder = os.path.join(ROOT, "tests", "integration")
    for entry in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
        path = os.path.join(folder, entry)
        if not re.fullmatch(r"test_\w+\.py", entry) or path in known:
            continue
        head = open(path, encoding="utf-8").read(3000)
        marks = re.search(r"^# tests/run: (.*)$", head, re.M)  # e.g. "# tests/run: serial slow timeout=900"
        words = marks.group(1).split() if marks else []
        limit = [int(w[8:]) for w in words if w.startswith("timeout=")]
        yield Test("integration-" + entry[5:-3].replace("_", "-"), [PYTHON, path, "-v"],
                   ["integration", *[w for w in words if "=" not in w]], limit[0] if limit else 600)


def discover(path):
    tests = list(from_meson(path))
    known = {os.path.realpath(word) for test in tests for word in test.command if word.endswith(".py")}
    tests += from_python(known)
    names = {}
    for test in tests:  # one name, one test
        names[test.name] = names.get(test.name, 0) + 1
        if names[test.name] > 1:
            test.name += f"-{names[test.name]}"
    return tests


# ----------------------------------------------------------------------------------------------------------- running


class Result:
    def __init__(self):
        self.passed, self.failures, self.skips = 0, [], []  # names; (name, reason)
        self.final = False  # whether a second run would prove nothing


def read_tap(text, result):
    """TAP lines, wherever they stand. Returns whether there were any, and whether what was planned came."""
    seen = planned = None
    for line in text.splitlines():
        found = re.match(r"(not )?ok\b\s*(\d*)\s*-?\s*(.*)", line)
        if found:
            seen = (seen or 0) + 1
            name, _, directive = found.group(3).partition("# ")
            if directive.lower().startswith("skip"):
                result.skips.append((name.strip(), directive[4:].strip(" :") or "no reason given"))
            elif found.group(1) and not directive.lower().startswith("todo"):
                result.failures.append(name.strip() or f"case {seen}")
            else:
                result.passed += 1
        plan = re.match(r"1\.\.(\d+)(?:\s*# *skip\S* *(.*))?", line, re.I)
        if plan:
            planned = int(plan.group(1))
            if planned == 0:
                result.skips.append(("all", plan.group(2) or "no reason given"))
    return seen is not None or planned == 0, planned is None or planned == (seen or 0)


def read_unittest(text, result):
    """What `python -m unittest -v` prints. Returns whether it was that."""
    total = re.findall(r"^Ran (\d+) tests? in ", text, re.M)
    if not total:
        return False
    bad = re.findall(r"^(?:FAIL|ERROR|UNEXPECTED SUCCESS): (.+)$", text, re.M)
    result.failures += sorted(set(bad))
    skips = re.findall(r"^(\w+) \(.*?(?:skipped ['\"](.*)['\"])$", text, re.M)
    result.skips += skips
    whole = sum(map(int, total))
    skipped = sum(int(n) for n in re.findall(r"skipped=(\d+)", text)) or len(skips)
    result.passed += max(0, whole - len({b for b in set(bad) if not b.startswith("setUp")}) - skipped)
    return True


def environment(test, build_dir, options, scratch, tap):
    env = {k: v for k, v in os.environ.items() if not re.match(r"NEFFD_|NEFFCC_|TORCH_NEURONX_|NEURON_|NKI_", k)}
    for name in ("NEFFD_SHARED",):
        if name in os.environ:
            env[name] = os.environ[name]
    env.update(TEST_BUILD=build_dir, NEFFD_BUILD=build_dir, TMPDIR=scratch, XDG_RUNTIME_DIR=scratch, CK_TAP_LOG_FILE_NAME=tap,
               PYTHONDONTWRITEBYTECODE="1", PATH=os.path.join(build_dir, "bin") + ":" + os.environ.get("PATH", "/usr/bin:/bin"))
    if options.fast:
        env["TEST_FAST"] = "1"
    if options.minutes:
        env["TEST_MINUTES"] = str(options.minutes)
    if options.sanitize:
        env["TEST_SANITIZE"] = options.sanitize
        env["CK_TIMEOUT_MULTIPLIER"] = "10"
        env["ASAN_OPTIONS"] = "detect_stack_use_after_return=1:strict_string_checks=1:allocator_may_return_null=1:handle_abort=0"
        env["UBSAN_OPTIONS"] = "halt_on_error=1:print_stacktrace=1"
        env["LSAN_OPTIONS"] = "report_objects=0"
        env["TSAN_OPTIONS"] = f"suppressions={ROOT}/tests/tsan.supp:exitcode=66:second_deadlock_stack=1:history_size=4"
    env.update(test.env)
    return env


def stop_group(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def run(test, build_dir, options, wrapper):
    result = Result()
    scratch = tempfile.mkdtemp(prefix="nt-", dir="/tmp")
    os.chmod(scratch, 0o755)  # some tests act as another user
    tap = os.path.join(scratch, "check.tap")
    log = os.path.join(scratch, "output")
    limit = test.timeout * {None: 1, "address": 4, "thread": 6}[options.sanitize]
    start = time.monotonic()
    why = ""
    with open(log, "wb") as out:
        process = subprocess.Popen([*wrapper, *test.command], cwd=test.cwd, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                   env=environment(test, build_dir, options, scratch, tap), start_new_session=True)
        try:
            code = process.wait(timeout=limit)
            if code < 0:
                why = f"killed by signal {-code} ({signal.strsignal(-code)})"
            elif code:
                why = f"exit status {code}"
        except subprocess.TimeoutExpired:
            why = f"still running after {limit} s"
        stop_group(process)
        process.wait()
    with open(log, errors="replace") as f:
        output = f.read()
    if process.returncode == 77 and why:
        lines = output.strip().splitlines()
        result.skips.append((test.name, lines[-1] if lines else "no reason given"))
        why = ""
    elif os.path.exists(tap):
        with open(tap, errors="replace") as f:
            _, whole = read_tap(f.read(), result)
        if not whole and not why:
            why = "fewer results than planned"
        for reason in re.findall(r"^SKIP (.*)$", output, re.M):
            name, _, reason = reason.partition(": ")
            result.skips.append((name, reason))
            result.passed -= 1
    elif not read_unittest(output, result):  # first: its lines may look like TAP's
        found, whole = read_tap(output, result)
        if found and not whole and not why:
            why = "fewer results than planned"
        if not found and not why:
            result.passed += 1
    if why and not result.failures:
        result.failures.append(why)
    reported = options.sanitize and re.search(r"(ERROR: \w+Sanitizer|WARNING: ThreadSanitizer|runtime error:)", output)
    if reported and not result.failures:
        result.failures.append("a sanitizer reported an error")
    result.final = bool(reported) or process.returncode < 0
    shutil.rmtree(scratch, ignore_errors=True)

    took = time.monotonic() - start
    counts = f"{result.passed} passed" + (f", {len(result.failures)} failed" if result.failures else "")
    with print_lock:
        print(f"{'FAIL' if result.failures else 'ok  '} {test.name}: {counts} ({took:.1f} s)")
        for name, reason in result.skips:
            print(f"     skipped {name}: {reason}")
        if result.failures or options.verbose:
            for name in result.failures:
                print(f"     failed: {name}")
            if why:
                print(f"     {why}")
            lines = output.splitlines()
            if len(lines) > 400:
                lines = lines[:150] + [f"... {len(lines) - 400} lines ..."] + lines[-250:]
            print("\n".join("     | " + line for line in lines))
        sys.stdout.flush()
    return test, result


def tsan_wrapper(build_dir):
    """ThreadSanitizer of older compilers cannot start when the kernel randomises addresses too widely."""
    probe = os.path.join(build_dir, "tsan-probe")
    source = probe + ".c"
    with open(source, "w", encoding="utf-8") as f:
        f.write("int main(void) { return 0; }\n")
    quiet(["cc", "-fsanitize=thread", source, "-o", probe], "the ThreadSanitizer probe")
    fits = all(subprocess.run([probe], capture_output=True).returncode == 0 for _ in range(8))
    return [] if fits else ["setarch", os.uname().machine, "-R"]


# ------------------------------------------------------------------------------------------------------------- fuzz


def fuzz(options):
    """Fuzzes each target for its share of the time. A crash is a failed case, and its input is kept."""
    clang = shutil.which("clang")
    if not clang:
        give_up("fuzzing needs clang (deploy/packages.txt)")
    env = dict(os.environ, CC=clang)
    path = build("build-fuzz", ["-Dfuzz=true", "-Db_sanitize=address,undefined", "-Db_lundef=false"], env, ["fuzz-targets"])
    folder = os.path.join(path, "tests", "fuzz")
    targets = sorted(f for f in (os.listdir(folder) if os.path.isdir(folder) else [])
                     if f.startswith("fuzz_") and os.access(os.path.join(folder, f), os.X_OK) and os.path.isfile(os.path.join(folder, f)))
    word = re.sub(r"^fuzz-?", "", options.only or "")
    targets = [t for t in targets if re.search(word, t)]
    if not targets:
        give_up("there are no fuzz targets of that name")
    seconds = max(5, int(options.minutes * 60 * options.jobs / len(targets)))
    passed = failed = 0

    def one(target):
        name = target[5:]
        seeds = os.path.join(ROOT, "tests", "fuzz", "corpus", name)
        found = os.path.join(path, "found", name)  # kept between runs
        crashes = os.path.join(path, "crashes", name) + "/"
        os.makedirs(found, exist_ok=True)
        os.makedirs(crashes, exist_ok=True)
        command = [os.path.join(folder, target), f"-max_total_time={seconds}", "-timeout=20", "-rss_limit_mb=2048", "-print_final_stats=1",
                   f"-artifact_prefix={crashes}", found] + ([seeds] if os.path.isdir(seeds) else [])
        dictionary = os.path.join(ROOT, "tests", "fuzz", name + ".dict")
        if os.path.exists(dictionary):
            command.insert(1, f"-dict={dictionary}")
        done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                              env=dict(os.environ, ASAN_OPTIONS="detect_leaks=1:allocator_may_return_null=1", UBSAN_OPTIONS="halt_on_error=1:print_stacktrace=1"))
        executions = re.findall(r"stat::number_of_executed_units: +(\d+)", done.stdout)
        coverage = re.findall(r"cov: (\d+) ft: (\d+) corp: (\d+)", done.stdout)
        edges, features, corpus = coverage[-1] if coverage else ("?", "?", "?")
        say(f"{'FAIL' if done.returncode else 'ok  '} fuzz-{name}: {executions[-1] if executions else '?'} executions in {seconds} s, "
            f"{edges} edges and {features} features covered, {corpus} inputs kept")
        if done.returncode:
            say("\n".join("     | " + line for line in done.stdout.splitlines()[-60:]))
        return done.returncode == 0

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for good in pool.map(one, targets):
            passed, failed = passed + good, failed + (not good)
    say(f"{passed} passed, {failed} failed")
    sys.exit(failed != 0)


# ------------------------------------------------------------------------------------------------------------- main


def main():
    parser = argparse.ArgumentParser(prog="tests/run", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, add_help=True)
    parser.add_argument("--only", metavar="REGEX")
    parser.add_argument("--sanitize", choices=["address", "thread"])
    parser.add_argument("--fast", action="store_true")
    parser.add_argument("--minutes", type=float, default=0)
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--jobs", type=int, default=min(os.cpu_count() or 2, 2))
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it, and the tests would inherit that
    try:
        wanted = re.compile(options.only) if options.only else None
    except re.error as e:
        parser.error(f"--only: {e}")

    if options.minutes and options.only and options.only.startswith("fuzz"):
        fuzz(options)

    directory, settings = SANITIZERS[options.sanitize]
    path = configure(directory, settings)
    tests = discover(path)
    if options.sanitize == "thread":
        tests = [t for t in tests if any(THREAD_TESTS.search(word) for word in [t.name, *t.suites])]
    if options.sanitize:  # about the sources: once is enough
        tests = [t for t in tests if "house" not in t.suites]
    left_out = [t for t in tests if options.fast and "slow" in t.suites]
    tests = [t for t in tests if t not in left_out and (not wanted or wanted.search(t.name) or any(wanted.search(s) for s in t.suites))]
    if options.list:
        for test in tests:
            print(test.name)
        return 0
    if not tests:
        give_up("no test has such a name; --list prints them")
    quiet(["ninja", "-C", path, *(programs_of(tests, path) if wanted else [])], "the build")

    wrapper = tsan_wrapper(path) if options.sanitize == "thread" else []
    parallel = [t for t in tests if not t.serial]
    parallel.sort(key=lambda t: -t.timeout)  # long ones first, so that none is left alone at the end
    results = []
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        results += pool.map(lambda t: run(t, path, options, wrapper), parallel)
    results += [run(t, path, options, wrapper) for t in tests if t.serial]
    unsteady = []
    for i, (test, result) in enumerate(results):
        if options.again and result.failures and not result.final:
            say(f"again: {test.name}")
            results[i] = run(test, path, options, wrapper)
            unsteady += [] if results[i][1].failures else [(test.name, case) for case in result.failures]

    for test in left_out:
        say(f"skipped {test.name}: slow, and --fast was given")
    failures = [(test.name, case) for test, result in results for case in result.failures]
    if failures:
        say("\nfailed:")
        for name, case in failures:
            say(f"  {name}: {case}")
    if unsteady:
        say("\nfailed, and passed when run again:")
        for name, case in unsteady:
            say(f"  {name}: {case}")
    skipped = sum(len(result.skips) for _, result in results)
    if skipped:
        say(f"{skipped} skipped, each with its reason above")
    say(f"{sum(result.passed for _, result in results)} passed, {len(failures)} failed")
    return 1 if failures else 0


sys.exit(main())
