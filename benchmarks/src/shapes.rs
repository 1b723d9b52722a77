//! The tables that are sent: random, the same in every process, with ids that run through the whole table.
//!
//! Every system counts bytes as [`Facts::bytes`] does.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int32Type, Int64Type};
use arrow_array::{
    Array, ArrayRef, DictionaryArray, Float32Array, Float64Array, Int32Array, Int64Array,
    RecordBatch, StringArray,
};
use arrow_buffer::{Buffer, OffsetBuffer};
use arrow_schema::DataType;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::Result;
use crate::random::Random;

/// Distinct data beyond this is not needed to miss the caches; then the batches come again with new ids.
const DISTINCT_BYTES: u64 = 192 << 20;

/// Columns that a table is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shape {
    Numeric,
    Mixed,
    StringHeavy,
    Wide,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    /// The row's number in the table, an i32: the first column of every shape.
    Id,
    I32,
    I64,
    F32,
    F64,
    /// 4 to 12 ASCII letters.
    ShortText,
    /// 40 to 120 ASCII letters.
    LongText,
    /// An i32 key into a dictionary of so many words.
    Label(usize),
}

/// What is known of a table before it is received.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    pub rows: u64,
    /// Logical Arrow bytes: values of fixed width, string bytes, an offset of 4 bytes for each string, dictionary keys.
    /// Dictionaries, padding and metadata do not count.
    pub bytes: u64,
    /// Sum of the checked column.
    pub checksum: u64,
    /// Bytes that a receiver of batches reads to check them: ids and the checked column.
    pub checked_bytes: u64,
}

pub struct Table {
    pub batches: Vec<RecordBatch>,
    pub facts: Facts,
}

impl Shape {
    pub const ALL: [Shape; 4] = [Self::Numeric, Self::Mixed, Self::StringHeavy, Self::Wide];

    pub fn name(self) -> &'static str {
        match self {
            Self::Numeric => "numeric",
            Self::Mixed => "mixed",
            Self::StringHeavy => "string-heavy",
            Self::Wide => "wide",
        }
    }

    pub fn description(self) -> &'static str {
        match self {
            Self::Numeric => "i32, i64, f32, f64; 1M rows a batch",
            Self::Mixed => "i32, f64, short Utf8, dictionary of 3; 1M rows a batch",
            Self::StringHeavy => "i32, long Utf8, short Utf8, dictionary of 100; 1M rows a batch",
            Self::Wide => "25 each of i32, i64, f32, f64; 100k rows a batch",
        }
    }

    fn kinds(self) -> Vec<Kind> {
        match self {
            Self::Numeric => vec![Kind::Id, Kind::I64, Kind::F32, Kind::F64],
            Self::Mixed => vec![Kind::Id, Kind::F64, Kind::ShortText, Kind::Label(3)],
            Self::StringHeavy => {
                vec![Kind::Id, Kind::LongText, Kind::ShortText, Kind::Label(100)]
            }
            Self::Wide => (0..100)
                .map(|column| match column {
                    0 => Kind::Id,
                    1..25 => Kind::I32,
                    25..50 => Kind::I64,
                    50..75 => Kind::F32,
                    _ => Kind::F64,
                })
                .collect(),
        }
    }

    fn batch_rows(self) -> u64 {
        match self {
            Self::Wide => 100_000,
            _ => 1_000_000,
        }
    }

    /// The column whose sum is checked: 64 bits wide where there is one, else the short strings.
    pub fn checked_column(self) -> usize {
        match self {
            Self::Numeric | Self::Mixed => 1,
            Self::StringHeavy => 2,
            Self::Wide => 25,
        }
    }

    /// About what a row takes.
    fn row_bytes(self) -> u64 {
        self.kinds()
            .iter()
            .map(|kind| match kind {
                Kind::Id | Kind::I32 | Kind::F32 | Kind::Label(_) => 4,
                Kind::I64 | Kind::F64 => 8,
                Kind::ShortText => 4 + 8,
                Kind::LongText => 4 + 80,
            })
            .sum()
    }

    /// A table of about so many bytes, the same each time.
    pub fn table(self, bytes: u64) -> Result<Table> {
        let rows = (bytes / self.row_bytes()).max(1);
        if i32::try_from(rows).is_err() {
            return Err(format!("a table of {rows} rows has more than an i32 can number").into());
        }
        let batch_rows = self.batch_rows().min(rows);
        let distinct = DISTINCT_BYTES
            .div_ceil(batch_rows * self.row_bytes())
            .min(rows.div_ceil(batch_rows));
        let mut random = Random::new(0x5eed + self as u64);
        let labels: Vec<Option<ArrayRef>> = self
            .kinds()
            .iter()
            .map(|kind| match kind {
                Kind::Label(count) => Some(text(&mut random, *count, 6..=14)),
                _ => None,
            })
            .collect();
        let mut bodies = Vec::new();
        for _ in 0..distinct {
            let columns: Result<Vec<ArrayRef>> = self
                .kinds()
                .iter()
                .zip(&labels)
                .map(|(&kind, labels)| column(&mut random, kind, labels, batch_rows as usize))
                .collect();
            let columns = columns?;
            let names = (0..columns.len()).map(|index| match index {
                0 => "id".to_owned(),
                _ => format!("c{index}"),
            });
            bodies.push(RecordBatch::try_from_iter(names.zip(columns))?);
        }
        let mut batches = Vec::new();
        let mut first = 0;
        for body in bodies.iter().cycle() {
            let count = batch_rows.min(rows - first);
            if count == 0 {
                break;
            }
            batches.push(numbered(body, first as i32, count as usize)?);
            first += count;
        }
        let facts = self.facts(&batches)?;
        Ok(Table { batches, facts })
    }

    fn facts(self, batches: &[RecordBatch]) -> Result<Facts> {
        let mut facts = Facts {
            rows: 0,
            bytes: 0,
            checksum: 0,
            checked_bytes: 0,
        };
        for batch in batches {
            facts.rows += batch.num_rows() as u64;
            for column in batch.columns() {
                facts.bytes += logical_bytes(column)?;
            }
            let checked = batch.column(self.checked_column());
            facts.checksum = facts.checksum.wrapping_add(column_sum(checked)?);
            facts.checked_bytes += logical_bytes(batch.column(0))? + logical_bytes(checked)?;
        }
        Ok(facts)
    }
}

