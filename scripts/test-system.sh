#!/usr/bin/env bash
# The tests that need more than the workspace: Arrow's own test files, minutes of use, a slow link, a cable that is
# pulled, and a short fuzz run.
# Arrow's files are required. The others are left out, saying why, where what they need is missing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

fuzz_seconds=${FUZZ_SECONDS:-60}
nightly=${FUZZ_TOOLCHAIN:-nightly}

if [ -z "${ARROW_TESTING_DATA:-}" ]; then
    echo "test-system: ARROW_TESTING_DATA is not set." >&2
    echo "Point it at the folder data/ of a checkout of https://github.com/apache/arrow-testing." >&2
    exit 1
fi
# Tests run in their crates' folders, so the path must not be relative.
if ! ARROW_TESTING_DATA=$(cd "$ARROW_TESTING_DATA" 2>/dev/null && pwd); then
    echo "test-system: ARROW_TESTING_DATA does not name a folder that can be read." >&2
    exit 1
fi
if [ ! -d "$ARROW_TESTING_DATA/arrow-ipc-stream" ]; then
    echo "test-system: $ARROW_TESTING_DATA holds no arrow-ipc-stream: is it the folder data/ of arrow-testing?" >&2
    exit 1
fi
export ARROW_TESTING_DATA

echo "-- corpus tests"
scripts/run-tests.sh corpus

echo "-- a server in use for minutes"
SOAK_ROUNDS=8000 scripts/run-tests.sh soak

echo "-- over a slow link"
scripts/test-link.sh

echo "-- peers that are gone without a word"
scripts/test-half-open.sh

echo "-- fuzzing, $fuzz_seconds seconds in all"
skip() {
    echo "skipped: fuzzing, because $1"
    exit 0
}
[ -f fuzz/Cargo.toml ] || skip "there is no fuzz/Cargo.toml"
cargo "+$nightly" --version >/dev/null 2>&1 || skip "there is no $nightly toolchain (rustup toolchain install $nightly)"
cargo fuzz --version >/dev/null 2>&1 || skip "cargo-fuzz is not installed (cargo install --locked cargo-fuzz)"
command -v c++ >/dev/null 2>&1 || skip "libFuzzer needs a C++ compiler and there is no c++"

# The tests above have built it, as one of the examples of the workspace.
cargo build --locked --workspace --examples --quiet
"${CARGO_TARGET_DIR:-target}/debug/examples/fuzz_seeds" fuzz/corpus

targets=$(cargo "+$nightly" fuzz list)
[ -n "$targets" ] || skip "fuzz/ has no targets"
count=$(wc -l <<<"$targets")
each=$((fuzz_seconds / count))
[ "$each" -ge 1 ] || each=1
for target in $targets; do
    echo "-- fuzz target $target, $each seconds"
    # One input may take 10 seconds and 2 GiB at most: more is a finding, as a panic is.
    cargo "+$nightly" fuzz run "$target" -- \
        "-max_total_time=$each" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1
done
