//! What stands around batches: order of messages, padding, ends, limits, and what is shared or copied.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{
    Array, ArrayRef, DictionaryArray, Int32Array, Int64Array, ListArray, RecordBatch,
    RecordBatchOptions,
};
use arrow_buffer::Buffer;
use arrow_ipc::MetadataVersion;
use arrow_ipc::writer::{
    DictionaryHandling, DictionaryTracker, FileWriter, IpcDataGenerator, IpcWriteContext,
    IpcWriteOptions, StreamWriter,
};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use lightstream_core::protocol::ipc::{
    Decoder, Encoder, IpcIndex, cut_rows, decode_batch, decode_schema, encode_batch,
    encode_batches, encode_schema,
};
use lightstream_core::protocol::limits::DecodeLimits;
use lightstream_core::{ErrorCode, Result};

pub(crate) fn limits() -> DecodeLimits {
    DecodeLimits::default()
}

pub(crate) fn numbers(count: i64) -> RecordBatch {
    let values = Int64Array::from_iter_values(0..count);
    RecordBatch::try_from_iter([("a", Arc::new(values) as ArrayRef)]).unwrap()
}

fn words(words: &[&str]) -> RecordBatch {
    let values: DictionaryArray<Int32Type> = words.iter().copied().collect();
    RecordBatch::try_from_iter([("word", Arc::new(values) as ArrayRef)]).unwrap()
}

/// The payloads of these batches, as one stream.
pub(crate) fn payloads(batches: &[RecordBatch]) -> Vec<Vec<u8>> {
    let mut encoder = Encoder::try_new(batches[0].schema()).unwrap();
    batches
        .iter()
        .map(|batch| encoder.encode(batch).unwrap().to_vec())
        .collect()
}

fn decode(payloads: &[Vec<u8>]) -> Result<Vec<RecordBatch>> {
    let mut decoder = Decoder::new(limits());
    payloads
        .iter()
        .map(|payload| decoder.decode(Buffer::from_slice_ref(payload)))
        .collect()
}

pub(crate) fn code_of<T: std::fmt::Debug>(result: Result<T>) -> ErrorCode {
    result.unwrap_err().code()
}

/// Where the messages of a stream start.
fn message_starts(bytes: &[u8]) -> Vec<usize> {
    bytes
        .chunks(64)
        .enumerate()
        .filter(|(_, chunk)| chunk.starts_with(&[255; 4]))
        .map(|(index, _)| index * 64)
        .collect()
}

#[test]
fn the_first_payload_has_the_schema_and_later_ones_only_what_changed() {
    let (old, new) = (words(&["a", "b", "a"]), words(&["c", "c", "d"]));
    let payloads = payloads(&[old.clone(), old.clone(), new.clone(), new.clone()]);
    let counts: Vec<usize> = payloads
        .iter()
        .map(|payload| message_starts(payload).len())
        .collect();
    assert_eq!(counts, [3, 1, 2, 1]);
    assert_eq!(
        decode(&payloads).unwrap(),
        [old.clone(), old, new.clone(), new]
    );
}

#[test]
fn no_buffer_of_an_array_is_copied() {
    let batch = numbers(1000);
    let mut encoder = Encoder::try_new(batch.schema()).unwrap();
    let payload = encoder.encode(&batch).unwrap();
    let values = batch
        .column(0)
        .as_primitive::<Int64Type>()
        .values()
        .inner()
        .clone();
    assert!(
        payload
            .segments()
            .iter()
            .any(|segment| segment.as_ptr() == values.as_ptr())
    );

    let bytes = Buffer::from_slice_ref(payload.to_vec());
    let decoded = Decoder::new(limits()).decode(bytes.clone()).unwrap();
    let values = decoded
        .column(0)
        .as_primitive::<Int64Type>()
        .values()
        .inner()
        .clone();
    assert!(bytes.as_ptr_range().contains(&values.as_ptr()));
    assert_eq!(
        values.as_ptr().align_offset(64),
        bytes.as_ptr().align_offset(64)
    );
}

#[test]
fn misaligned_payloads_are_copied_not_refused() {
    let batch = numbers(1000);
    let payload = payloads(std::slice::from_ref(&batch)).remove(0);
    for shift in [1, 4, 8] {
        let mut shifted = vec![0; shift];
        shifted.extend_from_slice(&payload);
        let shifted = Buffer::from_slice_ref(shifted).slice(shift);
        assert_eq!(Decoder::new(limits()).decode(shifted).unwrap(), batch);
    }
}

