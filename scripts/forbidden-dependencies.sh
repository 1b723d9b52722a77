#!/usr/bin/env bash
# The core, and the core from Python, must build without any query engine: fail if one is among its dependencies, of whatever kind, feature or platform.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

forbidden='^(datafusion|polars|daft)'

for crate in lightstream-core lightstream-core-python; do
    tree=(cargo tree --locked -p "$crate" --all-features --edges "normal,build,dev" --target all)
    packages=$("${tree[@]}" --prefix none --format '{p}' | awk 'NF { print $1 }' | sort -u)

    if ! grep -qx "$crate" <<<"$packages"; then
        echo "forbidden-dependencies: cargo tree did not list $crate itself, so nothing was checked" >&2
        exit 1
    fi
    if found=$(grep -E "$forbidden" <<<"$packages"); then
        echo "forbidden-dependencies: $crate must not depend on a query engine, but its dependencies hold:" >&2
        sed 's/^/  /' <<<"$found" >&2
        echo "Move what needs the engine into that engine's crate. To see how one came in:" >&2
        echo "  ${tree[*]} -i $(head -n 1 <<<"$found")" >&2
        exit 1
    fi
    echo "forbidden-dependencies: none of datafusion, polars, daft among the $(wc -l <<<"$packages") packages of $crate"
done
