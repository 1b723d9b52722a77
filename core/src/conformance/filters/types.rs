//! Cases of the operators that are defined for many types.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, BooleanArray, Int32Array, Int64Array, NullArray, RecordBatch, StringArray,
    StructArray, new_null_array,
};
use arrow_schema::{DataType, Field, Fields, Schema, TimeUnit};
use arrow_select::concat::concat;
use arrow_select::take::take;

use super::values::{self, comparable, decimals, dictionary, floats, opaque, texts};
use super::{Table, a, b, batch, is_float, literals, pairs};
use crate::protocol::filter::{ArithmeticOp, CompareOp, Expr, is_lossless};

/// Every comparison of a type with itself: columns with columns, and with each value as a literal on either side.
pub(super) fn comparisons(table: &mut Table) {
    for array in comparable() {
        let floats = is_float(&array);
        let all = pairs(&array, &array);
        let one = batch(vec![Arc::clone(&array)]);
        for op in CompareOp::ALL {
            table.add(&all, floats, &Expr::compare(op, a(), b()));
            for literal in literals(&array) {
                table.add(&one, floats, &Expr::compare(op, a(), literal.clone()));
                table.add(&one, floats, &Expr::compare(op, literal, a()));
            }
        }
    }
}

/// Comparisons of different types that have a common one.
pub(super) fn mixed(table: &mut Table) {
    for (left, right) in mixed_pairs() {
        let floats = is_float(&left) || is_float(&right);
        let all = pairs(&left, &right);
        for op in CompareOp::ALL {
            table.add(&all, floats, &Expr::compare(op, a(), b()));
            for literal in literals(&right) {
                table.add(
                    &batch(vec![Arc::clone(&left)]),
                    floats,
                    &Expr::compare(op, a(), literal),
                );
            }
        }
    }
}

fn mixed_pairs() -> Vec<(ArrayRef, ArrayRef)> {
    let all = comparable();
    let integers: Vec<_> = all
        .iter()
        .filter(|array| array.data_type().is_integer())
        .cloned()
        .collect();
    let mut pairs = Vec::new();
    let mut every = |left: &[ArrayRef], right: &[ArrayRef]| {
        for left in left {
            pairs.extend(
                right
                    .iter()
                    .filter(|right| right.data_type() != left.data_type())
                    .map(|right| (Arc::clone(left), Arc::clone(right))),
            );
        }
    };
    let exact_integers: Vec<_> = integers
        .iter()
        .filter(|array| is_lossless(array.data_type(), &DataType::Float64))
        .cloned()
        .collect();
    every(&integers, &integers);
    every(&exact_integers, &floats());
    every(&floats(), &floats());
    every(&integers, &decimals()[..5]);
    every(&decimals(), &decimals());
    every(&texts(), &texts());
    every(&values::bytes()[..3], &values::bytes());
    let dates: Vec<_> = all
        .iter()
        .filter(|array| matches!(array.data_type(), DataType::Date32 | DataType::Date64))
        .cloned()
        .collect();
    every(&dates, &dates);
    for zone in [None, Some("UTC")] {
        let ticks = vec![
            None,
            Some(-1),
            Some(0),
            Some(1),
            Some(1_000),
            Some(1_700_000_000),
            Some(i64::MIN),
            Some(i64::MAX),
        ];
        let stamps: Vec<_> = values::TIME_UNITS
            .map(|unit| values::timestamps(unit, zone, ticks.clone()))
            .into();
        every(&stamps, &stamps);
    }
    for array in &all {
        for keys in [DataType::Int8, DataType::UInt16, DataType::Int64] {
            pairs.push((dictionary(&keys, array), Arc::clone(array)));
        }
        let coded = dictionary(&DataType::Int32, array);
        pairs.push((Arc::clone(&coded), Arc::clone(&coded)));
        pairs.push((Arc::clone(array), Arc::clone(&coded)));
        pairs.push((coded, Arc::new(NullArray::new(1))));
    }
    let coded_text = dictionary(&DataType::Int32, &texts()[0]);
    pairs.extend(
        texts()
            .into_iter()
            .map(|text| (Arc::clone(&coded_text), text)),
    );
    pairs.push((coded_text, dictionary(&DataType::UInt16, &texts()[2])));
    pairs
}

