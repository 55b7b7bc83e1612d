#!/usr/bin/env bash
# Builds this checkout and others for release, each in an empty directory: seconds, seconds of the processors, bytes of the program.
# `bash benches/build.sh [CHECKOUT…]`
set -euo pipefail
cd "$(dirname "$0")/.."
TIMEFORMAT="%0R %0U %0S"
echo "| checkout | seconds | of the processors | bytes of the program |"
echo "| --- | ---: | ---: | ---: |"
for checkout in . "$@"; do
    target=$(mktemp -d)
    { time (cd "$checkout" && CARGO_TARGET_DIR=$target cargo build --release --locked --quiet); } 2>"$target/time"
    read -r seconds user system < <(tail -n 1 "$target/time")
    echo "| $checkout | $seconds | $((user + system)) | $(stat -c %s "$target/release/ingest") |"
    rm -rf "$target"
done
