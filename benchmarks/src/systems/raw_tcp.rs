//! A table's buffers as bytes over TCP.

use async_trait::async_trait;

use super::{Received, Receiver};
use crate::Result;
use crate::messages::{Place, ReceiverSpec, SenderSpec};
use crate::raw_tcp::{self, Connections, Wanted};
use crate::shapes::{Facts, Table};

pub fn listen(spec: &SenderSpec, table: Table) -> Result<Place> {
    let bytes = usize::try_from(table.facts.bytes)?;
    let arrays = table.batches.iter().flat_map(|batch| batch.columns());
    let flat = raw_tcp::flatten(arrays, bytes)?;
    let port = raw_tcp::listen((&spec.host, spec.port), flat, bytes)?;
    Ok(Place::Port(port))
}

/// Bytes of each chunk to sum so that as many are read as other receivers read to check rows.
fn summed_bytes(chunk: usize, facts: &Facts) -> usize {
    let share = facts.checked_bytes as f64 / facts.bytes.max(1) as f64;
    (chunk as f64 * share) as usize / 8 * 8
}

pub struct RawReceiver(Connections);

pub fn connect(spec: &ReceiverSpec) -> Result<RawReceiver> {
    let Place::Port(port) = spec.place else {
        return Err("raw TCP needs a port".into());
    };
    let variant = spec.variant.ok_or("raw TCP needs a variant")?;
    let wanted = Wanted {
        streams: spec.streams,
        bytes: spec.facts.bytes,
        variant,
        summed: summed_bytes(variant.chunk, &spec.facts),
        retain: spec.retain,
    };
    Ok(RawReceiver(Connections::connect(
        (&spec.host, port),
        &wanted,
    )?))
}

#[async_trait]
impl Receiver for RawReceiver {
    async fn receive(&mut self) -> Result<Received> {
        let all = self.0.receive().await?;
        Ok(Received {
            first: all.first,
            gaps_us: all.gaps_us,
            _kept: Box::new(all.kept),
        })
    }
}
