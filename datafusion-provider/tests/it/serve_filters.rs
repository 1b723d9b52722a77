//! Filters, against the core's own evaluation of them.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, BooleanArray, Date32Array, Decimal128Array, DictionaryArray, Float32Array,
    Float64Array, Int32Array, Int64Array, RecordBatch, StringArray, StructArray,
    TimestampMicrosecondArray, UInt64Array,
};
use datafusion::arrow::compute::{concat, filter_record_batch};
use datafusion::arrow::datatypes::{DataType, Field, Int32Type};
use datafusion::catalog::MemTable;
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::file::properties::WriterProperties;
use datafusion::prelude::{SessionConfig, SessionContext};
use lightstream_core::protocol::filter::{
    ArithmeticOp, CompareOp, Expr, FloatRule, StringMatchOp, Support,
};
use lightstream_core::protocol::request::ScanRequest;
use lightstream_datafusion::serve::register_path;
use tempfile::TempDir;

use crate::serving::*;

const ROWS: usize = 600;

/// A column of every type that compares, with nulls, zeros and (if wanted) NaN.
fn rows(nan: bool) -> RecordBatch {
    let some = |index: usize, every: usize| index % every != 3;
    let at = |index: usize| (index * 37 % 101) as i64 - 50;
    let float = |index: usize| match index % 50 {
        7 if nan => f64::NAN,
        8 if nan => -f64::NAN,
        9 => -0.0,
        10 => 0.0,
        11 => f64::INFINITY,
        _ => at(index) as f64 / 2.0,
    };
    let indices = || 0..ROWS;
    let words = |index: usize| {
        format!(
            "{}{}",
            ["ab", "a%", "b_c", "", "Zé", "a\\b"][index % 6],
            index % 9
        )
    };
    let strings: StringArray = indices().map(|i| some(i, 7).then(|| words(i))).collect();
    let dictionary: DictionaryArray<Int32Type> = indices()
        .map(|i| some(i, 8).then(|| ["x", "y", "z"][i % 3]))
        .collect();
    let inner: ArrayRef = Arc::new(
        indices()
            .map(|i| some(i, 4).then(|| at(i)))
            .collect::<Int64Array>(),
    );
    let nulls = indices().map(|i| some(i, 9)).collect::<Vec<_>>().into();
    let structs = StructArray::new(
        vec![Field::new("f", DataType::Int64, true)].into(),
        vec![inner],
        Some(nulls),
    );
    let columns: Vec<(&str, ArrayRef)> = vec![
        (
            "i32",
            Arc::new(
                indices()
                    .map(|i| some(i, 5).then(|| at(i) as i32))
                    .collect::<Int32Array>(),
            ),
        ),
        (
            "i64",
            Arc::new(Int64Array::from_iter_values(indices().map(|i| i as i64))),
        ),
        (
            "u64",
            Arc::new(
                indices()
                    .map(|i| some(i, 6).then(|| u64::MAX - i as u64 % 5))
                    .collect::<UInt64Array>(),
            ),
        ),
        (
            "f32",
            Arc::new(
                indices()
                    .map(|i| some(i, 5).then(|| float(i) as f32))
                    .collect::<Float32Array>(),
            ),
        ),
        (
            "f64",
            Arc::new(
                indices()
                    .map(|i| some(i, 11).then(|| float(i)))
                    .collect::<Float64Array>(),
            ),
        ),
        (
            "bool",
            Arc::new(
                indices()
                    .map(|i| some(i, 5).then_some(i % 2 == 0))
                    .collect::<BooleanArray>(),
            ),
        ),
        ("text", Arc::new(strings)),
        (
            "date",
            Arc::new(
                indices()
                    .map(|i| some(i, 6).then(|| at(i) as i32))
                    .collect::<Date32Array>(),
            ),
        ),
        (
            "time",
            Arc::new(
                indices()
                    .map(|i| some(i, 6).then(|| at(i) * 1_000_000))
                    .collect::<TimestampMicrosecondArray>(),
            ),
        ),
        (
            "dec",
            Arc::new(
                indices()
                    .map(|i| some(i, 7).then(|| i128::from(at(i))))
                    .collect::<Decimal128Array>()
                    .with_precision_and_scale(9, 2)
                    .unwrap(),
            ),
        ),
        ("dict", Arc::new(dictionary)),
        ("s", Arc::new(structs)),
    ];
    RecordBatch::try_from_iter_with_nullable(
        columns.into_iter().map(|(name, array)| (name, array, true)),
    )
    .unwrap()
}

fn write(path: &Path, batch: &RecordBatch) {
    let properties = WriterProperties::builder()
        .set_max_row_group_row_count(Some(100))
        .set_data_page_row_count_limit(20)
        .set_write_batch_size(10)
        .set_bloom_filter_enabled(true)
        .build();
    let mut writer = ArrowWriter::try_new(
        File::create(path).unwrap(),
        batch.schema(),
        Some(properties),
    )
    .unwrap();
    writer.write(batch).unwrap();
    writer.close().unwrap();
}

