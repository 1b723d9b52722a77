//! Conditions as people write them: what they become, and what they are told when they are wrong.

use std::sync::Arc;

use arrow_array::{ArrayRef, Date32Array, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use lightstream_core::ErrorCode;
use lightstream_core::protocol::filter::{Expr, FloatRule, Support, sql};

const RULE: FloatRule = FloatRule::TotalOrderZeroEqual;

fn schema() -> Schema {
    let point = DataType::Struct(
        vec![
            Field::new("x", DataType::Int32, true),
            Field::new("Y", DataType::Float64, true),
        ]
        .into(),
    );
    Schema::new(vec![
        Field::new("id", DataType::Int64, true),
        Field::new("tiny", DataType::Int8, true),
        Field::new("big", DataType::UInt64, true),
        Field::new("ratio", DataType::Float64, true),
        Field::new("single", DataType::Float32, true),
        Field::new("price", DataType::Decimal128(10, 2), true),
        Field::new("name", DataType::Utf8View, true),
        Field::new(
            "code",
            DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8)),
            true,
        ),
        Field::new("raw", DataType::Binary, true),
        Field::new("day", DataType::Date32, true),
        Field::new("at", DataType::Timestamp(TimeUnit::Millisecond, None), true),
        Field::new(
            "seen",
            DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
            true,
        ),
        Field::new("clock", DataType::Time32(TimeUnit::Second), true),
        Field::new("ok", DataType::Boolean, true),
        Field::new("point", point, true),
        Field::new("Name", DataType::Utf8, true),
        Field::new("odd name", DataType::Int32, true),
        Field::new("twice", DataType::Int32, true),
        Field::new("twice", DataType::Int32, true),
    ])
}

#[test]
fn conditions_become_filters() {
    let cases = [
        ("id = 1", "id = 1"),
        ("ID = 1", "id = 1"),
        ("name = 'a' AND Name = 'b'", "name = 'a' AND Name = 'b'"),
        ("\"Name\" <> 'it''s'", "Name <> 'it''s'"),
        ("\"odd name\" >= -7", "\"odd name\" >= -7"),
        (
            "id = 1 AND (tiny < 2 OR tiny > 3) AND ok",
            "id = 1 AND (tiny < 2 OR tiny > 3) AND ok",
        ),
        ("NOT (id = 1 AND ok)", "NOT (id = 1 AND ok)"),
        (
            "id IS NULL OR name IS NOT NULL",
            "id IS NULL OR name IS NOT NULL",
        ),
        ("id IN (1, 2, NULL)", "id IN (1, 2, NULL)"),
        ("tiny NOT IN (1, 1000)", "tiny NOT IN (1)"),
        ("tiny NOT IN (1000, 2000)", "NOT tiny = 2000"),
        (
            "at IN ('2024-01-01', '2024-01-01T00:00:00.000001')",
            "at IN (TIMESTAMP '2024-01-01T00:00:00') OR at = TIMESTAMP '2024-01-01T00:00:00.000001'",
        ),
        ("id IN (tiny, 3)", "id IN (3) OR id = tiny"),
        ("id BETWEEN 1 AND 10", "id BETWEEN 1 AND 10"),
        ("tiny NOT BETWEEN 1 AND 1000", "tiny NOT BETWEEN 1 AND 1000"),
        (
            "name LIKE 'a%' AND code NOT ILIKE '_b'",
            "name LIKE 'a%' AND code NOT ILIKE '_b'",
        ),
        (
            "starts_with(name, 'a') OR contains(name, 'b')",
            "starts_with(name, 'a') OR contains(name, 'b')",
        ),
        (
            "is_nan(ratio) OR ratio > 1e300",
            "is_nan(ratio) OR ratio > 1e300",
        ),
        ("price = 12.5", "price = 12.50"),
        ("price > 12.125", "price > 12.125"),
        ("id > 1.5", "id > 1.5"),
        ("single = 0.5", "single = 0.5"),
        ("single = 0.1", "single = 0.1"),
        ("big > 18446744073709551615", "big > 18446744073709551615"),
        ("id < 1e3", "id < 1000"),
        ("day >= '2024-02-29'", "day >= DATE '2024-02-29'"),
        ("day = DATE '2024-02-29'", "day = DATE '2024-02-29'"),
        (
            "at < '2024-02-29 12:00:00.5'",
            "at < TIMESTAMP '2024-02-29T12:00:00.500'",
        ),
        (
            "at < TIMESTAMP '2024-02-29 12:00:00.000001'",
            "at < TIMESTAMP '2024-02-29T12:00:00.000001'",
        ),
        (
            "at >= DATE '2024-02-29'",
            "at >= TIMESTAMP '2024-02-29T00:00:00'",
        ),
        (
            "seen > '2024-02-29T12:00:00+01:00'",
            "seen > TIMESTAMP '2024-02-29T11:00:00Z'",
        ),
        ("clock = '12:30:00'", "clock = TIME '12:30:00'"),
        ("raw = X'00ff'", "raw = X'00ff'"),
        (
            "point.x = 1 AND point.y < 2",
            "point.x = 1 AND point.Y < 2.0",
        ),
        (
            "id % 10 = 3 AND id + 1 * 2 > 4",
            "id % 10 = 3 AND id + 1 * 2 > 4",
        ),
        ("-id > 4", "0 - id > 4"),
        ("tiny::bigint + 1 > 4", "CAST(tiny AS Int64) + 1 > 4"),
        (
            "CAST(id AS DECIMAL(38, 4)) > 1.5",
            "CAST(id AS Decimal128(38, 4)) > 1.5000",
        ),
        ("'2024-02-29'::date = day", "DATE '2024-02-29' = day"),
        (
            "(id IS NOT DISTINCT FROM 3) AND ok IS TRUE",
            "id IS NOT DISTINCT FROM 3 AND ok IS NOT DISTINCT FROM true",
        ),
        ("true", "true"),
        ("id = NULL", "id = NULL"),
    ];
    for (clause, shown) in cases {
        match sql::parse(clause, &schema(), RULE) {
            Ok(filter) => assert_eq!(
                filter
                    .to_string()
                    .replace("1.0e300", "1e300")
                    .replace("1e+300", "1e300"),
                shown,
                "{clause}"
            ),
            Err(error) => panic!("{clause}: {error}"),
        }
    }
}

