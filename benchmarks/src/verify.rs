//! Checks what was received, the same for every system that hands out batches, and notes when it came.

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;

use crate::Result;
use crate::measure::Arrivals;
use crate::shapes::{Facts, Shape, column_sum};

/// What has come on one stream.
pub struct Verifier {
    checked_column: usize,
    retain: bool,
    pub arrivals: Arrivals,
    first: Option<i32>,
    rows: u64,
    checksum: u64,
    /// All batches, where they are to be kept.
    pub kept: Vec<RecordBatch>,
}

impl Verifier {
    pub fn new(shape: Shape, retain: bool) -> Self {
        Self {
            checked_column: shape.checked_column(),
            retain,
            arrivals: Arrivals::default(),
            first: None,
            rows: 0,
            checksum: 0,
            kept: Vec::new(),
        }
    }

    /// Takes the next batch: its ids must follow those before.
    pub fn take(&mut self, batch: RecordBatch) -> Result<()> {
        self.arrivals.note();
        let ids = batch
            .column(0)
            .as_primitive_opt::<Int32Type>()
            .ok_or("the first column is not the ids")?
            .values();
        let Some(&id) = ids.first() else {
            return Ok(());
        };
        let first = *self.first.get_or_insert(id);
        let next = first.wrapping_add(self.rows as i32);
        if !are_consecutive(ids, next) {
            return Err(format!("the rows from id {next} on came in another order").into());
        }
        self.rows += ids.len() as u64;
        let sum = column_sum(batch.column(self.checked_column))?;
        self.checksum = self.checksum.wrapping_add(sum);
        if self.retain {
            self.kept.push(batch);
        }
        Ok(())
    }
}

/// Without a branch for each row, so that it is done many rows at a time.
fn are_consecutive(ids: &[i32], first: i32) -> bool {
    let differences = ids.iter().enumerate().fold(0, |differences, (row, id)| {
        differences | (id ^ first.wrapping_add(row as i32))
    });
    differences == 0
}

/// Whether the streams together are the whole table, no row missing or twice.
pub fn check_whole(streams: &[Verifier], facts: &Facts) -> Result<()> {
    let mut ranges: Vec<(i64, u64)> = streams
        .iter()
        .filter_map(|stream| Some((i64::from(stream.first?), stream.rows)))
        .collect();
    ranges.sort_unstable();
    let mut next = 0;
    for (first, rows) in ranges {
        if first != next {
            return Err(format!("a stream starts at id {first} instead of {next}").into());
        }
        next += rows as i64;
    }
    if next as u64 != facts.rows {
        return Err(format!("{next} rows came instead of {}", facts.rows).into());
    }
    let sum = streams
        .iter()
        .fold(0_u64, |sum, stream| sum.wrapping_add(stream.checksum));
    if sum != facts.checksum {
        return Err("the checksum of a column is wrong".into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receive(batches: &[RecordBatch]) -> Result<Verifier> {
        let mut verifier = Verifier::new(Shape::Numeric, false);
        batches
            .iter()
            .try_for_each(|batch| verifier.take(batch.clone()))?;
        Ok(verifier)
    }

    #[test]
    fn what_is_missing_doubled_disordered_or_changed_is_seen() {
        let table = Shape::Numeric.table(50 << 20).unwrap();
        let [a, b, c] = table.batches.as_slice() else {
            panic!("{} batches", table.batches.len())
        };
        let check = |streams: &[&[RecordBatch]]| -> Result<()> {
            let streams: Result<Vec<_>> = streams.iter().map(|stream| receive(stream)).collect();
            check_whole(&streams?, &table.facts)
        };
        let [a, b, c] = [a, b, c].map(Clone::clone);
        let part = b.slice(0, b.num_rows() - 1);
        check(&[&[a.clone(), b.clone(), c.clone()]]).unwrap();
        check(&[&[b.clone(), c.clone()], &[], std::slice::from_ref(&a)]).unwrap();
        for wrong in [
            [a.clone(), c.clone(), b.clone()].as_slice(),
            &[a.clone(), b.clone()],
            &[b.clone(), c.clone()],
            &[a.clone(), b.clone(), b.clone()],
            &[a.clone(), part, c.clone()],
        ] {
            assert!(check(&[wrong]).is_err());
        }
        assert!(check(&[&[a.clone(), b.clone(), c.clone()], std::slice::from_ref(&c)]).is_err());
        let mut columns = b.columns().to_vec();
        columns[1] = a.column(1).clone();
        let changed = RecordBatch::try_new(b.schema(), columns).unwrap();
        assert!(check(&[&[a, changed, c]]).is_err());
    }
}
