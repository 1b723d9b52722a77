//! Writing rows: one file for each family of formats, and where they go.
//!
//! Nothing here knows where rows come from.

mod destination;
mod dictionaries;
mod ipc;
mod parquet;
pub mod plain;
mod progress;
mod table;
mod text;

use std::collections::HashSet;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{RecordBatch, new_null_array};
use arrow_schema::{Schema, SchemaRef};

use crate::args::Format;
use crate::exit::{Failure, Outcome};

pub use self::destination::{Destination, remove_partial};
pub use self::progress::Progress;
pub use self::text::json_array;

/// Where bytes go.
pub type Out = Box<dyn Write + Send>;

/// The result of writing; the error is that of whichever library writes.
pub type Written<T = ()> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Writes batches of one schema in one format.
pub trait Sink: Send {
    /// Writes the rows of a batch.
    fn write(&mut self, batch: &RecordBatch) -> Written;

    /// Writes what stands at the end, and all that is still held back.
    fn finish(self: Box<Self>) -> Written;
}

/// What exactly is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    ArrowFile,
    ArrowStream,
    Parquet,
    Csv,
    Ndjson,
    Table,
}

impl Kind {
    /// What to write to a file, or to standard output where there is none.
    pub fn of(format: Option<Format>, file: Option<&Path>, on_terminal: bool) -> Outcome<Self> {
        let by_name = file
            .and_then(|file| file.extension())
            .and_then(|extension| Self::of_extension(extension.to_str()?));
        match (format, file) {
            (Some(Format::Arrow), Some(_)) if by_name != Some(Kind::ArrowStream) => {
                Ok(Kind::ArrowFile)
            }
            (Some(Format::Arrow), _) => Ok(Kind::ArrowStream),
            (Some(Format::Parquet), _) => Ok(Kind::Parquet),
            (Some(Format::Csv), _) => Ok(Kind::Csv),
            (Some(Format::Ndjson), _) => Ok(Kind::Ndjson),
            (Some(Format::Table), _) => Ok(Kind::Table),
            (None, Some(file)) => by_name.ok_or_else(|| {
                Failure::usage(format!(
                    "the extension of {} says no format that is known: add --format",
                    file.display()
                ))
            }),
            (None, None) if on_terminal => Ok(Kind::Table),
            (None, None) => Ok(Kind::Csv),
        }
    }

    fn of_extension(extension: &str) -> Option<Self> {
        Some(match extension.to_ascii_lowercase().as_str() {
            "arrow" | "feather" => Kind::ArrowFile,
            "arrows" => Kind::ArrowStream,
            "parquet" => Kind::Parquet,
            "csv" => Kind::Csv,
            "ndjson" | "jsonl" | "json" => Kind::Ndjson,
            _ => return None,
        })
    }

    /// The format's name in messages.
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::ArrowFile | Kind::ArrowStream => "Arrow IPC",
            Kind::Parquet => "Parquet",
            Kind::Csv => "CSV",
            Kind::Ndjson => "JSON",
            Kind::Table => "a table",
        }
    }

    /// Begins to write.
    pub fn open(self, schema: &SchemaRef, out: Out) -> Written<Box<dyn Sink>> {
        Ok(match self {
            Kind::ArrowFile => Box::new(ipc::FileSink::try_new(schema, out)?),
            Kind::ArrowStream => Box::new(ipc::StreamSink::try_new(schema, out)?),
            Kind::Parquet => Box::new(parquet::ParquetSink::try_new(schema, out)?),
            Kind::Csv => Box::new(text::CsvSink::new(schema, out)),
            Kind::Ndjson => Box::new(text::NdjsonSink::new(out)),
            Kind::Table => Box::new(table::TableSink::new(schema, out)),
        })
    }

    /// Refuses what the format cannot hold, before any row moves.
    pub fn check(self, schema: &Schema) -> Outcome {
        let mut names = HashSet::new();
        for field in schema.fields() {
            if self == Kind::Ndjson && !names.insert(field.name()) {
                return Err(Failure::failed(format!(
                    "{} cannot hold two columns named {:?}: choose others with --columns, or another --format",
                    self.as_str(),
                    field.name()
                )));
            }
            // What is refused depends on the library; a row of nulls finds it out.
            let nullable = Arc::new(field.as_ref().clone().with_nullable(true));
            let schema = Arc::new(Schema::new(vec![nullable]));
            let tried = RecordBatch::try_new(
                Arc::clone(&schema),
                vec![new_null_array(field.data_type(), 1)],
            )
            .map_err(Into::into)
            .and_then(|row| {
                let mut sink = self.open(&schema, Box::new(std::io::sink()))?;
                sink.write(&row)?;
                sink.finish()
            });
            tried.map_err(|error| {
                Failure::failed(format!(
                    "column {:?} of type {} cannot be written as {}: choose other --columns, or another --format",
                    field.name(),
                    field.data_type(),
                    self.as_str()
                ))
                .with_source(error)
            })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_schema::{DataType, Field};

    #[test]
    fn the_extension_says_what_the_format_leaves_open() {
        let kind =
            |format, file: Option<&str>| Kind::of(format, file.map(Path::new), false).unwrap();
        assert_eq!(kind(None, None), Kind::Csv);
        assert_eq!(kind(None, Some("a.FEATHER")), Kind::ArrowFile);
        assert_eq!(kind(Some(Format::Arrow), None), Kind::ArrowStream);
        assert_eq!(
            kind(Some(Format::Arrow), Some("a.arrows")),
            Kind::ArrowStream
        );
        assert_eq!(kind(Some(Format::Arrow), Some("a.bin")), Kind::ArrowFile);
        assert_eq!(kind(Some(Format::Csv), Some("a.parquet")), Kind::Csv);
        assert_eq!(
            Kind::of(None, Some(Path::new("a.xyz")), true)
                .unwrap_err()
                .code(),
            2
        );
        assert_eq!(Kind::of(None, None, true).unwrap(), Kind::Table);
    }

    #[test]
    fn what_a_format_cannot_hold_is_named() {
        let items = DataType::new_list(DataType::Int32, true);
        let schema = Schema::new(vec![
            Field::new("a", DataType::Int32, false),
            Field::new("l", items, false),
        ]);
        let report = Kind::Csv.check(&schema).unwrap_err().report();
        assert!(
            report.contains("\"l\"") && report.contains("List(Int32)") && report.contains("CSV"),
            "{report}"
        );
        for kind in [
            Kind::ArrowFile,
            Kind::ArrowStream,
            Kind::Parquet,
            Kind::Ndjson,
            Kind::Table,
        ] {
            kind.check(&schema).unwrap();
        }
        let twice = Schema::new(vec![
            Field::new("a", DataType::Int32, true),
            Field::new("a", DataType::Utf8, true),
        ]);
        assert!(
            Kind::Ndjson
                .check(&twice)
                .unwrap_err()
                .report()
                .contains("two columns named \"a\"")
        );
        Kind::Csv.check(&twice).unwrap();
    }
}