#[test]
fn constants_take_the_type_of_the_column() {
    for (clause, data_type) in [
        ("tiny = 1", DataType::Int8),
        ("tiny = 1000", DataType::Int64),
        ("big = 1", DataType::UInt64),
        ("single = 0.5", DataType::Float32),
        ("single = 0.1", DataType::Float64),
        ("price = 1", DataType::Decimal128(10, 2)),
        ("price = 1.125", DataType::Decimal128(4, 3)),
        ("name = 'a'", DataType::Utf8View),
        ("code = 'a'", DataType::Utf8),
        (
            "at = '2024-01-01'",
            DataType::Timestamp(TimeUnit::Millisecond, None),
        ),
    ] {
        let filter = sql::parse(clause, &schema(), RULE).unwrap();
        let [Expr::Compare { right, .. }] = filter.conjuncts.as_slice() else {
            panic!("{clause}")
        };
        let Expr::Literal(literal) = &**right else {
            panic!("{clause}")
        };
        assert_eq!(*literal.data_type(), data_type, "{clause}");
        assert_eq!(filter.support(&schema()), [Support::Exact], "{clause}");
    }
}

#[test]
fn what_is_wrong_is_named() {
    let cases = [
        ("idd = 1", "no column \"idd\": did you mean \"id\"?"),
        ("prise > 1", "no column \"prise\": did you mean \"price\"?"),
        ("zzz = 1", "no column \"zzz\""),
        ("\"ID\" = 1", "no column \"ID\": did you mean \"id\"?"),
        (
            "NAME = 'a'",
            "column \"NAME\" is ambiguous: \"name\" or \"Name\"?",
        ),
        (
            "twice = 1",
            "column \"twice\" is ambiguous: several bear its name",
        ),
        ("point.z = 1", "no column \"z\""),
        ("id.x = 1", "\"id\" has no fields: it is Int64"),
        ("id = 'abc'", "'abc' is no value of Int64"),
        ("name = 5", "5 is no value of Utf8View"),
        ("day = '2024-13-01'", "'2024-13-01' is no value of Date32"),
        (
            "day = '2024-01-01 10:00:00'",
            "'2024-01-01 10:00:00' is no value of Date32",
        ),
        (
            "at = '2024-01-01T00:00:00Z'",
            "'2024-01-01T00:00:00Z' has a time zone, and what it is compared with has none",
        ),
        ("ok = 1", "1 is no value of Boolean"),
        ("id", "id is Int64, not a condition"),
        ("id + 1", "id + 1 is Int64, not a condition"),
        ("'a'", "'a' is not a condition"),
        (
            "id = name",
            "in id = name: Int64 and Utf8View do not compare",
        ),
        ("ratio + id > 1", "in ratio + id: no + of Float64 and Int64"),
        (
            "CAST(id AS INT) = 1",
            "in CAST(id AS Int32): a cast of Int64 to Int32 can lose a value",
        ),
        ("id LIKE 'a'", "'a' is no value of Int64"),
        (
            "is_nan(id)",
            "in is_nan(id): is_nan takes a floating-point value, not Int64",
        ),
        (
            "name LIKE 'a' ESCAPE '!'",
            "filters do not know an ESCAPE other than '\\'",
        ),
        (
            "upper(name) = 'A'",
            "filters do not know the function upper of 1 arguments",
        ),
        ("id IN (SELECT 1)", "filters do not know id IN (SELECT 1)"),
        ("id = 1 ORDER BY id", "the condition ends before \"ORDER\""),
        ("id = 1; DROP TABLE t", "the condition ends before \";\""),
        ("id = 1 = 1", "1 is no value of Boolean"),
        (
            "ok AND id IS DISTINCT FROM 3 OR ok",
            "a comparison by IS DISTINCT FROM stands in parentheses where a condition follows",
        ),
        ("raw = X'0'", "X'0' is not hexadecimal"),
        ("1 / 0 = 1", "in 1 / 0: filter: Divide by zero error"),
    ];
    for (clause, message) in cases {
        match sql::parse(clause, &schema(), RULE) {
            Ok(filter) => panic!("{clause} is read as {filter}"),
            Err(error) => {
                assert_eq!(error.detail().message, message, "{clause}");
                assert_eq!(error.code(), ErrorCode::InvalidArgument, "{clause}");
            }
        }
    }
    for clause in [
        "", "id =", "id = 'a", "(id = 1", "id = = 1", "AND", "id IN ()", "\u{0}",
    ] {
        let error = sql::parse(clause, &schema(), RULE).unwrap_err();
        assert_eq!(
            error.code(),
            ErrorCode::InvalidArgument,
            "{clause}: {error}"
        );
    }
}