/// A condition over values that occur in the rows.
fn condition(dice: &mut Dice, rows: &RecordBatch, depth: usize) -> Expr {
    let schema = rows.schema();
    let column = dice.roll(rows.num_columns());
    let name = schema.field(column).name().clone();
    let value = |dice: &mut Dice| rows.column(column).slice(dice.roll(rows.num_rows()), 1);
    if depth > 0 && dice.roll(3) == 0 {
        let operands = (0..dice.roll(4))
            .map(|_| condition(dice, rows, depth - 1))
            .collect::<Vec<_>>();
        return match dice.roll(3) {
            0 => Expr::And(operands),
            1 => Expr::Or(operands),
            _ => Expr::Not(Box::new(condition(dice, rows, depth - 1))),
        };
    }
    let operand = || Box::new(Expr::column(name.clone()));
    let negated = dice.roll(2) == 0;
    if name == "s" {
        let path = Expr::Column(vec!["s".into(), "f".into()]);
        let limit = literal(Int64Array::from(vec![dice.roll(50) as i64 - 25]));
        return match dice.roll(4) {
            0 => Expr::IsNull(operand()),
            1 => Expr::IsNotNull(Box::new(path)),
            _ => Expr::compare(CompareOp::ALL[dice.roll(8)], path, limit),
        };
    }
    let is_text = name == "text" || name == "dict";
    let is_float = name.starts_with('f');
    match dice.roll(8) {
        0 => Expr::IsNull(operand()),
        1 => Expr::IsNotNull(operand()),
        2 => {
            let values: Vec<_> = (0..1 + dice.roll(5)).map(|_| value(dice)).collect();
            let values: Vec<&dyn Array> = values.iter().map(|value| value.as_ref()).collect();
            Expr::in_list(*operand(), concat(&values).unwrap(), negated)
        }
        3 => {
            let (low, high) = (
                Expr::literal(value(dice)).unwrap(),
                Expr::literal(value(dice)).unwrap(),
            );
            Expr::Between {
                operand: operand(),
                low: Box::new(low),
                high: Box::new(high),
                negated,
            }
        }
        4 if is_text => {
            let pattern = [
                "a%", "%b%", "_b%", "%", "", "a\\%%", "a_\\\\%", "Zé_", "%1", "x",
            ][dice.roll(10)];
            let pattern = Box::new(literal(StringArray::from(vec![pattern])));
            Expr::Like {
                operand: operand(),
                pattern,
                case_insensitive: dice.roll(2) == 0,
                negated,
            }
        }
        5 if is_text => {
            let text = ["a", "a%", "ab1", "", "b_", "\\b", "x"][dice.roll(7)];
            let text = Box::new(literal(StringArray::from(vec![text])));
            Expr::StringMatch {
                op: StringMatchOp::ALL[dice.roll(3)],
                operand: operand(),
                text,
            }
        }
        4 if is_float => Expr::IsNan(operand()),
        5 if name == "i32" => {
            let sum = Expr::arithmetic(
                ArithmeticOp::ALL[dice.roll(5)],
                Expr::Cast {
                    operand: operand(),
                    data_type: DataType::Int64,
                },
                literal(Int64Array::from(vec![3])),
            );
            Expr::compare(
                CompareOp::ALL[dice.roll(8)],
                sum,
                literal(Int64Array::from(vec![dice.roll(40) as i64])),
            )
        }
        6 if name == "bool" => *operand(),
        _ => Expr::compare(
            CompareOp::ALL[dice.roll(8)],
            *operand(),
            Expr::literal(value(dice)).unwrap(),
        ),
    }
}

/// What the filter lets pass by the core's evaluation, where the scan says that it was applied.
fn expected(all: &RecordBatch, request: &ScanRequest, applied: &[Support]) -> RecordBatch {
    let exact = applied
        .iter()
        .enumerate()
        .filter(|(_, support)| **support == Support::Exact);
    let mask = request
        .filter
        .mask(exact.map(|(index, _)| index), all)
        .unwrap();
    filter_record_batch(all, &mask).unwrap()
}

async fn check(context: &SessionContext, seed: u64, count: usize, rules: &[FloatRule]) {
    let all = read_all(
        plan(context, &ScanRequest::table("t"))
            .await
            .unwrap()
            .as_ref(),
    )
    .await;
    let mut dice = Dice::new(seed);
    let mut applied = 0;
    for _ in 0..count {
        let rule = rules[dice.roll(rules.len())];
        let mut request = filtered(ScanRequest::table("t"), rule, condition(&mut dice, &all, 2));
        if dice.roll(3) == 0 {
            request.projection = Some(
                (0..dice.roll(4))
                    .map(|_| dice.roll(all.num_columns()))
                    .collect(),
            );
        }
        request.max_partitions = Some(1 + dice.roll(4) as u32);
        let scan = plan(context, &request).await.unwrap();
        for (conjunct, support) in request
            .filter
            .support(&all.schema())
            .into_iter()
            .enumerate()
        {
            if support == Support::Exact {
                assert_eq!(
                    scan.filters()[conjunct],
                    Support::Exact,
                    "{}",
                    request.filter
                );
            }
        }
        if scan.filters().contains(&Support::Inexact) {
            continue;
        }
        applied += usize::from(scan.filters().contains(&Support::Exact));
        let mut expected = expected(&all, &request, scan.filters());
        if let Some(projection) = &request.projection {
            expected = expected.project(projection).unwrap();
        }
        assert_same_rows(
            &read_all(scan.as_ref()).await,
            &expected,
            &format!("{} by {rule:?}", request.filter),
        );
    }
    assert!(applied > count / 2, "{applied} of {count} were applied");
}

