//! What decoding may cost, and what encoding sends: limits, compression, views, cuts.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray, StringViewArray};
use arrow_buffer::Buffer;
use arrow_ipc::CompressionType;
use arrow_ipc::writer::{IpcWriteOptions, StreamWriter};
use arrow_schema::{DataType, Field, Schema};
use lightstream_core::ErrorCode;
use lightstream_core::protocol::ipc::{
    Decoder, Encoder, IpcIndex, cut_rows, decode_batch, decode_schema, encode_batch, encode_schema,
};
use lightstream_core::protocol::limits::DecodeLimits;

use crate::ipc_framing::{code_of, limits, numbers, payloads};

#[test]
fn compressed_bodies_are_read_within_the_limit() {
    let batch = numbers(10_000);
    for codec in [CompressionType::LZ4_FRAME, CompressionType::ZSTD] {
        let options = IpcWriteOptions::default()
            .try_with_compression(Some(codec))
            .unwrap();
        let mut writer =
            StreamWriter::try_new_with_options(Vec::new(), &batch.schema(), options).unwrap();
        writer.write(&batch).unwrap();
        let bytes = writer.into_inner().unwrap();
        assert!(bytes.len() < 80_000);
        let index = IpcIndex::try_new(Buffer::from_slice_ref(&bytes), limits()).unwrap();
        assert_eq!(index.batch(0).unwrap(), batch);
        let small = DecodeLimits {
            decompressed_bytes: 79_999,
            ..limits()
        };
        let index = IpcIndex::try_new(Buffer::from_slice_ref(&bytes), small).unwrap();
        assert_eq!(code_of(index.batch(0)), ErrorCode::ResourceExhausted);
    }
}

#[test]
fn a_compressed_buffer_that_unfolds_to_more_or_less_than_it_states_is_refused() {
    let batch = numbers(10_000);
    for codec in [CompressionType::LZ4_FRAME, CompressionType::ZSTD] {
        let options = IpcWriteOptions::default()
            .try_with_compression(Some(codec))
            .unwrap();
        let mut writer =
            StreamWriter::try_new_with_options(Vec::new(), &batch.schema(), options).unwrap();
        writer.write(&batch).unwrap();
        let bytes = writer.into_inner().unwrap();
        let stated = 80_000_u64.to_le_bytes();
        let at = bytes
            .windows(8)
            .rposition(|window| window == stated)
            .unwrap();
        for wrong in [79_992_u64, 80_001, 1 << 33, u64::MAX - 1] {
            let mut bytes = bytes.clone();
            bytes[at..at + 8].copy_from_slice(&wrong.to_le_bytes());
            let index = IpcIndex::try_new(Buffer::from_slice_ref(&bytes), limits()).unwrap();
            let code = code_of(index.batch(0));
            assert!(matches!(
                code,
                ErrorCode::DataLoss | ErrorCode::ResourceExhausted
            ));
        }
    }
}

#[test]
fn limits_bound_rows_fields_depth_buffers_and_bytes() {
    let payload = payloads(&[numbers(1000)]).remove(0);
    let with = |limits: DecodeLimits, payload: &[u8]| {
        code_of(Decoder::new(limits).decode(Buffer::from_slice_ref(payload)))
    };
    let exhausted = ErrorCode::ResourceExhausted;
    assert_eq!(
        with(
            DecodeLimits {
                rows: 999,
                ..limits()
            },
            &payload
        ),
        exhausted
    );
    assert_eq!(
        with(
            DecodeLimits {
                buffers: 1,
                ..limits()
            },
            &payload
        ),
        exhausted
    );
    assert_eq!(
        with(
            DecodeLimits {
                fields: 0,
                ..limits()
            },
            &payload
        ),
        exhausted
    );
    assert_eq!(
        with(
            DecodeLimits {
                frame_bytes: 100,
                ..limits()
            },
            &payload
        ),
        exhausted
    );

    let mut data_type = DataType::Int32;
    for _ in 0..100 {
        data_type = DataType::List(Arc::new(Field::new("item", data_type, true)));
    }
    let schema = Schema::new(vec![Field::new("deep", data_type, true)]);
    let bytes = encode_schema(&schema).unwrap();
    assert_eq!(code_of(decode_schema(&bytes, &limits())), exhausted);
    let deep = DecodeLimits {
        depth: 101,
        ..limits()
    };
    assert_eq!(*decode_schema(&bytes, &deep).unwrap(), schema);
    let small = DecodeLimits {
        message_bytes: 100,
        ..limits()
    };
    assert_eq!(code_of(decode_schema(&bytes, &small)), exhausted);
}

