#!/usr/bin/env bash
# The properties that take hostile input, for longer: bash tests/fuzz.sh [MINUTES]
# What they find is kept by proptest beside the tests, and tried first from then on. fuzz/corpus holds what is always tried.
set -euo pipefail
cd "$(dirname "$0")/.."

minutes=${1:-10}
properties=(operate::hostile upstream::properties config::template config::shipped catalog::properties ledger::redis::replies)

cargo test --locked --quiet --test all --no-run
binary=$(cargo test --locked --test all --no-run --message-format=json 2>/dev/null |
    sed -n 's/.*"executable":"\([^"]*\/all-[^"]*\)".*/\1/p' | tail -1)
end=$((SECONDS + minutes * 60))
rounds=0
while [ "$SECONDS" -lt "$end" ]; do
    PROPTEST_CASES=${PROPTEST_CASES:-2000} "$binary" --quiet "${properties[@]}"
    rounds=$((rounds + 1))
done
echo "$rounds rounds in $minutes minutes: nothing found"
