//! The filter table against DataFusion itself: whatever is called exact must come out the same there, and whatever is
//! called inexact must keep at least the rows that DataFusion keeps.
//!
//! The translation to DataFusion's expressions is written apart from the one that pushes filters down.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int8Array,
    Int64Array, RecordBatch, StringArray, TimestampMillisecondArray,
};
use datafusion::arrow::datatypes::Int64Type;
use datafusion::common::{Column, DFSchema, Result, ScalarValue, exec_err};
use datafusion::execution::context::SessionContext;
use datafusion::functions::expr_fn::{contains, ends_with, get_field, starts_with};
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{Between, BinaryExpr, Expr as DfExpr, Like, Operator, cast, lit};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::physical_expr::simplifier::PhysicalExprSimplifier;
use lightstream_core::conformance::filters::{Case, cases};
use lightstream_core::protocol::filter::{
    ArithmeticOp, CompareOp, Expr, FloatRule, StringMatchOp, Support, evaluate, sql, support,
};

/// Whether DataFusion's optimizer has rewritten the expression before it is evaluated.
#[derive(Debug, Clone, Copy)]
enum Form {
    Coerced,
    Simplified,
    /// Simplified, and once more as a physical expression.
    Physical,
}

#[derive(Default)]
struct Tally {
    exact: usize,
    inexact: usize,
    supersets_proper: usize,
    no_counterpart: usize,
    wrong: Vec<String>,
}

#[test]
fn what_is_called_exact_is_what_datafusion_answers() {
    let cases: Vec<_> = cases()
        .into_iter()
        .filter(|case| case.rule == FloatRule::TotalOrderZeroEqual)
        .collect();
    let half = cases.len() / 2;
    let (left, right) = std::thread::scope(|scope| {
        let other = scope.spawn(|| check(&cases[half..]));
        (check(&cases[..half]), other.join().unwrap())
    });
    let wrong: Vec<_> = left.wrong.iter().chain(&right.wrong).collect();
    println!(
        "{} exact and {} inexact answers (of these {} proper supersets) agree; {} have no counterpart; {} wrong",
        left.exact + right.exact,
        left.inexact + right.inexact,
        left.supersets_proper + right.supersets_proper,
        left.no_counterpart + right.no_counterpart,
        wrong.len(),
    );
    let shown: Vec<_> = wrong.iter().take(60).map(|line| line.as_str()).collect();
    assert!(
        wrong.is_empty(),
        "{} cases differ:\n{}",
        wrong.len(),
        shown.join("\n")
    );
    assert!(left.exact + right.exact > 50_000);
}

fn check(cases: &[Case]) -> Tally {
    let context = SessionContext::new();
    let mut tally = Tally::default();
    for case in cases {
        let support = support(&case.expr, &case.batch.schema(), case.rule);
        if support == Support::Unsupported {
            continue;
        }
        let ours = evaluate(&case.expr, &case.batch, case.rule).unwrap();
        for form in [Form::Coerced, Form::Simplified, Form::Physical] {
            let Some(expr) = translate(&case.expr) else {
                tally.no_counterpart += 1;
                continue;
            };
            let theirs = std::panic::catch_unwind(AssertUnwindSafe(|| {
                answer(&context, expr, &case.batch, form)
            }));
            let theirs = match theirs.unwrap_or_else(|_| exec_err!("panic")) {
                Ok(theirs) => theirs,
                // Where an engine fails there are no rows to lose, but then nothing is exact.
                Err(_) if support == Support::Inexact => continue,
                Err(error) => {
                    tally.wrong.push(format!("{} {form:?}: {error}", case.name));
                    continue;
                }
            };
            let keeps =
                |answer: &BooleanArray, row: usize| answer.is_valid(row) && answer.value(row);
            match support {
                Support::Exact if ours == theirs => tally.exact += 1,
                Support::Inexact
                    if (0..ours.len()).all(|row| keeps(&ours, row) || !keeps(&theirs, row)) =>
                {
                    tally.inexact += 1;
                    tally.supersets_proper += usize::from(ours != theirs);
                }
                _ => {
                    let rows: Vec<_> = (0..ours.len())
                        .filter(|row| ours.slice(*row, 1) != theirs.slice(*row, 1))
                        .take(3)
                        .map(|row| {
                            format!(
                                "{:?} ours {:?} theirs {:?}",
                                case.batch.slice(row, 1).columns(),
                                ours.slice(row, 1),
                                theirs.slice(row, 1)
                            )
                            .replace('\n', " ")
                        })
                        .collect();
                    tally.wrong.push(format!(
                        "{} {support:?} {form:?}:\n   {}",
                        case.name,
                        rows.join("\n   ")
                    ));
                }
            }
        }
    }
    tally
}

