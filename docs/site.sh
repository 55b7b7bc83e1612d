#!/usr/bin/env bash
# Makes a site of the documents: target/site/html/index.html. Needs mdbook (cargo install mdbook).
set -euo pipefail
cd "$(dirname "$0")/.."

source=target/site/source
rm -rf target/site && mkdir -p "$source"
# What the documents link to lies beside them.
git ls-files -z '*.md' docs deploy presets examples lua quotas.toml quotas.schema.json LICENSE |
    xargs -0 cp --parents --no-dereference --target-directory "$source"
# The summary stands in docs/, the book begins at the root.
sed 's|](\([^)]*\))|](docs/\1)|; s|](docs/\.\./|](|' docs/SUMMARY.md >"$source/SUMMARY.md"
rm "$source/docs/SUMMARY.md"
mdbook build
echo "target/site/html/index.html"
