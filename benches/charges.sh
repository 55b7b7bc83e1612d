#!/usr/bin/env bash
# What a charge in a file takes here and in another checkout, in turns: `bash benches/charges.sh CHECKOUT`.
set -euo pipefail
cd "$(dirname "$0")/.."
for turn in 1 2 3; do
    for checkout in . "$1"; do
        echo "turn $turn, $checkout"
        (cd "$checkout" && cargo bench --quiet --locked --bench ledger -- sqlite | grep '^|')
    done
done
