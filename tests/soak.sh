#!/usr/bin/env bash
# Runs of the real program under random kills, faults of the upstream and of Redis, full disks and clock jumps:
#   bash tests/soak.sh [MINUTES] [SEED] [CHAPTER]
# The seed is printed; the same one chooses the same again, chapter by chapter. PROFILE=release for the program as it is shipped.
set -euo pipefail
cd "$(dirname "$0")/.."

minutes=${1:-20}
seed=${2:-$RANDOM}
chapter=${3:-0}
profile=${PROFILE:-dev}
directory=$([ "$profile" = dev ] && echo debug || echo "$profile")

cargo build --locked --quiet --profile "$profile" --bin ingest --example soak
exec "${CARGO_TARGET_DIR:-target}/$directory/examples/soak" "$minutes" "$seed" "$chapter" "${CARGO_TARGET_DIR:-target}/$directory/ingest"
