#!/usr/bin/env bash
# Runs a benchmark of this folder with release wheels, in an environment of its own: run.sh SCRIPT [ARGUMENTS]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

target=${CARGO_TARGET_DIR:-target}
mkdir -p "$target/bench"
target=$(cd "$target" && pwd)
script=$1
shift

rm -rf "$target/wheels"
scripts/python-env.sh --wheels
venv=$target/bench/venv
[ -x "$venv/bin/python" ] || .venv/bin/python -m venv "$venv"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check -r requirements/bench.txt
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --force-reinstall "$target"/wheels/*.whl
exec "$venv/bin/python" "benchmarks/engines/$script" --out "$target/bench" "$@"
