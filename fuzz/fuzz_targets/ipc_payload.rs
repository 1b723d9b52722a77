//! Table payloads off the wire: up to a few payloads, each behind its length in four bytes.
#![no_main]

use arrow_array::Array;
use arrow_buffer::Buffer;
use libfuzzer_sys::fuzz_target;
use lightstream_core::protocol::ipc::{Decoder, Encoder, cut_rows};
use lightstream_core::protocol::limits::DecodeLimits;

fuzz_target!(|data: &[u8]| {
    let limits = DecodeLimits {
        rows: 1 << 16,
        dictionary_entries: 1 << 16,
        decompressed_bytes: 16 << 20,
        ..DecodeLimits::default()
    };
    let mut decoder = Decoder::new(limits);
    let mut encoder = None;
    let mut rest = data;
    while let Some((length, tail)) = rest.split_first_chunk::<4>() {
        let length = (u32::from_le_bytes(*length) as usize).min(tail.len());
        let (payload, tail) = tail.split_at(length);
        rest = tail;
        let Ok(batch) = decoder.decode(Buffer::from_slice_ref(payload)) else {
            return;
        };
        for column in batch.columns() {
            column
                .to_data()
                .validate_full()
                .expect("accepted arrays are sound");
        }
        // What is accepted can be cut and sent on.
        let encoder = encoder.get_or_insert_with(|| Encoder::try_new(batch.schema()));
        if let Ok(encoder) = encoder {
            for part in cut_rows(&batch, 1 << 10).iter().take(8) {
                let _ = encoder.encode(part);
            }
        }
    }
});
