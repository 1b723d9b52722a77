#!/usr/bin/env python3
"""A link of a given rate, delay and queue between two TUN devices, in one process.

The kernel's own netem would do this as well, but many kernels are built without it. The devices are made here and live
as long as this process; whoever starts it moves them into their namespaces once it has said "ready".
"""

import collections
import fcntl
import os
import select
import signal
import struct
import sys
import time

TUNSETIFF = 0x400454CA
TUNSETOFFLOAD = 0x400454D0
TUNSETVNETHDRSZ = 0x400454D8
IFF_TUN, IFF_NO_PI, IFF_VNET_HDR = 0x0001, 0x1000, 0x4000
TUN_F_CSUM, TUN_F_TSO4 = 0x01, 0x02

# In front of each packet: flags, kind of segmentation, length of the headers, bytes of a segment, where the checksum is.
VNET_HEADER = struct.Struct("=BBHHHH")
# Preamble, Ethernet header, checksum and gap: what each frame takes on the wire beyond its IP packet.
ETHERNET_BYTES = 8 + 14 + 4 + 12
# Packets taken from one device before the other has its turn.
AT_ONCE = 64


def device(name):
    """Makes a TUN device that hands out segments of TCP together, as a network card takes them."""
    tun = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(tun, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TUN | IFF_NO_PI | IFF_VNET_HDR))
    fcntl.ioctl(tun, TUNSETVNETHDRSZ, struct.pack("=i", VNET_HEADER.size))
    fcntl.ioctl(tun, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4)
    return tun


def wire_bytes(packet):
    """What a packet takes on the wire, once it is cut into segments that each have headers of their own."""
    _, _, header, segment, _, _ = VNET_HEADER.unpack_from(packet)
    length = len(packet) - VNET_HEADER.size
    if segment == 0:
        return length + ETHERNET_BYTES
    segments = -(-(length - header) // segment)
    return length + (segments - 1) * header + segments * ETHERNET_BYTES


class Direction:
    """Packets on their way from one device to the other."""

    def __init__(self, source, target, rate, delay, queue):
        self.source, self.target = source, target
        self.seconds_per_byte, self.delay, self.queue = 8 / rate, delay, queue
        self.on_the_way = collections.deque()
        # When the last packet will have left the queue.
        self.free_at = 0.0
        self.packets = self.bytes = self.dropped = 0

    def take(self):
        for _ in range(AT_ONCE):
            try:
                packet = os.read(self.source, 1 << 17)
            except BlockingIOError:
                return
            now = time.monotonic()
            start = max(now, self.free_at)
            if start - now > self.queue:
                self.dropped += 1
                continue
            size = wire_bytes(packet)
            self.packets += 1
            self.bytes += size
            self.free_at = start + size * self.seconds_per_byte
            self.on_the_way.append((self.free_at + self.delay, packet))

    def deliver(self):
        """Hands over what has arrived; says when the next packet will."""
        while self.on_the_way:
            due = self.on_the_way[0][0]
            if due > time.monotonic():
                return due
            try:
                os.write(self.target, self.on_the_way.popleft()[1])
            except OSError:
                # A device that is not up takes nothing, as a cable that is not plugged in.
                self.dropped += 1
        return None


def main():
    names, (rtt_ms, mbit_s, queue_ms) = sys.argv[1:3], map(float, sys.argv[3:6])
    # A packet that is late here would look like a network that is late.
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    left, right = map(device, names)
    link = (mbit_s * 1e6, rtt_ms / 2000, queue_ms / 1000)
    directions = [Direction(left, right, *link), Direction(right, left, *link)]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    print("ready", flush=True)
    try:
        while True:
            due = [at for at in (direction.deliver() for direction in directions) if at is not None]
            wait = max(0.0, min(due) - time.monotonic()) if due else None
            readable = select.select([left, right], [], [], wait)[0]
            for direction in directions:
                if direction.source in readable:
                    direction.take()
    finally:
        for name, direction in zip(names, directions):
            print(f"from {name}: {direction.packets} packets, {direction.bytes} bytes, {direction.dropped} dropped")


if __name__ == "__main__":
    main()
