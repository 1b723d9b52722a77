//! Serves tables in memory by Arrow Flight.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_flight::{FlightData, FlightDescriptor, FlightEndpoint, FlightInfo, Ticket};
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::Schema;
use futures::{StreamExt, TryStreamExt};
use lightstream_benchmarks::Result;
use lightstream_benchmarks::flight::{self, Answers, Flights};
use tonic::Status;

use super::{Request, Share};
use crate::data::parts;

struct Tables {
    by_name: HashMap<&'static str, Vec<RecordBatch>>,
    /// Bytes of messages sent.
    sent: Arc<AtomicU64>,
}

/// Starts to listen at any port of a host. Returns the URL; `sent` counts bytes from then on.
pub fn listen(
    host: &str,
    tables: Vec<(&'static str, Vec<RecordBatch>)>,
    sent: Arc<AtomicU64>,
) -> Result<String> {
    let by_name = tables.into_iter().collect();
    let port = flight::listen((host, 0), Tables { by_name, sent })?;
    Ok(format!("http://{host}:{port}"))
}

impl Tables {
    fn batches(&self, table: &str) -> Result<&[RecordBatch]> {
        let batches = self.by_name.get(table);
        Ok(batches.ok_or_else(|| format!("there is no table {table:?}"))?)
    }

    /// What is known of a table or some of its columns, without a way to get at them.
    fn described(&self, table: &str, projection: Option<&[usize]>) -> Result<FlightInfo> {
        let batches = self.batches(table)?;
        let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
        let info = FlightInfo::new()
            .try_with_schema(&schema(batches, projection)?)?
            .with_total_records(i64::try_from(rows)?);
        Ok(info)
    }
}

fn schema(batches: &[RecordBatch], projection: Option<&[usize]>) -> Result<Schema> {
    let schema = batches
        .first()
        .map(RecordBatch::schema)
        .ok_or("a table without rows")?;
    Ok(match projection {
        Some(columns) => schema.project(columns)?,
        None => schema.as_ref().clone(),
    })
}

impl Flights for Tables {
    fn list(&self) -> Result<Vec<FlightInfo>> {
        let describe = |name: &&'static str| {
            let path = FlightDescriptor::new_path(vec![(*name).to_owned()]);
            Ok(self.described(name, None)?.with_descriptor(path))
        };
        self.by_name.keys().map(describe).collect()
    }

    /// One endpoint for each share.
    fn info(&self, command: &[u8]) -> Result<FlightInfo> {
        let request: Request = serde_json::from_slice(command)?;
        let mut info = self.described(&request.table, request.projection.as_deref())?;
        for index in 0..request.partitions {
            let share = Share {
                request: request.clone(),
                index,
            };
            let ticket = Ticket::new(serde_json::to_vec(&share)?);
            info = info.with_endpoint(FlightEndpoint::new().with_ticket(ticket));
        }
        Ok(info)
    }

    fn get(&self, ticket: &[u8]) -> Result<Answers<FlightData>> {
        let Share { request, index } = serde_json::from_slice(ticket)?;
        let batches = self.batches(&request.table)?;
        let schema = schema(batches, request.projection.as_deref())?;
        let share = parts(batches, request.partitions).into_iter().nth(index);
        let share = share.ok_or("there is no such share")?;
        let projected = share
            .into_iter()
            .map(move |batch| match &request.projection {
                Some(columns) => Ok(batch.project(columns)?),
                None => Ok(batch),
            });
        let encoded = flight::encoder()
            .with_schema(Arc::new(schema))
            .build(futures::stream::iter(projected));
        let sent = Arc::clone(&self.sent);
        let counted = encoded.inspect_ok(move |message: &FlightData| {
            let bytes = message.data_header.len() + message.data_body.len();
            sent.fetch_add(bytes as u64, Ordering::Relaxed);
        });
        Ok(counted.map_err(Status::from).boxed())
    }
}
