//! CSV and JSON.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_json::writer::{JsonArray, JsonFormat, LineDelimited};
use arrow_schema::SchemaRef;

use super::{Out, Sink, Written};

/// CSV with a header, even where there are no rows. Nulls are empty.
pub struct CsvSink {
    writer: arrow_csv::Writer<Out>,
    schema: SchemaRef,
    has_header: bool,
}

impl CsvSink {
    pub fn new(schema: &SchemaRef, out: Out) -> Self {
        Self {
            writer: arrow_csv::Writer::new(out),
            schema: Arc::clone(schema),
            has_header: false,
        }
    }
}

impl Sink for CsvSink {
    fn write(&mut self, batch: &RecordBatch) -> Written {
        self.has_header = true;
        // Flushes as well.
        Ok(self.writer.write(batch)?)
    }

    fn finish(mut self: Box<Self>) -> Written {
        if self.has_header {
            Ok(())
        } else {
            self.write(&RecordBatch::new_empty(Arc::clone(&self.schema)))
        }
    }
}

fn json<F: JsonFormat, W: std::io::Write>(out: W) -> arrow_json::Writer<W, F> {
    // Every object has every column, so that a reader who looks at the first rows sees them all.
    arrow_json::WriterBuilder::new()
        .with_explicit_nulls(true)
        .build(out)
}

/// One JSON object a line.
pub struct NdjsonSink(arrow_json::Writer<Out, LineDelimited>);

impl NdjsonSink {
    pub fn new(out: Out) -> Self {
        Self(json(out))
    }
}

impl Sink for NdjsonSink {
    fn write(&mut self, batch: &RecordBatch) -> Written {
        Ok(self.0.write(batch)?)
    }

    fn finish(mut self: Box<Self>) -> Written {
        self.0.finish()?;
        Ok(self.0.get_mut().flush()?)
    }
}

/// Batches as one JSON array of objects.
pub fn json_array(batches: &[RecordBatch]) -> Written<String> {
    let mut writer = json::<JsonArray, _>(Vec::new());
    for batch in batches {
        writer.write(batch)?;
    }
    writer.finish()?;
    let text = String::from_utf8(writer.into_inner())?;
    // Without a row nothing at all may have been written.
    Ok(if text.is_empty() {
        "[]".to_owned()
    } else {
        text
    })
}
