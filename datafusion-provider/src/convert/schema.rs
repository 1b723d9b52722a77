//! Compares the schema that was described with the schema that came.
//!
//! Changes neither: a column that is not as described fails the scan.

use std::fmt::Write;

use datafusion::arrow::datatypes::{Field, Schema};

/// How two schemas differ, a line for each difference; `None` where they are the same. Nullability, field metadata and
/// the names of nested fields count: engines rely on all of them.
pub(crate) fn difference(described: &Schema, received: &Schema) -> Option<String> {
    if described == received {
        return None;
    }
    let mut lines = String::new();
    let most = described.fields().len().max(received.fields().len());
    for position in 0..most {
        match (
            described.fields().get(position),
            received.fields().get(position),
        ) {
            (Some(before), Some(after)) if before != after => {
                let _ = write!(
                    lines,
                    "\n  column {position}: described {}, received {}",
                    show(before),
                    show(after)
                );
            }
            (Some(before), None) => {
                let _ = write!(
                    lines,
                    "\n  column {position}: described {}, not received",
                    show(before)
                );
            }
            (None, Some(after)) => {
                let _ = write!(
                    lines,
                    "\n  column {position}: not described, received {}",
                    show(after)
                );
            }
            _ => {}
        }
    }
    if described.metadata() != received.metadata() {
        let _ = write!(
            lines,
            "\n  schema metadata: described {}, received {}",
            show_metadata(described.metadata()),
            show_metadata(received.metadata())
        );
    }
    Some(lines)
}

fn show(field: &Field) -> String {
    let null = if field.is_nullable() { "" } else { " not null" };
    let metadata = if field.metadata().is_empty() {
        String::new()
    } else {
        format!(" {}", show_metadata(field.metadata()))
    };
    format!("{:?} {}{null}{metadata}", field.name(), field.data_type())
}

/// Sorted, so that the same metadata always reads the same.
fn show_metadata(metadata: &std::collections::HashMap<String, String>) -> String {
    let mut entries: Vec<_> = metadata.iter().collect();
    entries.sort();
    format!("{entries:?}")
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::DataType;

    use super::*;

    #[test]
    fn each_difference_is_named() {
        let described = Schema::new(vec![
            Field::new("a", DataType::Int64, false),
            Field::new("b", DataType::Utf8, true),
            Field::new("c", DataType::Utf8, true),
        ]);
        let received = Schema::new(vec![
            Field::new("a", DataType::Int64, true),
            Field::new("b", DataType::Utf8, true),
        ]);
        assert_eq!(difference(&described, &described), None);
        assert_eq!(
            difference(&described, &received).unwrap(),
            "\n  column 0: described \"a\" Int64 not null, received \"a\" Int64\
             \n  column 2: described \"c\" Utf8, not received"
        );
        let tagged = received
            .clone()
            .with_metadata([("k".to_owned(), "v".to_owned())].into());
        assert_eq!(
            difference(&received, &tagged).unwrap(),
            "\n  schema metadata: described [], received [(\"k\", \"v\")]"
        );
    }
}
