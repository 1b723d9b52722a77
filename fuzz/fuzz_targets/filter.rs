//! Filters off the wire: whatever is read can be shown, judged and, where it is called supported, evaluated.
#![no_main]

use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use libfuzzer_sys::fuzz_target;
use lightstream_core::protocol::filter::{Filter, FilterLimits};
use lightstream_core::protocol::messages;
use prost::Message;

fuzz_target!(|data: &[u8]| {
    let Ok(message) = messages::Filter::decode(data) else {
        return;
    };
    let Ok(filter) = Filter::from_proto(&message, &FilterLimits::default()) else {
        return;
    };
    let _ = filter.to_string();
    let columns: [(&str, ArrayRef); 3] = [
        (
            "a",
            Arc::new(Int64Array::from(vec![None, Some(0), Some(i64::MIN)])),
        ),
        (
            "b",
            Arc::new(Float64Array::from(vec![Some(-0.0), Some(f64::NAN), None])),
        ),
        (
            "c",
            Arc::new(StringArray::from(vec![Some(""), None, Some("a%b")])),
        ),
    ];
    let batch =
        RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true)))
            .expect("three columns of three rows");
    let _ = filter.apply(&batch);
    filter
        .supported(&batch.schema())
        .apply(&batch)
        .expect("what is supported does not fail");
});