/// A table of one row, to see what a small answer costs.
pub fn one_row() -> Result<RecordBatch> {
    let id: ArrayRef = Arc::new(Int32Array::from(vec![0]));
    Ok(RecordBatch::try_from_iter([("id", id)])?)
}

/// The rows of a batch, whole in buffers of their own, with ids that start at `first`.
fn numbered(body: &RecordBatch, first: i32, rows: usize) -> Result<RecordBatch> {
    let body = compact(body, 0, rows)?;
    let ids: ArrayRef = Arc::new(Int32Array::from_iter_values(first..first + rows as i32));
    let mut columns = body.columns().to_vec();
    if let Some(column) = columns.first_mut() {
        *column = ids;
    }
    Ok(RecordBatch::try_new(body.schema(), columns)?)
}

/// Rows of a batch. Where they are not all of it they are copied: some senders count the whole buffers of a slice.
pub fn compact(batch: &RecordBatch, from: usize, rows: usize) -> Result<RecordBatch> {
    if from == 0 && rows == batch.num_rows() {
        return Ok(batch.clone());
    }
    let wanted = Int32Array::from_iter_values(from as i32..(from + rows) as i32);
    Ok(arrow_select::take::take_record_batch(batch, &wanted)?)
}

/// Cuts a table into contiguous shares of equal rows.
pub fn shares(batches: &[RecordBatch], of: usize) -> Result<Vec<Vec<RecordBatch>>> {
    let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
    let mut shares = Vec::new();
    for share in 0..of {
        let (start, end) = (rows * share / of, rows * (share + 1) / of);
        let mut part = Vec::new();
        let mut before = 0;
        for batch in batches {
            let from = start.clamp(before, before + batch.num_rows()) - before;
            let to = end.clamp(before, before + batch.num_rows()) - before;
            if from < to {
                part.push(compact(batch, from, to - from)?);
            }
            before += batch.num_rows();
        }
        shares.push(part);
    }
    Ok(shares)
}

fn logical_bytes(column: &ArrayRef) -> Result<u64> {
    let rows = column.len() as u64;
    Ok(match column.data_type() {
        DataType::Utf8 => rows * 4 + text_bytes(column.as_string()).len() as u64,
        DataType::Dictionary(..) => rows * 4,
        other => {
            let width = other.primitive_width();
            rows * width.ok_or_else(|| format!("no width is known of {other}"))? as u64
        }
    })
}

/// The bytes of all strings, one after the other.
fn text_bytes(text: &StringArray) -> &[u8] {
    let offsets = text.value_offsets();
    let range = offsets.first().zip(offsets.last());
    range
        .and_then(|(&from, &to)| text.value_data().get(from as usize..to as usize))
        .unwrap_or_default()
}

/// The sum that is checked. It does not depend on how rows are cut into batches, or their order.
pub fn column_sum(column: &ArrayRef) -> Result<u64> {
    if let Some(column) = column.as_primitive_opt::<Int64Type>() {
        let words = column.values().iter();
        return Ok(words.fold(0, |sum: u64, &word| sum.wrapping_add(word as u64)));
    }
    if let Some(column) = column.as_primitive_opt::<Float64Type>() {
        let words = column.values().iter();
        return Ok(words.fold(0, |sum: u64, word| sum.wrapping_add(word.to_bits())));
    }
    let text = column
        .as_string_opt::<i32>()
        .ok_or("the checked column is of no type that can be summed")?;
    Ok(text_bytes(text).iter().map(|&byte| u64::from(byte)).sum())
}

