//! Frames off the wire, with all that control messages hold: requests, filters, tickets, plans, schemas, statistics.
#![no_main]

use libfuzzer_sys::fuzz_target;
use lightstream_core::conformance::wire::receive;
use lightstream_core::protocol::limits::DecodeLimits;

fuzz_target!(|data: &[u8]| {
    let limits = DecodeLimits {
        frame_bytes: 64 << 20,
        rows: 1 << 16,
        dictionary_entries: 1 << 16,
        decompressed_bytes: 16 << 20,
        ..DecodeLimits::default()
    };
    let _ = receive(data, &limits);
});
