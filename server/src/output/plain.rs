//! Rows sent as a bare Arrow stream to whoever reads it.

use std::path::Path;

use futures::TryStreamExt;
use lightstream_core::Options;
use lightstream_core::client::{PlainWriter, ScanReader};

use super::{Kind, Progress};
use crate::args::Format;
use crate::exit::{Failure, Outcome};

/// The URL to send to, where it is not a file that is named.
pub fn url(output: &Path) -> Option<&str> {
    let text = output.to_str()?;
    let (scheme, _) = text.split_once(':')?;
    scheme.starts_with("arrow+").then_some(text)
}

/// What is sent: an Arrow stream, and nothing else.
pub fn kind(url: &str, format: Option<Format>) -> Outcome<Kind> {
    match format {
        None | Some(Format::Arrow) => Ok(Kind::ArrowStream),
        Some(_) => Err(Failure::usage(format!(
            "what is sent to {} is an Arrow stream: leave out --format, or say --format arrow",
            without_query(url)
        ))),
    }
}

/// Sends all rows. Nobody is connected to before the first rows have come.
pub async fn send(mut reader: ScanReader, url: &str, mut progress: Progress) -> Outcome {
    let mut next = reader.try_next().await?;
    let schema = reader.schema().clone();
    let attempted = || format!("sending to {} failed", without_query(url));
    let failed = |error| Failure::from(error).context(attempted());
    let connected = PlainWriter::connect(url, Options::default(), schema).await;
    let mut writer = connected.map_err(failed)?;
    while let Some(batch) = next {
        writer.write(&batch).await.map_err(failed)?;
        progress.add(&batch);
        next = reader.try_next().await?;
    }
    writer.finish().await.map_err(failed)
}

/// The URL without its options, some of which may be secret.
fn without_query(url: &str) -> &str {
    url.split_once('?').map_or(url, |(head, _)| head)
}
