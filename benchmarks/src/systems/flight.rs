//! Arrow Flight, by arrow-flight and tonic with their defaults, except that messages may be as large as they come.
//!
//! Each stream has a connection of its own; dictionaries stay dictionaries.

use std::collections::HashMap;
use std::net::ToSocketAddrs;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::RecordBatch;
use arrow_flight::decode::FlightRecordBatchStream;
use arrow_flight::encode::{DictionaryHandling, FlightDataEncoderBuilder};
use arrow_flight::flight_service_client::FlightServiceClient;
use arrow_flight::flight_service_server::{FlightService, FlightServiceServer};
use arrow_flight::{
    Action, ActionType, Criteria, Empty, FlightClient, FlightData, FlightDescriptor,
    FlightEndpoint, FlightInfo, HandshakeRequest, HandshakeResponse, PollInfo, PutResult,
    SchemaResult, Ticket,
};
use async_trait::async_trait;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Response, Status, Streaming};

use super::{Fetch, Received, Receiver};
use crate::Result;
use crate::process::{Place, ReceiverSpec, SenderSpec};
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

type Answers<T> = BoxStream<'static, std::result::Result<T, Status>>;
type Answer<T> = std::result::Result<Response<T>, Status>;

fn not_offered<T>() -> Answer<T> {
    Err(Status::unimplemented(
        "only get_flight_info and do_get are offered",
    ))
}

#[async_trait]
impl FlightService for Tables {
    type HandshakeStream = Answers<HandshakeResponse>;
    type ListFlightsStream = Answers<FlightInfo>;
    type DoGetStream = Answers<FlightData>;
    type DoPutStream = Answers<PutResult>;
    type DoExchangeStream = Answers<FlightData>;
    type DoActionStream = Answers<arrow_flight::Result>;
    type ListActionsStream = Answers<ActionType>;

    async fn do_get(&self, request: Request<Ticket>) -> Answer<Self::DoGetStream> {
        let ticket = request.into_inner().ticket;
        let batches = std::str::from_utf8(&ticket)
            .map_err(Into::into)
            .and_then(|ticket| self.batches(ticket))
            .map_err(|error| Status::invalid_argument(error.to_string()))?;
        let mut encoder =
            FlightDataEncoderBuilder::new().with_dictionary_handling(DictionaryHandling::Resend);
        if let Some(bytes) = self.message_bytes {
            encoder = encoder.with_max_flight_data_size(bytes);
        }
        let encoded = encoder.build(futures::stream::iter(batches).map(Ok));
        Ok(Response::new(encoded.map_err(Status::from).boxed()))
    }

    async fn handshake(
        &self,
        _: Request<Streaming<HandshakeRequest>>,
    ) -> Answer<Self::HandshakeStream> {
        not_offered()
    }

    async fn list_flights(&self, _: Request<Criteria>) -> Answer<Self::ListFlightsStream> {
        not_offered()
    }

    /// The command of the descriptor is the ticket.
    async fn get_flight_info(&self, request: Request<FlightDescriptor>) -> Answer<FlightInfo> {
        let command = request.into_inner().cmd;
        let schema = match &*command {
            ticket if ticket == ONE_ROW.as_bytes() => Some(self.one_row.schema()),
            _ => self.batches.first().map(RecordBatch::schema),
        };
        let schema = schema.ok_or_else(|| Status::not_found("there is no table"))?;
        let info = FlightInfo::new()
            .try_with_schema(&schema)
            .map_err(|error| Status::internal(error.to_string()))?;
        let endpoint = FlightEndpoint::new().with_ticket(Ticket::new(command));
        Ok(Response::new(info.with_endpoint(endpoint)))
    }

    async fn poll_flight_info(&self, _: Request<FlightDescriptor>) -> Answer<PollInfo> {
        not_offered()
    }

    async fn get_schema(&self, _: Request<FlightDescriptor>) -> Answer<SchemaResult> {
        not_offered()
    }

