//! Arrow Flight, by arrow-flight and tonic with their defaults, except that messages may be as large as they come.
//!
//! Each stream has a connection of its own; dictionaries stay dictionaries.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::RecordBatch;
use arrow_flight::decode::FlightRecordBatchStream;
use arrow_flight::{FlightData, FlightDescriptor, FlightEndpoint, FlightInfo, Ticket};
use async_trait::async_trait;
use futures::{StreamExt, TryStreamExt};
use tonic::Status;
use tonic::transport::{Channel, Endpoint};

use super::{Fetch, Received, Receiver};
use crate::Result;
use crate::flight::{self, Answers, Flights};
use crate::messages::{Place, ReceiverSpec, SenderSpec};
use crate::shapes::{Table, one_row, shares};
use crate::verify::Verifier;

const ONE_ROW: &str = "one";

type Shares = Arc<Vec<Vec<RecordBatch>>>;

/// The table, cut on request into as many shares as a receiver has streams.
struct Tables {
    batches: Vec<RecordBatch>,
    one_row: RecordBatch,
    cut: Mutex<HashMap<usize, Shares>>,
    /// Size of a message, where it is not the default.
    message_bytes: Option<usize>,
}

impl Tables {
    /// `index/of` is a share, `one` the table of one row.
    fn batches(&self, ticket: &str) -> Result<Vec<RecordBatch>> {
        if ticket == ONE_ROW {
            return Ok(vec![self.one_row.clone()]);
        }
        let (index, of) = ticket.split_once('/').ok_or("a ticket of another kind")?;
        let (index, of): (usize, usize) = (index.parse()?, of.parse()?);
        let mut cut = self.cut.lock().unwrap_or_else(PoisonError::into_inner);
        let all = match cut.get(&of) {
            Some(all) => Arc::clone(all),
            None => {
                let all = Arc::new(shares(&self.batches, of)?);
                cut.insert(of, Arc::clone(&all));
                all
            }
        };
        Ok(all.get(index).ok_or("there is no such share")?.clone())
    }
}

impl Flights for Tables {
    fn get(&self, ticket: &[u8]) -> Result<Answers<FlightData>> {
        let batches = self.batches(std::str::from_utf8(ticket)?)?;
        let mut encoder = flight::encoder();
        if let Some(bytes) = self.message_bytes {
            encoder = encoder.with_max_flight_data_size(bytes);
        }
        let encoded = encoder.build(futures::stream::iter(batches).map(Ok));
        Ok(encoded.map_err(Status::from).boxed())
    }

    /// The command is the ticket.
    fn info(&self, command: &[u8]) -> Result<FlightInfo> {
        let schema = match command {
            ticket if ticket == ONE_ROW.as_bytes() => Some(self.one_row.schema()),
            _ => self.batches.first().map(RecordBatch::schema),
        };
        let info = FlightInfo::new().try_with_schema(&*schema.ok_or("there is no table")?)?;
        let ticket = Ticket::new(command.to_vec());
        Ok(info.with_endpoint(FlightEndpoint::new().with_ticket(ticket)))
    }
}

pub fn listen(spec: &SenderSpec, table: Table, message_bytes: Option<usize>) -> Result<Place> {
    let tables = Tables {
        batches: table.batches,
        one_row: one_row()?,
        cut: Mutex::default(),
        message_bytes,
    };
    let port = flight::listen((&spec.host, spec.port), tables)?;
    Ok(Place::Port(port))
}

pub struct FlightReceiver {
    channels: Vec<Channel>,
    spec: ReceiverSpec,
}

pub async fn connect(spec: &ReceiverSpec) -> Result<FlightReceiver> {
    let Place::Port(port) = spec.place else {
        return Err("Flight needs a port".into());
    };
    let mut channels = Vec::new();
    for _ in 0..spec.streams {
        let mut endpoint = Endpoint::from_shared(format!("http://{}:{port}", spec.host))?;
        if let Some(window) = spec.flight_window {
            let window = u32::try_from(window)?;
            endpoint = endpoint
                .initial_stream_window_size(window)
                .initial_connection_window_size(window);
        }
        channels.push(endpoint.connect().await?);
    }
    Ok(FlightReceiver {
        channels,
        spec: spec.clone(),
    })
}

/// Reads what a ticket names; where a plan is wanted, what the ticket in the plan names.
async fn read(channel: Channel, ticket: String, planned: bool) -> Result<FlightRecordBatchStream> {
    let mut client = flight::client(channel);
    let mut ticket = Ticket::new(ticket);
    if planned {
        let descriptor = FlightDescriptor::new_cmd(ticket.ticket);
        let info = client.get_flight_info(descriptor).await?;
        let endpoint = info.endpoint.into_iter().next();
        ticket = endpoint
            .and_then(|endpoint| endpoint.ticket)
            .ok_or("a plan without a ticket")?;
    }
    Ok(client.do_get(ticket).await?)
}

async fn fetch(
    channel: Channel,
    ticket: String,
    planned: bool,
    mut verifier: Verifier,
) -> Result<Verifier> {
    let mut batches = read(channel, ticket, planned).await?;
    while let Some(batch) = batches.try_next().await? {
        verifier.take(batch)?;
    }
    Ok(verifier)
}

#[async_trait]
impl Receiver for FlightReceiver {
    async fn receive(&mut self) -> Result<Received> {
        let tasks: Vec<_> = self
            .channels
            .iter()
            .enumerate()
            .map(|(index, channel)| {
                let verifier = Verifier::new(self.spec.shape, self.spec.retain);
                let ticket = format!("{index}/{}", self.spec.streams);
                tokio::spawn(fetch(
                    channel.clone(),
                    ticket,
                    self.spec.flight_info,
                    verifier,
                ))
            })
            .collect();
        let mut streams = Vec::new();
        for task in tasks {
            streams.push(task.await??);
        }
        Received::verified(streams, &self.spec.facts)
    }

    fn one_row(&self) -> Result<Fetch> {
        let channel = self.channels.first().ok_or("no connection")?.clone();
        let planned = self.spec.flight_info;
        Ok(Arc::new(move || {
            let channel = channel.clone();
            Box::pin(async move {
                let mut batches = read(channel, ONE_ROW.to_owned(), planned).await?;
                let mut rows = 0;
                while let Some(batch) = batches.try_next().await? {
                    rows += batch.num_rows();
                }
                match rows {
                    1 => Ok(()),
                    _ => Err(format!("{rows} rows instead of one").into()),
                }
            })
        }))
    }
}
