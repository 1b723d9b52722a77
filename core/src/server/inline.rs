//! Small results, sent along with their plan so that one round trip does.

use std::sync::Arc;

use arrow_array::RecordBatch;
use futures::TryStreamExt;

use super::table::{Scan, UnitEvent};
use crate::error::{Error, Result};
use crate::protocol::ipc::{Encoder, Payload};
use crate::protocol::messages;
use crate::protocol::units::Units;

/// Scans of more than this many times the wanted bytes are not tried: their result may well be too large.
const WORTH_FACTOR: u64 = 64;

/// A whole result.
pub(super) struct Gathered {
    pub(super) payloads: Vec<Payload>,
    pub(super) end: messages::ReadEnd,
}

/// Whether reading the scan to see if its result is small costs little.
pub(super) fn is_worth_trying(scan: &dyn Scan, limit: Option<u64>, most_bytes: u64) -> bool {
    let [partition] = scan.partitions() else {
        return false;
    };
    let (Some(bytes), true) = (partition.bytes.value(), most_bytes > 0) else {
        return false;
    };
    // A limit says nothing of what must be read once rows are filtered.
    let limit = limit.filter(|_| scan.filters().is_empty());
    let wanted = match (limit, partition.rows.value()) {
        (Some(limit), Some(rows)) if limit < rows => {
            let share = u128::from(bytes) * u128::from(limit) / u128::from(rows);
            u64::try_from(share).unwrap_or(u64::MAX)
        }
        _ => bytes,
    };
    wanted <= most_bytes.saturating_mul(WORTH_FACTOR)
}

/// Reads the only partition of a scan; `None` where its rows take more than `most_bytes`.
pub(super) async fn gather(
    scan: &dyn Scan,
    limit: Option<u64>,
    most_bytes: u64,
) -> Result<Option<Gathered>> {
    let [partition] = scan.partitions() else {
        return Ok(None);
    };
    let mut encoder = Encoder::try_new(Arc::clone(scan.schema()))?;
    let mut gathered = Gathered {
        payloads: Vec::new(),
        end: messages::ReadEnd::default(),
    };
    let mut left = limit.unwrap_or(u64::MAX);
    let mut events = scan.open(0, Units::ALL)?;
    let mut next_unit = 0;
    while next_unit < partition.units && left > 0 {
        match events.try_next().await? {
            Some(UnitEvent::End(unit)) => next_unit = unit + 1,
            Some(UnitEvent::Batch(batch)) if batch.num_rows() > 0 => {
                let rows = left.min(batch.num_rows() as u64);
                left -= rows;
                if !gathered.add(&mut encoder, &batch.slice(0, rows as usize), most_bytes)? {
                    return Ok(None);
                }
            }
            Some(UnitEvent::Batch(_)) => {}
            None => return Err(Error::internal("the table ended before its last unit")),
        }
    }
    if gathered.payloads.is_empty() {
        gathered.add(
            &mut encoder,
            &RecordBatch::new_empty(Arc::clone(scan.schema())),
            u64::MAX,
        )?;
    }
    gathered.end.units = next_unit;
    gathered.end.limit_reached = next_unit < partition.units;
    Ok(Some(gathered))
}

impl Gathered {
    /// Adds rows; says whether they still fit.
    fn add(&mut self, encoder: &mut Encoder, batch: &RecordBatch, most_bytes: u64) -> Result<bool> {
        let payload = encoder.encode(batch)?;
        self.end.bytes += payload.len() as u64;
        self.end.rows += batch.num_rows() as u64;
        self.end.batches += u64::from(batch.num_rows() > 0);
        self.payloads.push(payload);
        Ok(self.end.bytes <= most_bytes)
    }
}
