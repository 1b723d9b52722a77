//! Rows of a table: `cat` and `head`.

use std::io::IsTerminal;
use std::path::Path;

use arrow_array::RecordBatch;
use arrow_schema::Schema;
use futures::TryStreamExt;
use lightstream_core::client::ScanReader;
use lightstream_core::protocol::filter::{Filter, FloatRule, sql};
use lightstream_core::protocol::request::ScanRequest;

use crate::args::{CatArgs, HeadArgs};
use crate::exit::{Failure, Outcome};
use crate::list;
use crate::output::{Destination, Kind, Progress, Written, json_array, plain};
use crate::terminal::print;
use tokio::task::block_in_place;

pub async fn head(args: HeadArgs) -> Outcome {
    let (client, name) = list::table(&args.url)?;
    let request = ScanRequest {
        limit: Some(args.rows),
        ordered: true,
        ..ScanRequest::table(name)
    };
    let reader = client.scan(&request).await?;
    if !args.json {
        return write(reader, Kind::Table, None, Progress::new(false, None)).await;
    }
    Kind::Ndjson.check(reader.schema())?;
    let batches: Vec<RecordBatch> = reader.try_collect().await?;
    let rows = json_array(&batches)
        .map_err(|error| Failure::failed("writing JSON failed").with_source(error))?;
    print(&format!("{{\"rows\":{rows}}}\n"))
}

pub async fn cat(args: CatArgs) -> Outcome {
    let file = args
        .output
        .as_deref()
        .filter(|file| *file != Path::new("-"));
    let peer = file.and_then(plain::url);
    let on_terminal = file.is_none() && std::io::stdout().is_terminal();
    let kind = match peer {
        Some(url) => plain::kind(url, args.format)?,
        None => Kind::of(args.format, file, on_terminal)?,
    };
    let names = args.columns.as_deref().map(names).transpose()?;
    let (client, name) = list::table(&args.url)?;
    let info = client.describe(&name, None).await?;
    let filter = match &args.condition {
        None => Filter::default(),
        // What is wrong with a condition is wrong with the command line.
        Some(condition) => sql::parse(condition, &info.schema, FloatRule::TotalOrderZeroEqual)
            .map_err(|error| Failure::usage(format!("--where: {error}")))?,
    };
    let request = ScanRequest {
        projection: names
            .map(|names| positions(&names, &info.schema))
            .transpose()?,
        filter,
        limit: args.limit,
        // Positions of columns are good at the snapshot that was described.
        snapshot: info.snapshot,
        ordered: true,
        ..ScanRequest::table(name)
    };
    let reader = client.scan(&request).await?;
    let rows = reader
        .plan()
        .statistics
        .rows
        .value()
        .filter(|_| request.filter.conjuncts.is_empty());
    let rows = rows.map(|rows| args.limit.map_or(rows, |limit| rows.min(limit)));
    let progress = Progress::new(!args.quiet && !on_terminal, rows);
    match peer {
        Some(url) => plain::send(reader, url, progress).await,
        None => write(reader, kind, file, progress).await,
    }
}

/// Writes all rows. Nothing is opened before the first rows have come. A write to a pipe may block for as long as its
/// reader pleases, while signals must still be received: hence `block_in_place`.
async fn write(
    mut reader: ScanReader,
    kind: Kind,
    file: Option<&Path>,
    mut progress: Progress,
) -> Outcome {
    kind.check(reader.schema())?;
    let mut next = reader.try_next().await?;
    let (destination, out) = Destination::open(file)?;
    let checked = |written: Written| match written {
        Ok(()) => Ok(true),
        Err(_) if destination.is_reader_gone() => Ok(false),
        Err(error) => {
            let attempted = format!("writing {} to {} failed", kind.as_str(), destination.name());
            Err(Failure::failed(attempted).with_source(error))
        }
    };
    let mut sink = match kind.open(reader.schema(), out) {
        Ok(sink) => sink,
        Err(error) => return checked(Err(error)).map(drop),
    };
    while let Some(batch) = next {
        if !checked(block_in_place(|| sink.write(&batch)))? {
            return Ok(());
        }
        progress.add(&batch);
        next = reader.try_next().await?;
    }
    if !checked(block_in_place(|| sink.finish()))? {
        return Ok(());
    }
    destination.commit()
}

/// The names in a list, quoted as in CSV.
fn names(list: &str) -> Outcome<Vec<String>> {
    let mut records = csv::ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .from_reader(list.as_bytes());
    let records: Vec<csv::StringRecord> = records
        .records()
        .collect::<Result<_, _>>()
        .map_err(|error| Failure::usage(format!("--columns: {error}")))?;
    match records.as_slice() {
        [record] => Ok(record.iter().map(str::to_owned).collect()),
        [] => Err(Failure::usage("--columns: no column is named")),
        _ => Err(Failure::usage(
            "--columns: names that hold line breaks stand in double quotes",
        )),
    }
}

/// Where the columns stand. A name that several columns have means all of them.
fn positions(names: &[String], schema: &Schema) -> Outcome<Vec<usize>> {
    let mut positions = Vec::with_capacity(names.len());
    for name in names {
        let before = positions.len();
        let fields = schema.fields().iter().enumerate();
        positions.extend(
            fields
                .filter(|(_, field)| field.name() == name)
                .map(|(position, _)| position),
        );
        if positions.len() == before {
            let nearest = schema.fields().iter().max_by(|a, b| {
                strsim::jaro_winkler(a.name(), name)
                    .total_cmp(&strsim::jaro_winkler(b.name(), name))
            });
            let hint = nearest
                .map(|field| format!("; the nearest is {:?}", field.name()))
                .unwrap_or_default();
            return Err(Failure::usage(format!(
                "--columns: there is no column {name:?}{hint}"
            )));
        }
    }
    Ok(positions)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_schema::{DataType, Field};

    #[test]
    fn names_are_quoted_as_in_csv() {
        assert_eq!(
            names("a,\"b,c\",\"d\"\"e\",\"f\ng\", h").unwrap(),
            ["a", "b,c", "d\"e", "f\ng", " h"]
        );
        assert_eq!(names("\"\"").unwrap(), [""]);
        for bad in ["", "a\nb"] {
            assert_eq!(names(bad).unwrap_err().code(), 2, "{bad:?}");
        }
    }

    #[test]
    fn columns_are_found_by_name_and_the_nearest_is_named() {
        let field = |name: &str| Field::new(name, DataType::Int32, true);
        let schema = Schema::new(vec![field("carrier"), field("day"), field("carrier")]);
        let found = |list: &[&str]| {
            positions(
                &list.iter().map(|&name| name.to_owned()).collect::<Vec<_>>(),
                &schema,
            )
        };
        assert_eq!(found(&["day", "carrier", "day"]).unwrap(), [1, 0, 2, 1]);
        let failure = found(&["carier"]).unwrap_err();
        assert_eq!(failure.code(), 2);
        assert!(
            failure.report().contains("\"carier\"") && failure.report().contains("\"carrier\"")
        );
    }
}