#[test]
fn messages_out_of_order_end_the_stream() {
    let payloads = payloads(&[numbers(3), numbers(4)]);
    assert_eq!(code_of(decode(&[payloads[1].clone()])), ErrorCode::DataLoss);
    let mut decoder = Decoder::new(limits());
    decoder
        .decode(Buffer::from_slice_ref(&payloads[0]))
        .unwrap();
    assert!(decoder.schema().is_some());
    let again = decoder.decode(Buffer::from_slice_ref(&payloads[0]));
    assert!(again.unwrap_err().to_string().contains("second schema"));
    let after = decoder.decode(Buffer::from_slice_ref(&payloads[1]));
    assert!(after.unwrap_err().to_string().contains("failed before"));
}

#[test]
fn a_payload_is_exactly_one_batch() {
    let [first, second] = <[Vec<u8>; 2]>::try_from(payloads(&[numbers(3), numbers(4)])).unwrap();
    let both = [first.clone(), second.clone()].concat();
    assert_eq!(code_of(decode(&[both])), ErrorCode::DataLoss);
    let schema_only = encode_schema(&numbers(0).schema()).unwrap();
    assert_eq!(code_of(decode(&[schema_only])), ErrorCode::DataLoss);
    let mut ended = first.clone();
    ended.extend_from_slice(&[255, 255, 255, 255, 0, 0, 0, 0]);
    assert_eq!(code_of(decode(&[ended])), ErrorCode::DataLoss);
    assert_eq!(code_of(decode(&[Vec::new()])), ErrorCode::DataLoss);
    for cut in 1..first.len() {
        assert_eq!(
            code_of(decode(&[first[..cut].to_vec()])),
            ErrorCode::DataLoss,
            "{cut}"
        );
    }
}

#[test]
fn zero_padding_outside_of_the_body_of_a_dictionary_is_skipped() {
    let batch = words(&["a", "b", "a"]);
    let payload = payloads(std::slice::from_ref(&batch)).remove(0);
    let last = *message_starts(&payload).last().unwrap();
    for padding in [1, 8, 40, 63] {
        let mut padded = payload.clone();
        padded.splice(last..last, vec![0; padding]);
        assert_eq!(
            decode(&[padded.clone()]).unwrap(),
            std::slice::from_ref(&batch)
        );
        let index = IpcIndex::try_new(Buffer::from_slice_ref(&padded), limits()).unwrap();
        assert_eq!(index.batch(0).unwrap(), batch);
        padded[last] = 1;
        assert_eq!(code_of(decode(&[padded])), ErrorCode::DataLoss);
    }
    let mut padded = payload.clone();
    padded.splice(last..last, vec![0; 64]);
    assert_eq!(code_of(decode(&[padded])), ErrorCode::DataLoss);
}

#[test]
fn a_stream_may_lack_its_end_but_not_part_of_a_message() {
    let stream = encode_batches(&[numbers(3), numbers(4)]).unwrap();
    let ended = stream.len() - 8;
    for length in [stream.len(), ended] {
        let index = IpcIndex::try_new(Buffer::from_slice_ref(&stream[..length]), limits());
        assert_eq!(index.unwrap().len(), 2);
    }
    for cut in (1..8).chain([ended - 1, ended - 100]) {
        let length = if cut < 8 { ended + cut } else { cut };
        let index = IpcIndex::try_new(Buffer::from_slice_ref(&stream[..length]), limits());
        assert_eq!(
            code_of(index),
            ErrorCode::DataLoss,
            "{length} of {}",
            stream.len()
        );
    }
    assert_eq!(
        code_of(IpcIndex::try_new(Buffer::default(), limits())),
        ErrorCode::DataLoss
    );
}

#[test]
fn legacy_streams_are_read() {
    for (version, is_legacy) in [(MetadataVersion::V4, true), (MetadataVersion::V4, false)] {
        let options = IpcWriteOptions::try_new(8, is_legacy, version).unwrap();
        let batch = numbers(10);
        let mut writer =
            StreamWriter::try_new_with_options(Vec::new(), &batch.schema(), options).unwrap();
        writer.write(&batch).unwrap();
        let bytes = writer.into_inner().unwrap();
        let index = IpcIndex::try_new(Buffer::from_slice_ref(&bytes), limits()).unwrap();
        assert_eq!(index.batch(0).unwrap(), batch);
    }
}

