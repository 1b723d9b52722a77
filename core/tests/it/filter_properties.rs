//! Random trees over random rows against the reference, hostile messages, bounds, and what a filter does to a batch.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, BooleanArray, Date32Array, Int64Array, RecordBatch, RecordBatchOptions,
    StringArray, UInt32Array,
};
use arrow_schema::{DataType, Field, Schema};
use arrow_select::filter::filter_record_batch;
use arrow_select::take::take;
use lightstream_core::ErrorCode;
use lightstream_core::conformance::filters::{reference, values};
use lightstream_core::protocol::filter::{
    ArithmeticOp, CompareOp, Expr, Filter, FilterLimits, FloatRule, Literal, MAX_DEPTH,
    StringMatchOp, Support, evaluate, required_columns, support,
};
use lightstream_core::protocol::messages;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use prost::Message;

/// The pools that columns and literals are drawn from.
fn pools() -> Vec<ArrayRef> {
    let all = values::comparable();
    let mut pools: Vec<_> = all
        .iter()
        .filter(|array| {
            !matches!(
                array.data_type(),
                DataType::Timestamp(_, Some(_)) | DataType::Duration(_) | DataType::Time32(_)
            )
        })
        .cloned()
        .collect();
    pools.push(values::dictionary(&DataType::Int32, &values::texts()[0]));
    pools.push(values::dictionary(&DataType::Int8, &all[3]));
    pools
}

/// A batch of one column of each pool, of random values.
fn rows() -> impl Strategy<Value = RecordBatch> {
    let pools = pools();
    vec(vec(any::<Index>(), pools.len()), 0..40).prop_map(move |rows| {
        let columns: Vec<ArrayRef> = pools
            .iter()
            .enumerate()
            .map(|(column, pool)| {
                let picks = rows.iter().map(|row| row[column].index(pool.len()) as u32);
                take(pool, &UInt32Array::from_iter_values(picks), None).unwrap()
            })
            .collect();
        let fields: Vec<_> = columns
            .iter()
            .enumerate()
            .map(|(i, column)| Field::new(format!("c{i}"), column.data_type().clone(), true))
            .collect();
        RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap()
    })
}

/// A condition on one column.
fn leaf() -> impl Strategy<Value = Expr> {
    let pools = pools();
    let columns = pools.len();
    (
        0..columns,
        0..9,
        any::<[Index; 3]>(),
        any::<bool>(),
        select(&CompareOp::ALL[..]),
    )
        .prop_map(move |(column, shape, picks, negated, op)| {
            let pool = &pools[column];
            let operand = || Expr::column(format!("c{column}"));
            let literal =
                |pick: usize| Expr::literal(pool.slice(picks[pick].index(pool.len()), 1)).unwrap();
            match shape {
                0 => Expr::IsNull(Box::new(operand())),
                1 => Expr::in_list(
                    operand(),
                    pool.slice(0, picks[0].index(pool.len())),
                    negated,
                ),
                2 => Expr::Between {
                    operand: Box::new(operand()),
                    low: Box::new(literal(0)),
                    high: Box::new(literal(1)),
                    negated,
                },
                3 => Expr::compare(op, literal(0), operand()),
                4 => {
                    let text: ArrayRef = Arc::new(StringArray::from(vec![
                        ["a%", "_", "%b%", "a\\_b"][picks[1].index(4)],
                    ]));
                    Expr::Like {
                        operand: Box::new(operand()),
                        pattern: Box::new(Expr::literal(text).unwrap()),
                        case_insensitive: picks[2].index(2) == 0,
                        negated,
                    }
                }
                5 => Expr::StringMatch {
                    op: StringMatchOp::ALL[picks[1].index(3)],
                    operand: Box::new(operand()),
                    text: Box::new(literal(0)),
                },
                6 => Expr::compare(
                    op,
                    operand(),
                    Expr::column(format!("c{}", picks[1].index(columns))),
                ),
                7 => {
                    let op = ArithmeticOp::ALL[picks[1].index(5)];
                    Expr::compare(
                        CompareOp::Gt,
                        Expr::arithmetic(op, operand(), literal(0)),
                        literal(1),
                    )
                }
                _ => Expr::compare(op, operand(), literal(0)),
            }
        })
}

fn tree() -> impl Strategy<Value = Expr> {
    leaf().prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Expr::And),
            vec(inner.clone(), 0..4).prop_map(Expr::Or),
            inner.clone().prop_map(|expr| Expr::Not(Box::new(expr))),
            inner.prop_map(|expr| Expr::IsNull(Box::new(expr))),
        ]
    })
}

