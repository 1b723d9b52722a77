#!/usr/bin/env bash
# Tables over a slow link between two network namespaces: complete and verified, however long it takes.
# Prints what rates were reached. Says that it skips, and why, where such a link cannot be made.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

cargo build --locked --quiet -p lightstream-benchmarks --bin transport
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
status=0
# A short queue, so that packets are lost as well.
LINK_RTT_MS=10 LINK_MBIT_S=200 LINK_QUEUE_MS=5 TRANSPORT=${CARGO_TARGET_DIR:-target}/debug/transport \
    benchmarks/link/run.sh --shapes string-heavy --streams 1,4 --rounds 1 --bytes 6MiB \
    --systems raw-tcp,lightstream --out "$out" >"$out/log" 2>&1 || status=$?
case $status in
0) ;;
3)
    echo "skipped: $(tail -n 1 "$out/log")"
    exit 0
    ;;
*)
    cat "$out/log" >&2
    exit "$status"
    ;;
esac
python3 - "$out/transport.json" <<'END'
import json, sys

records = [record for record in json.load(open(sys.argv[1])) if "gib_s" in record]
ours = {(record["streams"], record["ordered"]) for record in records if record["system"] == "lightstream"}
assert ours == {(1, False), (1, True), (4, False), (4, True)}, ours
for record in records:
    ordered = ", ordered" if record["ordered"] else ""
    rate = record["gib_s"]["median"] * 1024
    print(f"{record['system']}{ordered}, {record['streams']} streams: verified, {rate:.1f} MiB/s")
END
