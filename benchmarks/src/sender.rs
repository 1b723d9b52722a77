//! A process that sends: it makes its table, listens, and says what it costs.

use crate::Result;
use crate::measure::{Usage, cpu_seconds, peak_rss, reset_peak_rss};
use crate::messages::{Command, Ready, SenderSpec};
use crate::process::{commands, say};

pub fn run(spec: &str) -> Result<()> {
    let spec: SenderSpec = serde_json::from_str(spec)?;
    // As `#[tokio::main]` would make it: one worker for each core.
    let runtime = tokio::runtime::Runtime::new()?;
    let listening = spec.shape.table(spec.bytes).and_then(|table| {
        let facts = table.facts;
        let listening = runtime.block_on(spec.system.listen(&spec, table))?;
        Ok((listening, facts))
    });
    let (listening, facts) = match listening {
        Ok(listening) => listening,
        Err(error) => return say::<Ready>(Err(error)),
    };
    say(Ok(Ready {
        place: listening.place.clone(),
        facts,
    }))?;
    let mut start = cpu_seconds();
    for command in commands() {
        match command? {
            Command::Mark => {
                reset_peak_rss();
                start = cpu_seconds();
                say(Ok(()))?;
            }
            Command::Read => say(Ok(Usage {
                cpu_s: cpu_seconds() - start,
                peak_rss: peak_rss(),
            }))?,
            other => say::<()>(Err(format!("a sender does not {other:?}").into()))?,
        }
    }
    Ok(())
}
