//! The tables for a terminal, and what they say of the targets.

use std::fmt::Write;

use lightstream_benchmarks::measure::Spread;

use super::{Record, Report};
use crate::query::{Kind, SELECTIVE};
use crate::system::System;

const MEMORY: &str = System::LocalMemory.name();
const PARQUET: &str = System::LocalParquet.name();
const LIGHTSTREAM: &str = System::Lightstream.name();
const LIGHTSTREAM_PARQUET: &str = System::LightstreamParquet.name();
const FLIGHT: &str = System::Flight.name();
const RAW: &str = System::RawTcp.name();

/// Width of what is told of a system.
const CELL: usize = 26;

pub fn render(report: &Report) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = write(report, &mut text);
    text
}

fn write(report: &Report, text: &mut String) -> std::fmt::Result {
    writeln!(text, "{}", report.setting.summary())?;
    for (kind, base) in [(Kind::Wide, MEMORY), (Kind::Tpch, PARQUET)] {
        let kind = kind.name();
        if report.queries(kind).is_empty() {
            continue;
        }
        writeln!(
            text,
            "\n{kind}: seconds, median (least to greatest), and the median over that of {base}"
        )?;
        table(report, kind, text, |record| seconds(report, record, base))?;
        writeln!(
            text,
            "\n{kind}: CPU seconds of client and server; MiB that the server sent"
        )?;
        table(report, kind, text, costs)?;
    }
    writeln!(text)?;
    sums(report, text)?;
    selective(report, text)?;
    tpch(report, text)
}

fn table(
    report: &Report,
    kind: &str,
    text: &mut String,
    cell: impl Fn(&Record) -> String,
) -> std::fmt::Result {
    let systems = report.systems(kind);
    write!(text, "{:<16}{:>7}", "query", "rows")?;
    for system in &systems {
        write!(text, "{system:>CELL$}")?;
    }
    writeln!(text)?;
    for query in report.queries(kind) {
        let mut records = report.records.iter().filter(|record| record.query == query);
        let rows = records.find_map(|record| record.rows).unwrap_or_default();
        write!(text, "{query:<16}{rows:>7}")?;
        for system in &systems {
            let shown = report.of(query, system).map_or("-".to_owned(), &cell);
            write!(text, "{shown:>CELL$}")?;
        }
        writeln!(text)?;
    }
    Ok(())
}

fn seconds(report: &Report, record: &Record, base: &str) -> String {
    let Spread { median, min, max } = record.seconds;
    let base = report.of(&record.query, base);
    let ratio = base.map_or("-".to_owned(), |base| {
        format!("{:.2}", median / base.seconds.median)
    });
    format!("{median:.3} ({min:.3}-{max:.3}) {ratio:>5}")
}

fn costs(record: &Record) -> String {
    let sent = record.wire_bytes.map_or("-".to_owned(), |bytes| {
        format!("{:.2}", bytes as f64 / f64::from(1 << 20))
    });
    format!("{:.3} {sent:>9}", record.cpu_s)
}

fn median(report: &Report, query: &str, system: &str) -> Option<f64> {
    Some(report.of(query, system)?.seconds.median)
}

/// Queries that read whole columns, against the bytes of these over raw TCP and the same query over local memory.
fn sums(report: &Report, text: &mut String) -> std::fmt::Result {
    for query in report.queries(Kind::Wide.name()) {
        let at = |system| median(report, query, system);
        let (Some(raw), Some(local)) = (at(RAW), at(MEMORY)) else {
            continue;
        };
        for system in [LIGHTSTREAM, FLIGHT] {
            let Some(seconds) = at(system) else { continue };
            let target = if system == LIGHTSTREAM {
                "; target: at most 1.15"
            } else {
                ""
            };
            writeln!(
                text,
                "{query}: {system} {seconds:.3} s / (raw TCP {raw:.3} s + {MEMORY} {local:.3} s) = {:.2}{target}",
                seconds / (raw + local)
            )?;
        }
    }
    Ok(())
}

/// Bytes sent for a query that wants little.
fn selective(report: &Report, text: &mut String) -> std::fmt::Result {
    let table = report.setting.wide_bytes as f64;
    for system in [LIGHTSTREAM, FLIGHT] {
        let sent = report
            .of(SELECTIVE, system)
            .and_then(|record| record.wire_bytes);
        let Some(sent) = sent else { continue };
        let target = if system == LIGHTSTREAM {
            let most = table * 0.003 + f64::from(64 << 10);
            let verdict = if (sent as f64) < most {
                "met"
            } else {
                "missed"
            };
            format!("; target: less than 0.3 % and 64 KiB: {verdict}")
        } else {
            String::new()
        };
        writeln!(
            text,
            "{SELECTIVE} of 2 of 16 columns: {system} sends {sent} bytes, {:.3} % of the table{target}",
            sent as f64 / table * 100.0
        )?;
    }
    Ok(())
}

/// Totals, the worst and the median query of TPC-H.
fn tpch(report: &Report, text: &mut String) -> std::fmt::Result {
    for (ours, theirs, target) in [
        (LIGHTSTREAM_PARQUET, PARQUET, "; target: total below 1.3"),
        (LIGHTSTREAM, PARQUET, "; target: total below 1.3"),
        (LIGHTSTREAM, MEMORY, ""),
        (FLIGHT, PARQUET, ""),
        (LIGHTSTREAM, FLIGHT, ""),
    ] {
        let pairs: Vec<(&str, f64, f64)> = report
            .queries(Kind::Tpch.name())
            .into_iter()
            .filter_map(|query| {
                let ours = median(report, query, ours)?;
                Some((query, ours, median(report, query, theirs)?))
            })
            .collect();
        let ratio = |&(_, ours, theirs): &(&str, f64, f64)| ours / theirs;
        let worst = pairs.iter().max_by(|a, b| ratio(a).total_cmp(&ratio(b)));
        let Some(worst) = worst else { continue };
        let total = |of: fn(&(&str, f64, f64)) -> f64| pairs.iter().map(of).sum::<f64>();
        let (our_total, their_total) = (total(|pair| pair.1), total(|pair| pair.2));
        writeln!(
            text,
            "TPC-H, {} queries, {ours} / {theirs}: total {our_total:.2} s / {their_total:.2} s = {:.2}, worst {:.2} \
             ({}), median {:.2}{target}",
            pairs.len(),
            our_total / their_total,
            ratio(worst),
            worst.0,
            Spread::of(&pairs.iter().map(ratio).collect::<Vec<_>>()).median
        )?;
    }
    Ok(())
}
