#!/usr/bin/env bash
# Writes what a release holds to target/dist: an archive, a Debian package, an RPM package and a list of components (CycloneDX).
# Needs cargo-deb, cargo-generate-rpm and cargo-cyclonedx. `sums` writes the checksums of all that is there.
#   deploy/release/packages.sh [TARGET]
#   deploy/release/packages.sh sums
set -euo pipefail
cd "$(dirname "$0")/../.."

dist=target/dist
mkdir -p "$dist"
if [ "${1:-}" = sums ]; then
    cd "$dist"
    rm -f SHA256SUMS
    sums=$(sha256sum -- *)
    echo "$sums" >SHA256SUMS
    exit
fi

target=${1:-$(uname -m)-unknown-linux-musl}
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
# Every date in a package is that of the source.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH

deploy/release/binary.sh "$target"
name=ingest-$version-${target%%-*}-linux

# The packages run the program for its manual pages and completions: on another architecture, this machine's program makes them.
INGEST_BUILT=${INGEST_BUILT:-target/$target/release/ingest} deploy/deb/build.sh \
    --target "$target" --output "$dist/$name.deb" >/dev/null
cargo generate-rpm --target "$target" --source-date "$SOURCE_DATE_EPOCH" --auto-req disabled --output "$dist/$name.rpm"

# The archive: the program and what the manual of deployment installs beside it.
tree=target/archive/$name
rm -rf "$tree" && mkdir -p "$tree/man"
cp -a "target/$target/release/ingest" quotas.toml quotas.schema.json LICENSE README.md CHANGELOG.md deploy "$tree/"
cp target/deb-assets/man/* "$tree/man/"
tar --create --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" --mode=go=rX,u+rw,a-s \
    --directory target/archive "$name" | gzip -9n >"$dist/$name.tar.gz"

cargo cyclonedx --format json --target "$target" --override-filename "$name.cdx" >/dev/null
# As in the program, no path of this machine.
sed "s|file://$(pwd -P)|file:///ingest|g" "$name.cdx.json" >"$dist/$name.cdx.json"
rm -f "$name.cdx.json" crates/*/"$name.cdx.json"
echo "$dist/$name: .tar.gz .deb .rpm .cdx.json"
