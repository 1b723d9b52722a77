//! What was reached, set against the link between the hosts: of raw TCP's rate, of an even flow, of round trips.

use std::fmt::Write;

use super::{Record, Report};

pub fn write(report: &Report, text: &mut String) -> std::fmt::Result {
    let Some(link) = report.link else {
        return Ok(());
    };
    let info = if report.flight_info {
        "; Flight asks GetFlightInfo first"
    } else {
        ""
    };
    writeln!(
        text,
        "\nover a link of {} ms and {} Mbit/s{info}\n{:<26} {:<13} {:>7}  {:>6}  {:>13}  {:>13}  {:>15}",
        link.rtt_ms,
        link.mbit_s,
        "system",
        "table",
        "streams",
        "x raw",
        "gaps p95/p50",
        "gaps p99/p50",
        "first batch, RTT"
    )?;
    for record in &report.records {
        row(report, record, link.rtt_ms, text)?;
    }
    for row in &report.one_row {
        writeln!(
            text,
            "{:<26} {:<13} {:>7}  {:>6}  {:>13}  {:>13}  {:>15.2}",
            row.system,
            row.shape,
            row.streams,
            "-",
            "-",
            "-",
            row.seconds.median * 1000.0 / link.rtt_ms
        )?;
    }
    Ok(())
}

fn row(report: &Report, record: &Record, rtt_ms: f64, text: &mut String) -> std::fmt::Result {
    let gaps = &record.measured.batch_ms;
    let of_raw = match report.rivals(record) {
        (_, Some(raw)) => format!("{:.3}", record.rate() / raw.rate()),
        _ => "-".to_owned(),
    };
    writeln!(
        text,
        "{:<26} {:<13} {:>7}  {of_raw:>6}  {:>13.3}  {:>13.3}  {:>15.2}",
        record.label(),
        record.shape,
        record.streams,
        gaps.p95 / gaps.p50,
        gaps.p99 / gaps.p50,
        record.measured.first_batch_ms / rtt_ms,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Link;

    #[test]
    fn rates_are_of_raw_tcp_and_waits_in_round_trips() {
        let mut report = crate::report::json::tests::report();
        let mut text = String::new();
        write(&report, &mut text).unwrap();
        assert_eq!(text, "");
        report.link = Some(Link {
            rtt_ms: 0.5,
            mbit_s: 1000.0,
        });
        write(&report, &mut text).unwrap();
        let line = text
            .lines()
            .find(|line| line.starts_with("lightstream ordered"))
            .unwrap();
        let fields: Vec<&str> = line.split_whitespace().skip(3).collect();
        assert_eq!(fields, ["2", "0.750", "1.000", "1.000", "2.00"]);
    }
}