#[test]
fn strings_that_share_bytes_count_each_time() {
    let long = "x".repeat(1000);
    let views = StringViewArray::from_iter_values(std::iter::repeat_n(long.as_str(), 1000));
    let one = views.slice(0, 1).gc();
    let views = vec![one.views()[0]; 1000];
    let shared = StringViewArray::new(views.into(), one.data_buffers().to_vec(), None);
    let batch = RecordBatch::try_from_iter([("a", Arc::new(shared) as ArrayRef)]).unwrap();
    let bytes = encode_batch(&batch).unwrap();
    assert!(bytes.len() < 20_000);
    assert_eq!(decode_batch(&bytes, &limits()).unwrap(), batch);
    let small = DecodeLimits {
        decompressed_bytes: 999_999,
        ..limits()
    };
    assert_eq!(
        code_of(decode_batch(&bytes, &small)),
        ErrorCode::ResourceExhausted
    );
}

#[test]
fn slices_of_views_do_not_ship_everything() {
    let texts: Vec<String> = (0..10_000)
        .map(|row| format!("a text of some length: {row}"))
        .collect();
    let views = StringViewArray::from_iter_values(&texts);
    let batch = RecordBatch::try_from_iter([("a", Arc::new(views) as ArrayRef)]).unwrap();
    let mut encoder = Encoder::try_new(batch.schema()).unwrap();
    let whole = encoder.encode(&batch).unwrap().len();
    let slice = encoder.encode(&batch.slice(5000, 100)).unwrap().len();
    assert!(slice * 50 < whole, "{slice} bytes of {whole}");
}

#[test]
fn batches_are_cut_to_about_the_size_asked_for() {
    let texts: Vec<String> = (0..50_000)
        .map(|row| format!("{row}").repeat(row % 7))
        .collect();
    let strings = StringArray::from_iter_values(&texts);
    let views = StringViewArray::from_iter_values(&texts);
    let numbers = Int64Array::from_iter_values(0..50_000);
    let batch = RecordBatch::try_from_iter([
        ("strings", Arc::new(strings) as ArrayRef),
        ("views", Arc::new(views) as ArrayRef),
        ("numbers", Arc::new(numbers) as ArrayRef),
    ])
    .unwrap();
    let parts = cut_rows(&batch, 100_000);
    let mut encoder = Encoder::try_new(batch.schema()).unwrap();
    let sizes: Vec<usize> = parts
        .iter()
        .map(|part| encoder.encode(part).unwrap().len())
        .collect();
    assert!(sizes.iter().all(|size| *size < 115_000), "{sizes:?}");
    let mean = sizes.iter().sum::<usize>() / sizes.len();
    assert!(mean > 60_000, "{sizes:?}");
    assert_eq!(cut_rows(&batch, 100_000_000), [batch]);
}

#[test]
fn rows_that_share_a_long_string_are_not_cut_to_nothing() {
    let long = "x".repeat(100_000);
    let one = StringViewArray::from_iter_values([&long]);
    let views = vec![one.views()[0]; 10_000];
    let shared = StringViewArray::new(views.into(), one.data_buffers().to_vec(), None);
    let batch = RecordBatch::try_from_iter([("a", Arc::new(shared) as ArrayRef)]).unwrap();
    assert!(cut_rows(&batch, 50_000).len() < 10);
}