/// What DataFusion makes of an expression over a batch.
fn answer(
    context: &SessionContext,
    expr: DfExpr,
    batch: &RecordBatch,
    form: Form,
) -> Result<BooleanArray> {
    let schema = DFSchema::try_from(batch.schema())?;
    let expr = match form {
        Form::Coerced => expr,
        Form::Simplified | Form::Physical => {
            let simplify = SimplifyContext::builder()
                .with_schema(Arc::new(schema.clone()))
                .build();
            let simplifier = ExprSimplifier::new(simplify);
            simplifier.simplify(simplifier.coerce(expr, &schema)?)?
        }
    };
    let mut expr = context.create_physical_expr(expr, &schema)?;
    if matches!(form, Form::Physical) {
        expr = PhysicalExprSimplifier::new(schema.as_arrow()).simplify(expr)?;
    }
    let answer: ArrayRef = expr.evaluate(batch)?.into_array(batch.num_rows())?;
    Ok(match answer.as_boolean_opt() {
        Some(answer) => answer.clone(),
        None => BooleanArray::new_null(batch.num_rows()),
    })
}

/// The expression in DataFusion's terms; None for what it has no built-in of.
fn translate(expr: &Expr) -> Option<DfExpr> {
    let boxed = |expr: &Expr| translate(expr).map(Box::new);
    let binary = |left: &Expr, op, right: &Expr| {
        Some(DfExpr::BinaryExpr(BinaryExpr::new(
            boxed(left)?,
            op,
            boxed(right)?,
        )))
    };
    let chain = |operands: &[Expr], op, empty: bool| {
        let mut operands = operands.iter();
        let first = operands.next().map_or(Some(lit(empty)), translate);
        operands.fold(first, |chain, operand| {
            Some(DfExpr::BinaryExpr(BinaryExpr::new(
                Box::new(chain?),
                op,
                boxed(operand)?,
            )))
        })
    };
    Some(match expr {
        Expr::Column(path) => {
            let top = DfExpr::Column(Column::from_name(&path[0]));
            path[1..]
                .iter()
                .fold(top, |parent, name| get_field(parent, name.as_str()))
        }
        Expr::Literal(literal) => DfExpr::Literal(
            ScalarValue::try_from_array(literal.array(), 0).unwrap(),
            None,
        ),
        Expr::Compare { op, left, right } => {
            let op = match op {
                CompareOp::Eq => Operator::Eq,
                CompareOp::NotEq => Operator::NotEq,
                CompareOp::Lt => Operator::Lt,
                CompareOp::LtEq => Operator::LtEq,
                CompareOp::Gt => Operator::Gt,
                CompareOp::GtEq => Operator::GtEq,
                CompareOp::IsDistinctFrom => Operator::IsDistinctFrom,
                CompareOp::IsNotDistinctFrom => Operator::IsNotDistinctFrom,
            };
            binary(left, op, right)?
        }
        Expr::And(operands) => chain(operands, Operator::And, true)?,
        Expr::Or(operands) => chain(operands, Operator::Or, false)?,
        Expr::Not(operand) => DfExpr::Not(boxed(operand)?),
        Expr::IsNull(operand) => DfExpr::IsNull(boxed(operand)?),
        Expr::IsNotNull(operand) => DfExpr::IsNotNull(boxed(operand)?),
        Expr::InList {
            operand,
            list,
            negated,
        } => {
            let values = (0..list.values().len())
                .map(|i| {
                    DfExpr::Literal(ScalarValue::try_from_array(list.values(), i).unwrap(), None)
                })
                .collect();
            DfExpr::InList(InList::new(boxed(operand)?, values, *negated))
        }
        Expr::Between {
            operand,
            low,
            high,
            negated,
        } => DfExpr::Between(Between::new(
            boxed(operand)?,
            *negated,
            boxed(low)?,
            boxed(high)?,
        )),
        Expr::Like {
            operand,
            pattern,
            case_insensitive,
            negated,
        } => DfExpr::Like(Like::new(
            *negated,
            boxed(operand)?,
            boxed(pattern)?,
            None,
            *case_insensitive,
        )),
        Expr::StringMatch { op, operand, text } => match op {
            StringMatchOp::StartsWith => starts_with(translate(operand)?, translate(text)?),
            StringMatchOp::EndsWith => ends_with(translate(operand)?, translate(text)?),
            StringMatchOp::Contains => contains(translate(operand)?, translate(text)?),
        },
        Expr::Cast { operand, data_type } => cast(translate(operand)?, data_type.clone()),
        Expr::Arithmetic { op, left, right } => {
            let op = match op {
                ArithmeticOp::Add => Operator::Plus,
                ArithmeticOp::Subtract => Operator::Minus,
                ArithmeticOp::Multiply => Operator::Multiply,
                ArithmeticOp::Divide => Operator::Divide,
                ArithmeticOp::Modulo => Operator::Modulo,
            };
            binary(left, op, right)?
        }
        // A function of a feature that is not built in here.
        Expr::IsNan(_) | Expr::Unknown => return None,
    })
}

