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
# mdBook calls the page of a README.md index.html, but not in links to it.
find "$source" -name '*.md' ! -name SUMMARY.md -exec sed -i 's|\(](\([^):]*/\)\?\)README\.md\([)#]\)|\1index.md\3|g' {} +
mdbook build
echo "target/site/html/index.html"
