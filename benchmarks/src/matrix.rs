//! Runs every system through every cell: a shape, a number of streams, and whether batches are kept.
//!
//! All processes of a cell live as long as the cell. In each round every system has its turn, so that what else the
//! machine does meets them all.

use std::collections::HashMap;

use crate::Result;
use crate::args::Args;
use crate::hosts::host_and_port;
use crate::machine::warm_memory;
use crate::measure::{Percentiles, Spread, Usage, percentile};
use crate::messages::{Command, Place, Ready, ReceiverSpec, Run, SenderSpec, Small};
use crate::process::Peer;
use crate::raw_tcp::Variant;
use crate::report::{self, Measured, OneRow, Record, Report};
use crate::shapes::{Facts, Shape};
use crate::systems::System;

const GIB: f64 = (1_u64 << 30) as f64;

/// Small scans of a round: so many alone, then by so many tasks, so many each.
const SMALL: (usize, usize, usize) = (1000, 8, 500);

/// The same over a link on which each takes long.
const SMALL_FAR: (usize, usize, usize) = (100, 8, 50);

struct Sender {
    peer: Peer,
    ready: Ready,
}

/// The senders of one table.
struct Senders {
    host: String,
    by_system: HashMap<System, Sender>,
}

/// One cell of the matrix.
#[derive(Clone, Copy)]
struct Cell {
    shape: Shape,
    streams: usize,
    retain: bool,
}

/// A system as it takes part in a cell. Raw TCP takes part in several variants.
#[derive(Clone, Copy)]
struct Contestant {
    system: System,
    ordered: bool,
    variant: Option<Variant>,
}

/// A contestant with its process and what was measured.
struct Entry {
    contestant: Contestant,
    peer: Peer,
    facts: Facts,
    runs: Vec<(Run, Usage)>,
}

impl Contestant {
    fn name(&self) -> String {
        let ordered = if self.ordered { ", ordered" } else { "" };
        let variant = self.variant.map(|variant| format!(", {}", variant.name()));
        format!(
            "{}{ordered}{}",
            self.system.name(),
            variant.unwrap_or_default()
        )
    }
}

impl Cell {
    /// The systems that are asked for and have a place in this cell.
    fn systems(&self, args: &Args) -> Vec<System> {
        let mut systems = args.systems.clone();
        systems.retain(|&system| match system {
            System::RawTcp | System::Flight8Mib | System::Lightstream2Mib => !self.retain,
            System::RawTcpFresh => self.retain,
            System::LightstreamUnix => !self.retain && self.streams == 1 && args.connect.is_none(),
            System::Lightstream | System::Flight => true,
        });
        systems
    }

    fn contestants(&self, args: &Args) -> Vec<Contestant> {
        let mut contestants = Vec::new();
        for system in self.systems(args) {
            let plain = Contestant {
                system,
                ordered: false,
                variant: None,
            };
            match system {
                System::RawTcp | System::RawTcpFresh => {
                    // A link that is slower than the hosts sees no difference between them.
                    let most = if args.link.is_some() { 1 } else { usize::MAX };
                    let variants = system.variants().iter().take(most);
                    contestants.extend(variants.map(|&variant| Contestant {
                        variant: Some(variant),
                        ..plain
                    }))
                }
                System::Lightstream2Mib => contestants.push(Contestant {
                    ordered: true,
                    ..plain
                }),
                System::Lightstream if !self.retain => contestants.extend([
                    plain,
                    Contestant {
                        ordered: true,
                        ..plain
                    },
                ]),
                _ => contestants.push(plain),
            }
        }
        contestants
    }

    fn name(&self) -> String {
        let retain = if self.retain { ", all kept" } else { "" };
        format!("{}, {} streams{retain}", self.shape.name(), self.streams)
    }
}

impl Senders {
    /// Starts a sender for each system; they make their tables at the same time.
    fn start(args: &Args, shape: Shape, bytes: u64, systems: &[System]) -> Result<Self> {
        let remote = args.connect.as_deref().map(host_and_port).transpose()?;
        let mut starting = Vec::new();
        let mut systems: Vec<System> = systems.iter().map(|system| system.sender()).collect();
        systems.sort_unstable_by_key(|system| system.name());
        systems.dedup();
        for system in systems {
            let spec = SenderSpec {
                system,
                shape,
                bytes,
                host: "127.0.0.1".to_owned(),
                port: 0,
            };
            let name = format!("sender of {}", system.name());
            let peer = match &remote {
                Some((host, port)) => Peer::dial(&format!("{host}:{port}"), name, &spec)?,
                None => Peer::start("sender", name, &spec)?,
            };
            starting.push((system, peer));
        }
        let mut by_system = HashMap::new();
        for (system, mut peer) in starting {
            let ready = peer.answer()?;
            by_system.insert(system, Sender { peer, ready });
        }
        let host = remote.map_or_else(|| "127.0.0.1".to_owned(), |(host, _)| host);
        Ok(Self { host, by_system })
    }

