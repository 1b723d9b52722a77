//! Runs every query in every system: in each round every system has its turn, so that what else the machine does meets
//! them all.
//!
//! Answers are compared; the first that differs ends the run.

use std::collections::HashMap;
use std::ops::Range;
use std::time::Instant;

use lightstream_benchmarks::Result;
use lightstream_benchmarks::measure::Spread;
use lightstream_benchmarks::process::Peer;
use lightstream_benchmarks::raw_tcp::Variant;
use lightstream_tpch::answers::Answer;

use crate::args::Args;
use crate::data::{Data, written_as_parquet};
use crate::messages::{ClientSpec, Command, Place, Run, Served, ServerSpec};
use crate::query::{Kind, Query};
use crate::report::{Record, Report};
use crate::system::System;

struct Server {
    peer: Peer,
    place: Place,
}

/// A system with its processes, which live as long as its tables are queried.
struct Entry {
    system: System,
    variant: Option<Variant>,
    client: Peer,
}

/// What a system cost in one round.
struct Cost {
    seconds: f64,
    cpu_s: f64,
    wire_bytes: Option<u64>,
}

pub fn run(args: &Args) -> Result<()> {
    let queries = Query::selected(&args.only)?;
    let mut report = Report::new(args);
    eprintln!("{}\n", report.setting.summary());
    for kind in Kind::ALL {
        let queries: Vec<&Query> = queries.iter().filter(|query| query.kind == kind).collect();
        if !queries.is_empty() {
            race(args, kind, &queries, &mut report)?;
        }
    }
    println!("{}", report.render());
    report.write(&args.out())?;
    println!("written to {}", args.out().display());
    Ok(())
}

/// All queries about the same tables.
fn race(args: &Args, kind: Kind, queries: &[&Query], report: &mut Report) -> Result<()> {
    let mut systems = args.systems.clone();
    systems.retain(|&system| queries.iter().any(|query| query.suits(system)));
    let data = match kind {
        Kind::Wide => Data::Wide {
            rows: args.wide_rows(),
        },
        Kind::Tpch => {
            let wanted = systems.iter().any(|system| system.reads_parquet());
            let write = || written_as_parquet(&args.out(), args.scale());
            Data::Tpch {
                scale: args.scale(),
                parquet: wanted.then(write).transpose()?,
            }
        }
    };
    // What raw TCP sends is another for each query.
    systems.retain(|&system| system != System::RawTcp);
    let mut servers = Servers::default();
    servers.start(&systems, &data, None)?;
    let mut entries = servers.clients(&systems, &data)?;
    for query in queries {
        if args.systems.contains(&System::RawTcp) && query.suits(System::RawTcp) {
            servers.start(&[System::RawTcp], &data, query.columns.clone())?;
            entries.extend(servers.clients(&[System::RawTcp], &data)?);
        }
        let records = measure(args, &mut servers, &mut entries, query);
        report
            .records
            .extend(records.map_err(|error| format!("{}: {error}", query.name))?);
        entries.retain(|entry| entry.system != System::RawTcp);
        servers.0.remove(&System::RawTcp);
    }
    Ok(())
}

/// The servers by system. Local systems have none.
#[derive(Default)]
struct Servers(HashMap<System, Server>);

impl Servers {
    /// Starts servers; they make their tables at the same time.
    fn start(
        &mut self,
        systems: &[System],
        data: &Data,
        columns: Option<Range<usize>>,
    ) -> Result<()> {
        let mut starting = Vec::new();
        for &system in systems.iter().filter(|system| system.has_server()) {
            let spec = ServerSpec {
                system,
                data: data.clone(),
                columns: columns.clone(),
            };
            let name = format!("server of {}", system.name());
            starting.push((system, Peer::start("serve", name, &spec)?));
        }
        for (system, mut peer) in starting {
            let place = peer.answer()?;
            self.0.insert(system, Server { peer, place });
        }
        Ok(())
    }

    /// Starts a client for each system, of raw TCP one for each variant.
    fn clients(&self, systems: &[System], data: &Data) -> Result<Vec<Entry>> {
        let mut entries = Vec::new();
        for &system in systems {
            let variants = match system {
                System::RawTcp => Variant::ALL.map(Some).to_vec(),
                _ => vec![None],
            };
            for variant in variants {
                let spec = ClientSpec {
                    system,
                    data: data.clone(),
                    server: self.0.get(&system).map(|server| server.place.clone()),
                    variant,
                };
                let name = format!("client of {}", system.name());
                entries.push(Entry {
                    system,
                    variant,
                    client: Peer::start("client", name, &spec)?,
                });
            }
        }
        for entry in &mut entries {
            entry.client.answer::<()>()?;
        }
        Ok(entries)
    }