fn rule() -> impl Strategy<Value = FloatRule> {
    select(&FloatRule::ALL[..])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn random_trees_answer_as_the_reference(batch in rows(), expr in tree(), rule in rule()) {
        let answer = evaluate(&expr, &batch, rule);
        let expected = reference::answers(&expr, &batch, rule);
        match (answer, expected) {
            (Ok(answer), Ok(expected)) => prop_assert_eq!(answer.iter().collect::<Vec<_>>(), expected, "{}", expr),
            (Ok(_), Err(reference::Failure::Arithmetic)) => prop_assert!(false, "{expr} must fail"),
            (Ok(_), Err(reference::Failure::Undefined)) => {
                prop_assert!(batch.num_rows() == 0 || support(&expr, &batch.schema(), rule) == Support::Unsupported, "{}", expr)
            }
            (Err(error), _) => {
                prop_assert_eq!(support(&expr, &batch.schema(), rule), Support::Unsupported, "{}: {}", expr, error)
            }
        }
    }

    #[test]
    fn random_trees_survive_the_wire(conjuncts in vec(tree(), 0..4), float_rule in rule()) {
        let filter = Filter { float_rule, conjuncts };
        let bytes = filter.to_proto().unwrap().encode_to_vec();
        let message = messages::Filter::decode(bytes.as_slice()).unwrap();
        prop_assert_eq!(Filter::from_proto(&message, &FilterLimits::default()).unwrap(), filter);
    }

    #[test]
    fn damaged_messages_never_panic(
        conjuncts in vec(tree(), 0..4),
        damage in vec((any::<Index>(), any::<u8>()), 1..8),
        cut in any::<Index>(),
        batch in rows(),
    ) {
        let filter = Filter { float_rule: FloatRule::NanLargest, conjuncts };
        let mut bytes = filter.to_proto().unwrap().encode_to_vec();
        if !bytes.is_empty() {
            for (at, byte) in &damage {
                let at = at.index(bytes.len());
                bytes[at] = *byte;
            }
            read_and_apply(&bytes, &batch);
            bytes.truncate(cut.index(bytes.len()));
            read_and_apply(&bytes, &batch);
        }
        let mut message = filter.to_proto().unwrap();
        if !message.literals.is_empty() {
            for (at, byte) in damage {
                let at = at.index(message.literals.len());
                message.literals[at] = byte;
            }
            read_and_apply(&message.encode_to_vec(), &batch);
        }
    }

    #[test]
    fn random_bytes_never_panic(bytes in vec(any::<u8>(), 0..300), batch in rows()) {
        read_and_apply(&bytes, &batch);
    }

    #[test]
    fn applying_is_filtering_by_the_mask(batch in rows(), conjuncts in vec(tree(), 0..4), float_rule in rule()) {
        let filter = Filter { float_rule, conjuncts }.supported(&batch.schema());
        let mask = filter.mask(0..filter.conjuncts.len(), &batch).unwrap();
        prop_assert_eq!(mask.null_count(), 0);
        let mut expected = vec![true; batch.num_rows()];
        for conjunct in &filter.conjuncts {
            let answers = reference::answers(conjunct, &batch, float_rule).unwrap();
            expected.iter_mut().zip(answers).for_each(|(keep, answer)| *keep &= answer == Some(true));
        }
        prop_assert_eq!(&mask, &BooleanArray::from(expected));
        prop_assert_eq!(filter.apply(&batch).unwrap(), filter_record_batch(&batch, &mask).unwrap());
        // The columns it says it needs are all that it needs.
        let needed = batch.project(&filter.required_columns(&batch.schema()).unwrap()).unwrap();
        prop_assert_eq!(filter.mask(0..filter.conjuncts.len(), &needed).unwrap(), mask);
    }
}

fn read_and_apply(bytes: &[u8], batch: &RecordBatch) {
    let Ok(message) = messages::Filter::decode(bytes) else {
        return;
    };
    let Ok(filter) = Filter::from_proto(&message, &FilterLimits::default()) else {
        return;
    };
    let _ = filter.to_string();
    let _ = filter.apply(batch);
    let supported = filter.supported(&batch.schema());
    supported
        .apply(batch)
        .unwrap_or_else(|error| panic!("{supported} is supported: {error}"));
}

