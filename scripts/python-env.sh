#!/usr/bin/env bash
# Makes .venv at the root of the repository, with what the tests of the Python packages need and the packages themselves,
# built in the dev profile. What is there already is not made again.
#
#   scripts/python-env.sh            make it ready
#   scripts/python-env.sh COMMAND    make it ready, then run the command within it
#   scripts/python-env.sh --wheels   build release wheels of every Python package into target/wheels
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Folders that hold a pyproject.toml of a package that is built from Rust.
packages=(core/python)

target=${CARGO_TARGET_DIR:-target}
mkdir -p "$target"
target=$(cd "$target" && pwd)
export CARGO_TARGET_DIR=$target

find_python() {
    local python
    for python in "${PYTHON:-}" python3.13 python3.12 python3.11 python3; do
        if [ -n "$python" ] && "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            echo "$python"
            return
        fi
    done
    echo "python-env: Python 3.11 or later is needed; set PYTHON to one" >&2
    return 1
}

# The contents of a wheel: its own bytes hold the time.
fingerprint() {
    .venv/bin/python - "$1" <<'END'
import hashlib, sys, zipfile

digest = hashlib.sha256()
with zipfile.ZipFile(sys.argv[1]) as wheel:
    for name in sorted(wheel.namelist()):
        digest.update(name.encode() + b"\0" + hashlib.sha256(wheel.read(name)).digest())
print(digest.hexdigest())
END
}

requirements=$(sha256sum requirements/test.txt | cut -d ' ' -f 1)
if [ "$(cat .venv/requirements 2>/dev/null)" != "$requirements" ]; then
    python=$(find_python)
    [ -x .venv/bin/python ] || "$python" -m venv .venv
    .venv/bin/python -m pip install --quiet --disable-pip-version-check -r requirements/test.txt
    echo "$requirements" >.venv/requirements
fi
export PATH="$PWD/.venv/bin:$PATH" VIRTUAL_ENV=$PWD/.venv

# What maturin says is of interest only where it fails.
build() {
    local package=$1 log=$target/python-build.log
    shift
    if ! maturin build --locked --manifest-path "$package/Cargo.toml" "$@" >"$log" 2>&1; then
        cat "$log" >&2
        return 1
    fi
}

if [ "${1:-}" = --wheels ]; then
    for package in "${packages[@]}"; do
        build "$package" --release --strip --out "$target/wheels"
    done
    ls "$target"/wheels/*.whl
    exit
fi

# Cargo decides what must be built again. What is installed already is left alone.
for package in "${packages[@]}"; do
    out=$target/python-dev/${package//\//-}
    rm -rf "$out"
    build "$package" --profile dev --out "$out"
    wheel=$(echo "$out"/*.whl)
    print=$(fingerprint "$wheel")
    mark=.venv/installed-${package//\//-}
    if [ "$(cat "$mark" 2>/dev/null)" != "$print" ]; then
        .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --force-reinstall "$wheel"
        echo "$print" >"$mark"
    fi
done

if [ $# -gt 0 ]; then
    exec "$@"
fi
