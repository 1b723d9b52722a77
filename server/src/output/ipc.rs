//! Arrow IPC files and streams.

use arrow_array::RecordBatch;
use arrow_ipc::writer::{DictionaryHandling, FileWriter, IpcWriteOptions, StreamWriter};
use arrow_schema::SchemaRef;

use super::dictionaries::GrowingDictionaries;
use super::{Out, Sink, Written};

/// A stream may replace its dictionaries, so batches are written as they are.
pub struct StreamSink(StreamWriter<Out>);

impl StreamSink {
    pub fn try_new(schema: &SchemaRef, out: Out) -> Written<Self> {
        Ok(Self(StreamWriter::try_new(out, schema)?))
    }
}

impl Sink for StreamSink {
    fn write(&mut self, batch: &RecordBatch) -> Written {
        Ok(self.0.write(batch)?)
    }

    fn finish(mut self: Box<Self>) -> Written {
        self.0.finish()?;
        Ok(self.0.flush()?)
    }
}

/// A file has one dictionary for each column, which may only grow.
pub struct FileSink {
    writer: FileWriter<Out>,
    dictionaries: Option<GrowingDictionaries>,
}

impl FileSink {
    pub fn try_new(schema: &SchemaRef, out: Out) -> Written<Self> {
        let options =
            IpcWriteOptions::default().with_dictionary_handling(DictionaryHandling::Delta);
        let writer = FileWriter::try_new_with_options(out, schema, options)?;
        Ok(Self {
            writer,
            dictionaries: GrowingDictionaries::of(schema),
        })
    }
}

impl Sink for FileSink {
    fn write(&mut self, batch: &RecordBatch) -> Written {
        match &mut self.dictionaries {
            Some(dictionaries) => self.writer.write(&dictionaries.apply(batch)?)?,
            None => self.writer.write(batch)?,
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Written {
        // Flushes as well.
        Ok(self.writer.finish()?)
    }
}