#[tokio::test]
async fn parquet_by_every_rule() {
    let folder = TempDir::new().unwrap();
    write(&folder.path().join("a.parquet"), &rows(true));
    let context = SessionContext::new();
    register_path(&context, "t", folder.path()).await.unwrap();
    check(&context, 11, 160, &FloatRule::ALL).await;
}

#[tokio::test]
async fn parquet_that_filters_while_it_decodes() {
    let folder = TempDir::new().unwrap();
    write(&folder.path().join("a.parquet"), &rows(true));
    let config =
        SessionConfig::new().set_bool("datafusion.execution.parquet.pushdown_filters", true);
    let context = SessionContext::new_with_config(config);
    register_path(&context, "t", folder.path()).await.unwrap();
    check(
        &context,
        31,
        60,
        &[
            FloatRule::TotalOrder,
            FloatRule::NanLargest,
            FloatRule::Ieee,
        ],
    )
    .await;
}

#[tokio::test]
async fn memory_by_every_rule() {
    let context = SessionContext::new();
    let rows = rows(true);
    let table = MemTable::try_new(
        rows.schema(),
        vec![vec![rows.slice(0, 250)], vec![rows.slice(250, 350)]],
    )
    .unwrap();
    context.register_table("t", Arc::new(table)).unwrap();
    check(&context, 21, 120, &FloatRule::ALL).await;
}

#[tokio::test]
async fn filtered_units_are_pure() {
    let folder = TempDir::new().unwrap();
    for file in 0..3 {
        write(&folder.path().join(format!("{file}.parquet")), &rows(true));
    }
    let make = async || {
        let context = SessionContext::new();
        register_path(&context, "t", folder.path()).await.unwrap();
        context
    };
    let all = read_all(
        plan(&make().await, &ScanRequest::table("t"))
            .await
            .unwrap()
            .as_ref(),
    )
    .await;
    let mut dice = Dice::new(5);
    for projection in [None, Some(vec![]), Some(vec![6, 1])] {
        let filter = Expr::compare(
            CompareOp::Lt,
            Expr::column("i32"),
            literal(Int32Array::from(vec![10])),
        );
        let filter = filter.and(condition(&mut dice, &all, 1));
        let request = filtered(
            ScanRequest {
                projection: projection.clone(),
                ..ScanRequest::table("t")
            },
            FloatRule::Ieee,
            filter,
        );
        let scan = plan(&make().await, &request).await.unwrap();
        let mut expected = expected(&all, &request, scan.filters());
        if let Some(projection) = &projection {
            expected = expected.project(projection).unwrap();
        }
        check_cuts(&make, "t", &request, &expected).await;
    }
}

#[tokio::test]
async fn what_cannot_be_applied_does_not_take_the_rest_along() {
    let context = SessionContext::new();
    let rows = rows(false);
    context.register_batch("t", rows.clone()).unwrap();
    let kept = Expr::compare(
        CompareOp::Eq,
        Expr::column("i32"),
        literal(Int32Array::from(vec![1])),
    );
    let overflow = Expr::arithmetic(
        ArithmeticOp::Multiply,
        Expr::column("i64"),
        Expr::column("i64"),
    );
    let zero = Expr::arithmetic(
        ArithmeticOp::Divide,
        literal(Int32Array::from(vec![1])),
        Expr::column("i32"),
    );
    let conjuncts = [
        Expr::Unknown,
        Expr::compare(CompareOp::Gt, overflow, literal(Int64Array::from(vec![1]))),
        Expr::compare(CompareOp::Gt, zero, literal(Int32Array::from(vec![1]))),
        Expr::compare(
            CompareOp::Eq,
            Expr::column("nowhere"),
            literal(Int32Array::from(vec![1])),
        ),
        Expr::compare(
            CompareOp::Eq,
            Expr::column("text"),
            literal(Int32Array::from(vec![1])),
        ),
        kept,
    ];
    let request = filtered(
        ScanRequest::table("t"),
        FloatRule::TotalOrder,
        Expr::And(conjuncts.into()),
    );
    let scan = plan(
        &context,
        &ScanRequest {
            limit: Some(1),
            ..request.clone()
        },
    )
    .await
    .unwrap();
    let mut supports = [Support::Unsupported; 6];
    supports[5] = Support::Exact;
    assert_eq!(scan.filters(), supports);
    let read = read_all(scan.as_ref()).await;
    assert_same_rows(
        &read,
        &expected(&rows, &request, scan.filters()),
        "what is left",
    );
    assert!(
        read.num_rows() > 1,
        "the limit does not come before what the client applies"
    );
}
