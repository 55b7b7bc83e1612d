#!/usr/bin/env bash
# Builds the Debian package: target/debian/ingest_*.deb. Needs cargo-deb (cargo install cargo-deb), to which arguments go.
set -euo pipefail
cd "$(dirname "$0")/../.."

# INGEST_BUILT names a program that is built already.
if [ -z "${INGEST_BUILT:-}" ]; then
    cargo build --locked --release
    INGEST_BUILT=${CARGO_TARGET_DIR:-target}/release/ingest
fi

# What the package holds beside files of this directory: manual pages, completions, changelog.
made=target/deb-assets
rm -rf "$made" && mkdir -p "$made/man"
"$INGEST_BUILT" man >"$made/man/ingest.1"
# Every page that ingest(1) names.
sed -n 's/^ingest\\-\([a-z]*\)(1)$/\1/p' "$made/man/ingest.1" | while read -r command; do
    "$INGEST_BUILT" man "$command" >"$made/man/ingest-$command.1"
done
gzip -9n "$made"/man/*
gzip -9nc CHANGELOG.md >"$made/changelog.gz"
"$INGEST_BUILT" completions bash >"$made/ingest.bash"
"$INGEST_BUILT" completions zsh >"$made/_ingest"
"$INGEST_BUILT" completions fish >"$made/ingest.fish"
cargo deb --no-build "$@"
