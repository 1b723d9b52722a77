//! A process that serves: it makes its tables, listens, and says what queries cost it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use datafusion::prelude::SessionContext;
use lightstream_benchmarks::measure::cpu_seconds;
use lightstream_benchmarks::process::{commands, say};
use lightstream_benchmarks::{Result, raw_tcp};
use lightstream_core::server::{MemoryTable, Server};
use lightstream_datafusion::serve::{DataFusionCatalog, register_path};

use crate::data::Data;
use crate::flight;
use crate::messages::{Command, Place, Served, ServerSpec};
use crate::system::System;
use crate::wide;

const HOST: &str = "127.0.0.1";
const ANY_PORT: &str = "lightstream://127.0.0.1:0";

/// How long a server may take to count what it has sent, after its client has all of it.
const SETTLING: Duration = Duration::from_secs(5);

/// What listens, and how the bytes are known that it has sent.
enum Listening {
    Lightstream(Server),
    Flight {
        place: Place,
        sent: Arc<AtomicU64>,
    },
    /// The bytes of each answer are known beforehand.
    Raw {
        place: Place,
    },
}

pub fn run(spec: &str) -> Result<()> {
    let spec: ServerSpec = serde_json::from_str(spec)?;
    // As `#[tokio::main]` would make it: one worker for each core.
    let runtime = tokio::runtime::Runtime::new()?;
    let listening = match runtime.block_on(listen(&spec)) {
        Ok(listening) => listening,
        Err(error) => return say::<Place>(Err(error)),
    };
    say(Ok(listening.place()))?;
    let mut start = (cpu_seconds(), 0);
    for command in commands() {
        match command? {
            Command::Mark => {
                start = (cpu_seconds(), listening.sent());
                say(Ok(()))?;
            }
            Command::Read => say(Ok(Served {
                wire_bytes: listening.sent() - start.1,
                cpu_s: cpu_seconds() - start.0,
            }))?,
            other => say::<()>(Err(format!("a server does not {other:?}").into()))?,
        }
    }
    Ok(())
}

async fn listen(spec: &ServerSpec) -> Result<Listening> {
    Ok(match spec.system {
        System::LocalMemory | System::LocalParquet => {
            return Err(format!("{} has no server", spec.system.name()).into());
        }
        System::Lightstream => {
            let mut server = Server::builder();
            for (name, batches) in spec.data.tables()? {
                server = server.table(name, MemoryTable::try_new(batches)?);
            }
            Listening::Lightstream(server.listen(ANY_PORT).await?)
        }
        System::LightstreamParquet => {
            let context = SessionContext::new();
            for (name, path) in spec.data.parquet()? {
                register_path(&context, &name, path).await?;
            }
            let server = Server::builder().catalog(DataFusionCatalog::new(context));
            Listening::Lightstream(server.listen(ANY_PORT).await?)
        }
        System::Flight => {
            let sent = Arc::new(AtomicU64::new(0));
            let url = flight::server::listen(HOST, spec.data.tables()?, Arc::clone(&sent))?;
            Listening::Flight {
                place: Place::Url(url),
                sent,
            }
        }
        System::RawTcp => {
            let (Data::Wide { rows }, Some(columns)) = (&spec.data, &spec.columns) else {
                return Err("raw TCP sends columns of the wide table only".into());
            };
            let bytes = wide::bytes(*rows, columns.len());
            let flat = raw_tcp::flatten(&wide::arrays(*rows, columns.clone()), bytes)?;
            let port = raw_tcp::listen((HOST, 0), flat, bytes)?;
            Listening::Raw {
                place: Place::Port { port, bytes },
            }
        }
    })
}

impl Listening {
    fn place(&self) -> Place {
        match self {
            Self::Lightstream(server) => Place::Url(server.url()),
            Self::Flight { place, .. } | Self::Raw { place } => place.clone(),
        }
    }

    fn sent(&self) -> u64 {
        match self {
            Self::Lightstream(server) => {
                let start = Instant::now();
                loop {
                    let stats = server.stats();
                    if stats.active_scans == 0 || start.elapsed() > SETTLING {
                        return stats.bytes_sent;
                    }
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
            Self::Flight { sent, .. } => sent.load(Ordering::Relaxed),
            Self::Raw { .. } => 0,
        }
    }
}
