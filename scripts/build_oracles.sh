#!/usr/bin/env bash
# Builds the reference programs below tests/oracles into DIR, one file each: tests/oracles/cdi becomes DIR/cdi. A module
# file beside a go.mod is the same program on other versions: allocator/v036.mod becomes DIR/allocator-v036, with the
# build tag v036. What is newer than its sources is left alone. Words after DIR are flags for go build, as in
# `build_oracles.sh DIR -cover -coverpkg=...`; ONLY=allocator limits what is built to names that begin so.
# Without Go it says so; that is an error only with REGAUGE_CI=1.
set -euo pipefail

out=${1:?usage: build_oracles.sh DIR [FLAG ...]}
shift
cd "$(dirname "${BASH_SOURCE[0]}")/.."
mkdir -p "$out"
out=$(cd "$out" && pwd)

if ! command -v go >/dev/null; then
  echo "reference programs are not built: there is no 'go' on this machine (https://go.dev/doc/install); tests that need them are skipped" >&2
  [ "${REGAUGE_CI:-}" = 1 ] && exit 1
  exit 0
fi

find tests/oracles -name '*.mod' -printf '%P\n' | sort | while read -r module; do
  folder=$(dirname "$module")
  version=$(basename "$module" .mod)
  name=${folder//\//-}
  chosen=()
  if [ "$version" != go ]; then
    name=$name-$version
    chosen=("-modfile=$version.mod" -tags "$version")
  fi
  [[ $name == "${ONLY:-}"* ]] || continue
  program=$out/$name
  if [ -x "$program" ] && [ -z "$(find "tests/oracles/$folder" -maxdepth 1 -type f \( -name '*.go' -o -name '*.mod' -o -name '*.sum' \) -newer "$program")" ]; then
    continue
  fi
  echo "building $name (the first time its libraries are downloaded and compiled: minutes)"
  (cd "tests/oracles/$folder" && nice go build -o "$program.new" "$@" "${chosen[@]}" .)
  mv "$program.new" "$program"
done
