#!/usr/bin/env bash
# Every fuzz target for longer, two side by side: bash tests/fuzz.sh [MINUTES A TARGET] [TARGET...]
# What is found is kept by proptest beside the tests, and tried first from then on. fuzz/corpus holds what all begins with.
set -euo pipefail
cd "$(dirname "$0")/.."

minutes=${1:-10}
shift || true
targets=("$@")
[ $# -gt 0 ] || targets=(config templates headers answers tokens replies search files)
export PROPTEST_CASES=${PROPTEST_CASES:-4096}

# The properties of a target: changed input from the corpus, and what else takes hostile input.
properties() {
    case $1 in
    config) echo fuzz::config operate::hostile::any_bytes operate::hostile::bytes_in config::shipped ;;
    templates) echo fuzz::templates config::template ;;
    headers) echo fuzz::headers upstream::properties::any_link upstream::properties::any_retry upstream::properties::any_refusal ;;
    answers) echo fuzz::answers upstream::properties::any_success ;;
    tokens) echo fuzz::tokens upstream::properties::any_page_token ;;
    replies) echo fuzz::replies ledger::redis::replies ;;
    search) echo fuzz::search ;;
    files) echo fuzz::files ;;
    *) echo "there is no target $1" >&2 && exit 2 ;;
    esac
}

# So many minutes of one target.
try() {
    local target=$1 rounds=0 end=$((SECONDS + minutes * 60)) names
    names=$(properties "$target")
    while [ "$SECONDS" -lt "$end" ]; do
        # shellcheck disable=SC2086
        "$binary" --quiet $names >"$said/$target" 2>&1 || { cat "$said/$target"; return 1; }
        rounds=$((rounds + 1))
    done
    echo "$target: $rounds rounds in $minutes minutes, nothing found"
}

cargo test --locked --quiet --test all --no-run
built=$(cargo test --locked --test all --no-run --message-format=json 2>/dev/null |
    sed -n 's/.*"executable":"\([^"]*\/all-[^"]*\)".*/\1/p' | tail -1)
said=$(mktemp -d)
trap 'rm -rf "$said"' EXIT
# A build that goes on meanwhile must not change what is tried.
binary=$said/all
cp "$built" "$binary"

failed=0
while [ ${#targets[@]} -gt 0 ]; do
    running=()
    for target in "${targets[@]:0:2}"; do
        try "$target" &
        running+=($!)
    done
    for one in "${running[@]}"; do
        wait "$one" || failed=1
    done
    targets=("${targets[@]:2}")
done
exit $failed
