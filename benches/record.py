#!/usr/bin/env python3
"""Runs the benchmarks of docs/benchmarks.md and docs/scale.md, and writes what they print into these documents.

    python3 benches/record.py           all of them: on a quiet machine, at a commit without changes, half an hour and more
    python3 benches/record.py run       those whose command contains the word

A block begins with the line `<!-- COMMAND -->` and ends with `<!-- end -->`. Its first line names the commit, the date and the
machine. Commands that name `../first-release` compare with the first release, which is checked out and built beside this checkout.
"""

import datetime
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
DOCUMENTS = [ROOT / "docs/benchmarks.md", ROOT / "docs/scale.md"]
FIRST_RELEASE = "36a805000f772c1e1476c1a5349267b9c438595d"
BLOCK = re.compile(r"<!-- (?P<command>(?:cargo|bash) [^\n]*?) -->\n.*?<!-- end -->", re.S)


def output_of(*command):
    return subprocess.run(command, cwd=ROOT, check=True, text=True, stdout=subprocess.PIPE).stdout.strip()


def prepare_first_release():
    checkout = ROOT.parent / "first-release"
    if not checkout.exists():
        output_of("git", "worktree", "add", "--detach", str(checkout), FIRST_RELEASE)
    subprocess.run(["cargo", "build", "--release", "--locked"], cwd=checkout, check=True)


def setting():
    """Returns the commit, the date and the machine in one line."""
    commit = output_of("git", "rev-parse", "--short", "HEAD")
    changed = " with changes" if output_of("git", "status", "--porcelain", "--", ".", ":!docs") else ""
    processor = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    cores = output_of("nproc")
    load = pathlib.Path("/proc/loadavg").read_text().split()[0]
    return f"{commit}{changed}, {datetime.date.today()}, {cores} cores of {processor[1]}, load before it {load}"


def recorded(command):
    """Returns the block of a command that was run now."""
    print(f"== {command}", flush=True)
    before = setting()
    printed = subprocess.run(command, cwd=ROOT, shell=True, text=True, stdout=subprocess.PIPE)
    failed = f"\nended with code {printed.returncode}" if printed.returncode else ""
    lines = "\n".join(line.rstrip() for line in printed.stdout.strip().splitlines())
    print(lines + failed, flush=True)
    return f"<!-- {command} -->\n```text\n{command}\n{before}\n\n{lines}{failed}\n```\n<!-- end -->"


def main(words):
    commands = [block["command"] for path in DOCUMENTS for block in BLOCK.finditer(path.read_text())]
    chosen = [one for one in commands if not words or any(word in one for word in words)]
    if any("../first-release" in command for command in chosen):
        prepare_first_release()
    # What they need is built before anything is measured.
    output_of("cargo", "bench", "--locked", "--no-run")
    for command in chosen:
        block = recorded(command)
        for path in DOCUMENTS:
            text = path.read_text()
            path.write_text(BLOCK.sub(lambda old: block if old["command"] == command else old[0], text))


main(sys.argv[1:])
