//! Random rows of common types, and random conditions over them in SQL.

use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, BooleanArray, Date32Array, Decimal128Array, DictionaryArray, Float32Array,
    Float64Array, Int16Array, Int32Array, Int64Array, LargeStringArray, RecordBatch, StringArray,
    StringViewArray, TimestampMicrosecondArray, TimestampMillisecondArray, UInt32Array,
};
use datafusion::arrow::datatypes::Int32Type;
use proptest::prelude::*;
use proptest::sample::select;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

const TEXTS: [&str; 14] = [
    "",
    "a",
    "A",
    "abc",
    "ABC",
    "a%c",
    "a_c",
    "naïve",
    "NAÏVE",
    "日本語",
    "%",
    "_",
    "a\\c",
    "zebra with a longer tail",
];
const FLOATS: [f64; 12] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    1.5,
    -2.25,
    1e10,
    f64::NAN,
    f64::INFINITY,
    f64::NEG_INFINITY,
    0.1,
    3.0,
];
/// 2020-01-01, in days since 1970.
const DAYS: i32 = 18_262;

/// Batches of random rows: `id` ascends from 0, every other column has nulls.
pub fn rows(seed: u64, batches: usize, rows_each: usize) -> Vec<RecordBatch> {
    let mut random = StdRng::seed_from_u64(seed);
    (0..batches)
        .map(|batch| batch_of(&mut random, batch * rows_each, rows_each))
        .collect()
}

fn batch_of(random: &mut StdRng, first: usize, rows: usize) -> RecordBatch {
    fn some<T>(
        random: &mut StdRng,
        rows: usize,
        mut value: impl FnMut(&mut StdRng) -> T,
    ) -> Vec<Option<T>> {
        (0..rows)
            .map(|_| {
                if random.random_ratio(1, 6) {
                    None
                } else {
                    Some(value(random))
                }
            })
            .collect()
    }
    let text = |random: &mut StdRng| TEXTS[random.random_range(0..TEXTS.len())];
    let float = |random: &mut StdRng| FLOATS[random.random_range(0..FLOATS.len())];
    let micros = |random: &mut StdRng| {
        i64::from(DAYS) * 86_400_000_000 + random.random_range(-5..5) * 43_200_000_000
    };
    let ids: Int64Array = (first as i64..(first + rows) as i64).collect();
    let extreme = |random: &mut StdRng| match random.random_range(0..12) {
        0 => i64::MIN,
        1 => i64::MAX,
        other => other - 6,
    };
    let decimals: Decimal128Array =
        some(random, rows, |random| random.random_range(-300..300_i128)).into();
    let zoned: TimestampMillisecondArray =
        some(random, rows, |random| micros(random) / 1000).into();
    let codes = some(random, rows, text);
    let columns: Vec<(&str, ArrayRef, bool)> = vec![
        ("id", Arc::new(ids), false),
        (
            "h",
            Arc::new(Int16Array::from(some(random, rows, |random| {
                random.random_range(-4..4_i16)
            }))),
            true,
        ),
        (
            "i",
            Arc::new(Int32Array::from(some(random, rows, |random| {
                random.random_range(-10..10)
            }))),
            true,
        ),
        (
            "j",
            Arc::new(Int64Array::from(some(random, rows, extreme))),
            true,
        ),
        (
            "u",
            Arc::new(UInt32Array::from(some(random, rows, |random| {
                random.random_range(0..6_u32)
            }))),
            true,
        ),
        (
            "e",
            Arc::new(Float32Array::from(some(random, rows, |random| {
                float(random) as f32
            }))),
            true,
        ),
        (
            "f",
            Arc::new(Float64Array::from(some(random, rows, float))),
            true,
        ),
        (
            "g",
            Arc::new(Float64Array::from(some(random, rows, float))),
            true,
        ),
        (
            "n",
            Arc::new(decimals.with_precision_and_scale(12, 2).unwrap()),
            true,
        ),
        (
            "d",
            Arc::new(Date32Array::from(some(random, rows, |random| {
                DAYS + random.random_range(-3..3)
            }))),
            true,
        ),
        (
            "t",
            Arc::new(TimestampMicrosecondArray::from(some(random, rows, micros))),
            true,
        ),
        ("z", Arc::new(zoned.with_timezone("UTC")), true),
        (
            "b",
            Arc::new(BooleanArray::from(some(random, rows, |random| {
                random.random()
            }))),
            true,
        ),
        (
            "s",
            Arc::new(StringArray::from(some(random, rows, text))),
            true,
        ),
        (
            "l",
            Arc::new(LargeStringArray::from(some(random, rows, text))),
            true,
        ),
        (
            "v",
            Arc::new(StringViewArray::from(some(random, rows, text))),
            true,
        ),
        (
            "c",
            Arc::new(codes.into_iter().collect::<DictionaryArray<Int32Type>>()),
            true,
        ),
    ];
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

type Text = BoxedStrategy<String>;

fn one_of(values: &'static [&'static str]) -> Text {
    select(values).prop_map(str::to_owned).boxed()
}

