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

# The properties of a target, after the package whose tests they are: changed input from the corpus, and what else takes hostile
# input.
properties() {
    case $1 in
    config) echo "ingest fuzz::config operate::hostile::any_bytes operate::hostile::bytes_in"; echo "ingest-config shipped" ;;
    templates) echo "ingest fuzz::templates"; echo "ingest-config template" ;;
    headers) echo "ingest-upstream fuzz::headers properties::any_refusal" ;;
    answers) echo "ingest-upstream fuzz::answers" ;;
    tokens) echo "ingest-upstream fuzz::tokens" ;;
    replies) echo "ingest-ledger fuzz::replies" ;;
    search) echo "ingest fuzz::search" ;;
    files) echo "ingest fuzz::files" ;;
    *) echo "there is no target $1" >&2 && exit 2 ;;
    esac
}

# So many minutes of one target.
try() {
    local target=$1 rounds=0 end=$((SECONDS + minutes * 60)) package names
    while [ "$SECONDS" -lt "$end" ]; do
        while read -r package names; do
            # shellcheck disable=SC2086
            "$said/$package" --quiet $names >"$said/$target" 2>&1 || { cat "$said/$target"; return 1; }
        done < <(properties "$target")
        rounds=$((rounds + 1))
    done
    echo "$target: $rounds rounds in $minutes minutes, nothing found"
}

said=$(mktemp -d)
trap 'rm -rf "$said"' EXIT
for package in ingest ingest-config ingest-upstream ingest-ledger; do
    cargo test --locked --quiet --package $package --test all --no-run
    built=$(cargo test --locked --package $package --test all --no-run --message-format=json 2>/dev/null |
        sed -n 's/.*"executable":"\([^"]*\/all-[^"]*\)".*/\1/p' | tail -1)
    # A build that goes on meanwhile must not change what is tried.
    cp "$built" "$said/$package"
done

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
