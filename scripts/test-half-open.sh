#!/usr/bin/env bash
# A client whose machine is gone from the network, without a word, is noticed by the server, and the other way round.
# Two network namespaces are joined by a cable that is then pulled. Says that it skips, and why, where that cannot be done.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

skip() {
    echo "skipped: $1"
    exit 0
}
[ "$(id -u)" -eq 0 ] || skip "network namespaces need root"
command -v ip >/dev/null 2>&1 || skip "there is no ip (package iproute2)"
command -v curl >/dev/null 2>&1 || skip "there is no curl"

# As the tests of the workspace build it: after them nothing is left to do.
cargo test --locked --quiet --workspace --no-run
lightstream=${CARGO_TARGET_DIR:-target}/debug/lightstream
near=lightstream-near-$$
far=lightstream-far-$$
scratch=$(mktemp -d)
clean_up() {
    { jobs -p | xargs -r kill -9 && wait; } 2>/dev/null || true
    ip netns delete "$near" 2>/dev/null || true
    ip netns delete "$far" 2>/dev/null || true
    rm -rf "$scratch"
}
trap clean_up EXIT

ip netns add "$near" 2>"$scratch/why" || skip "no network namespace: $(<"$scratch/why")"
ip netns add "$far"
ip -n "$near" link add cable type veth peer name cable netns "$far" 2>"$scratch/why" ||
    skip "no cable between network namespaces: $(<"$scratch/why")"
for end in "$near 10.77.0.1/24" "$far 10.77.0.2/24"; do
    read -r namespace address <<<"$end"
    ip -n "$namespace" link set lo up
    ip -n "$namespace" address add "$address" dev cable
    ip -n "$namespace" link set cable up
done

# Waits until a series of the server's metrics has a value: some forty seconds where a few are expected, and less than the
# minute and a half that connections have which nobody has said anything of.
becomes() {
    local series=$1 value=$2 found=
    for _ in $(seq 80); do
        found=$(ip netns exec "$near" curl -s "http://$monitors/metrics" | awk -v name="$series" '$1 == name { print $2 }')
        [ "$found" = "$value" ] && return
        sleep 0.5
    done
    echo "half-open: $series is $found where it should have become $value" >&2
    exit 1
}

ip netns exec "$near" "$lightstream" serve --insecure --keepalive 1s --http 127.0.0.1:0 \
    --listen 'lightstream://10.77.0.1:7654?tls=off' --dir examples/data >"$scratch/server" 2>&1 &
for _ in $(seq 240); do
    monitors=$(sed -n 's|^metrics http://\(.*\)/metrics$|\1|p' "$scratch/server")
    [ -n "$monitors" ] && break
    sleep 0.5
done
[ -n "$monitors" ] || { cat "$scratch/server" >&2; exit 1; }

# All of this table comes; then its output is not taken, and the connection idles.
mkfifo "$scratch/untaken"
url='lightstream://10.77.0.1:7654/planes?tls=off&keepalive=1s&read_timeout=3s&retries=0'
sleep infinity >"$scratch/open" <"$scratch/untaken" &
ip netns exec "$far" "$lightstream" cat "$url" --format csv >"$scratch/untaken" &
becomes 'lightstream_sent_rows_total{table="planes"}' 3322
becomes lightstream_connections_open 1
# While bytes are not acknowledged, they are what is sent again, and nothing is probed.
for _ in $(seq 80); do
    ip netns exec "$near" ss -Htn state established | awk '$2 > 0 { pending = 1 } END { exit pending }' && break
    sleep 0.5
done

ip -n "$near" link set cable down
becomes lightstream_connections_open 0
echo "a client that is gone without a word: noticed by the server"

status=0
ip netns exec "$far" "$lightstream" ping 'lightstream://10.77.0.1:7654?tls=off&connect_timeout=2s&retries=0' \
    2>"$scratch/said" || status=$?
[ "$status" -eq 5 ] || { echo "half-open: ping ended with $status: $(<"$scratch/said")" >&2; exit 1; }
echo "a server that is gone without a word: $(<"$scratch/said")"
