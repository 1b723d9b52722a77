#!/usr/bin/env bash
# Runs the transport benchmark between two network namespaces that are joined by a link with a rate and a delay.
#
#   benchmarks/link/run.sh [arguments of transport ...]
#
# LINK_RTT_MS (10), LINK_MBIT_S (1000), LINK_QUEUE_MS (200: nothing is lost) and LINK_CONGESTION (cubic) describe the link.
# LINK_IDLE_RESTART=1 has TCP forget the link's rate whenever a connection was idle, as it is while others have their turn.
# TRANSPORT is the program, built in release if it is not given. Whatever happens, the namespaces are removed again.
# Exits with 3, saying why, where this machine cannot make such a link.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

rtt_ms=${LINK_RTT_MS:-10}
mbit_s=${LINK_MBIT_S:-1000}
queue_ms=${LINK_QUEUE_MS:-200}
congestion=${LINK_CONGESTION:-cubic}
idle_restart=${LINK_IDLE_RESTART:-0}

cannot() {
    echo "link: cannot make a link between network namespaces: $1" >&2
    exit 3
}
[ "$(id -u)" -eq 0 ] || cannot "this needs root"
command -v ip >/dev/null 2>&1 || cannot "there is no ip (package iproute2)"
command -v python3 >/dev/null 2>&1 || cannot "there is no python3"
[ -c /dev/net/tun ] || cannot "there is no /dev/net/tun"

if [ -z "${TRANSPORT:-}" ]; then
    cargo build --release --locked -p lightstream-benchmarks --bin transport
    TRANSPORT=${CARGO_TARGET_DIR:-target}/release/transport
fi

sender=lightstream-send-$$
receiver=lightstream-recv-$$
port=7700
scratch=$(mktemp -d)
started=()

clean_up() {
    trap - EXIT INT TERM
    # The latest first: the relay outlives those who talk through it.
    for ((at = ${#started[@]} - 1; at >= 0; at--)); do
        kill "${started[at]}" 2>/dev/null || true
        wait "${started[at]}" 2>/dev/null || true
    done
    cat "$scratch/relay" >&2 2>/dev/null || true
    ip netns delete "$sender" 2>/dev/null || true
    ip netns delete "$receiver" 2>/dev/null || true
    rm -rf "$scratch"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

wait_until() {
    local what=$1
    shift
    for _ in $(seq 100); do
        "$@" 2>/dev/null && return
        sleep 0.05
    done
    echo "link: $what has not come up" >&2
    exit 1
}

ip netns add "$sender" 2>"$scratch/why" || cannot "$(<"$scratch/why")"
ip netns add "$receiver"
python3 benchmarks/link/relay.py "ls-send-$$" "ls-recv-$$" "$rtt_ms" "$mbit_s" "$queue_ms" >"$scratch/relay" &
started+=($!)
wait_until "the relay" grep -q ready "$scratch/relay"

# One end: its namespace, its device, its address and the other's.
plug_in() {
    local namespace=$1 device=$2 here=$3 there=$4
    ip link set "$device" netns "$namespace"
    ip -n "$namespace" link set lo up
    ip netns exec "$namespace" sh -c "echo $idle_restart >/proc/sys/net/ipv4/tcp_slow_start_after_idle"
    # Packets of a few segments, so that many still share the queue and one that is lost is not a burst.
    ip -n "$namespace" link set "$device" txqueuelen 4096 gso_max_size 16384 up
    ip -n "$namespace" address add "$here/32" dev "$device"
    # Of the route, since a namespace may not choose among all that the kernel has.
    ip -n "$namespace" route add "$there/32" dev "$device" src "$here" congctl "$congestion"
}
plug_in "$sender" "ls-send-$$" 10.77.0.1 10.77.0.2
plug_in "$receiver" "ls-recv-$$" 10.77.0.2 10.77.0.1

ip netns exec "$sender" "$TRANSPORT" --listen "10.77.0.1:$port" >"$scratch/sender" &
started+=($!)
wait_until "the sending side" grep -q "started on request" "$scratch/sender"
echo "link: $rtt_ms ms, $mbit_s Mbit/s each way, a queue of $queue_ms ms, TCP $congestion"
# A port where nobody listens says so after one round trip.
ip netns exec "$receiver" python3 - <<'END'
import socket, time
took = []
for _ in range(10):
    start = time.perf_counter()
    socket.socket().connect_ex(("10.77.0.1", 9))
    took.append(time.perf_counter() - start)
print(f"link: a connection is refused after {min(took) * 1000:.2f} ms", flush=True)
END

ip netns exec "$receiver" "$TRANSPORT" --connect "10.77.0.1:$port" --link "$rtt_ms:$mbit_s" "$@"
