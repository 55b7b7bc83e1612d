#!/usr/bin/env python3
"""Mutates every decision of the Lua that Redis runs, one at a time, and runs the ledger's tests against each.

    python3 tests/mutations.py --module charge                     # one file: minutes; all of them: hours
    python3 tests/mutations.py --module charge --lines 20-50       # a part of one
    python3 tests/mutations.py --module charge --list              # the mutations, without a test

A mutation that no test finds is printed as SURVIVED. Those that tests/mutations.txt explains are left out. The text is part
of the test binary as they are in lua/, so a copy of the binary is patched at equal length: nothing is built again.
"""

import argparse
import json
import os
import pathlib
import queue
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading

ROOT = pathlib.Path(__file__).resolve().parent.parent
# The quick ones first: most mutations are found by the first.
STAGES = [
    ["redis::standalone::", "redis::lives", "redis::merged", "redis::fitness"],
    ["redis::loss", "redis::long", "redis::many", "redis::protocol"],
    ["redis::between", "redis::kinds", "redis::connections", "redis::outage", "boundary"],
]
LONGEST = 180
# What is replaced by what, in code outside of comments. A group in lookarounds is not replaced.
SWAPS = [
    (r"(?<![<>=~])<(?![<=])", "<="),
    (r"(?<![<>=~])>(?![>=])", ">="),
    (r"<=", "<"),
    (r">=", ">"),
    (r"==", "~="),
    (r"~=", "=="),
    (r"\band\b", "or"),
    (r"\bor\b", "and"),
    (r"\bnot ", ""),
    (r"(?<= )\+(?= )", "-"),
    (r"(?<=[\w\])] )-(?= )", "+"),
    (r" [-+] 1\b(?!\d)", ""),
    (r"\bmax(?=\()", "min"),
    (r"\bmin(?=\()", "max"),
    (r"\btrue\b", "false"),
    (r"\bfalse\b", "true"),
    (r"'\('", "''"),
    (r"'-inf'", "'+inf'"),
    (r"\b2 \* ", ""),
]
# Statements of one line that are removed.
STATEMENT = re.compile(
    r"^\s*(?:(?:call|call_with|append|clear|expire|evict|merge|tidy|seal|pass|forget|remove_chunk|write_chunks|rewrite|insert|add|absorb"
    r"|salvage|set_floor|end_epoch|table\.insert)\(|(?:limit|units|held|sums|starts|taken|records)\[.*\] ="
    r"|(?:newest|sequence|floored|merged|changes|renews|closing|chunks|loss|epoch)(?:, \w+)* =)"
)


def code_of(line):
    """The line without its comment: what comes after the first `--` that is not in a string."""
    for found in re.finditer("--", line):
        if line.count("'", 0, found.start()) % 2 == 0:
            return line[: found.start()]
    return line


def is_whole(statement):
    return statement.count("(") == statement.count(")") and not re.search(r"\b(function|do|then)\s*$", statement.strip())


def mutations(module):
    """Every mutation of a module: the number of the line, what it was, what it becomes."""
    lines = (ROOT / "lua" / f"{module}.lua").read_text().split("\n")
    for number, line in enumerate(lines, 1):
        code = code_of(line)
        if not code.strip():
            continue
        if STATEMENT.match(code) and is_whole(code) and not code.rstrip().endswith(("{", "(", ",")):
            yield number, line, ""
        for pattern, instead in SWAPS:
            for found in re.finditer(pattern, code):
                yield number, line, line[: found.start()] + instead + line[found.end() :]


def mutated(module, number, instead):
    """The text of a module with another line, at its length; None if it has no comment that could be shortened."""
    text = (ROOT / "lua" / f"{module}.lua").read_text()
    lines = text.split("\n")
    lines[number - 1] = instead
    new = "\n".join(lines)
    more = len(new.encode()) - len(text.encode())
    if more <= 0:
        return new + "\n" * -more
    for comment in re.finditer(r"(?m)^\s*--(.*)$", new):
        if len(comment.group(1)) >= more:
            return new[: comment.end() - more] + new[comment.end() :]
    return None


def binary():
    built = subprocess.run(
        ["cargo", "test", "--locked", "--no-run", "--message-format=json", "--test", "all", "--package", "ingest-ledger"],
        cwd=ROOT, stdout=subprocess.PIPE, check=True, text=True,
    )
    for line in built.stdout.splitlines():
        message = json.loads(line)
        if message.get("target", {}).get("name") == "all" and message.get("executable"):
            return pathlib.Path(message["executable"])
    sys.exit("cargo names no test binary")


