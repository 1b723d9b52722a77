//! Arrow Flight as all benchmarks use it: arrow-flight and tonic with their defaults, except that messages may be as
//! large as they come and dictionaries stay dictionaries.
//!
//! What tickets mean is the business of who offers flights.

use std::net::ToSocketAddrs;

use arrow_flight::encode::{DictionaryHandling, FlightDataEncoderBuilder};
use arrow_flight::flight_service_client::FlightServiceClient;
use arrow_flight::flight_service_server::{FlightService, FlightServiceServer};
use arrow_flight::{
    Action, ActionType, Criteria, Empty, FlightClient, FlightData, FlightDescriptor, FlightInfo,
    HandshakeRequest, HandshakeResponse, PollInfo, PutResult, SchemaResult, Ticket,
};
use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::BoxStream;
use tonic::transport::Channel;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status, Streaming};

use crate::Result;

/// What a server streams.
pub type Answers<T> = BoxStream<'static, std::result::Result<T, Status>>;

type Answer<T> = std::result::Result<Response<T>, Status>;

/// What a server offers.
pub trait Flights: Send + Sync + 'static {
    /// The messages that a ticket stands for.
    ///
    /// # Errors
    /// For a ticket that stands for none.
    fn get(&self, ticket: &[u8]) -> Result<Answers<FlightData>>;

    /// How to get what a command asks for.
    ///
    /// # Errors
    /// For a command that is not understood; by default for each.
    fn info(&self, _command: &[u8]) -> Result<FlightInfo> {
        Err("commands are not offered".into())
    }

    /// All that can be asked for. By default nothing.
    ///
    /// # Errors
    /// Where it cannot be described.
    fn list(&self) -> Result<Vec<FlightInfo>> {
        Ok(Vec::new())
    }
}

/// Makes messages of batches, of the default size unless it is told another.
pub fn encoder() -> FlightDataEncoderBuilder {
    FlightDataEncoderBuilder::new().with_dictionary_handling(DictionaryHandling::Resend)
}

/// A client that takes messages of any size.
pub fn client(channel: Channel) -> FlightClient {
    let client = FlightServiceClient::new(channel)
        .max_encoding_message_size(usize::MAX)
        .max_decoding_message_size(usize::MAX);
    FlightClient::new_from_inner(client)
}

/// Offers flights until the runtime ends. Must be called within a tokio runtime. Port 0 takes a free one; the one that
/// was taken is returned.
///
/// # Errors
/// Where the address is taken, or is none.
pub fn listen(address: (&str, u16), flights: impl Flights) -> Result<u16> {
    let address = address
        .to_socket_addrs()?
        .next()
        .ok_or("the host has no address")?;
    // `tonic` sets this itself where it is given an address to serve at; then the port cannot be asked for.
    let incoming = TcpIncoming::bind(address)?.with_nodelay(Some(true));
    let port = incoming.local_addr()?.port();
    let service = FlightServiceServer::new(Service(flights))
        .max_encoding_message_size(usize::MAX)
        .max_decoding_message_size(usize::MAX);
    tokio::spawn(async move {
        let served = tonic::transport::Server::builder()
            .add_service(service)
            .serve_with_incoming(incoming)
            .await;
        if let Err(error) = served {
            eprintln!("flight: {error}");
        }
    });
    Ok(port)
}

struct Service<F>(F);

fn refused(error: Box<dyn std::error::Error + Send + Sync>) -> Status {
    Status::invalid_argument(error.to_string())
}

fn not_offered<T>() -> Answer<T> {
    Err(Status::unimplemented("this is not offered"))
}

#[async_trait]
impl<F: Flights> FlightService for Service<F> {
    type HandshakeStream = Answers<HandshakeResponse>;
    type ListFlightsStream = Answers<FlightInfo>;
    type DoGetStream = Answers<FlightData>;
    type DoPutStream = Answers<PutResult>;
    type DoExchangeStream = Answers<FlightData>;
    type DoActionStream = Answers<arrow_flight::Result>;
    type ListActionsStream = Answers<ActionType>;

    async fn do_get(&self, request: Request<Ticket>) -> Answer<Self::DoGetStream> {
        let messages = self.0.get(&request.into_inner().ticket).map_err(refused)?;
        Ok(Response::new(messages))
    }

    async fn get_flight_info(&self, request: Request<FlightDescriptor>) -> Answer<FlightInfo> {
        let info = self.0.info(&request.into_inner().cmd).map_err(refused)?;
        Ok(Response::new(info))
    }

    async fn list_flights(&self, _: Request<Criteria>) -> Answer<Self::ListFlightsStream> {
        let all = self.0.list().map_err(refused)?;
        let all = futures::stream::iter(all.into_iter().map(Ok));
        Ok(Response::new(all.boxed()))
    }

    async fn handshake(
        &self,
        _: Request<Streaming<HandshakeRequest>>,
    ) -> Answer<Self::HandshakeStream> {
        not_offered()
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
