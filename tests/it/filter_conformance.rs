//! The filter table against DataFusion itself: whatever is called exact must come out the same there, and whatever is
//! called inexact must keep at least the rows that DataFusion keeps.
//!
//! The translation to DataFusion's expressions is written apart from the one that pushes filters down.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch};
use datafusion::common::{Column, DFSchema, Result, ScalarValue};
use datafusion::execution::context::SessionContext;
use datafusion::functions::expr_fn::{contains, ends_with, get_field, starts_with};
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{Between, BinaryExpr, Expr as DfExpr, Like, Operator, cast, lit};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use lightstream_core::conformance::filters::{Case, cases};
use lightstream_core::protocol::filter::{
    ArithmeticOp, CompareOp, Expr, FloatRule, StringMatchOp, Support, evaluate, support,
};

/// Whether DataFusion's optimizer has rewritten the expression before it is evaluated.
#[derive(Debug, Clone, Copy)]
enum Form {
    Coerced,
    Simplified,
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
    for line in wrong.iter().take(60) {
        println!("{line}");
    }
    assert!(wrong.is_empty(), "{} cases differ", wrong.len());
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
        for form in [Form::Coerced, Form::Simplified] {
            let Some(expr) = translate(&case.expr) else {
                tally.no_counterpart += 1;
                continue;
            };
            let theirs = match answer(&context, expr, &case.batch, form) {
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
        Form::Simplified => {
            let simplify = SimplifyContext::builder()
                .with_schema(Arc::new(schema.clone()))
                .build();
            let simplifier = ExprSimplifier::new(simplify);
            simplifier.simplify(simplifier.coerce(expr, &schema)?)?
        }
    };
    let expr = context.create_physical_expr(expr, &schema)?;
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
