#!/usr/bin/env bash
# Builds the committed source in two directories of different lengths and compares the programs byte for byte.
#   deploy/release/twice.sh [TARGET]
set -euo pipefail
cd "$(dirname "$0")/../.."

target=${1:-$(uname -m)-unknown-linux-musl}
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
for directory in one another/directory; do
    git clone --quiet . "$place/$directory"
    (cd "$place/$directory" && deploy/release/binary.sh "$target" --quiet)
done
built=target/$target/release/ingest
sha256sum "$place/one/$built" "$place/another/directory/$built"
cmp "$place/one/$built" "$place/another/directory/$built"
echo "both builds are equal"