    fn of(&mut self, system: System) -> Result<&mut Sender> {
        self.by_system
            .get_mut(&system.sender())
            .ok_or_else(|| format!("there is no sender of {}", system.name()).into())
    }

    /// Starts the receiver of a contestant.
    fn receiver(&mut self, args: &Args, cell: Cell, contestant: Contestant) -> Result<Entry> {
        let host = self.host.clone();
        let Ready { place, facts } = self.of(contestant.system)?.ready.clone();
        let host = match place {
            Place::Port(_) => host,
            Place::Path(_) => String::new(),
        };
        let spec = ReceiverSpec {
            system: contestant.system,
            shape: cell.shape,
            streams: cell.streams,
            ordered: contestant.ordered,
            retain: cell.retain,
            variant: contestant.variant,
            flight_window: args.flight_window,
            flight_info: args.flight_info,
            host,
            place,
            facts,
        };
        let name = format!("receiver of {}", contestant.name());
        Ok(Entry {
            contestant,
            peer: Peer::start("receiver", name, &spec)?,
            facts,
            runs: Vec::new(),
        })
    }
}

pub fn run(args: &Args) -> Result<()> {
    let mut report = Report::new(args)?;
    eprintln!("{}\n", report.setting.summary());
    for (place, &shape) in args.shapes.iter().enumerate() {
        let cells: Vec<Cell> = args
            .streams()
            .into_iter()
            .map(|streams| Cell {
                shape,
                streams,
                retain: false,
            })
            .collect();
        let systems: Vec<System> = cells.iter().flat_map(|cell| cell.systems(args)).collect();
        let mut senders = Senders::start(args, shape, args.bytes(), &systems)?;
        if place == 0 {
            report.one_row = one_row(args, &mut senders, shape)?;
        }
        for cell in cells {
            report.records.extend(measure(args, &mut senders, cell)?);
        }
        drop(senders);
        if args.link.is_some() {
            continue;
        }
        let cell = Cell {
            shape,
            streams: 1,
            retain: true,
        };
        let systems = cell.systems(args);
        let mut senders = Senders::start(args, shape, args.retain_bytes(), &systems)?;
        report.records.extend(measure(args, &mut senders, cell)?);
    }
    println!("{}", report::table::render(&report));
    report.write(&args.out())?;
    println!("written to {}", args.out().display());
    Ok(())
}

/// Measures one cell.
fn measure(args: &Args, senders: &mut Senders, cell: Cell) -> Result<Vec<Record>> {
    let start = std::time::Instant::now();
    let mut entries = Vec::new();
    for contestant in cell.contestants(args) {
        entries.push(senders.receiver(args, cell, contestant)?);
    }
    for entry in &mut entries {
        entry.peer.answer::<()>()?;
    }
    for round in 0..=args.rounds() {
        if cell.retain {
            // Half as much again as is kept: systems round up. Each takes over from the one before.
            warm_memory(args.retain_bytes() / 2 * 3)?;
        }
        for entry in &mut entries {
            let run =
                one_run(senders, entry).map_err(|error| format!("{}: {error}", cell.name()))?;
            // The first round warms up.
            if round > 0 {
                entry.runs.push(run);
            }
        }
    }
    eprintln!(
        "{}: {} systems and variants in {:.0} s",
        cell.name(),
        entries.len(),
        start.elapsed().as_secs_f64()
    );
    let mut best: Vec<Record> = Vec::new();
    for entry in entries {
        let record = record(cell, entry);
        let rival = best
            .iter_mut()
            .find(|other| other.system == record.system && other.ordered == record.ordered);
        match rival {
            // Of several variants the fastest counts.
            Some(rival) if rival.measured.gib_s.median < record.measured.gib_s.median => {
                *rival = record;
            }
            Some(_) => {}
            None => best.push(record),
        }
    }
    Ok(best)
}