/// IN lists: empty, of one value, of all values, with null and without, short and long.
pub(super) fn lists(table: &mut Table) {
    for array in comparable() {
        let floats = is_float(&array);
        let one = batch(vec![Arc::clone(&array)]);
        let coded = batch(vec![dictionary(&DataType::Int32, &array)]);
        for list in lists_of(&array) {
            for negated in [false, true] {
                table.add(
                    &one,
                    floats,
                    &Expr::in_list(a(), Arc::clone(&list), negated),
                );
                table.add(
                    &coded,
                    floats,
                    &Expr::in_list(a(), Arc::clone(&list), negated),
                );
            }
        }
    }
    let long: ArrayRef = Arc::new(Int64Array::from_iter(
        (0..5_000).map(|i| (i != 77).then_some(i * 3)),
    ));
    let rows: ArrayRef = Arc::new(Int64Array::from_iter(
        (0..100).map(|i| (i % 7 != 0).then_some(i)),
    ));
    let words: ArrayRef = Arc::new(StringArray::from_iter_values(
        (0..2_000).map(|i| format!("word {}", i * 2)),
    ));
    let texts: ArrayRef = Arc::new(StringArray::from_iter(
        (0..100).map(|i| (i % 9 != 0).then_some(format!("word {i}"))),
    ));
    for (rows, list) in [(&rows, &long), (&texts, &words)] {
        for negated in [false, true] {
            table.add(
                &batch(vec![Arc::clone(rows)]),
                false,
                &Expr::in_list(a(), Arc::clone(list), negated),
            );
        }
    }
    for (left, right) in mixed_pairs() {
        if matches!(left.data_type(), DataType::Dictionary(_, _)) {
            continue;
        }
        let floats = is_float(&left) || is_float(&right);
        for negated in [false, true] {
            table.add(
                &batch(vec![Arc::clone(&left)]),
                floats,
                &Expr::in_list(a(), right.slice(1, right.len() / 2), negated),
            );
        }
    }
}

fn lists_of(array: &ArrayRef) -> Vec<ArrayRef> {
    let count = array.len();
    // The first value is null.
    let valid = array.slice(1, count - 1);
    let mut lists = vec![
        array.slice(0, 0),
        array.slice(0, 1),
        Arc::clone(array),
        Arc::clone(&valid),
    ];
    lists.extend((1..count).map(|i| array.slice(i, 1)));
    let every_second: Int32Array = (1..count as i32).step_by(2).collect::<Vec<_>>().into();
    lists.push(take(array, &every_second, None).unwrap());
    lists.push(
        concat(&[
            &take(array, &every_second, None).unwrap(),
            &array.slice(0, 1),
        ])
        .unwrap(),
    );
    // Longer than what engines search value by value.
    lists.push(concat(&[valid.as_ref(); 20]).unwrap());
    lists.push(Arc::new(NullArray::new(1)));
    lists
}

/// BETWEEN, of literals, of columns and upside down.
pub(super) fn ranges(table: &mut Table) {
    for array in comparable() {
        let floats = is_float(&array);
        let one = batch(vec![Arc::clone(&array)]);
        let all = pairs(&array, &array);
        for negated in [false, true] {
            let between = |low: Expr, high: Expr| Expr::Between {
                operand: Box::new(a()),
                low: Box::new(low),
                high: Box::new(high),
                negated,
            };
            let literals: Vec<_> = literals(&array).collect();
            for i in 0..literals.len() {
                let high = (i + literals.len() / 2) % literals.len();
                table.add(
                    &one,
                    floats,
                    &between(literals[i].clone(), literals[high].clone()),
                );
                table.add(&all, floats, &between(b(), literals[i].clone()));
            }
        }
    }
}

