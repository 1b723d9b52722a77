//! Batches of every type survive encoding and decoding, and Arrow's own reader agrees.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_ipc::reader::StreamReader;
use arrow_schema::{DataType, SchemaRef};
use lightstream_core::Result;
use lightstream_core::conformance::batches::{self, arbitrary_schema_and_batches};
use lightstream_core::protocol::ipc::{
    Decoder, Encoder, IpcIndex, Payload, cut_rows, decode_batches, decode_schema, encode_batches,
    encode_schema,
};
use lightstream_core::protocol::limits::DecodeLimits;
use proptest::prelude::*;

const END_OF_STREAM: [u8; 8] = [255, 255, 255, 255, 0, 0, 0, 0];

fn encode_all(schema: &SchemaRef, batches: &[RecordBatch]) -> Vec<Payload> {
    let mut encoder = Encoder::try_new(Arc::clone(schema)).unwrap();
    batches
        .iter()
        .map(|batch| encoder.encode(batch).unwrap())
        .collect()
}

fn decode_all(payloads: &[Payload]) -> Result<Vec<RecordBatch>> {
    let mut decoder = Decoder::new(DecodeLimits::default());
    payloads
        .iter()
        .map(|payload| decoder.decode(Buffer::from_vec(payload.to_vec())))
        .collect()
}

/// Whether a dictionary has dictionaries in its values. Those that are equal, but not the same, are sent once more.
fn nests_dictionaries(data_type: &DataType, within: bool) -> bool {
    match data_type {
        DataType::Dictionary(_, values) => within || nests_dictionaries(values, true),
        DataType::List(child)
        | DataType::LargeList(child)
        | DataType::ListView(child)
        | DataType::LargeListView(child)
        | DataType::FixedSizeList(child, _)
        | DataType::Map(child, _)
        | DataType::RunEndEncoded(_, child) => nests_dictionaries(child.data_type(), within),
        DataType::Struct(fields) => fields
            .iter()
            .any(|field| nests_dictionaries(field.data_type(), within)),
        DataType::Union(fields, _) => fields
            .iter()
            .any(|(_, field)| nests_dictionaries(field.data_type(), within)),
        _ => false,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(256)))]

    #[test]
    fn batches_survive_payloads((schema, batches) in arbitrary_schema_and_batches()) {
        let payloads = encode_all(&schema, &batches);
        for payload in &payloads {
            prop_assert_eq!(payload.len() % 64, 0);
        }
        let decoded = decode_all(&payloads).unwrap();
        prop_assert_eq!(&decoded, &batches);
        for (decoded, batch) in decoded.iter().zip(&batches) {
            prop_assert_eq!(decoded.schema(), batch.schema());
        }
        let again = encode_all(&schema, &decoded);
        prop_assert_eq!(decode_all(&again).unwrap(), batches);
        if !schema.fields().iter().any(|field| nests_dictionaries(field.data_type(), false)) {
            for (payload, again) in payloads.iter().zip(&again) {
                prop_assert_eq!(payload.to_vec(), again.to_vec());
            }
        }
    }

    #[test]
    fn payloads_are_an_arrow_stream((schema, batches) in arbitrary_schema_and_batches()) {
        let mut stream: Vec<u8> =
            encode_all(&schema, &batches).iter().flat_map(Payload::to_vec).collect();
        let index = IpcIndex::try_new(Buffer::from_slice_ref(&stream), DecodeLimits::default());
        let index = index.unwrap();
        // In any order: the dictionaries of each batch are its own.
        for (at, batch) in batches.iter().enumerate().rev() {
            prop_assert_eq!(index.rows(at).unwrap(), batch.num_rows() as u64);
            prop_assert_eq!(&index.batch(at).unwrap(), batch);
        }
        for (column, field) in schema.fields().iter().enumerate() {
            let projected = index.columns(0, &[column]).unwrap();
            prop_assert_eq!(projected.schema().fields().first().cloned(), Some(Arc::clone(field)));
            prop_assert_eq!(projected.column(0), batches[0].column(column));
        }
        stream.extend_from_slice(&END_OF_STREAM);
        let read: Vec<RecordBatch> =
            StreamReader::try_new(stream.as_slice(), None).unwrap().map(|batch| batch.unwrap()).collect();
        prop_assert_eq!(read, batches);
    }

    #[test]
    fn batches_survive_standalone_streams((_, batches) in arbitrary_schema_and_batches()) {
        let bytes = encode_batches(&batches).unwrap();
        prop_assert_eq!(decode_batches(&bytes, &DecodeLimits::default()).unwrap(), batches);
    }

    #[test]
    fn schemas_survive(schema in batches::arbitrary_schema()) {
        let bytes = encode_schema(&schema).unwrap();
        prop_assert_eq!(decode_schema(&bytes, &DecodeLimits::default()).unwrap(), schema);
    }

    #[test]
    fn cut_rows_come_together_again(
        (schema, batches) in arbitrary_schema_and_batches(),
        max_bytes in 1_usize..2000,
    ) {
        for batch in batches {
            let parts = cut_rows(&batch, max_bytes);
            let rows: usize = parts.iter().map(RecordBatch::num_rows).sum();
            prop_assert_eq!(rows, batch.num_rows());
            let mut start = 0;
            for part in &parts {
                prop_assert_eq!(part, &batch.slice(start, part.num_rows()));
                start += part.num_rows();
            }
            // What is cut is as sound to encode as the whole.
            prop_assert_eq!(decode_all(&encode_all(&schema, &parts)).unwrap(), parts);
        }
    }
}

/// More cases where asked for, as before a release: `IPC_CASES=20000`.
pub(crate) fn cases(usual: u32) -> u32 {
    std::env::var("IPC_CASES")
        .ok()
        .and_then(|cases| cases.parse().ok())
        .unwrap_or(usual)
}
