#!/usr/bin/env bash
# Builds the static program of a release: target/TARGET/release/ingest. Needs the target (rustup target add TARGET) and musl-gcc
# (apt install musl-tools). One source and one version of Rust give the same bytes in every directory.
#   deploy/release/binary.sh [TARGET [OPTION...]]    TARGET: this machine's by default; options go to cargo
set -euo pipefail
cd "$(dirname "$0")/../.."

target=${1:-$(uname -m)-unknown-linux-musl}
shift || true
here=$(pwd -P)
built=${CARGO_TARGET_DIR:-$here/target}
cargo_home=$(cd "${CARGO_HOME:-$HOME/.cargo}" && pwd -P)
# No path of this machine is in the program.
export RUSTFLAGS="--remap-path-prefix=$built=/target --remap-path-prefix=$here=/ingest --remap-path-prefix=$cargo_home=/cargo"
export CFLAGS="-ffile-prefix-map=$built=/target -ffile-prefix-map=$cargo_home=/cargo"
export CARGO_INCREMENTAL=0
# INGEST_CARGO_BUILD: another command that builds, such as `cargo zigbuild` for an architecture that is not this machine's.
${INGEST_CARGO_BUILD:-cargo build} --locked --release --target "$target" "$@"
