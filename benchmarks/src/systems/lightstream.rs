//! Lightstream, by its public API with default options, or with frames of another size.

use async_trait::async_trait;
use futures::{Stream, StreamExt};
use std::sync::Arc;

use arrow_array::RecordBatch;
use lightstream_core::protocol::request::ScanRequest;
use lightstream_core::server::{MemoryTable, Server};
use lightstream_core::{Client, Options};

use super::{Fetch, Received, Receiver, System};
use crate::Result;
use crate::messages::{Place, ReceiverSpec, SenderSpec};
use crate::shapes::{Table, one_row};
use crate::verify::Verifier;

const TABLE: &str = "t";
const ONE_ROW: &str = "one";

pub async fn listen(spec: &SenderSpec, table: Table) -> Result<(Place, Server)> {
    let path = std::env::temp_dir().join(format!("lightstream-bench-{}.sock", std::process::id()));
    let url = match spec.system {
        System::LightstreamUnix => format!("lightstream+unix://{}", path.display()),
        _ => format!("lightstream://{}:{}?tls=off", spec.host, spec.port),
    };
    let server = Server::builder()
        .table(TABLE, MemoryTable::try_new(table.batches)?)
        .table(ONE_ROW, MemoryTable::try_new(vec![one_row()?])?)
        .listen(&url)
        .await?;
    let place = match spec.system {
        System::LightstreamUnix => Place::Path(path.display().to_string()),
        _ => {
            let url = server.url();
            let port = url.rsplit_once(':').ok_or("a URL without a port")?.1;
            Place::Port(port.parse()?)
        }
    };
    Ok((place, server))
}

pub struct LightstreamReceiver {
    client: Client,
    request: ScanRequest,
    spec: ReceiverSpec,
}

pub async fn connect(spec: &ReceiverSpec) -> Result<LightstreamReceiver> {
    let url = match &spec.place {
        Place::Port(port) => format!("lightstream://{}:{port}?tls=off", spec.host),
        Place::Path(path) => format!("lightstream+unix://{path}"),
    };
    // The number of connections is the cell's, whatever the default: one for each of several partitions, or all of them
    // for one ordered partition.
    let (partitions, connections) = if spec.ordered {
        (1, spec.streams)
    } else {
        (spec.streams, 1)
    };
    let mut options = Options::default().with("streams", &connections.to_string())?;
    if spec.system == System::Lightstream2Mib {
        options.set("max_frame_bytes", "2MiB")?;
    }
    let request = ScanRequest {
        max_partitions: Some(u32::try_from(partitions)?),
        ordered: spec.ordered,
        ..ScanRequest::table(TABLE)
    };
    Ok(LightstreamReceiver {
        client: Client::connect(&url, options).await?,
        request,
        spec: spec.clone(),
    })
}

impl LightstreamReceiver {
    fn verifier(&self) -> Verifier {
        Verifier::new(self.spec.shape, self.spec.retain)
    }
}

async fn verify<S>(mut batches: S, mut verifier: Verifier) -> Result<Verifier>
where
    S: Stream<Item = lightstream_core::Result<RecordBatch>> + Unpin,
{
    while let Some(batch) = batches.next().await {
        verifier.take(batch?)?;
    }
    Ok(verifier)
}

#[async_trait]
impl Receiver for LightstreamReceiver {
    async fn receive(&mut self) -> Result<Received> {
        if self.spec.ordered {
            let scan = self.client.scan(&self.request).await?;
            let all = verify(scan, self.verifier()).await?;
            return Received::verified(vec![all], &self.spec.facts);
        }
        let plan = self.client.plan(&self.request).await?;
        let tasks: Vec<_> = plan
            .partitions
            .iter()
            .map(|partition| tokio::spawn(verify(self.client.read(partition), self.verifier())))
            .collect();
        let mut streams = Vec::new();
        for task in tasks {
            streams.push(task.await??);
        }
        Received::verified(streams, &self.spec.facts)
    }

    fn one_row(&self) -> Result<Fetch> {
        let client = self.client.clone();
        Ok(Arc::new(move || {
            let client = client.clone();
            Box::pin(async move {
                let mut scan = client.scan(&ScanRequest::table(ONE_ROW)).await?;
                let mut rows = 0;
                while let Some(batch) = scan.next().await {
                    rows += batch?.num_rows();
                }
                match rows {
                    1 => Ok(()),
                    _ => Err(format!("{rows} rows instead of one").into()),
                }
            })
        }))
    }
}