class Worker(threading.Thread):
    """Runs the tests with one mutation after another in a copy of the test binary of its own."""

    def __init__(self, program, tasks, results):
        super().__init__(daemon=True)
        self.folder = tempfile.mkdtemp(prefix="mutations-")
        self.program = pathlib.Path(self.folder) / "all"
        shutil.copy(program, self.program)
        self.content = self.program.read_bytes()
        self.tasks, self.results = tasks, results

    def run(self):
        while True:
            try:
                module, number, line, instead = self.tasks.get_nowait()
            except queue.Empty:
                shutil.rmtree(self.folder, ignore_errors=True)
                return
            self.results.put((module, number, line, instead, self.verdict(module, number, instead)))

    def verdict(self, module, number, instead):
        text = mutated(module, number, instead)
        if text is None:
            return "no room"
        old = (ROOT / "lua" / f"{module}.lua").read_bytes()
        places = [found.start() for found in re.finditer(re.escape(old), self.content)]
        if not places:
            return "not in the binary"
        self.write(places, text.encode())
        return next(filter(None, map(self.test, STAGES)), None)

    def write(self, places, text):
        """Writes a copy with this text at these places. A new file: the last one may be busy until its tests have ended."""
        content = bytearray(self.content)
        for place in places:
            content[place : place + len(text)] = text
        self.program.unlink()
        self.program.write_bytes(content)
        self.program.chmod(0o755)

    def verdict_without_mutation(self):
        """What fails without any mutation; None if nothing does."""
        return next(filter(None, map(self.test, STAGES)), None)

    def test(self, names):
        """The first test that fails; None if all pass."""
        command = [self.program, *names, "--test-threads=4"]
        environment = {**os.environ, "PROPTEST_MAX_SHRINK_ITERS": "0", "RUST_BACKTRACE": "0", "TMPDIR": self.folder}
        process = subprocess.Popen(
            command, cwd=ROOT / "crates" / "ledger", stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment,
            start_new_session=True,
        )
        clock = threading.Timer(LONGEST, kill, [process])
        clock.start()
        try:
            for line in process.stdout:
                failed = re.match(r"test (\S+) \.\.\. FAILED", line)
                if failed:
                    return failed.group(1)
            return None if process.wait() == 0 else "the tests do not end"
        finally:
            clock.cancel()
            kill(process)


def kill(process):
    """Ends the tests, and the servers that they started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def reasons():
    """Why mutations change nothing: by module and mutated line."""
    known, reason = {}, None
    for line in (ROOT / "tests" / "mutations.txt").read_text().splitlines():
        if line.startswith("    ") and reason:
            module, _, code = line.strip().partition(": ")
            known[module, code] = reason
        elif line.strip() and not line.startswith("#"):
            reason = line.strip()
    return known


def main():
    options = argparse.ArgumentParser(description="mutates lua/ and runs the ledger's tests")
    options.add_argument("--module", action="append", help="a file of lua/, without its ending; all by default")
    options.add_argument("--lines", help="FIRST-LAST: only these lines")
    options.add_argument("--jobs", type=int, default=2)
    options.add_argument("--list", action="store_true")
    options.add_argument("--all", action="store_true", help="also those that tests/mutations.txt explains")
    options.add_argument("--binary", type=pathlib.Path, help="the test binary; cargo names it by default")
    args = options.parse_args()
    modules = args.module or sorted(path.stem for path in (ROOT / "lua").glob("*.lua"))
    first, last = map(int, args.lines.split("-")) if args.lines else (1, 10**9)
    known = {} if args.all else reasons()
    tasks, results = queue.Queue(), queue.Queue()
    for module in modules:
        for number, line, instead in mutations(module):
            if first <= number <= last and (module, instead.strip() or "without " + line.strip()) not in known:
                tasks.put((module, number, line, instead))
    count = tasks.qsize()
    if args.list:
        while not tasks.empty():
            module, number, line, instead = tasks.get()
            print(f"{module}:{number}: {line.strip()}\n    {instead.strip() or 'without it'}")
        return print(f"{count} mutations")
    program = args.binary or binary()
    workers = [Worker(program, tasks, results) for _ in range(args.jobs)]
    failed = workers[0].verdict_without_mutation()
    if failed:
        sys.exit(f"without any mutation, {failed} fails")
    for worker in workers:
        worker.start()
    survivors = 0
    for done in range(1, count + 1):
        module, number, line, instead, verdict = results.get()
        survivors += verdict is None
        shown = instead.strip() or "without " + line.strip()
        print(f"{done}/{count} {'SURVIVED' if verdict is None else 'found by ' + verdict}: {module}:{number}: {shown}", flush=True)
    print(f"{count} mutations, {survivors} survived")
    sys.exit(1 if survivors else 0)


if __name__ == "__main__":
    main()