/// Every lossless cast, compared with values of the type cast to.
pub(super) fn casts(table: &mut Table) {
    let mut targets = comparable();
    targets.push(dictionary(&DataType::Int32, &texts()[0]));
    for from in comparable()
        .into_iter()
        .chain([dictionary(&DataType::Int8, &texts()[0])])
    {
        for to in &targets {
            if from.data_type() == to.data_type() || !is_lossless(from.data_type(), to.data_type())
            {
                continue;
            }
            let floats = is_float(to);
            let cast = Expr::Cast {
                operand: Box::new(a()),
                data_type: to.data_type().clone(),
            };
            let one = batch(vec![Arc::clone(&from)]);
            for literal in literals(to).take(12) {
                for op in [CompareOp::Eq, CompareOp::Lt, CompareOp::IsDistinctFrom] {
                    table.add(
                        &one,
                        floats,
                        &Expr::compare(op, cast.clone(), literal.clone()),
                    );
                }
            }
            table.add(
                &pairs(&from, to),
                floats,
                &Expr::compare(CompareOp::LtEq, cast.clone(), b()),
            );
            table.add(&one, floats, &Expr::IsNull(Box::new(cast)));
        }
    }
}

/// Arithmetic on integers and floats, safe and not.
pub(super) fn arithmetic(table: &mut Table) {
    let all = comparable();
    let numbers: Vec<_> = all
        .iter()
        .filter(|a| {
            a.data_type().is_integer()
                || matches!(a.data_type(), DataType::Float32 | DataType::Float64)
        })
        .collect();
    for array in &numbers {
        let floats = is_float(array);
        let one = batch(vec![Arc::clone(array)]);
        let same = |value: i64| {
            let value: ArrayRef = Arc::new(Int64Array::from(vec![value]));
            Expr::literal(arrow_cast::cast(&value, array.data_type()).unwrap()).unwrap()
        };
        for op in ArithmeticOp::ALL {
            for divisor in [1, 2, 7, 100, 0] {
                for wanted in [0, 1, 3] {
                    let computed = Expr::arithmetic(op, a(), same(divisor));
                    table.add(
                        &one,
                        floats,
                        &Expr::compare(CompareOp::Eq, computed.clone(), same(wanted)),
                    );
                    table.add(
                        &one,
                        floats,
                        &Expr::compare(CompareOp::GtEq, computed, same(wanted)),
                    );
                }
            }
            if array.data_type().is_signed_integer() || floats {
                for divisor in [-1, -3] {
                    let computed = Expr::arithmetic(op, a(), same(divisor));
                    table.add(
                        &one,
                        floats,
                        &Expr::compare(CompareOp::Lt, computed, same(0)),
                    );
                }
            }
            let computed = Expr::arithmetic(op, same(5), a());
            table.add(
                &one,
                floats,
                &Expr::compare(CompareOp::Gt, computed, same(0)),
            );
            table.add(
                &pairs(array, array),
                floats,
                &Expr::compare(CompareOp::Gt, Expr::arithmetic(op, a(), b()), same(0)),
            );
        }
        if !is_lossless(array.data_type(), &DataType::Int64)
            || *array.data_type() == DataType::Int64
        {
            continue;
        }
        // Wide enough never to overflow.
        let wide = |expr| Expr::Cast {
            operand: Box::new(expr),
            data_type: DataType::Int64,
        };
        let number = |value: i64| Expr::literal(Arc::new(Int64Array::from(vec![value]))).unwrap();
        for op in ArithmeticOp::ALL {
            for other in [1, 1_000, -3] {
                let computed = Expr::arithmetic(op, wide(a()), number(other));
                table.add(
                    &one,
                    false,
                    &Expr::compare(CompareOp::Gt, computed.clone(), number(0)),
                );
                let nested = Expr::arithmetic(ArithmeticOp::Modulo, computed, number(10));
                table.add(
                    &one,
                    false,
                    &Expr::compare(CompareOp::Eq, nested, number(3)),
                );
            }
            let both = Expr::arithmetic(op, wide(a()), wide(b()));
            table.add(
                &pairs(array, array),
                false,
                &Expr::compare(CompareOp::LtEq, both, number(100)),
            );
        }
    }
}