/// Conditions as people write them: the rows that DataFusion's own SQL keeps are the rows that the filter keeps.
#[tokio::test]
async fn conditions_in_sql_keep_the_rows_that_datafusion_keeps() {
    let batch = rows();
    let context = SessionContext::new();
    context.register_batch("t", batch.clone()).unwrap();
    for clause in CLAUSES {
        let frame = context
            .sql(&format!("SELECT id FROM t WHERE {clause}"))
            .await
            .unwrap();
        let theirs = frame.collect().await.unwrap();
        let ids = |column: &ArrayRef| column.as_primitive::<Int64Type>().values().to_vec();
        let mut theirs: Vec<_> = theirs
            .iter()
            .flat_map(|batch| ids(batch.column(0)))
            .collect();
        theirs.sort_unstable();
        let filter = sql::parse(clause, &batch.schema(), FloatRule::TotalOrderZeroEqual).unwrap();
        let ours = ids(filter.apply(&batch).unwrap().column(0));
        assert_eq!(ours, theirs, "{clause}, read as {filter}");
    }
}

fn rows() -> RecordBatch {
    let floats = [
        0.0,
        -0.0,
        1.5,
        f64::NAN,
        -f64::NAN,
        f64::INFINITY,
        0.1,
        1e300,
    ];
    let count = 24;
    let null_at = |i: i64, n: i64| i % n == n - 1;
    let ids = Int64Array::from_iter_values(0..count);
    let small = Int8Array::from_iter(
        (0..count).map(|i| (!null_at(i, 5)).then_some((i * 7 % 20 - 10) as i8)),
    );
    let ratio = Float64Array::from_iter(
        (0..count).map(|i| (!null_at(i, 9)).then_some(floats[i as usize % 8])),
    );
    let price = Decimal128Array::from_iter(
        (0..count).map(|i| (!null_at(i, 7)).then_some(i128::from(i) * 125)),
    );
    let names = [
        "ann",
        "Bob",
        "",
        "a%b",
        "a_b",
        "ünn",
        "a long name that no view inlines",
    ];
    let name = StringArray::from_iter(
        (0..count).map(|i| (!null_at(i, 6)).then_some(names[i as usize % 7])),
    );
    let day =
        Date32Array::from_iter((0..count).map(|i| (!null_at(i, 8)).then_some(19_780 + i as i32)));
    let at = TimestampMillisecondArray::from_iter(
        (0..count).map(|i| (!null_at(i, 10)).then_some(1_709_200_000_000 + i * 500)),
    );
    let ok = BooleanArray::from_iter((0..count).map(|i| (!null_at(i, 4)).then_some(i % 3 == 0)));
    RecordBatch::try_from_iter_with_nullable([
        ("id", Arc::new(ids) as ArrayRef, true),
        ("small", Arc::new(small), true),
        ("ratio", Arc::new(ratio), true),
        (
            "price",
            Arc::new(price.with_precision_and_scale(10, 2).unwrap()),
            true,
        ),
        ("name", Arc::new(name), true),
        ("day", Arc::new(day), true),
        ("at", Arc::new(at), true),
        ("ok", Arc::new(ok), true),
    ])
    .unwrap()
}

const CLAUSES: [&str; 40] = [
    "id > 3",
    "small < 1000",
    "small > 2.5",
    "small = -3",
    "NOT small > 0",
    "small + id > 12",
    "id % 7 = 3",
    "id / 4 >= 2 AND id * 2 < 30",
    "-id < -20",
    "id - 5 BETWEEN 1 AND 6",
    "small IN (1, 4, -3, 1000)",
    "small NOT IN (1, 4)",
    "small NOT IN (1000)",
    "small NOT IN (1, NULL)",
    "id IN (1, small, 20)",
    "ratio = 0.0",
    "ratio >= 0",
    "ratio < 0",
    "ratio > 1e301",
    "ratio = 0.1",
    "ratio <> 1.5",
    "ratio BETWEEN -1 AND 2",
    "price = 2.5",
    "price > 12.125",
    "price <= 10",
    "price IN (1.25, 2.50)",
    "name = 'ann'",
    "name LIKE 'a%'",
    "name LIKE 'a\\_b'",
    "name ILIKE '%B'",
    "name NOT LIKE '_nn'",
    "starts_with(name, 'a') OR contains(name, 'nn')",
    "name >= 'a' AND name < 'b'",
    "day >= '2024-03-01'",
    "day = DATE '2024-03-02' OR day IS NULL",
    "at < '2024-02-29 09:46:45.5'",
    "at BETWEEN TIMESTAMP '2024-02-29 09:46:41' AND TIMESTAMP '2024-02-29 09:46:43'",
    "ok AND NOT (small > 0 OR name IS NULL)",
    "ok IS TRUE OR (small IS DISTINCT FROM 4)",
    "ok = false AND CAST(small AS BIGINT) * 100 > 200",
];
