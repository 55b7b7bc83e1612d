#!/usr/bin/env python3
"""Prints the figures of the source: lines and files, comments, functions, names of several types, circles of files. Nothing is built."""

import argparse
import collections
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent.parent


def sources(checkout):
    """The Rust files outside tests, benchmarks and examples, with their text."""
    named = subprocess.run(["git", "-C", checkout, "ls-files", "*.rs"], stdout=subprocess.PIPE, text=True)
    if named.returncode != 0:
        sys.exit(f"figures.py: {checkout} is no checkout. Name the directory of one, or none for {HERE}.")
    for name in named.stdout.split():
        path = pathlib.PurePath(name)
        if not {"tests", "benches", "examples", "testing"} & set(path.parts):
            if (checkout / path).is_file():
                yield path, (checkout / path).read_text()


def room(path):
    """The crate of a file, or the folder of the program."""
    return "/".join(path.parts[:2]) if len(path.parts) > 2 else str(path)


def module_of(path):
    """Where a file is in the tree of modules: src/run/mod.rs is ("run",)."""
    parts = list(path.parts[path.parts.index("src") + 1 :])
    parts[-1] = parts[-1].removesuffix(".rs")
    return tuple(parts[:-1] if parts[-1] in ("mod", "lib", "main") else parts)


def paths_in(text):
    """The paths that a file uses, as tuples; groups are taken apart."""
    code = re.sub(r"//.*", "", text)
    for found in re.finditer(r"\b((?:crate|super)(?:::\w+)*)(?:::\{([^;]*?)\})?", code):
        head = tuple(found.group(1).split("::"))
        yield head
        for name in re.findall(r"\w+(?:::\w+)*", found.group(2) or ""):
            yield head + tuple(name.split("::"))


def circles(files):
    """The sets of files of one crate that use one another, largest first."""
    # A build script uses no module.
    files = {path: text for path, text in files.items() if "src" in path.parts}
    of_module = {}
    for path in files:
        of_module[(path.parts[: path.parts.index("src")], module_of(path))] = path
    uses = collections.defaultdict(set)
    for path, text in files.items():
        crate, here = path.parts[: path.parts.index("src")], module_of(path)
        for used in paths_in(text):
            base = list(here)
            rest = list(used)
            while rest and rest[0] in ("super", "crate"):
                base = [] if rest.pop(0) == "crate" else base[:-1]
            full = tuple(base + rest)
            # A module that only re-exports is not a file that a reader has to hold in mind.
            while full and (crate, full) not in of_module:
                full = full[:-1]
            target = of_module.get((crate, full))
            if target and target != path and full:
                uses[path].add(target)
    return sorted(components(set(files), uses), key=len, reverse=True)


def components(nodes, uses):
    """The strongly connected components (Tarjan)."""
    index, low, stack, found = {}, {}, [], []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in uses[node]:
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            at = stack.index(node)
            found.append(stack[at:])
            del stack[at:]

    sys.setrecursionlimit(10_000)
    for node in nodes:
        if node not in index:
            visit(node)
    return found


def listed(checkout, *patterns):
    """The text of the files that git has under these patterns, by path."""
    named = subprocess.run(["git", "-C", checkout, "ls-files", *patterns], stdout=subprocess.PIPE, text=True, check=True)
    paths = (pathlib.PurePath(name) for name in named.stdout.split())
    return {path: (checkout / path).read_text() for path in paths if (checkout / path).is_file()}


def sizes(checkout, files):
    """What a reader has to hold, by its name: lines and files of each room, of tests and Lua; words of documents."""
    lines, counts = collections.Counter(), collections.Counter()

    def count(name, text):
        lines[name] += text.count("\n")
        counts[name] += 1

    for path, text in files.items():
        count(room(path), text)
    for path, text in listed(checkout, "*.rs").items():
        if {"tests", "benches", "examples", "testing"} & set(path.parts):
            count("tests" if "tests" in path.parts else "benches and examples" if "testing" not in path.parts else "crates/testing", text)
    for text in listed(checkout, "*/cases/*").values():
        count("tests", text)
    for path, text in listed(checkout, "lua/*.lua").items():
        count("lua", text)
    found = {f"{name}: lines": number for name, number in lines.items()}
    found |= {f"{name}: files": number for name, number in counts.items()}
    documents = listed(checkout, "*.md")
    return found | {"documents: words": sum(len(text.split()) for text in documents.values())}