#[test]
fn deltas_and_replacements_stand_for_the_batches_behind_them() {
    let batches = [
        words(&["a", "b"]),
        words(&["a", "b", "c", "b"]),
        words(&["z", "a"]),
        words(&["z", "a", "q"]),
        words(&["z", "a", "q", "r"]),
    ];
    let options = IpcWriteOptions::default().with_dictionary_handling(DictionaryHandling::Delta);
    let schema = batches[0].schema();
    let mut writer = StreamWriter::try_new_with_options(Vec::new(), &schema, options).unwrap();
    batches
        .iter()
        .for_each(|batch| writer.write(batch).unwrap());
    let index = IpcIndex::try_new(Buffer::from_vec(writer.into_inner().unwrap()), limits());
    let index = index.unwrap();
    for order in [[0, 1, 2, 3, 4], [4, 3, 2, 1, 0], [1, 4, 0, 3, 2]] {
        for batch in order {
            assert_eq!(index.batch(batch).unwrap(), batches[batch]);
        }
    }
    let few = DecodeLimits {
        dictionary_entries: 3,
        ..limits()
    };
    let index =
        IpcIndex::try_new(Buffer::from_vec(encode_batches(&batches).unwrap()), few).unwrap();
    assert_eq!(index.batch(1).unwrap(), batches[1]);
    assert_eq!(code_of(index.batch(4)), ErrorCode::ResourceExhausted);
}

/// A stream, cut to table payloads: each ends with a record batch.
fn cut_to_payloads(stream: &[u8]) -> Vec<Vec<u8>> {
    let mut payloads = vec![Vec::new()];
    let mut starts = message_starts(stream);
    starts.push(stream.len());
    for message in starts.windows(2) {
        let bytes = &stream[message[0]..message[1]];
        let Ok(flatbuffer) = arrow_ipc::root_as_message(&bytes[8..]) else {
            continue;
        };
        payloads.last_mut().unwrap().extend_from_slice(bytes);
        if flatbuffer.header_as_record_batch().is_some() {
            payloads.push(Vec::new());
        }
    }
    payloads.pop();
    payloads
}

#[test]
fn payloads_may_have_deltas() {
    let batches = [
        words(&["a", "b"]),
        words(&["a", "b", "c", "b"]),
        words(&["a", "b", "c", "d"]),
        words(&["z"]),
    ];
    let options = IpcWriteOptions::default().with_dictionary_handling(DictionaryHandling::Delta);
    let schema = batches[0].schema();
    let mut writer = StreamWriter::try_new_with_options(Vec::new(), &schema, options).unwrap();
    batches
        .iter()
        .for_each(|batch| writer.write(batch).unwrap());
    let mut payloads = cut_to_payloads(&writer.into_inner().unwrap());
    assert_eq!(decode(&payloads).unwrap(), batches);
    // Two deltas in one payload, then a batch that refers to the last entry.
    let with_last = payloads.remove(2);
    let dictionary_end = message_starts(&payloads[1])[1];
    payloads[1].truncate(dictionary_end);
    payloads[1].extend_from_slice(&with_last);
    assert_eq!(
        decode(&payloads).unwrap(),
        [&batches[..1], &batches[2..]].concat()
    );
}

#[test]
fn wide_schemas_are_read() {
    let fields: Vec<Field> = (0..20_000)
        .map(|at| Field::new(format!("column {at}"), DataType::Int32, true))
        .collect();
    let schema = Arc::new(Schema::new(fields));
    let batch = RecordBatch::new_empty(schema);
    assert_eq!(
        decode(&payloads(std::slice::from_ref(&batch))).unwrap(),
        [batch]
    );
}

#[test]
fn files_may_have_their_dictionaries_in_any_order() {
    // A dictionary of lists of dictionaries: the outer one needs the inner one.
    let inner: DictionaryArray<Int32Type> = ["x", "y", "x"].into_iter().collect();
    let field = Arc::new(Field::new("item", inner.data_type().clone(), true));
    let lists = ListArray::new(
        field,
        arrow_buffer::OffsetBuffer::from_lengths([2, 1]),
        Arc::new(inner),
        None,
    );
    let outer = DictionaryArray::<Int32Type>::new(Int32Array::from(vec![1, 0, 1]), Arc::new(lists));
    let batch = RecordBatch::try_from_iter([("a", Arc::new(outer) as ArrayRef)]).unwrap();
    let mut writer = FileWriter::try_new(Vec::new(), &batch.schema()).unwrap();
    writer.write(&batch).unwrap();
    writer.write_metadata("made by", "a test");
    let mut bytes = writer.into_inner().unwrap();
    let read = |bytes: &[u8]| {
        let index = IpcIndex::try_new(Buffer::from_slice_ref(bytes), limits()).unwrap();
        assert_eq!(index.metadata()["made by"], "a test");
        index.batch(0).unwrap()
    };
    assert_eq!(read(&bytes), batch);
    // The two blocks of dictionaries in the footer, swapped.
    let footer = arrow_ipc::root_as_footer(footer(&bytes)).unwrap();
    let blocks: Vec<[u8; 24]> = footer
        .dictionaries()
        .unwrap()
        .iter()
        .map(|block| block.0)
        .collect();
    assert_eq!(blocks.len(), 2);
    let both = blocks.concat();
    let at = bytes.windows(48).position(|window| window == both).unwrap();
    bytes[at..at + 48].copy_from_slice(&[blocks[1], blocks[0]].concat());
    assert_eq!(read(&bytes), batch);
}

