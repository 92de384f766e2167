#!/usr/bin/env bash
# Builds the reference programs below tests/oracles into DIR, one file each: allocator/v036 becomes DIR/allocator-v036.
# What is newer than its sources is left alone. Without Go it says so; that is an error only with REGAUGE_CI=1.
set -euo pipefail

out=${1:?usage: build_oracles.sh DIR}
cd "$(dirname "${BASH_SOURCE[0]}")/.."
mkdir -p "$out"
out=$(cd "$out" && pwd)

if ! command -v go >/dev/null; then
  echo "reference programs are not built: there is no 'go' on this machine (https://go.dev/doc/install); tests that need them are skipped" >&2
  [ "${REGAUGE_CI:-}" = 1 ] && exit 1
  exit 0
fi

find tests/oracles -name go.mod -printf '%P\n' | sort | while read -r module; do
  folder=$(dirname "$module")
  program=$out/${folder//\//-}
  if [ -x "$program" ] && [ -z "$(find "tests/oracles/$folder" -maxdepth 1 -type f \( -name '*.go' -o -name 'go.*' \) -newer "$program")" ]; then
    continue
  fi
  echo "building $folder (the first time its libraries are downloaded and compiled: minutes)"
  (cd "tests/oracles/$folder" && nice go build -o "$program.new" .)
  mv "$program.new" "$program"
done