fn quoted() -> Text {
    select(&TEXTS[..])
        .prop_map(|text| format!("'{text}'"))
        .boxed()
}

/// Numbers that compare with one another without error: floats do not with decimals, since NaN is no decimal.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Float,
    Decimal,
}

/// An expression of a number, which gives no error whatever the rows.
fn number(kind: Kind) -> Text {
    let (columns, literals, own, cast): (&[_], &[_], _, _) = match kind {
        Kind::Float => (
            &["id", "h", "i", "j", "u", "e", "f", "g"],
            &[
                "0.0",
                "-0.0",
                "1.5",
                "-2.25",
                "0.1",
                "1e10",
                "CAST('NaN' AS DOUBLE)",
                "CAST('inf' AS DOUBLE)",
            ],
            "f",
            "DOUBLE",
        ),
        Kind::Decimal => (
            &["id", "h", "i", "j", "u", "n"],
            &[
                "CAST(1.5 AS DECIMAL(12, 2))",
                "CAST(-0.01 AS DECIMAL(5, 2))",
                "CAST(0 AS DECIMAL(20, 4))",
            ],
            "n",
            "DECIMAL(20, 4)",
        ),
    };
    let literal = prop_oneof![
        (-10_i64..10).prop_map(|number| number.to_string()),
        one_of(literals),
        one_of(&[
            "9223372036854775807",
            "-9223372036854775808",
            "2147483648",
            "70000",
            "4294967296",
            "NULL"
        ]),
    ];
    let whole = || one_of(&["id", "i", "h"]);
    let small = || prop_oneof![whole(), Just("u".to_owned()), Just(own.to_owned())];
    let computed = prop_oneof![
        (small(), one_of(&["+", "-", "*"]), -5_i64..5)
            .prop_map(|(column, op, by)| format!("{column} {op} {by}")),
        (whole(), one_of(&["/", "%"]), 1_i64..5)
            .prop_map(|(column, op, by)| format!("{column} {op} {by}")),
        (whole(), one_of(&["+", "-"]), whole()).prop_map(|(a, op, b)| format!("{a} {op} {b}")),
        small().prop_map(move |column| format!("CAST({column} AS {cast})")),
        whole().prop_map(|column| format!("CAST({column} AS BIGINT)")),
        one_of(&[
            "coalesce(i, 3)",
            "length(s)",
            "CASE WHEN b THEN i ELSE 2 END",
            "- i",
            "nullif(i, 1)"
        ]),
    ];
    prop_oneof![4 => one_of(columns), 3 => literal, 2 => computed.prop_map(|text| format!("({text})"))]
        .boxed()
}

fn kind() -> impl Strategy<Value = Kind> {
    select(&[Kind::Float, Kind::Float, Kind::Decimal][..])
}

fn text() -> Text {
    let column = one_of(&["s", "l", "v", "c"]);
    let computed = one_of(&[
        "upper(s)",
        "lower(v)",
        "concat(s, 'x')",
        "CAST(i AS VARCHAR)",
        "substr(l, 1, 2)",
        "NULL",
    ]);
    prop_oneof![5 => column, 2 => quoted(), 1 => computed].boxed()
}

