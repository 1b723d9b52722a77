//! A process that receives: it connects once, then receives the table as often as it is told to.

use std::time::Instant;

use crate::Result;
use crate::measure::{Usage, cpu_seconds, peak_rss, reset_peak_rss};
use crate::messages::{Command, ReceiverSpec, Run, Small};
use crate::process::{commands, say};
use crate::systems::{Fetch, Receiver};

pub fn run(spec: &str) -> Result<()> {
    let spec: ReceiverSpec = serde_json::from_str(spec)?;
    // As `#[tokio::main]` would make it. All work is spawned, so that it runs on the workers in every system.
    let runtime = tokio::runtime::Runtime::new()?;
    let connected = runtime.block_on(async move {
        tokio::spawn(async move { spec.system.connect(&spec).await }).await
    })?;
    let mut receiver = match connected {
        Ok(receiver) => receiver,
        Err(error) => return say::<()>(Err(error)),
    };
    say(Ok(()))?;
    for command in commands() {
        match command? {
            Command::Run => {
                let (back, run) =
                    runtime.block_on(async { tokio::spawn(receive(receiver)).await })?;
                receiver = back;
                say(run)?;
            }
            Command::Small { alone, tasks, each } => {
                let fetch = receiver.one_row();
                let small = async move { scan_one_row(fetch?, alone, tasks, each).await };
                say(runtime.block_on(async { tokio::spawn(small).await })?)?;
            }
            other => say::<()>(Err(format!("a receiver does not {other:?}").into()))?,
        }
    }
    Ok(())
}

async fn receive(mut receiver: Box<dyn Receiver>) -> (Box<dyn Receiver>, Result<Run>) {
    reset_peak_rss();
    let cpu = cpu_seconds();
    let start = Instant::now();
    let received = receiver.receive().await;
    let seconds = start.elapsed().as_secs_f64();
    let usage = Usage {
        cpu_s: cpu_seconds() - cpu,
        peak_rss: peak_rss(),
    };
    // What was kept is freed only now.
    let run = received.map(|received| Run {
        seconds,
        first_batch_s: received.first.map_or(seconds, |first| {
            first.saturating_duration_since(start).as_secs_f64()
        }),
        usage,
        gaps_us: received.gaps_us,
    });
    (receiver, run)
}

async fn scan_one_row(fetch: Fetch, alone: usize, tasks: usize, each: usize) -> Result<Small> {
    let mut alone_ns = Vec::with_capacity(alone);
    for _ in 0..alone {
        let start = Instant::now();
        fetch().await?;
        alone_ns.push(u32::try_from(start.elapsed().as_nanos()).unwrap_or(u32::MAX));
    }
    reset_peak_rss();
    let cpu = cpu_seconds();
    let start = Instant::now();
    let mut running = tokio::task::JoinSet::<Result<()>>::new();
    for _ in 0..tasks {
        let fetch = std::sync::Arc::clone(&fetch);
        running.spawn(async move {
            for _ in 0..each {
                fetch().await?;
            }
            Ok(())
        });
    }
    while let Some(done) = running.join_next().await {
        done??;
    }
    Ok(Small {
        alone_ns,
        together: tasks * each,
        together_s: start.elapsed().as_secs_f64(),
        usage: Usage {
            cpu_s: cpu_seconds() - cpu,
            peak_rss: peak_rss(),
        },
    })
}
