#!/bin/sh
# Charges one call over HTTP, and runs the command that follows if it was granted: charge.sh youtube videos.list COMMAND ...
# INGEST_URL is the address of `ingest serve`; INGEST_TOKEN_FILE holds the token of a client that may charge.
set -eu
credential=$1 call=$2
shift 2
key=$(cat /proc/sys/kernel/random/uuid)
# --retry repeats under the same key: the charge is counted once. Without --retry-max-time, curl would wait for the Retry-After of
# a limit that is used up, which can be hours.
printf 'header = "Authorization: Bearer %s"\n' "$(cat "$INGEST_TOKEN_FILE")" |
    curl --silent --show-error --fail-with-body --config - --retry 3 --retry-connrefused --retry-max-time 10 --max-time 10 \
        -H "Idempotency-Key: $key" --json "{\"credential\": \"$credential\", \"call\": \"$call\"}" "$INGEST_URL/api/v1/charge" || exit 75
echo
exec "$@"
