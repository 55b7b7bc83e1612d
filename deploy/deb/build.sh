#!/usr/bin/env bash
# Builds the Debian package: target/debian/ingest_*.deb. Needs cargo-deb (cargo install cargo-deb).
set -euo pipefail
cd "$(dirname "$0")/../.."

cargo build --locked --release
made=target/deb-assets
mkdir -p "$made"
target/release/ingest man | gzip -9n >"$made/ingest.1.gz"
target/release/ingest completions bash >"$made/ingest.bash"
target/release/ingest completions zsh >"$made/_ingest"
target/release/ingest completions fish >"$made/ingest.fish"
cargo deb --no-build "$@"
