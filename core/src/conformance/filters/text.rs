//! Cases of LIKE and of plain text matches.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, StringArray, StringViewArray};
use arrow_schema::DataType;

use super::values::{TEXTS, dictionary, texts};
use super::{Table, a, b, batch, pairs};
use crate::protocol::filter::{Expr, StringMatchOp};

const PATTERNS: [&str; 34] = [
    "",
    "%",
    "%%",
    "_",
    "__",
    "a",
    "A",
    "ab",
    "a%",
    "%b",
    "%a%",
    "a%b",
    "a_b",
    "_b",
    "a\\%b",
    "a\\_b",
    "a\\\\b",
    "\\%",
    "a\\",
    "%\\",
    "\\a%",
    "%c",
    "a.b",
    "a.%",
    "%.%",
    "é",
    "É%",
    "ß",
    "SS",
    "k",
    "%K%",
    "日_",
    "%long%text",
    "a LONG value of text%",
];

/// LIKE, ILIKE and their negations in every representation of text.
pub(super) fn patterns(table: &mut Table) {
    let representations = texts();
    for array in representations.iter().cloned().chain([
        dictionary(&DataType::Int32, &representations[0]),
        dictionary(&DataType::Int8, &representations[2]),
    ]) {
        for pattern in PATTERNS {
            let same =
                arrow_cast::cast(&StringArray::from(vec![pattern]), value_type(&array)).unwrap();
            for (case_insensitive, negated) in
                [(false, false), (false, true), (true, false), (true, true)]
            {
                let like = |pattern: ArrayRef| Expr::Like {
                    operand: Box::new(a()),
                    pattern: Box::new(Expr::literal(pattern).unwrap()),
                    case_insensitive,
                    negated,
                };
                table.add(
                    &batch(vec![Arc::clone(&array)]),
                    false,
                    &like(Arc::clone(&same)),
                );
                let other: ArrayRef = Arc::new(StringViewArray::from(vec![pattern]));
                table.add(&batch(vec![Arc::clone(&array)]), false, &like(other));
                // Text without anything outside ASCII takes another way.
                let ascii: Vec<_> = TEXTS
                    .into_iter()
                    .filter(|text| text.is_none_or(str::is_ascii))
                    .collect();
                let ascii = arrow_cast::cast(&StringArray::from(ascii), array.data_type()).unwrap();
                table.add(&batch(vec![ascii]), false, &like(Arc::clone(&same)));
            }
        }
        let null = arrow_array::new_null_array(value_type(&array), 1);
        let null = Expr::Like {
            operand: Box::new(a()),
            pattern: Box::new(Expr::literal(null).unwrap()),
            case_insensitive: false,
            negated: true,
        };
        table.add(&batch(vec![Arc::clone(&array)]), false, &null);
        let by_column = Expr::Like {
            operand: Box::new(a()),
            pattern: Box::new(b()),
            case_insensitive: false,
            negated: false,
        };
        table.add(&pairs(&array, &array), false, &by_column);
    }
}

/// starts_with, ends_with and contains, of literals and columns.
pub(super) fn matches(table: &mut Table) {
    let representations = texts();
    for array in representations
        .iter()
        .cloned()
        .chain([dictionary(&DataType::Int32, &representations[0])])
    {
        for op in StringMatchOp::ALL {
            let matches = |text: Expr| Expr::StringMatch {
                op,
                operand: Box::new(a()),
                text: Box::new(text),
            };
            for text in TEXTS {
                let text =
                    arrow_cast::cast(&StringArray::from(vec![text]), value_type(&array)).unwrap();
                table.add(
                    &batch(vec![Arc::clone(&array)]),
                    false,
                    &matches(Expr::literal(text).unwrap()),
                );
            }
            table.add(&pairs(&array, &array), false, &matches(b()));
        }
    }
}

fn value_type(array: &ArrayRef) -> &DataType {
    match array.data_type() {
        DataType::Dictionary(_, values) => values,
        other => other,
    }
}