def check(found, ceilings):
    """Says what is above its ceiling, or has none, and returns the exit code."""
    rows = (line.partition("#")[0] for line in ceilings.read_text().splitlines())
    allowed = {name.strip(): int(most) for name, _, most in (row.rpartition("=") for row in rows if row.strip())}
    over = [f"{name} is {number:,}, above {allowed[name]:,}" for name, number in found.items() if number > allowed.get(name, number)]
    over += [f"{name} ({found[name]:,}) has no ceiling" for name in found.keys() - allowed.keys()]
    over += [f"{name} is no longer there" for name in allowed.keys() - found.keys()]
    for line in sorted(over):
        print(f"figures.py: {line}; see {ceilings.name}", file=sys.stderr)
    return 1 if over else 0


def lower(found, ceilings):
    """Writes a ceiling for each figure: the lower of what it was and what is there. What is there no more is left out."""
    text = ceilings.read_text() if ceilings.exists() else ""
    head = "".join(line + "\n" for line in text.splitlines() if line.startswith("#"))
    kept = {}
    for line in text.splitlines():
        name, _, rest = line.rpartition("=") if not line.startswith("#") else ("", "", "")
        most, _, why = rest.partition("#")
        if name:
            kept[name.strip()] = (int(most), why.strip())
    rows = []
    for name in sorted(found):
        most, why = kept.get(name, (found[name], ""))
        most = min(most, found[name])
        rows.append(f"{name} = {most}" + (f"  # {why}" if why else ""))
    ceilings.write_text(head + "\n".join(rows) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkout", nargs="?", type=pathlib.Path, default=HERE, help="by default the one that this file is in")
    parser.add_argument("--check", action="store_true", help="fail if a figure is above its line in tests/ceilings.txt")
    parser.add_argument("--lower", action="store_true", help="lower the lines of tests/ceilings.txt to what is there")
    arguments = parser.parse_args()
    files = dict(sources(arguments.checkout))
    ceilings = arguments.checkout / "tests" / "ceilings.txt"
    if arguments.check:
        sys.exit(check(sizes(arguments.checkout, files), ceilings))
    if arguments.lower:
        return lower(sizes(arguments.checkout, files), ceilings)
    lines, counts = collections.Counter(), collections.Counter()
    for path, text in files.items():
        lines[room(path)] += text.count("\n")
        counts[room(path)] += 1
    for name in sorted(lines):
        print(f"{name:24}{lines[name]:8,} lines{counts[name]:6} files")
    print(f"{'all':24}{sum(lines.values()):8,} lines{sum(counts.values()):6} files")
    code = sum(len(re.findall(r"(?m)^\s*(?!//)\S", text)) for text in files.values())
    why = sum(len(re.findall(r"(?m)^\s*//(?![/!])", text)) for text in files.values())
    print(f"lines of comments that are no documentation, per 100 lines of code: {100 * why / code:.2f}")
    functions = [re.findall(r"(?m)^\s*(?:pub(?:\([^)]*\))? )?(?:const )?(?:async )?fn \w+", text) for text in files.values()]
    print(f"functions: {sum(map(len, functions)):,}")
    types = collections.Counter(
        name for text in files.values() for name in set(re.findall(r"\b(?:struct|enum|trait) (\w+)", text))
    )
    often = sorted(name for name, count in types.items() if count > 2)
    print(f"names of three or more types: {len(often)}: {', '.join(often)}")
    for circle in circles(files)[:4]:
        if len(circle) > 1:
            print(f"circle of {len(circle)} files: {', '.join(sorted(map(str, circle)))}")


main()
