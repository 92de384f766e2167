#!/usr/bin/env bash
# Writes requirements.lock: every version with its hashes, for Python 3.11 to 3.14 on x86-64 and arm64, no host named.
set -euo pipefail
tool=.cache/lock-tool
[ -x $tool/bin/uv ] || { python3 -m venv $tool; $tool/bin/pip install --quiet uv; }
$tool/bin/uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --no-header \
  --python-version 3.11 --extra cluster --extra driver --extra nvidia --group dev pyproject.toml -o requirements.lock "$@"
