//! Parquet.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;

use super::{Out, Sink, Written};

/// A row group is held in memory until it is written, so it ends here even where it has few rows.
const ROW_GROUP_BYTES: usize = 128 << 20;

pub struct ParquetSink(ArrowWriter<Out>);

impl ParquetSink {
    pub fn try_new(schema: &SchemaRef, out: Out) -> Written<Self> {
        let compression = Compression::ZSTD(ZstdLevel::default());
        let properties = WriterProperties::builder()
            .set_compression(compression)
            .build();
        Ok(Self(ArrowWriter::try_new(
            out,
            Arc::clone(schema),
            Some(properties),
        )?))
    }
}

impl Sink for ParquetSink {
    fn write(&mut self, batch: &RecordBatch) -> Written {
        self.0.write(batch)?;
        if self.0.in_progress_size() > ROW_GROUP_BYTES {
            self.0.flush()?;
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Written {
        let mut out = self.0.into_inner()?;
        Ok(out.flush()?)
    }
}