#[test]
fn long_and_deep_conditions_are_bounded() {
    let list = (0..50_000)
        .map(|i| i.to_string())
        .collect::<Vec<_>>()
        .join(", ");
    let filter = sql::parse(&format!("id IN ({list}, -5)"), &schema(), RULE).unwrap();
    let Expr::InList { list, .. } = &filter.conjuncts[0] else {
        panic!("an IN list")
    };
    assert_eq!(list.values().len(), 50_001);

    let chain = vec!["id = 1"; 400].join(" OR ");
    let filter = sql::parse(&chain, &schema(), RULE).unwrap();
    assert_eq!(filter.support(&schema()), [Support::Exact]);

    for deep in [
        vec!["id = 1"; 100_000].join(" OR "),
        vec!["1"; 100_000].join(" + "),
        vec!["1"; 100_000].join(" - "),
        format!("{}id = 1{}", "(".repeat(100_000), ")".repeat(100_000)),
        format!("{}ok", "NOT ".repeat(100_000)),
        format!("id = {}1", "- ".repeat(100_000)),
        format!("id = {}1", "+ ".repeat(900)),
        format!("id = 1{}", "::bigint".repeat(100_000)),
        format!("{} > 1", vec!["id"; 300].join(" + ")),
        format!("point{} = 1", ".x".repeat(100_000)),
        format!("id{} = 1", "[1]".repeat(100_000)),
    ] {
        let error = sql::parse(&deep, &schema(), RULE).unwrap_err();
        assert!(
            matches!(
                error.code(),
                ErrorCode::InvalidArgument | ErrorCode::ResourceExhausted
            ),
            "{}: {error}",
            &deep[..40]
        );
        assert!(error.detail().message.len() < 1_000, "{}", &deep[..40]);
    }
}

#[test]
fn conditions_filter_rows() {
    let columns: Vec<(&str, ArrayRef)> = vec![
        (
            "id",
            Arc::new(Int64Array::from(vec![Some(1), Some(2), None, Some(4)])),
        ),
        (
            "name",
            Arc::new(StringArray::from(vec![
                Some("ann"),
                Some("bob"),
                Some("cy"),
                None,
            ])),
        ),
        (
            "ratio",
            Arc::new(Float64Array::from(vec![0.0, -0.0, f64::NAN, 1.5])),
        ),
        (
            "day",
            Arc::new(Date32Array::from(vec![19_782, 19_783, 19_784, 19_785])),
        ),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    for (clause, rows) in [
        ("id > 1", 2),
        ("NOT id > 1", 1),
        ("id > 1 OR name = 'cy'", 3),
        ("ratio = 0", 2),
        ("ratio >= 0", 4),
        ("day > '2024-02-29' AND name LIKE '%y'", 1),
        ("id IN (1, 4, NULL)", 2),
        ("id NOT IN (1, NULL)", 0),
        ("id % 2 = 0", 2),
        ("true", 4),
        ("id = NULL", 0),
    ] {
        let filter = sql::parse(clause, &batch.schema(), RULE).unwrap();
        assert_eq!(filter.apply(&batch).unwrap().num_rows(), rows, "{clause}");
    }
}
