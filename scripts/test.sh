#!/usr/bin/env bash
# Makes .venv where it is missing or out of date, installs the pinned packages, and runs the linter, the type checker and the tests.
set -euo pipefail
cd "$(dirname "$0")/.."
./scripts/setup.sh
.venv/bin/ruff check .
.venv/bin/ruff format --check .
.venv/bin/mypy
.venv/bin/python -m pytest "$@"