    async fn do_put(&self, _: Request<Streaming<FlightData>>) -> Answer<Self::DoPutStream> {
        not_offered()
    }

    async fn do_exchange(
        &self,
        _: Request<Streaming<FlightData>>,
    ) -> Answer<Self::DoExchangeStream> {
        not_offered()
    }

    async fn do_action(&self, _: Request<Action>) -> Answer<Self::DoActionStream> {
        not_offered()
    }

    async fn list_actions(&self, _: Request<Empty>) -> Answer<Self::ListActionsStream> {
        not_offered()
    }
}

pub fn listen(spec: &SenderSpec, table: Table, message_bytes: Option<usize>) -> Result<Place> {
    let address = (spec.host.as_str(), spec.port)
        .to_socket_addrs()?
        .next()
        .ok_or("the host has no address")?;
    // `tonic` sets this itself where it is given an address to serve at; then the port cannot be asked for.
    let incoming = TcpIncoming::bind(address)?.with_nodelay(Some(true));
    let port = incoming.local_addr()?.port();
    let service = FlightServiceServer::new(Tables {
        batches: table.batches,
        one_row: one_row()?,
        cut: Mutex::default(),
        message_bytes,
    })
    .max_encoding_message_size(usize::MAX)
    .max_decoding_message_size(usize::MAX);
    tokio::spawn(async move {
        let served = tonic::transport::Server::builder()
            .add_service(service)
            .serve_with_incoming(incoming)
            .await;
        if let Err(error) = served {
            eprintln!("transport: flight: {error}");
        }
    });
    Ok(Place::Port(port))
}

pub struct FlightReceiver {
    clients: Vec<FlightServiceClient<Channel>>,
    spec: ReceiverSpec,
}

pub async fn connect(spec: &ReceiverSpec) -> Result<FlightReceiver> {
    let Place::Port(port) = spec.place else {
        return Err("Flight needs a port".into());
    };
    let mut clients = Vec::new();
    for _ in 0..spec.streams {
        let mut endpoint = Endpoint::from_shared(format!("http://{}:{port}", spec.host))?;
        if let Some(window) = spec.flight_window {
            let window = u32::try_from(window)?;
            endpoint = endpoint
                .initial_stream_window_size(window)
                .initial_connection_window_size(window);
        }
        let client = FlightServiceClient::new(endpoint.connect().await?)
            .max_encoding_message_size(usize::MAX)
            .max_decoding_message_size(usize::MAX);
        clients.push(client);
    }
    Ok(FlightReceiver {
        clients,
        spec: spec.clone(),
    })
}

/// Reads what a ticket names; where a plan is wanted, what the ticket in the plan names.
async fn read(
    client: FlightServiceClient<Channel>,
    ticket: String,
    planned: bool,
) -> Result<FlightRecordBatchStream> {
    let mut client = FlightClient::new_from_inner(client);
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
    client: FlightServiceClient<Channel>,
    ticket: String,
    planned: bool,
    mut verifier: Verifier,
) -> Result<Verifier> {
    let mut batches = read(client, ticket, planned).await?;
    while let Some(batch) = batches.try_next().await? {
        verifier.take(batch)?;
    }
    Ok(verifier)
}

#[async_trait]
impl Receiver for FlightReceiver {
    async fn receive(&mut self) -> Result<Received> {
        let tasks: Vec<_> = self
            .clients
            .iter()
            .enumerate()
            .map(|(index, client)| {
                let verifier = Verifier::new(self.spec.shape, self.spec.retain);
                let ticket = format!("{index}/{}", self.spec.streams);
                tokio::spawn(fetch(
                    client.clone(),
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
        let client = self.clients.first().ok_or("no connection")?.clone();
        let planned = self.spec.flight_info;
        Ok(Arc::new(move || {
            let client = client.clone();
            Box::pin(async move {
                let mut batches = read(client, ONE_ROW.to_owned(), planned).await?;
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
