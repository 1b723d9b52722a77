//! Whatever is done to sound bytes, decoding them gives a batch or an error, never a panic.

use arrow_array::{Array, RecordBatch};
use arrow_buffer::Buffer;
use arrow_ipc::writer::{FileWriter, IpcWriteOptions};
use lightstream_core::conformance::batches::arbitrary_schema_and_batches;
use lightstream_core::protocol::ipc::{Decoder, Encoder, IpcIndex, encode_batches};
use lightstream_core::protocol::limits::DecodeLimits;
use proptest::collection::vec;
use proptest::prelude::*;

use crate::ipc_payloads::cases;

#[derive(Debug, Clone)]
enum Damage {
    Flip(usize, u8),
    Word(usize, u32),
    Long(usize, i64),
    Insert(usize, u8),
    Remove(usize),
    Truncate(usize),
    Copy(usize, usize),
}

fn damage() -> impl Strategy<Value = Damage> {
    let at = any::<usize>;
    let longs = prop_oneof![
        Just(-1),
        Just(i64::MAX),
        Just(i64::MIN),
        Just(1 << 31),
        Just(1 << 40),
        -300_i64..300,
    ];
    let words = prop_oneof![Just(0), Just(u32::MAX), Just(i32::MAX as u32), 0_u32..300];
    prop_oneof![
        4 => (at(), 1..255_u8).prop_map(|(at, bits)| Damage::Flip(at, bits)),
        4 => (at(), words).prop_map(|(at, word)| Damage::Word(at, word)),
        4 => (at(), longs).prop_map(|(at, long)| Damage::Long(at, long)),
        1 => (at(), any::<u8>()).prop_map(|(at, byte)| Damage::Insert(at, byte)),
        1 => at().prop_map(Damage::Remove),
        1 => at().prop_map(Damage::Truncate),
        1 => (at(), at()).prop_map(|(from, to)| Damage::Copy(from, to)),
    ]
}

/// Flatbuffers lie at the front of a message, so most damage is done in the first bytes.
fn place(at: usize, length: usize) -> usize {
    let within = if at.is_multiple_of(3) {
        length
    } else {
        length.min(600)
    };
    at / 3 % within.max(1)
}

fn apply(bytes: &mut Vec<u8>, damage: &Damage) {
    let length = bytes.len();
    let mut overwrite = |at: usize, width: usize, new: &[u8]| {
        let at = place(at, length) / width * width;
        for (old, new) in bytes.iter_mut().skip(at).zip(new) {
            *old = *new;
        }
    };
    match *damage {
        Damage::Word(at, word) => overwrite(at, 4, &word.to_le_bytes()),
        Damage::Long(at, long) => overwrite(at, 8, &long.to_le_bytes()),
        Damage::Flip(at, bits) => {
            if let Some(byte) = bytes.get_mut(place(at, length)) {
                *byte ^= bits;
            }
        }
        Damage::Insert(at, byte) => bytes.insert(place(at, length), byte),
        Damage::Remove(at) if length > 0 => drop(bytes.remove(place(at, length))),
        Damage::Remove(_) => {}
        Damage::Truncate(at) => bytes.truncate(place(at, length)),
        Damage::Copy(from, to) => {
            let from = place(from, length);
            let piece: Vec<u8> = bytes.iter().skip(from).take(16).copied().collect();
            let to = place(to, length);
            for (old, new) in bytes.iter_mut().skip(to).zip(piece) {
                *old = new;
            }
        }
    }
}

/// Small, so that a damaged length cannot ask for much.
fn limits() -> DecodeLimits {
    DecodeLimits {
        rows: 1 << 20,
        dictionary_entries: 1 << 20,
        decompressed_bytes: 64 << 20,
        ..DecodeLimits::default()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(512)))]

    #[test]
    fn damaged_payloads_never_panic(
        (schema, batches) in arbitrary_schema_and_batches(),
        damages in vec(damage(), 1..6),
        first in any::<bool>(),
    ) {
        let mut encoder = Encoder::try_new(schema).unwrap();
        let mut decoder = Decoder::new(limits());
        for (index, batch) in batches.iter().enumerate() {
            let mut payload = encoder.encode(batch).unwrap().to_vec();
            if first || index > 0 {
                damages.iter().for_each(|damage| apply(&mut payload, damage));
            }
            if let Ok(batch) = decoder.decode(Buffer::from_vec(payload)) {
                // What is accepted is sound enough to be used.
                for column in batch.columns() {
                    column.to_data().validate_full().unwrap();
                }
            }
        }
    }

    #[test]
    fn damaged_streams_never_panic(
        (_, batches) in arbitrary_schema_and_batches(),
        damages in vec(damage(), 1..6),
    ) {
        let mut bytes = encode_batches(&batches).unwrap();
        damages.iter().for_each(|damage| apply(&mut bytes, damage));
        read_all(bytes);
    }

    #[test]
    fn damaged_files_never_panic(
        (_, batches) in arbitrary_schema_and_batches(),
        damages in vec(damage(), 1..6),
        compression in prop::sample::select(vec![
            None,
            Some(arrow_ipc::CompressionType::LZ4_FRAME),
            Some(arrow_ipc::CompressionType::ZSTD),
        ]),
        at_end in any::<bool>(),
    ) {
        let Some(mut bytes) = file(&batches, compression) else { return Ok(()) };
        if at_end {
            // The footer.
            let at = bytes.len().saturating_sub(700);
            let mut footer = bytes.split_off(at);
            damages.iter().for_each(|damage| apply(&mut footer, damage));
            bytes.extend(footer);
        } else {
            let mut body = bytes.split_off(8);
            damages.iter().for_each(|damage| apply(&mut body, damage));
            bytes.extend(body);
        }
        read_all(bytes);
    }
}

/// A file of the first batch: a file has one state of each dictionary, so that more may not be accepted.
fn file(
    batches: &[RecordBatch],
    compression: Option<arrow_ipc::CompressionType>,
) -> Option<Vec<u8>> {
    let batch = batches.first()?;
    let options = IpcWriteOptions::default()
        .try_with_compression(compression)
        .ok()?;
    let mut writer = FileWriter::try_new_with_options(Vec::new(), &batch.schema(), options).ok()?;
    writer.write(batch).ok()?;
    writer.into_inner().ok()
}

fn read_all(bytes: Vec<u8>) {
    if let Ok(index) = IpcIndex::try_new(Buffer::from_vec(bytes), limits()) {
        for batch in 0..index.len() {
            if let Ok(batch) = index.batch(batch) {
                for column in batch.columns() {
                    column.to_data().validate_full().unwrap();
                }
            }
        }
    }
}
