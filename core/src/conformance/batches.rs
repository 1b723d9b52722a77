//! Arbitrary schemas and batches of every Arrow type: nested, with nulls, sliced at odd offsets, with dictionaries that
//! change from batch to batch.
//!
//! Schemas and row counts shrink; values come from a seed and do not.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // For tests, where a panic is a finding.

use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::{
    DataType, Field, FieldRef, Fields, IntervalUnit, Schema, SchemaRef, TimeUnit, UnionFields,
    UnionMode,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::values::Values;

/// The deepest nesting of the types that are generated.
const DEPTH: u32 = 3;

/// A schema and up to four batches of it.
///
/// ```
/// use lightstream_core::conformance::batches::arbitrary_schema_and_batches;
/// use proptest::prelude::*;
///
/// proptest!(|((schema, batches) in arbitrary_schema_and_batches())| {
///     for batch in batches {
///         prop_assert_eq!(batch.schema(), schema.clone());
///     }
/// });
/// ```
pub fn arbitrary_schema_and_batches() -> impl Strategy<Value = (SchemaRef, Vec<RecordBatch>)> {
    let batches = vec((0_usize..40, any::<u64>(), 0_u64..3), 1..5);
    (arbitrary_schema(), batches).prop_map(|(schema, batches)| {
        let batches = batches
            .into_iter()
            .map(|(rows, seed, epoch)| batch(&schema, rows, seed, epoch))
            .collect();
        (schema, batches)
    })
}

/// A schema of up to five fields, with and without metadata.
pub fn arbitrary_schema() -> impl Strategy<Value = SchemaRef> {
    let fields = vec(arbitrary_data_type().prop_flat_map(arbitrary_field), 0..6);
    (fields, any::<bool>()).prop_map(|(fields, has_metadata)| {
        let schema = Schema::new(fields);
        let metadata = [("origin".to_owned(), "conformance".to_owned())];
        Arc::new(if has_metadata {
            schema.with_metadata(metadata.into())
        } else {
            schema
        })
    })
}

fn arbitrary_field(data_type: DataType) -> impl Strategy<Value = Field> {
    ("[a-zé]{0,3}", any::<bool>(), any::<bool>()).prop_map(move |(name, nullable, has_metadata)| {
        let nullable = nullable || is_always_null(&data_type);
        let field = Field::new(name, data_type.clone(), nullable);
        let metadata = [("unit".to_owned(), "m".to_owned())];
        if has_metadata {
            field.with_metadata(metadata.into())
        } else {
            field
        }
    })
}

/// Whether some values of a type can be nothing but null, so that its fields must be nullable.
fn is_always_null(data_type: &DataType) -> bool {
    match data_type {
        DataType::Null => true,
        DataType::RunEndEncoded(_, values) => is_always_null(values.data_type()),
        DataType::Dictionary(_, values) => is_always_null(values),
        DataType::Union(fields, _) => fields
            .iter()
            .any(|(_, field)| is_always_null(field.data_type())),
        _ => false,
    }
}

fn arbitrary_child(
    data_type: impl Strategy<Value = DataType> + Clone + 'static,
) -> impl Strategy<Value = FieldRef> + Clone {
    let data_type = data_type.boxed();
    data_type
        .prop_flat_map(arbitrary_field)
        .prop_map(Arc::new)
        .boxed()
}

/// Every type that has no children.
pub fn leaf_types() -> Vec<DataType> {
    use DataType::*;
    let mut types = vec![
        Null,
        Boolean,
        Int8,
        Int16,
        Int32,
        Int64,
        UInt8,
        UInt16,
        UInt32,
        UInt64,
        Float16,
        Float32,
        Float64,
        Date32,
        Date64,
        Utf8,
        LargeUtf8,
        Utf8View,
        Binary,
        LargeBinary,
        BinaryView,
        FixedSizeBinary(0),
        FixedSizeBinary(3),
        FixedSizeBinary(16),
        Decimal32(9, 2),
        Decimal64(18, -3),
        Decimal128(38, 10),
        Decimal256(76, 76),
        Time32(TimeUnit::Second),
        Time32(TimeUnit::Millisecond),
        Time64(TimeUnit::Microsecond),
        Time64(TimeUnit::Nanosecond),
        Interval(IntervalUnit::YearMonth),
        Interval(IntervalUnit::DayTime),
        Interval(IntervalUnit::MonthDayNano),
    ];
    let units = [
        TimeUnit::Second,
        TimeUnit::Millisecond,
        TimeUnit::Microsecond,
        TimeUnit::Nanosecond,
    ];
    for unit in units {
        types.push(Duration(unit));
        for zone in [None, Some("UTC"), Some("+02:00"), Some("Europe/Paris")] {
            types.push(Timestamp(unit, zone.map(Arc::from)));
        }
    }
    types
}

/// Any type, nested to a small depth.
pub fn arbitrary_data_type() -> impl Strategy<Value = DataType> {
    select(leaf_types()).prop_recursive(DEPTH, 12, 3, |inner| {
        let child = arbitrary_child(inner.clone());
        let values = inner
            .clone()
            .prop_filter("IPC has no dictionary of dictionaries", |values| {
                !matches!(values, DataType::Dictionary(_, _))
            });
        prop_oneof![
            child.clone().prop_map(DataType::List),
            child.clone().prop_map(DataType::LargeList),
            child.clone().prop_map(DataType::ListView),
            child.clone().prop_map(DataType::LargeListView),
            (child.clone(), 0..4).prop_map(|(child, size)| DataType::FixedSizeList(child, size)),
            vec(child.clone(), 0..4).prop_map(|fields| DataType::Struct(Fields::from(fields))),
            (select(map_key_types()), child.clone(), any::<bool>()).prop_map(map_type),
            (vec(child.clone(), 1..4), any::<bool>()).prop_map(union_type),
            (select(run_end_types()), child).prop_map(|(ends, values)| {
                let ends = Field::new("run_ends", ends, false);
                DataType::RunEndEncoded(Arc::new(ends), values)
            }),
            (select(dictionary_key_types()), values).prop_map(|(keys, values)| {
                DataType::Dictionary(Box::new(keys), Box::new(values))
            }),
        ]
    })
}

fn map_key_types() -> Vec<DataType> {
    vec![DataType::Utf8, DataType::Int32, DataType::Utf8View]
}

fn run_end_types() -> Vec<DataType> {
    vec![DataType::Int16, DataType::Int32, DataType::Int64]
}

fn dictionary_key_types() -> Vec<DataType> {
    use DataType::*;
    vec![Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64]
}

fn map_type((keys, values, is_sorted): (DataType, FieldRef, bool)) -> DataType {
    let keys = Arc::new(Field::new("keys", keys, false));
    let entries = DataType::Struct(Fields::from(vec![keys, values]));
    DataType::Map(Arc::new(Field::new("entries", entries, false)), is_sorted)
}

fn union_type((children, is_dense): (Vec<FieldRef>, bool)) -> DataType {
    // Ids with gaps, in descending order.
    let ids: Vec<i8> = (0..children.len())
        .map(|index| 120 - 7 * index as i8)
        .collect();
    let fields = UnionFields::try_new(ids, children).expect("distinct ids");
    DataType::Union(
        fields,
        if is_dense {
            UnionMode::Dense
        } else {
            UnionMode::Sparse
        },
    )
}

/// A batch of this schema with values from `seed`. Batches of one `epoch` have the same dictionaries.
pub fn batch(schema: &SchemaRef, rows: usize, seed: u64, epoch: u64) -> RecordBatch {
    let mut values = Values::new(seed, epoch ^ 0x5eed);
    let columns = schema
        .fields()
        .iter()
        .map(|field| values.sliced(field.data_type(), rows, field.is_nullable()))
        .collect();
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options).expect("sound batch")
}
