//! Tables for people.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_cast::display::FormatOptions;
use arrow_cast::pretty::pretty_format_batches_with_options;
use arrow_schema::SchemaRef;

use super::{Out, Sink, Written};
use crate::terminal::printable;

/// Rows below one header. Columns are as wide as these rows need, so that the rows after need not be awaited.
const BLOCK_ROWS: usize = 1000;

/// Writes blocks of rows, each with a header; only the rows of one block are held.
pub struct TableSink {
    out: Out,
    schema: SchemaRef,
    held: Vec<RecordBatch>,
    held_rows: usize,
    has_header: bool,
}

impl TableSink {
    pub fn new(schema: &SchemaRef, out: Out) -> Self {
        Self {
            out,
            schema: Arc::clone(schema),
            held: Vec::new(),
            held_rows: 0,
            has_header: false,
        }
    }

    fn write_block(&mut self) -> Written {
        if self.held.is_empty() {
            self.held
                .push(RecordBatch::new_empty(Arc::clone(&self.schema)));
        }
        let options = FormatOptions::default()
            .with_display_error(true)
            .with_null("NULL");
        let block = pretty_format_batches_with_options(&self.held, &options)?;
        writeln!(self.out, "{}", printable(&block.to_string()))?;
        self.out.flush()?;
        self.has_header = true;
        self.held.clear();
        self.held_rows = 0;
        Ok(())
    }
}

impl Sink for TableSink {
    fn write(&mut self, batch: &RecordBatch) -> Written {
        let mut start = 0;
        while start < batch.num_rows() {
            let rows = (batch.num_rows() - start).min(BLOCK_ROWS - self.held_rows);
            self.held.push(batch.slice(start, rows));
            self.held_rows += rows;
            start += rows;
            if self.held_rows == BLOCK_ROWS {
                self.write_block()?;
            }
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Written {
        if self.held.is_empty() && self.has_header {
            Ok(())
        } else {
            self.write_block()
        }
    }
}