/// IS NULL and IS NOT NULL of every type, NaN, null literals, and fields of null structs.
pub(super) fn nulls(table: &mut Table) {
    let mut arrays = comparable();
    arrays.extend(opaque());
    arrays.push(dictionary(&DataType::Int8, &texts()[0]));
    for array in arrays {
        let one = batch(vec![Arc::clone(&array)]);
        table.add(&one, false, &Expr::IsNull(Box::new(a())));
        table.add(&one, false, &Expr::IsNotNull(Box::new(a())));
        if array.data_type().is_nested() || *array.data_type() == DataType::Null {
            continue;
        }
        for null in [
            new_null_array(array.data_type(), 1),
            Arc::new(NullArray::new(1)),
        ] {
            for op in CompareOp::ALL {
                let expr = Expr::compare(op, a(), Expr::literal(Arc::clone(&null)).unwrap());
                table.add(&one, is_float(&array), &expr);
            }
        }
        if is_float(&array) {
            table.add(&one, true, &Expr::IsNan(Box::new(a())));
            table.add(&one, true, &Expr::Not(Box::new(Expr::IsNan(Box::new(a())))));
        }
    }
    structs(table);
}

/// Fields of structs that may be null, above values that are not, and of ones that may not.
fn structs(table: &mut Table) {
    for nullable in [true, false] {
        let masked = |valid: &[bool]| nullable.then(|| valid.to_vec().into());
        let words: ArrayRef = Arc::new(StringArray::from(vec![
            Some("p"),
            None,
            Some("q"),
            Some("r"),
        ]));
        let words_field: Fields = vec![Field::new("y", DataType::Utf8, true)].into();
        let inner = StructArray::new(words_field, vec![words], masked(&[true, true, false, true]));
        let fields: Fields = vec![
            Field::new("x", DataType::Int32, true),
            Field::new("inner", inner.data_type().clone(), nullable),
        ]
        .into();
        let numbers: ArrayRef = Arc::new(Int32Array::from(vec![Some(1), None, Some(3), Some(1)]));
        let whole = StructArray::new(
            fields,
            vec![numbers, Arc::new(inner)],
            masked(&[true, true, true, false]),
        );
        let schema = Schema::new(vec![Field::new("a", whole.data_type().clone(), nullable)]);
        let one = RecordBatch::try_new(Arc::new(schema), vec![Arc::new(whole)]).unwrap();
        let x = Expr::Column(vec!["a".into(), "x".into()]);
        let y = Expr::Column(vec!["a".into(), "inner".into(), "y".into()]);
        let number = Expr::literal(Arc::new(Int32Array::from(vec![1]))).unwrap();
        let word = Expr::literal(Arc::new(StringArray::from(vec!["q"]))).unwrap();
        for op in CompareOp::ALL {
            table.add(&one, false, &Expr::compare(op, x.clone(), number.clone()));
            table.add(&one, false, &Expr::compare(op, y.clone(), word.clone()));
        }
        for path in [x, y, Expr::Column(vec!["a".into(), "inner".into()])] {
            table.add(&one, false, &Expr::IsNull(Box::new(path.clone())));
            table.add(&one, false, &Expr::IsNotNull(Box::new(path)));
        }
    }
}

/// AND, OR and NOT over every combination of true, false and null.
pub(super) fn logic(table: &mut Table) {
    let truths: ArrayRef = Arc::new(BooleanArray::from(vec![None, Some(false), Some(true)]));
    let all: RecordBatch = pairs(&truths, &truths);
    let literals: Vec<_> = literals(&truths).collect();
    table.add(&all, false, &a());
    table.add(&all, false, &Expr::Not(Box::new(a())));
    for combine in [Expr::and, Expr::or] {
        let both = combine(a(), b());
        table.add(&all, false, &both);
        table.add(&all, false, &Expr::Not(Box::new(both.clone())));
        table.add(&all, false, &Expr::IsNull(Box::new(both.clone())));
        table.add(&all, false, &combine(both, Expr::Not(Box::new(a()))));
        for literal in &literals {
            table.add(&all, false, &combine(a(), literal.clone()));
            table.add(
                &all,
                false,
                &combine(literal.clone(), Expr::IsNull(Box::new(b()))),
            );
        }
    }
    for literal in literals {
        table.add(&all, false, &literal);
        table.add(&all, false, &Expr::Not(Box::new(literal)));
    }
    let early = Expr::compare(
        CompareOp::Lt,
        b(),
        Expr::literal(values::timestamps(TimeUnit::Second, None, vec![Some(0)])).unwrap(),
    );
    let stamps = values::timestamps(TimeUnit::Second, None, vec![None, Some(-1), Some(1)]);
    table.add(&pairs(&truths, &stamps), false, &Expr::or(a(), early));
}