fn number(value: i64) -> Expr {
    Expr::literal(Arc::new(Int64Array::from(vec![value]))).unwrap()
}

fn is_one() -> Expr {
    Expr::compare(CompareOp::Eq, Expr::column("a"), number(1))
}

fn filter(conjuncts: Vec<Expr>) -> Filter {
    Filter {
        float_rule: FloatRule::TotalOrder,
        conjuncts,
    }
}

#[test]
fn bounds_are_named_when_they_are_crossed() {
    let long = Expr::in_list(
        Expr::column("a"),
        Arc::new(Int64Array::from_iter_values(0..1_000)),
        false,
    );
    let message = filter(vec![is_one(), is_one(), long]).to_proto().unwrap();
    let limits = FilterLimits::default();
    for (limits, name) in [
        (
            FilterLimits {
                depth: 1,
                ..limits.clone()
            },
            "(depth)",
        ),
        (
            FilterLimits {
                nodes: 6,
                ..limits.clone()
            },
            "(nodes)",
        ),
        (
            FilterLimits {
                nodes: 2,
                ..limits.clone()
            },
            "(nodes)",
        ),
        (
            FilterLimits {
                list_values: 999,
                ..limits.clone()
            },
            "(list_values)",
        ),
        (
            FilterLimits {
                literal_bytes: 1_000,
                ..limits.clone()
            },
            "(literal_bytes)",
        ),
    ] {
        let error = Filter::from_proto(&message, &limits).unwrap_err();
        assert_eq!(error.code(), ErrorCode::ResourceExhausted);
        assert!(error.to_string().contains(name), "{error}");
    }
    assert!(Filter::from_proto(&message, &limits).is_ok());
}

#[test]
fn deep_trees_are_refused_before_they_travel() {
    let deep = |levels: usize| (0..levels).fold(is_one(), |expr, _| Expr::Not(Box::new(expr)));
    let schema = Schema::new(vec![Field::new("a", DataType::Int64, true)]);
    assert_eq!(
        support(&deep(MAX_DEPTH - 2), &schema, FloatRule::Ieee),
        Support::Exact
    );
    assert_eq!(
        support(&deep(MAX_DEPTH - 1), &schema, FloatRule::Ieee),
        Support::Unsupported
    );
    assert!(filter(vec![deep(MAX_DEPTH - 2)]).to_proto().is_ok());
    assert_eq!(
        filter(vec![deep(MAX_DEPTH - 1)])
            .to_proto()
            .unwrap_err()
            .code(),
        ErrorCode::ResourceExhausted
    );

    // What travels at the greatest depth is decoded within the whole request.
    let widest = (0..MAX_DEPTH - 2).fold(is_one(), |expr, _| Expr::And(vec![expr]));
    let request = messages::Request {
        kind: Some(messages::request::Kind::Plan(messages::Plan {
            request: Some(messages::ScanRequest {
                filter: Some(filter(vec![widest]).to_proto().unwrap()),
                ..Default::default()
            }),
            ..Default::default()
        })),
        ..Default::default()
    };
    assert_eq!(
        messages::Request::decode(request.encode_to_vec().as_slice()).unwrap(),
        request
    );

    let batch =
        RecordBatch::try_from_iter([("a", Arc::new(Int64Array::from(vec![1])) as ArrayRef)])
            .unwrap();
    let deepest = deep(20_000);
    assert!(deepest.to_string().ends_with('…'));
    assert!(evaluate(&deepest, &batch, FloatRule::Ieee).is_err());
    assert!(required_columns([&deepest], &batch.schema()).is_err());
}

#[test]
fn values_beyond_the_calendar_are_shown_as_such() {
    let day = Arc::new(Date32Array::from(vec![i32::MAX]));
    let literal = Expr::literal(day).unwrap();
    assert_eq!(literal.to_string(), "DATE 'beyond the calendar'");
}

