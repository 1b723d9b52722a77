//! A process that queries: it registers its tables once, then runs queries as it is told to.

use std::sync::Arc;
use std::time::Instant;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::datasource::MemTable;
use datafusion::prelude::{ParquetReadOptions, SessionContext};
use lightstream_benchmarks::Result;
use lightstream_benchmarks::measure::cpu_seconds;
use lightstream_benchmarks::process::{commands, say};
use lightstream_benchmarks::raw_tcp::{Connections, Wanted};
use lightstream_datafusion::{Options, register_lightstream};
use lightstream_tpch::answers::Answer;

use crate::data::parts;
use crate::flight;
use crate::messages::{ClientSpec, Command, Place, Run};
use crate::system::System;

enum Client {
    Engine(SessionContext),
    Raw(Connections),
}

pub fn run(spec: &str) -> Result<()> {
    let spec: ClientSpec = serde_json::from_str(spec)?;
    // As `#[tokio::main]` would make it. All work is spawned, so that it runs on the workers in every system.
    let runtime = tokio::runtime::Runtime::new()?;
    let started = runtime.block_on(async { tokio::spawn(start(spec)).await })?;
    let mut client = match started {
        Ok(client) => client,
        Err(error) => return say::<()>(Err(error)),
    };
    say(Ok(()))?;
    for command in commands() {
        match command? {
            Command::Run { sql } => {
                let (back, run) =
                    runtime.block_on(async { tokio::spawn(measure(client, sql)).await })?;
                client = back;
                say(run)?;
            }
            Command::Explain { sql } => match &client {
                Client::Engine(context) => {
                    let context = context.clone();
                    let explained = runtime.spawn(async move { explain(&context, &sql).await });
                    say(runtime.block_on(explained)?)?;
                }
                Client::Raw(_) => say(Ok(String::new()))?,
            },
            other => say::<()>(Err(format!("a client does not {other:?}").into()))?,
        }
    }
    Ok(())
}

async fn start(spec: ClientSpec) -> Result<Client> {
    let context = SessionContext::new();
    let partitions = context.copied_config().target_partitions();
    match (spec.system, &spec.server) {
        (System::LocalMemory, _) => {
            for (name, batches) in spec.data.tables()? {
                let schema = batches.first().map(RecordBatch::schema).ok_or("no rows")?;
                let table = MemTable::try_new(schema, parts(&batches, partitions))?;
                context.register_table(name, Arc::new(table))?;
            }
        }
        (System::LocalParquet, _) => {
            for (name, path) in spec.data.parquet()? {
                let path = path.to_str().ok_or("a path that is not UTF-8")?;
                let options = ParquetReadOptions::default();
                context.register_parquet(name, path, options).await?;
            }
        }
        (System::Lightstream | System::LightstreamParquet, Some(Place::Url(url))) => {
            register_lightstream(&context, url, Options::default()).await?;
        }
        (System::Flight, Some(Place::Url(url))) => {
            flight::provider::register(&context, url, partitions).await?;
        }
        (System::RawTcp, Some(Place::Port { port, bytes })) => {
            let wanted = Wanted {
                streams: partitions,
                bytes: *bytes as u64,
                variant: spec.variant.ok_or("raw TCP needs a variant")?,
                summed: 0,
                retain: false,
            };
            return Ok(Client::Raw(Connections::connect(
                ("127.0.0.1", *port),
                &wanted,
            )?));
        }
        (system, place) => return Err(format!("{} cannot be at {place:?}", system.name()).into()),
    }
    Ok(Client::Engine(context))
}

/// Runs a query, from its text to all rows of its answer.
async fn measure(mut client: Client, sql: String) -> (Client, Result<Run>) {
    let run = async {
        let cpu = cpu_seconds();
        let start = Instant::now();
        let batches = match &mut client {
            Client::Engine(context) => Some(context.sql(&sql).await?.collect().await?),
            Client::Raw(connections) => {
                connections.receive().await?;
                None
            }
        };
        let seconds = start.elapsed().as_secs_f64();
        let cpu_s = cpu_seconds() - cpu;
        let answer = batches.map(|batches| Answer::new(&batches)).transpose()?;
        Ok(Run {
            seconds,
            cpu_s,
            answer,
        })
    };
    let run = run.await;
    (client, run)
}

async fn explain(context: &SessionContext, sql: &str) -> Result<String> {
    let frame = context.sql(&format!("EXPLAIN ANALYZE {sql}")).await?;
    Ok(pretty_format_batches(&frame.collect().await?)?.to_string())
}