fn one_run(senders: &mut Senders, entry: &mut Entry) -> Result<(Run, Usage)> {
    let sender = senders.of(entry.contestant.system)?;
    sender.peer.ask::<()>(Command::Mark)?;
    let run = entry.peer.ask(Command::Run)?;
    Ok((run, sender.peer.ask(Command::Read)?))
}

fn record(cell: Cell, entry: Entry) -> Record {
    let gib = entry.facts.bytes as f64 / GIB;
    let rates: Vec<f64> = entry
        .runs
        .iter()
        .map(|(run, _)| gib / run.seconds)
        .collect();
    let cpu: Vec<f64> = entry
        .runs
        .iter()
        .map(|(run, sender)| (run.usage.cpu_s + sender.cpu_s) / gib)
        .collect();
    let first: Vec<f64> = entry
        .runs
        .iter()
        .map(|(run, _)| run.first_batch_s)
        .collect();
    let peaks = entry.runs.iter().map(|(run, _)| run.usage.peak_rss);
    let sender_peaks = entry.runs.iter().map(|(_, sender)| sender.peak_rss);
    let measured = Measured {
        gib_s: Spread::of(&rates),
        cpu_s_per_gib: Spread::of(&cpu).median,
        first_batch_ms: Spread::of(&first).median * 1000.0,
        peak_rss_bytes: peaks.max().unwrap_or_default(),
        sender_peak_rss_bytes: sender_peaks.max().unwrap_or_default(),
        batch_ms: Percentiles::of(
            entry
                .runs
                .iter()
                .flat_map(|(run, _)| run.gaps_us.iter().copied())
                .collect(),
        ),
    };
    Record {
        system: entry.contestant.system.name().to_owned(),
        shape: cell.shape.name().to_owned(),
        streams: cell.streams,
        ordered: entry.contestant.ordered,
        retain: cell.retain,
        variant: entry.contestant.variant.map(Variant::name),
        measured,
    }
}

/// Measures scans of one row over warm connections.
fn one_row(args: &Args, senders: &mut Senders, shape: Shape) -> Result<Vec<OneRow>> {
    let cell = Cell {
        shape,
        streams: 1,
        retain: false,
    };
    let mut entries = Vec::new();
    for system in [System::Lightstream, System::Flight] {
        if args.systems.contains(&system) {
            let contestant = Contestant {
                system,
                ordered: false,
                variant: None,
            };
            let mut entry = senders.receiver(args, cell, contestant)?;
            entry.peer.answer::<()>()?;
            entries.push((entry, Vec::new()));
        }
    }
    let (alone, tasks, each) = if args.link.is_some() {
        SMALL_FAR
    } else {
        SMALL
    };
    let command = Command::Small { alone, tasks, each };
    for round in 0..=args.rounds() {
        for (entry, rounds) in &mut entries {
            let sender = senders.of(entry.contestant.system)?;
            sender.peer.ask::<()>(Command::Mark)?;
            let small: Small = entry.peer.ask(command)?;
            let usage: Usage = sender.peer.ask(Command::Read)?;
            if round > 0 {
                rounds.push((small, usage));
            }
        }
    }
    Ok(entries
        .into_iter()
        .map(|(entry, rounds)| summed_up(entry.contestant.system, rounds))
        .collect())
}

fn summed_up(system: System, rounds: Vec<(Small, Usage)>) -> OneRow {
    let mut medians = Vec::new();
    let mut p99s = Vec::new();
    for (small, _) in &rounds {
        let mut sorted = small.alone_ns.clone();
        sorted.sort_unstable();
        medians.push(f64::from(percentile(&sorted, 50)) / 1e9);
        p99s.push(f64::from(percentile(&sorted, 99)) / 1e9);
    }
    let per = |value: fn(&(Small, Usage)) -> f64| {
        Spread::of(&rounds.iter().map(value).collect::<Vec<_>>()).median
    };
    OneRow {
        system: system.name().to_owned(),
        shape: "one-row".to_owned(),
        streams: 1,
        ordered: false,
        seconds: Spread::of(&medians),
        p99_seconds: Spread::of(&p99s).median,
        scans_per_s: per(|(small, _)| small.together as f64 / small.together_s),
        // The sender's time counts for the scans alone too; all of them are counted here.
        cpu_s_per_scan: per(|(small, usage)| {
            small.usage.cpu_s / small.together as f64
                + usage.cpu_s / (small.together + small.alone_ns.len()) as f64
        }),
        peak_rss_bytes: rounds
            .iter()
            .map(|(small, _)| small.usage.peak_rss)
            .max()
            .unwrap_or_default(),
    }
}
