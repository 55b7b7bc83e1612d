#!/usr/bin/env bash
# Runs the tests of behaviour with a program that was built elsewhere, such as the static one of a release, in the place of the
# test build. What follows its path goes to the tests.
#   tests/released.sh target/x86_64-unknown-linux-musl/release/ingest run:: operate::
set -euo pipefail
cd "$(dirname "$0")/.."

program=$1
shift
tests=$(cargo test --locked --test all --no-run 2>&1 | sed -n 's/^ *Executable .*(\(.*\))$/\1/p')
built=target/debug/ingest
mv "$built" "$built.kept"
trap 'mv -f "$built.kept" "$built"' EXIT
cp "$program" "$built"
CARGO_MANIFEST_DIR=$PWD "$tests" --quiet "$@"
