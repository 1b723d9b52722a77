//! Finds the columns that a filter names, in a schema and in a batch.
//!
//! Names match exactly. A name that two fields bear names neither.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch};
use arrow_schema::{DataType, Field, Fields, Schema};
use arrow_select::nullif::nullif;

use super::tree::{EVALUATION_DEPTH, Expr};
use crate::{Error, Result};

/// What a path leads to.
pub(super) struct Found<'a> {
    /// The position of its top-level column.
    pub(super) index: usize,
    /// The field at its end.
    pub(super) field: &'a Field,
    /// A struct on the way to the field may be null.
    pub(super) below_nullable: bool,
}

/// The field that a path leads to.
pub(super) fn find<'a>(path: &[String], schema: &'a Schema) -> Result<Found<'a>> {
    let Some((name, rest)) = path.split_first() else {
        return Err(Error::invalid_argument("a column has no name"));
    };
    let index = find_one(name, schema.fields())?;
    let mut field = schema.field(index);
    let mut below_nullable = false;
    for name in rest {
        let DataType::Struct(fields) = field.data_type() else {
            return Err(Error::invalid_argument(format!(
                "{:?} has no fields: it is {}, not a struct",
                field.name(),
                field.data_type()
            )));
        };
        below_nullable |= field.is_nullable();
        field = &fields[find_one(name, fields)?];
    }
    Ok(Found {
        index,
        field,
        below_nullable,
    })
}

fn find_one(name: &str, fields: &Fields) -> Result<usize> {
    let mut found = fields
        .iter()
        .enumerate()
        .filter(|(_, field)| field.name() == name);
    match (found.next(), found.next()) {
        (Some((index, _)), None) => Ok(index),
        (Some(_), Some(_)) => Err(Error::invalid_argument(format!(
            "column {name:?} is ambiguous: several bear its name"
        ))),
        (None, _) => Err(missing(name, fields)),
    }
}

/// Says that there is no such column, and which one may have been meant.
pub(super) fn missing(name: &str, fields: &Fields) -> Error {
    let lower = name.to_lowercase();
    let nearest = fields
        .iter()
        .map(|field| {
            (
                strsim::jaro_winkler(&lower, &field.name().to_lowercase()),
                field.name(),
            )
        })
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .filter(|(likeness, _)| *likeness > 0.7);
    match nearest {
        Some((_, nearest)) => {
            Error::invalid_argument(format!("no column {name:?}: did you mean {nearest:?}?"))
        }
        None => Error::invalid_argument(format!("no column {name:?}")),
    }
}

/// The values of a column of a batch. A field of a null struct is null.
pub(super) fn column(path: &[String], batch: &RecordBatch) -> Result<ArrayRef> {
    let schema = batch.schema_ref();
    let mut array = Arc::clone(batch.column(find(path, schema)?.index));
    for name in &path[1..] {
        let Some(parent) = array.as_struct_opt() else {
            return Err(Error::invalid_argument(format!(
                "{} has no field {name:?}",
                array.data_type()
            )));
        };
        let child = Arc::clone(parent.column(find_one(name, parent.fields())?));
        array = match parent.nulls().filter(|nulls| nulls.null_count() > 0) {
            Some(nulls) => {
                let absent = BooleanArray::new(!nulls.inner(), None);
                nullif(child.as_ref(), &absent).map_err(super::arrow_error)?
            }
            None => child,
        };
    }
    Ok(array)
}

/// Positions of the top-level columns that the expressions read, in order, each once.
///
/// Fails with `invalid_argument` for columns that are missing or ambiguous, and with `unimplemented` for nodes that
/// this version does not know, as there is no telling what they read.
pub fn required_columns<'a>(
    exprs: impl IntoIterator<Item = &'a Expr>,
    schema: &Schema,
) -> Result<Vec<usize>> {
    let mut columns = Vec::new();
    for expr in exprs {
        if !expr.fits(EVALUATION_DEPTH) {
            return Err(super::too_deep(EVALUATION_DEPTH));
        }
        let mut rest = vec![expr];
        while let Some(expr) = rest.pop() {
            match expr {
                Expr::Column(path) => columns.push(find(path, schema)?.index),
                Expr::Unknown => return Err(super::unknown_node()),
                other => rest.extend(other.children()),
            }
        }
    }
    columns.sort_unstable();
    columns.dedup();
    Ok(columns)
}