fn column(
    random: &mut Random,
    kind: Kind,
    labels: &Option<ArrayRef>,
    rows: usize,
) -> Result<ArrayRef> {
    Ok(match kind {
        Kind::Id | Kind::I32 => Arc::new(Int32Array::new(
            random.values(rows, |bits| bits as i32),
            None,
        )),
        Kind::I64 => Arc::new(Int64Array::new(
            random.values(rows, |bits| bits as i64),
            None,
        )),
        Kind::F32 => Arc::new(Float32Array::new(
            random.values(rows, |bits| (bits >> 40) as f32),
            None,
        )),
        Kind::F64 => Arc::new(Float64Array::new(
            random.values(rows, |bits| (bits >> 11) as f64),
            None,
        )),
        Kind::ShortText => text(random, rows, 4..=12),
        Kind::LongText => text(random, rows, 40..=120),
        Kind::Label(count) => {
            let keys = random.values(rows, |bits| (bits % count as u64) as i32);
            let labels = labels.as_ref().ok_or("a dictionary without words")?;
            Arc::new(DictionaryArray::<Int32Type>::try_new(
                Int32Array::new(keys, None),
                Arc::clone(labels),
            )?)
        }
    })
}

fn text(random: &mut Random, rows: usize, length: std::ops::RangeInclusive<usize>) -> ArrayRef {
    let span = (length.end() - length.start() + 1) as u64;
    let lengths: Vec<usize> = (0..rows)
        .map(|_| length.start() + ((random.next() >> 32) % span) as usize)
        .collect();
    let total: usize = lengths.iter().sum();
    let mut bytes = Vec::with_capacity(total.next_multiple_of(8));
    while bytes.len() < total {
        // Sixteen letters, from `a`.
        let letters = (random.next() & 0x0f0f_0f0f_0f0f_0f0f) + 0x6161_6161_6161_6161;
        bytes.extend_from_slice(&letters.to_le_bytes());
    }
    bytes.truncate(total);
    let offsets = OffsetBuffer::from_lengths(lengths);
    Arc::new(StringArray::new(offsets, Buffer::from_vec(bytes), None))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_consecutive_over_the_whole_table_and_bytes_are_as_asked() {
        for shape in Shape::ALL {
            let bytes = 70 << 20;
            let table = shape.table(bytes).unwrap();
            let ids: Vec<i32> = table
                .batches
                .iter()
                .flat_map(|batch| {
                    batch
                        .column(0)
                        .as_primitive::<Int32Type>()
                        .values()
                        .to_vec()
                })
                .collect();
            assert_eq!(ids.len() as u64, table.facts.rows);
            assert!(ids.iter().zip(0..).all(|(&id, row)| id == row), "{shape:?}");
            let off = table.facts.bytes.abs_diff(bytes);
            assert!(off < bytes / 100, "{shape:?} is {off} bytes off");
            assert!(table.facts.checked_bytes < table.facts.bytes);
        }
    }

    #[test]
    fn distinct_batches_exceed_the_caches_and_then_come_again() {
        let table = Shape::Wide.table(300 << 20).unwrap();
        let value = |batch: &RecordBatch| batch.column(30).as_primitive::<Int64Type>().value(0);
        let values: Vec<i64> = table.batches.iter().map(value).collect();
        assert_eq!((values.len(), values[0]), (6, values[4]));
        assert!(values[1..4].iter().all(|value| *value != values[0]));
    }

    #[test]
    fn shares_are_the_table_cut_evenly() {
        let table = Shape::Mixed.table(60 << 20).unwrap();
        for of in [1, 3, 8] {
            let shares = shares(&table.batches, of).unwrap();
            let rows: Vec<usize> = shares
                .iter()
                .map(|share| share.iter().map(RecordBatch::num_rows).sum())
                .collect();
            assert!(rows.iter().max().unwrap() - rows.iter().min().unwrap() <= 1);
            let all: Vec<_> = shares.concat();
            assert_eq!(
                arrow_select::concat::concat_batches(&table.batches[0].schema(), &all).unwrap(),
                arrow_select::concat::concat_batches(&table.batches[0].schema(), &table.batches)
                    .unwrap()
            );
        }
    }

    #[test]
    fn the_sum_does_not_depend_on_the_cut() {
        let table = Shape::StringHeavy.table(4 << 20).unwrap();
        let column = table.batches[0].column(2);
        let (head, tail) = (column.slice(0, 777), column.slice(777, column.len() - 777));
        let sum = column_sum(&head).unwrap() + column_sum(&tail).unwrap();
        assert_eq!(sum, table.facts.checksum);
    }
}
