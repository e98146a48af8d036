#!/usr/bin/env bash
# Makes .venv in the project's folder with the versions of scripts/constraints.txt; does nothing when they are there already.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed; set PYTHON=/path/to/python3.11" >&2; exit 2; }
wanted=$(cat pyproject.toml scripts/constraints.txt | sha256sum | cut -d' ' -f1)
if [ "$(cat .venv/.installed 2>/dev/null)" != "$wanted" ] || ! .venv/bin/python -c '' 2>/dev/null; then
  "$python" -m venv .venv
  # torch first and alone: a plain range would bring the CUDA build, several gigabytes
  .venv/bin/python -m pip install -q -c scripts/constraints.txt torch
  .venv/bin/python -m pip install -q -c scripts/constraints.txt -e '.[dev]'
  echo "$wanted" >.venv/.installed
fi
