"""Opens a catalog with other programs and writes what each finds as one JSON object. Usage: readers.py CATALOG"""
import glob
import json
import os
import sqlite3
import subprocess
import sys

ROWS = "select id, title, view_count, tags from youtube_video where view_count = '22' order by id"
FOUND = "select rowid, highlight(record_text, 0, '[', ']') like '[fox]%' from record_text where record_text match 'fox'"


def python(path):
    connection = sqlite3.connect(path)
    tables = connection.execute("select name from sqlite_master where type in ('table', 'view')")
    for (name,) in tables.fetchall():
        connection.execute(f'select * from "{name}"').fetchall()
    assert connection.execute(FOUND).fetchall() == [(2, 1)]
    # Those before dump a table of a module as one of rows, which cannot be restored.
    if sys.version_info >= (3, 13):
        restored = sqlite3.connect(":memory:")
        restored.executescript("\n".join(connection.iterdump()))
        assert restored.execute(ROWS).fetchall() == connection.execute(ROWS).fetchall()
    return connection.execute(ROWS).fetchall()


def shell(path):
    dump = subprocess.run(["sqlite3", path, ".dump"], check=True, capture_output=True).stdout
    copy = path + ".copy"
    subprocess.run(["sqlite3", "-bail", copy], input=dump, check=True)
    rows = subprocess.run(["sqlite3", "-json", copy, ROWS], check=True, capture_output=True)
    found = subprocess.run(["sqlite3", copy, FOUND], check=True, capture_output=True)
    assert found.stdout == b"2|1\n", found
    return [list(row.values()) for row in json.loads(rows.stdout)]


def duckdb(path):
    import duckdb

    connection = duckdb.connect()
    try:
        import duckdb_extension_sqlite_scanner as extension
    except ImportError:
        connection.execute("install sqlite; load sqlite")
    else:
        below = os.path.join(os.path.dirname(extension.__file__), "extensions/*/*.duckdb_extension")
        connection.execute(f"load '{glob.glob(below)[0]}'")
    connection.execute(f"attach '{path}' as c (type sqlite, read_only); use c")
    for (name,) in connection.execute("show tables").fetchall():
        connection.execute(f'select * from "{name}"').fetchall()
    return connection.execute(ROWS).fetchall()


def command(name):
    return os.path.join(os.path.dirname(sys.executable), name)


def datasette(path):
    page = "/catalog/youtube_video.json?view_count=22&_shape=array&_sort=id"
    answer = subprocess.run([command("datasette"), path, "--get", page], check=True, capture_output=True)
    rows = json.loads(answer.stdout)
    return [[row["id"], row["title"], row["view_count"], row["tags"]] for row in rows]


def sqlite_utils(path):
    run = lambda *what: subprocess.run([command("sqlite-utils"), *what], check=True, capture_output=True)
    run("tables", path, "--counts", "--schema")
    run("views", path, "--counts", "--schema")
    rows = json.loads(run("query", path, ROWS).stdout)
    assert "fox" in run("search", path, "record_words", "fox").stdout.decode()
    return [[row["id"], row["title"], row["view_count"], row["tags"]] for row in rows]


def absent(error):
    return isinstance(error, (ImportError, FileNotFoundError))


found = {}
for reader in [python, shell, duckdb, datasette, sqlite_utils]:
    try:
        found[reader.__name__] = [list(row) for row in reader(sys.argv[1])]
    except Exception as error:
        found[reader.__name__] = None if absent(error) else f"{type(error).__name__}: {error}"
print(json.dumps(found))