fn footer(bytes: &[u8]) -> &[u8] {
    let end = bytes.len() - 10;
    let length = i32::from_le_bytes(bytes[end..end + 4].try_into().unwrap());
    &bytes[end - length as usize..end]
}

#[test]
fn shared_dictionaries_are_read() {
    // Both fields with one id, as other writers do.
    let words: DictionaryArray<Int32Type> = ["a", "b", "a"].into_iter().collect();
    let words: ArrayRef = Arc::new(words);
    let batch =
        RecordBatch::try_from_iter([("a", Arc::clone(&words)), ("b", Arc::clone(&words))]).unwrap();
    let decoded = decode(&payloads(std::slice::from_ref(&batch))).unwrap();
    assert_eq!(decoded, [batch]);
}

#[test]
fn big_endian_schemas_are_refused_by_type() {
    let mut builder = flatbuffers::FlatBufferBuilder::new();
    let fields = builder.create_vector::<flatbuffers::WIPOffset<arrow_ipc::Field<'_>>>(&[]);
    let mut schema = arrow_ipc::SchemaBuilder::new(&mut builder);
    schema.add_endianness(arrow_ipc::Endianness::Big);
    schema.add_fields(fields);
    let schema = schema.finish().as_union_value();
    let mut message = arrow_ipc::MessageBuilder::new(&mut builder);
    message.add_version(MetadataVersion::V5);
    message.add_header_type(arrow_ipc::MessageHeader::Schema);
    message.add_header(schema);
    let message = message.finish();
    builder.finish(message, None);
    let mut bytes = vec![255; 4];
    bytes.extend_from_slice(&(builder.finished_data().len() as u32).to_le_bytes());
    bytes.extend_from_slice(builder.finished_data());
    assert_eq!(
        code_of(decode_schema(&bytes, &limits())),
        ErrorCode::Unimplemented
    );
}

#[test]
fn rows_without_columns_are_counted() {
    let schema: SchemaRef = Arc::new(Schema::empty());
    let options = RecordBatchOptions::new().with_row_count(Some(12_345));
    let batch = RecordBatch::try_new_with_options(schema, vec![], &options).unwrap();
    assert_eq!(
        decode(&payloads(std::slice::from_ref(&batch))).unwrap(),
        std::slice::from_ref(&batch)
    );
    assert_eq!(
        decode_batch(&encode_batch(&batch).unwrap(), &limits()).unwrap(),
        batch
    );
    assert_eq!(cut_rows(&batch, 1), [batch]);
}

#[test]
fn batches_of_another_schema_are_refused() {
    let mut encoder = Encoder::try_new(numbers(1).schema()).unwrap();
    assert_eq!(
        code_of(encoder.encode(&words(&["a"]))),
        ErrorCode::InvalidArgument
    );
    assert_eq!(code_of(encoder.encode(&numbers(1))), ErrorCode::Internal);
}

#[test]
fn payloads_of_a_writer_without_our_alignment_are_read() {
    // Messages aligned to 8 bytes, as most writers align them.
    let batch = words(&["a", "b", "a"]);
    let options = IpcWriteOptions::try_new(8, false, MetadataVersion::V5).unwrap();
    let generator = IpcDataGenerator::default();
    let mut tracker = DictionaryTracker::new(false);
    let schema =
        generator.schema_to_bytes_with_dictionary_tracker(&batch.schema(), &mut tracker, &options);
    let (dictionaries, encoded) = generator
        .encode(
            &batch,
            &mut tracker,
            &options,
            &mut IpcWriteContext::default(),
        )
        .unwrap();
    let mut payload = Vec::new();
    for message in std::iter::once(schema).chain(dictionaries).chain([encoded]) {
        arrow_ipc::writer::write_message(&mut payload, message, &options).unwrap();
    }
    assert_eq!(decode(&[payload]).unwrap(), [batch]);
}
