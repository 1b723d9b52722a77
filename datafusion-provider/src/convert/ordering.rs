//! The order of a table's rows as DataFusion states it.

use std::sync::Arc;

use datafusion::arrow::compute::SortOptions;
use datafusion::arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalSortExpr};
use lightstream_core::protocol::table::SortColumn;

/// What DataFusion may rely on within each partition: as much of the order, from its first column on, as the output
/// holds and both sides understand alike.
pub(crate) fn equivalences(schema: &SchemaRef, ordering: &[SortColumn]) -> EquivalenceProperties {
    let known: Vec<PhysicalSortExpr> = ordering
        .iter()
        .map_while(|column| sort_expr(schema, column))
        .collect();
    if known.is_empty() {
        EquivalenceProperties::new(Arc::clone(schema))
    } else {
        EquivalenceProperties::new_with_orderings(Arc::clone(schema), [known])
    }
}

fn sort_expr(schema: &Schema, column: &SortColumn) -> Option<PhysicalSortExpr> {
    let [name] = column.path.as_slice() else {
        return None;
    };
    let (position, field) = schema.column_with_name(name)?;
    // Where NaN and -0.0 sort is not the same everywhere, and nested types have no order that all agree on.
    if has_disputed_order(field.data_type()) {
        return None;
    }
    Some(PhysicalSortExpr::new(
        Arc::new(Column::new(name, position)),
        SortOptions {
            descending: column.descending,
            nulls_first: column.nulls_first,
        },
    ))
}

/// Whether engines disagree on the order of the type's values.
pub(crate) fn has_disputed_order(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, values) => has_disputed_order(values),
        DataType::RunEndEncoded(_, values) => has_disputed_order(values.data_type()),
        other => other.is_floating() || other.is_nested() || matches!(other, DataType::Interval(_)),
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::Field;

    use super::*;

    fn column(name: &str) -> SortColumn {
        SortColumn {
            path: vec![name.into()],
            descending: false,
            nulls_first: false,
        }
    }

    fn sorted_by(ordering: &[SortColumn]) -> usize {
        let schema = Arc::new(Schema::new(vec![
            Field::new("a", DataType::Int64, true),
            Field::new("b", DataType::Utf8, true),
            Field::new("f", DataType::Float64, true),
        ]));
        equivalences(&schema, ordering)
            .output_ordering()
            .map_or(0, |ordering| ordering.len())
    }

    #[test]
    fn an_order_holds_up_to_the_first_column_that_is_missing_or_disputed() {
        assert_eq!(sorted_by(&[column("a"), column("b")]), 2);
        assert_eq!(sorted_by(&[column("a"), column("gone"), column("b")]), 1);
        assert_eq!(sorted_by(&[column("gone"), column("a")]), 0);
        assert_eq!(sorted_by(&[column("b"), column("f"), column("a")]), 1);
        let nested = SortColumn {
            path: vec!["a".into(), "x".into()],
            ..column("a")
        };
        assert_eq!(sorted_by(&[nested]), 0);
    }
}
