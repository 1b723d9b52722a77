#!/usr/bin/env bash
# Makes .venv at the root of the repository, with what the tests of the Python packages need and the packages themselves,
# built in the dev profile. What is there already is not made again.
#
#   scripts/python-env.sh            make it ready
#   scripts/python-env.sh COMMAND    make it ready, then run the command within it
#   scripts/python-env.sh --wheels   build release wheels of every Python package into target/wheels
#
# With POLARS=1.44.2 in front of it, the environment is .venv-polars-1.44.2, with that version of Polars.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Folders that hold a package: built by maturin where there is a Cargo.toml, otherwise of Python alone.
packages=(core/python polars-plugin daft-source)

venv=.venv${POLARS:+-polars-$POLARS}

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
    "$venv/bin/python" - "$1" <<'END'
import hashlib, sys, zipfile

digest = hashlib.sha256()
with zipfile.ZipFile(sys.argv[1]) as wheel:
    for name in sorted(wheel.namelist()):
        digest.update(name.encode() + b"\0" + hashlib.sha256(wheel.read(name)).digest())
print(digest.hexdigest())
END
}

requirements=$(sha256sum requirements/test.txt | cut -d ' ' -f 1)
pip() {
    "$venv/bin/python" -m pip --quiet --disable-pip-version-check "$@"
}
if [ "$(cat "$venv/requirements" 2>/dev/null)" != "$requirements" ]; then
    python=$(find_python)
    [ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
    pip install -r requirements/test.txt
    if [ -n "${POLARS:-}" ]; then
        pip install "polars==$POLARS"
    fi
    echo "$requirements" >"$venv/requirements"
fi
export PATH="$PWD/$venv/bin:$PATH" VIRTUAL_ENV=$PWD/$venv

# Builds a package into a folder. What builders say is of interest only where they fail.
build() {
    local package=$1 out=$2 log=$target/python-build.log
    shift 2
    if [ -f "$package/Cargo.toml" ]; then
        maturin build --locked --manifest-path "$package/Cargo.toml" --out "$out" "$@" >"$log" 2>&1
    else
        pip wheel --no-deps --no-build-isolation --wheel-dir "$out" "./$package" >"$log" 2>&1
    fi || {
        cat "$log" >&2
        return 1
    }
}

if [ "${1:-}" = --wheels ]; then
    for package in "${packages[@]}"; do
        build "$package" "$target/wheels" --release --strip
    done
    ls "$target"/wheels/*.whl
    exit
fi

# Cargo decides what must be built again. What is installed already is left alone.
for package in "${packages[@]}"; do
    out=$target/python-dev/${package//\//-}
    rm -rf "$out"
    build "$package" "$out" --profile dev
    wheel=$(echo "$out"/*.whl)
    print=$(fingerprint "$wheel")
    mark=$venv/installed-${package//\//-}
    if [ "$(cat "$mark" 2>/dev/null)" != "$print" ]; then
        pip install --no-deps --force-reinstall "$wheel"
        echo "$print" >"$mark"
    fi
done

if [ $# -gt 0 ]; then
    exec "$@"
fi
