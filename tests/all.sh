#!/usr/bin/env bash
# Passes the tests: installs what is missing where it may, then format, lints, tests, documentation, and a little of the soaks.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf '\n== %s\n' "$*"; }

# The package of a command, by the system's package manager.
install() {
    local command=$1 apt=$2 dnf=$3 apk=$4 brew=$5 sudo=
    [ "$(id -u)" = 0 ] || sudo="sudo -n"
    say "installing $command"
    if command -v apt-get >/dev/null; then
        $sudo apt-get update -qq && DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq "$apt" >/dev/null
    elif command -v dnf >/dev/null; then
        $sudo dnf install -y -q "$dnf"
    elif command -v apk >/dev/null; then
        $sudo apk add --quiet "$apk"
    elif command -v brew >/dev/null; then
        brew install --quiet "$brew"
    else
        return 1
    fi
}

need() {
    local command=$1
    command -v "$command" >/dev/null && return
    install "$@" && command -v "$command" >/dev/null && return
    echo "the tests need \`$command\`: install the package that holds it ($2 on Debian), then try again" >&2
    exit 1
}

# The same of a command that some checks alone want.
want() {
    local command=$1
    command -v "$command" >/dev/null && return
    install "$@" && command -v "$command" >/dev/null && return
    echo "\`$command\` is not installed: what it would check is not checked" >&2
}

need cargo cargo cargo cargo rust
need cc gcc gcc build-base gcc
need timeout coreutils coreutils coreutils coreutils
need redis-server redis-server redis redis redis
# Debian has the programs of the server outside of the path.
with_server() { PATH=$PATH:$(echo /usr/lib/postgresql/*/bin | tr ' ' ':'):/usr/sbin; }
with_server
command -v initdb >/dev/null || install initdb postgresql postgresql-server postgresql postgresql || true
with_server
need initdb postgresql postgresql-server postgresql postgresql
need pgbouncer pgbouncer pgbouncer pgbouncer pgbouncer
want faketime faketime libfaketime libfaketime libfaketime
want systemd-analyze systemd systemd systemd systemd
want crontab cron cronie cronie cronie
readers=target/readers
[ -e $readers/installed ] || {
    say "installing DuckDB, Datasette and sqlite-utils below $readers"
    python3 -m venv $readers &&
        $readers/bin/pip install --quiet "duckdb==1.5.*" "duckdb-extension-sqlite-scanner==1.5.*" datasette sqlite-utils &&
        touch $readers/installed
} || echo "DuckDB, Datasette and sqlite-utils are not installed: whether they read a catalog is not checked" >&2
want chromium chromium chromium chromium chromium
want chromedriver chromium-driver chromedriver chromium-chromedriver chromedriver
want npm npm npm npm node
axe=target/axe
[ -e $axe/node_modules/axe-core/axe.min.js ] || {
    say "installing axe-core below $axe"
    npm install --silent --no-save --prefix $axe "axe-core@4.14.*"
} || echo "axe-core is not installed: the rules of accessibility are not checked" >&2
want promtool prometheus golang-github-prometheus prometheus prometheus
want prometheus-node-exporter prometheus-node-exporter node-exporter prometheus-node-exporter node_exporter
want lintian lintian lintian lintian lintian
command -v cargo-deb >/dev/null || echo "\`cargo-deb\` is not installed (cargo install cargo-deb): the Debian package is not checked" >&2
cargo fmt --version >/dev/null 2>&1 || { echo "the tests need rustfmt: rustup component add rustfmt" >&2; exit 1; }
cargo clippy --version >/dev/null 2>&1 || { echo "the tests need clippy: rustup component add clippy" >&2; exit 1; }

say "format"
cargo fmt --all --check

say "lints"
cargo clippy --locked --workspace --all-targets --quiet -- -D warnings
cargo clippy --locked --no-default-features --lib --bins --quiet -- -D warnings

say "tests"
cargo test --locked --quiet --workspace --no-run
# Nothing that a test writes must survive a power cut, so no test needs to wait for a disk.
memory=$(mktemp -d /dev/shm/ingest-tests.XXXXXX 2>/dev/null) || memory=
if [ -n "$memory" ]; then
    trap 'rm -rf "$memory" || true' EXIT
    # PostgreSQL may run as another user, and tests run programs that they write.
    chmod 1777 "$memory"
    echo exit >"$memory/program"
    chmod 755 "$memory/program"
    free=$(df -Pk "$memory" | awk 'END { print $4 }')
    [ "$free" -gt 2097152 ] && "$memory/program" 2>/dev/null && export TMPDIR="$memory"
fi
# Most tests wait for processes more than they compute.
RUST_TEST_THREADS=$((2 * $(getconf _NPROCESSORS_ONLN)))
export RUST_TEST_THREADS
rm -f target/not-run.txt
# Tests that hang are ended, and named. Not by a pipe, which what a test leaves behind could keep open.
timeout --kill-after=10s "${DEADLINE:-25m}" cargo test --locked --workspace \
    > >(tee target/tests.txt | grep --line-buffered -Ev '^$|^test .* \.\.\. (ok|ignored.*)$|^running 0 tests') 2>&1 &
tests=$!
trap 'kill "$tests"' INT TERM
wait "$tests" || {
    code=$?
    sleep 1
    echo "the tests ended with code $code; these had not ended after a minute or more:"
    sed -n 's/^test \(.*\) has been running for over .*/\1/p' target/tests.txt | while read -r test; do
        grep -qF "test $test ... " target/tests.txt || echo "$test"
    done
    exit "$code"
}
trap - INT TERM

say "documentation"
RUSTDOCFLAGS="-D warnings" cargo doc --locked --workspace --no-deps --quiet

say "soaks"
bash tests/soak.sh 1
bash tests/soak.sh --machines 1

if [ -s target/not-run.txt ]; then
    say "not run, since something is missing here"
    sort -u target/not-run.txt
fi

say "all passed"
