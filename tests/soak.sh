#!/usr/bin/env bash
# Runs of the real program under random kills, faults of the upstream and of Redis, full disks and clock jumps:
#   bash tests/soak.sh [--machines] [MINUTES] [SEED] [CHAPTER]
# `--machines`: up to six machines that share a catalog in PostgreSQL and a Redis, which fail too.
# The seed is printed; the same one chooses the same again, chapter by chapter. PROFILE=release for the program as it is shipped,
# PROGRAM=PATH for another one. After the minutes no round begins; a soak that has not ended ten minutes later is killed.
set -euo pipefail
cd "$(dirname "$0")/.."

mode=one
[ "${1:-}" = --machines ] && mode=machines && shift
minutes=${1:-20}
seed=${2:-$RANDOM}
chapter=${3:-0}
profile=${PROFILE:-dev}
directory=$([ "$profile" = dev ] && echo debug || echo "$profile")

target=${CARGO_TARGET_DIR:-target}

# A chapter that goes wrong ends by a panic, which must not end the others: so the soak itself is never a release build.
[ -n "${PROGRAM:-}" ] || cargo build --locked --quiet --profile "$profile" --bin ingest
cargo build --locked --quiet --example soak
exec timeout --foreground --kill-after=10s "$(awk "BEGIN { print $minutes + 10 }")m" \
    "$target/debug/examples/soak" "$minutes" "$seed" "$chapter" "${PROGRAM:-$target/$directory/ingest}" "$mode"