#[test]
fn unknown_nodes_make_their_conjunct_unsupported_and_no_other() {
    let schema = Schema::new(vec![Field::new("a", DataType::Int64, true)]);
    let mut message = filter(vec![is_one(), is_one(), is_one(), is_one().or(is_one())])
        .to_proto()
        .unwrap();
    message.conjuncts[0].kind = None;
    let Some(messages::expr::Kind::Comparison(comparison)) = &mut message.conjuncts[1].kind else {
        panic!()
    };
    comparison.op = 99;
    let Some(messages::expr::Kind::Or(either)) = &mut message.conjuncts[3].kind else {
        panic!()
    };
    either.operands[1].kind = None;
    let read = Filter::from_proto(&message, &FilterLimits::default()).unwrap();
    assert_eq!(
        read.support(&schema),
        [
            Support::Unsupported,
            Support::Unsupported,
            Support::Exact,
            Support::Unsupported
        ]
    );
    assert_eq!(read.supported(&schema).conjuncts, [is_one()]);
    assert_eq!(
        read.required_columns(&schema).unwrap_err().code(),
        ErrorCode::Unimplemented
    );

    message.float_rule = 7;
    let read = Filter::from_proto(&message, &FilterLimits::default()).unwrap();
    assert_eq!(read.support(&schema), [Support::Unsupported; 4]);
}

#[test]
fn malformed_messages_are_invalid_arguments() {
    let list = Expr::in_list(
        Expr::column("a"),
        Arc::new(Int64Array::from(vec![1])),
        false,
    );
    let good = filter(vec![is_one(), list]).to_proto().unwrap();
    let broken: [fn(&mut messages::Filter); 5] = [
        |filter| filter.literals.truncate(20),
        |filter| filter.literals.clear(),
        |filter| filter.conjuncts[0].kind = Some(messages::expr::Kind::Literal(9)),
        |filter| {
            filter.conjuncts[0].kind =
                Some(messages::expr::Kind::Column(messages::Column::default()))
        },
        |filter| match &mut filter.conjuncts[1].kind {
            Some(messages::expr::Kind::InList(list)) => list.list = 0,
            _ => panic!("an IN list"),
        },
    ];
    for damage in broken {
        let mut message = good.clone();
        damage(&mut message);
        let error = Filter::from_proto(&message, &FilterLimits::default()).unwrap_err();
        assert_eq!(error.code(), ErrorCode::InvalidArgument, "{error}");
    }
    let mut lacking = good;
    lacking.conjuncts[0].kind = Some(messages::expr::Kind::Comparison(Box::default()));
    let error = Filter::from_proto(&lacking, &FilterLimits::default()).unwrap_err();
    assert_eq!(error.code(), ErrorCode::InvalidArgument);
    assert!(Literal::try_new(Arc::new(Int64Array::from(vec![1, 2]))).is_err());
}

#[test]
fn batches_without_columns_keep_their_rows() {
    let options = RecordBatchOptions::new().with_row_count(Some(5));
    let batch =
        RecordBatch::try_new_with_options(Arc::new(Schema::empty()), vec![], &options).unwrap();
    let truth =
        |value: Option<bool>| Expr::literal(Arc::new(BooleanArray::from(vec![value]))).unwrap();
    assert_eq!(filter(vec![]).apply(&batch).unwrap().num_rows(), 5);
    assert_eq!(
        filter(vec![truth(Some(true))])
            .apply(&batch)
            .unwrap()
            .num_rows(),
        5
    );
    assert_eq!(
        filter(vec![truth(None)]).apply(&batch).unwrap().num_rows(),
        0
    );
    assert!(filter(vec![]).mask([0], &batch).is_err());
}

#[test]
fn ambiguous_and_missing_columns_are_unsupported() {
    let twice = Schema::new(vec![
        Field::new("a", DataType::Int64, true),
        Field::new("a", DataType::Int64, true),
    ]);
    assert_eq!(
        support(&is_one(), &twice, FloatRule::Ieee),
        Support::Unsupported
    );
    assert!(required_columns([&is_one()], &twice).is_err());
    let missing = Schema::new(vec![Field::new("A", DataType::Int64, true)]);
    assert_eq!(
        support(&is_one(), &missing, FloatRule::Ieee),
        Support::Unsupported
    );
    let error = required_columns([&is_one()], &missing).unwrap_err();
    assert_eq!(
        error.to_string(),
        "invalid_argument: no column \"a\": did you mean \"A\"?"
    );
}

#[test]
fn long_lists_cost_each_row_one_look_up() {
    let list: ArrayRef = Arc::new(StringArray::from_iter_values(
        (0..100_000).map(|i| format!("value {i}")),
    ));
    let expr = Expr::in_list(Expr::column("a"), list, false);
    let rows: ArrayRef = Arc::new(StringArray::from_iter_values(
        (0..100_000).map(|i| format!("value {}", i * 2)),
    ));
    let batch = RecordBatch::try_from_iter([("a", rows)]).unwrap();
    let started = std::time::Instant::now();
    for _ in 0..5 {
        let answer = evaluate(&expr, &batch, FloatRule::TotalOrder).unwrap();
        assert_eq!(answer.true_count(), 50_000);
    }
    // 10^10 comparisons would take minutes.
    assert!(started.elapsed().as_secs() < 20, "{:?}", started.elapsed());
}