    /// One query in one system.
    fn run(&mut self, entry: &mut Entry, sql: &str) -> Result<(Cost, Option<Answer>)> {
        let sql = sql.to_owned();
        let Some(server) = self.0.get_mut(&entry.system) else {
            let run: Run = entry.client.ask(Command::Run { sql })?;
            let cost = Cost {
                seconds: run.seconds,
                cpu_s: run.cpu_s,
                wire_bytes: None,
            };
            return Ok((cost, run.answer));
        };
        server.peer.ask::<()>(Command::Mark)?;
        let run: Run = entry.client.ask(Command::Run { sql })?;
        let served: Served = server.peer.ask(Command::Read)?;
        let wire_bytes = match server.place {
            Place::Port { bytes, .. } => bytes as u64,
            Place::Url(_) => served.wire_bytes,
        };
        let cost = Cost {
            seconds: run.seconds,
            cpu_s: run.cpu_s + served.cpu_s,
            wire_bytes: Some(wire_bytes),
        };
        Ok((cost, run.answer))
    }
}

/// Measures one query in all systems that it suits.
fn measure(
    args: &Args,
    servers: &mut Servers,
    entries: &mut [Entry],
    query: &Query,
) -> Result<Vec<Record>> {
    let start = Instant::now();
    let mut costs: Vec<Vec<Cost>> = entries.iter().map(|_| Vec::new()).collect();
    let mut expected: Option<(System, Answer)> = None;
    for round in 0..=args.rounds() {
        for (entry, costs) in entries.iter_mut().zip(&mut costs) {
            let (cost, answer) = servers.run(entry, &query.sql)?;
            check(entry.system, answer, &mut expected)?;
            // The first round warms up.
            if round > 0 {
                costs.push(cost);
            }
        }
    }
    if args.explain {
        for entry in entries.iter_mut() {
            let sql = query.sql.clone();
            let text: String = entry.client.ask(Command::Explain { sql })?;
            println!("{} in {}:\n{text}", query.name, entry.system.name());
        }
    }
    let rows = expected.map_or(0, |(_, answer)| answer.rows());
    eprintln!(
        "{}: {} systems and variants in {:.1} s",
        query.name,
        entries.len(),
        start.elapsed().as_secs_f64()
    );
    let mut records: Vec<Record> = Vec::new();
    for (entry, costs) in entries.iter().zip(costs) {
        let record = record(query, entry, &costs, rows);
        match records
            .iter_mut()
            .find(|other| other.system == record.system)
        {
            // Of several variants the fastest counts.
            Some(other) if other.seconds.median > record.seconds.median => *other = record,
            Some(_) => {}
            None => records.push(record),
        }
    }
    Ok(records)
}

/// Compares an answer with the first that came.
fn check(
    system: System,
    answer: Option<Answer>,
    expected: &mut Option<(System, Answer)>,
) -> Result<()> {
    let Some(answer) = answer else {
        return Ok(());
    };
    let Some((first, expected)) = expected else {
        *expected = Some((system, answer));
        return Ok(());
    };
    match answer.difference(expected) {
        None => Ok(()),
        Some(difference) => Err(format!(
            "{} answers otherwise than {}: {difference}",
            system.name(),
            first.name()
        )
        .into()),
    }
}

fn record(query: &Query, entry: &Entry, costs: &[Cost], rows: usize) -> Record {
    let spread = |value: fn(&Cost) -> f64| Spread::of(&costs.iter().map(value).collect::<Vec<_>>());
    Record {
        system: entry.system.name(),
        kind: query.kind.name(),
        query: query.name.clone(),
        seconds: spread(|cost| cost.seconds),
        cpu_s: spread(|cost| cost.cpu_s).median,
        rows: (entry.system != System::RawTcp).then_some(rows),
        wire_bytes: costs.iter().filter_map(|cost| cost.wire_bytes).max(),
        variant: entry.variant.map(Variant::name),
    }
}
