#!/usr/bin/env bash
# Run the tests of the workspace; with an argument, only those whose names contain it (and at least one must).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

name=${1:-}
if cargo nextest --version >/dev/null 2>&1; then
    # nextest itself fails when no test matches.
    exec cargo nextest run --locked --workspace ${name:+-E "test($name)"}
fi

echo "cargo-nextest is not installed: using cargo test"
if [ -n "$name" ]; then
    # cargo test passes when nothing matches, so look first.
    listed=$(cargo test --locked --workspace --tests -- --list "$name")
    if ! grep -q ': test$' <<<"$listed"; then
        echo "no test's name contains '$name'" >&2
        exit 1
    fi
fi
exec cargo test --locked --workspace --tests -- ${name:+"$name"}