#[test]
fn patterns_that_are_supported_compile() {
    let rows: ArrayRef = Arc::new(StringArray::from(vec!["k", "\u{212a}", ""]));
    let batch = RecordBatch::try_from_iter([("a", rows)]).unwrap();
    let like = |pattern: &str, case_insensitive: bool| Expr::Like {
        operand: Box::new(Expr::column("a")),
        pattern: Box::new(Expr::literal(Arc::new(StringArray::from(vec![pattern]))).unwrap()),
        case_insensitive,
        negated: false,
    };
    for unit in [
        "_", "k", "%_", "_%k", "\u{212a}", "é_", "%%", "\\", "\\_", "(", "[a",
    ] {
        let pattern: String = unit
            .chars()
            .cycle()
            .take(1024 / unit.chars().map(char::len_utf8).max().unwrap())
            .collect();
        for case_insensitive in [false, true] {
            let expr = like(&pattern, case_insensitive);
            assert_eq!(
                support(&expr, &batch.schema(), FloatRule::Ieee),
                Support::Exact
            );
            evaluate(&expr, &batch, FloatRule::Ieee).unwrap();
        }
    }
    let long = like(&"_".repeat(1025), false);
    assert_eq!(
        support(&long, &batch.schema(), FloatRule::Ieee),
        Support::Unsupported
    );
}

#[test]
fn integer_arithmetic_is_exact_only_where_it_cannot_fail() {
    let schema = Schema::new(vec![
        Field::new("small", DataType::Int32, true),
        Field::new("wide", DataType::Int64, true),
        Field::new("unsigned", DataType::UInt8, true),
        Field::new("ratio", DataType::Float64, true),
    ]);
    let wide = |name: &str| Expr::Cast {
        operand: Box::new(Expr::column(name)),
        data_type: DataType::Int64,
    };
    let positive = |expr| Expr::compare(CompareOp::Gt, expr, number(0));
    for (op, left, right, wanted) in [
        (
            ArithmeticOp::Add,
            Expr::column("wide"),
            number(1),
            Support::Unsupported,
        ),
        (ArithmeticOp::Add, wide("small"), number(1), Support::Exact),
        (
            ArithmeticOp::Add,
            Expr::column("small"),
            number(1),
            Support::Exact,
        ),
        (
            ArithmeticOp::Multiply,
            wide("small"),
            wide("small"),
            Support::Exact,
        ),
        (
            ArithmeticOp::Multiply,
            wide("small"),
            number(i64::MAX),
            Support::Unsupported,
        ),
        (
            ArithmeticOp::Divide,
            Expr::column("wide"),
            number(10),
            Support::Exact,
        ),
        (
            ArithmeticOp::Divide,
            Expr::column("wide"),
            number(0),
            Support::Unsupported,
        ),
        (
            ArithmeticOp::Divide,
            Expr::column("wide"),
            number(-1),
            Support::Unsupported,
        ),
        (
            ArithmeticOp::Modulo,
            Expr::column("wide"),
            number(10),
            Support::Exact,
        ),
        (
            ArithmeticOp::Modulo,
            Expr::column("wide"),
            Expr::column("wide"),
            Support::Unsupported,
        ),
        (
            ArithmeticOp::Subtract,
            Expr::column("unsigned"),
            Expr::column("unsigned"),
            Support::Unsupported,
        ),
        (
            ArithmeticOp::Subtract,
            wide("unsigned"),
            wide("unsigned"),
            Support::Exact,
        ),
    ] {
        let expr = positive(Expr::arithmetic(op, left, right));
        assert_eq!(
            support(&expr, &schema, FloatRule::TotalOrderZeroEqual),
            wanted,
            "{expr}"
        );
    }
    let ratio = Expr::arithmetic(
        ArithmeticOp::Divide,
        Expr::column("ratio"),
        Expr::column("ratio"),
    );
    let ratio = Expr::compare(CompareOp::Gt, ratio, Expr::column("ratio"));
    assert_eq!(
        support(&ratio, &schema, FloatRule::TotalOrderZeroEqual),
        Support::Unsupported
    );
    assert_eq!(
        support(&ratio, &schema, FloatRule::NanLargest),
        Support::Exact
    );
}