fn instant() -> Text {
    prop_oneof![
        3 => one_of(&["d", "t", "z"]),
        2 => one_of(&[
            "DATE '2020-01-01'", "DATE '2019-12-31'", "TIMESTAMP '2020-01-01T12:00:00'", "TIMESTAMP '2019-12-30T00:00:00.000001'",
            "CAST(t AS DATE)", "d + INTERVAL '1' DAY", "CAST(d AS TIMESTAMP)",
        ]),
    ]
    .boxed()
}

fn comparison() -> Text {
    let op = || {
        one_of(&[
            "=",
            "<>",
            "<",
            "<=",
            ">",
            ">=",
            "IS DISTINCT FROM",
            "IS NOT DISTINCT FROM",
        ])
    };
    prop_oneof![
        5 => (kind().prop_flat_map(|kind| (number(kind), number(kind))), op()).prop_map(|((a, b), op)| format!("{a} {op} {b}")),
        4 => (text(), op(), text()).prop_map(|(a, op, b)| format!("{a} {op} {b}")),
        2 => (instant(), op(), instant()).prop_map(|(a, op, b)| format!("{a} {op} {b}")),
        1 => (op(), one_of(&["TRUE", "FALSE", "NULL"])).prop_map(|(op, b)| format!("b {op} {b}")),
    ]
    .boxed()
}

fn leaf() -> Text {
    let not = || one_of(&["", "NOT "]);
    let column = one_of(&[
        "h", "i", "j", "u", "e", "f", "n", "d", "t", "z", "b", "s", "l", "v", "c",
    ]);
    let pattern = one_of(&[
        "%", "", "a%", "%c", "%B%", "_", "a_c", "a\\%c", "%ï%", "___", "%\\_%", "n%e", "日%",
    ]);
    prop_oneof![
        8 => comparison(),
        2 => (kind().prop_flat_map(|kind| (number(kind), proptest::collection::vec(number(kind), 1..5))), not()).prop_map(|((a, list), not)| format!("{a} {not}IN ({})", list.join(", "))),
        2 => (text(), not(), proptest::collection::vec(quoted(), 1..6))
            .prop_map(|(a, not, list)| format!("{a} {not}IN ({})", list.join(", "))),
        2 => (kind().prop_flat_map(|kind| (number(kind), number(kind), number(kind))), not()).prop_map(|((a, b, c), not)| format!("{a} {not}BETWEEN {b} AND {c}")),
        1 => (instant(), not(), instant(), instant()).prop_map(|(a, not, b, c)| format!("{a} {not}BETWEEN {b} AND {c}")),
        3 => (one_of(&["s", "l", "v", "c", "upper(s)"]), not(), one_of(&["LIKE", "ILIKE"]), pattern)
            .prop_map(|(a, not, like, pattern)| format!("{a} {not}{like} '{pattern}'")),
        2 => (column, one_of(&["IS NULL", "IS NOT NULL"])).prop_map(|(a, is)| format!("{a} {is}")),
        1 => one_of(&["b", "b IS TRUE", "b IS NOT FALSE", "b IS UNKNOWN", "TRUE", "FALSE", "NULL"]),
        1 => one_of(&[
            "starts_with(s, 'a')", "ends_with(v, 'c')", "contains(l, 'b')", "CASE WHEN i > 0 THEN b ELSE s = 'a' END",
            "coalesce(b, FALSE)", "regexp_like(s, '^a.*c$')", "length(s) > i",
        ]),
    ]
    // In parentheses, since IS DISTINCT FROM takes all that follows.
    .prop_map(|leaf| format!("({leaf})"))
    .boxed()
}

/// A condition.
pub fn predicate() -> impl Strategy<Value = String> {
    leaf().prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            3 => proptest::collection::vec(inner.clone(), 2..4).prop_map(|parts| format!("({})", parts.join(" AND "))),
            3 => proptest::collection::vec(inner.clone(), 2..4).prop_map(|parts| format!("({})", parts.join(" OR "))),
            2 => inner.prop_map(|part| format!("NOT {part}")),
        ]
    })
}
