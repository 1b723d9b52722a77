//! The table for a terminal, with ratios to the faster Flight and to raw TCP of the same cell.

use std::fmt::Write;

use super::{Record, Report};
use crate::measure::Spread;
use crate::shapes::Shape;

const MIB: u64 = 1 << 20;

pub fn render(report: &Report) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = write(report, &mut text);
    text
}

fn write(report: &Report, text: &mut String) -> std::fmt::Result {
    writeln!(text, "{}", report.setting.summary())?;
    writeln!(
        text,
        "GiB/s of logical Arrow bytes: median (min to max). CPU and ratios: median. RSS: greatest peak, MiB.\n\
         x flight, x raw: throughput over the faster Flight's and over raw TCP's with as many streams."
    )?;
    for shape in report.shapes() {
        let described = Shape::ALL.iter().find(|known| known.name() == shape);
        let description = described.map_or("", |shape| shape.description());
        writeln!(text, "\n{shape}: {description}")?;
        writeln!(
            text,
            "{:<26} {:>7}  {:>19}  {:>9}  {:>20}  {:>15}  {:>8}  {:>6}",
            "system",
            "streams",
            "GiB/s",
            "CPU s/GiB",
            "gap ms p50/p95/p99",
            "RSS recv/send",
            "x flight",
            "x raw"
        )?;
        let mut streams = None;
        for record in report.records.iter().filter(|record| record.shape == shape) {
            let cell = Some((record.streams, record.retain));
            if streams.is_some() && streams != cell {
                writeln!(text)?;
            }
            streams = cell;
            row(report, record, text)?;
        }
    }
    if !report.one_row.is_empty() {
        writeln!(
            text,
            "\none row over a warm connection\n{:<26} {:>12}  {:>9}  {:>9}  {:>15}",
            "system", "median us", "p99 us", "scans/s", "scans/CPU second"
        )?;
        for row in &report.one_row {
            writeln!(
                text,
                "{:<26} {:>12.0}  {:>9.0}  {:>9.0}  {:>15.0}",
                row.system,
                row.seconds.median * 1e6,
                row.p99_seconds * 1e6,
                row.scans_per_s,
                1.0 / row.cpu_s_per_scan.max(1e-12)
            )?;
        }
    }
    super::link::write(report, text)?;
    summary(report, text)
}

fn row(report: &Report, record: &Record, text: &mut String) -> std::fmt::Result {
    let measured = &record.measured;
    let (flight, raw) = report.rivals(record);
    let ratio = |rival: Option<&Record>| match rival {
        Some(rival) => format!("{:.2}", record.rate() / rival.rate()),
        None => "-".to_owned(),
    };
    let gaps = &measured.batch_ms;
    write!(
        text,
        "{:<26} {:>7}  {:>5.2} ({:>4.2} to {:>4.2})  {:>9.2}  {:>20}  {:>15}  {:>8}  {:>6}",
        record.label(),
        record.streams,
        measured.gib_s.median,
        measured.gib_s.min,
        measured.gib_s.max,
        measured.cpu_s_per_gib,
        format!("{:.2}/{:.2}/{:.2}", gaps.p50, gaps.p95, gaps.p99),
        format!(
            "{}/{}",
            measured.peak_rss_bytes / MIB,
            measured.sender_peak_rss_bytes / MIB
        ),
        ratio(flight),
        ratio(raw),
    )?;
    match &record.variant {
        Some(variant) => writeln!(text, "  {variant}"),
        None => writeln!(text),
    }
}

/// The worst and the median of ratios over all cells.
fn summary(report: &Report, text: &mut String) -> std::fmt::Result {
    writeln!(text)?;
    for (name, system, ordered) in [
        ("lightstream ordered", "lightstream", true),
        ("lightstream", "lightstream", false),
        ("lightstream-2mib ordered", "lightstream-2mib", true),
    ] {
        let ours = report.records.iter().filter(|record| {
            record.system == system && record.ordered == ordered && !record.retain
        });
        let cells: Vec<_> = ours.map(|ours| (ours, report.rivals(ours))).collect();
        let over_flight = cells
            .iter()
            .filter_map(|(ours, (flight, _))| Some((ours.rate() / (*flight)?.rate(), *ours)));
        let over_raw = cells
            .iter()
            .filter_map(|(ours, (_, raw))| Some((ours.rate() / (*raw)?.rate(), *ours)));
        // Each system is measured by its own best here.
        let cpu = cells.iter().filter_map(|(ours, _)| {
            let least = report
                .dropping(&ours.shape)
                .filter(|other| other.streams == ours.streams && other.system.starts_with("flight"))
                .map(|other| other.measured.cpu_s_per_gib)
                .min_by(f64::total_cmp)?;
            Some((-ours.measured.cpu_s_per_gib / least, *ours))
        });
        line(
            text,
            &format!("{name} / flight, throughput"),
            over_flight.collect(),
        )?;
        line(
            text,
            &format!("{name} / raw TCP, throughput"),
            over_raw.collect(),
        )?;
        line(
            text,
            &format!("{name} / flight, CPU s per GiB"),
            cpu.collect(),
        )?;
    }
    Ok(())
}

/// The least ratio is the worst; ratios where less is better come negative.
fn line(text: &mut String, what: &str, mut ratios: Vec<(f64, &Record)>) -> std::fmt::Result {
    ratios.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let Some((worst, at)) = ratios.first() else {
        return Ok(());
    };
    let all: Vec<f64> = ratios.iter().map(|(ratio, _)| *ratio).collect();
    let middle = Spread::of(&all).median;
    writeln!(
        text,
        "{what}: worst {:.2} ({}, {} streams), median {:.2}",
        worst.abs(),
        at.shape,
        at.streams,
        middle.abs()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_to_the_faster_flight_and_to_raw() {
        let text = render(&super::super::json::tests::report());
        let row = text
            .lines()
            .find(|line| line.starts_with("lightstream ordered"))
            .unwrap();
        assert!(row.ends_with("3.00    0.75"), "{row:?}");
        assert!(
            text.contains(
                "lightstream ordered / flight, throughput: worst 3.00 (numeric, 2 streams)"
            )
        );
        assert!(text.contains("CPU s per GiB: worst 0.33"), "{text}");
    }
}
