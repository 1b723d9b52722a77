//! Whole Arrow IPC files and streams.
#![no_main]

use arrow_array::Array;
use arrow_buffer::Buffer;
use libfuzzer_sys::fuzz_target;
use lightstream_core::protocol::ipc::IpcIndex;
use lightstream_core::protocol::limits::DecodeLimits;

fuzz_target!(|data: &[u8]| {
    let limits = DecodeLimits {
        rows: 1 << 16,
        dictionary_entries: 1 << 16,
        decompressed_bytes: 16 << 20,
        ..DecodeLimits::default()
    };
    let Ok(index) = IpcIndex::try_new(Buffer::from_slice_ref(data), limits) else {
        return;
    };
    for batch in 0..index.len().min(16) {
        if let Ok(batch) = index.batch(batch) {
            for column in batch.columns() {
                column
                    .to_data()
                    .validate_full()
                    .expect("accepted arrays are sound");
            }
        }
        let _ = index.columns(batch, &[0]);
    }
});
