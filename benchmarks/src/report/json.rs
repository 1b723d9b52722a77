//! `transport.json`: a list of records, first those of the cells, then those of small scans.

use serde_json::Value;

use super::Report;
use crate::{Result, output};

pub fn records(report: &Report) -> Result<String> {
    let mut list = Vec::new();
    for record in &report.records {
        list.push(serde_json::to_value(record)?);
    }
    for record in &report.one_row {
        list.push(serde_json::to_value(record)?);
    }
    for record in &mut list {
        let Value::Object(fields) = record else {
            continue;
        };
        if let Some(link) = &report.link {
            fields.insert("link".to_owned(), serde_json::to_value(link)?);
        }
        let is_flight =
            matches!(fields.get("system"), Some(Value::String(name)) if name.starts_with("flight"));
        if report.flight_info && is_flight {
            fields.insert("flight_info".to_owned(), true.into());
        }
    }
    output::list(list)
}

#[cfg(test)]
pub mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Args, Link};
    use crate::measure::{Percentiles, Spread};
    use crate::report::{Measured, OneRow, Record};

    /// Three systems in one cell, and a small scan.
    pub fn report() -> Report {
        let args = Args::parse_from(["transport"]);
        let record = |system: &str, rate: f64, ordered, retain| Record {
            system: system.to_owned(),
            shape: "numeric".to_owned(),
            streams: 2,
            ordered,
            retain,
            variant: None,
            measured: Measured {
                gib_s: Spread::of(&[rate]),
                cpu_s_per_gib: 1.0 / rate,
                batch_ms: Percentiles::of(vec![1000]),
                first_batch_ms: 1.0,
                peak_rss_bytes: 1 << 20,
                sender_peak_rss_bytes: 1 << 21,
            },
        };
        let mut report = Report::new(&args).unwrap();
        report.records = vec![
            record("raw-tcp", 4.0, false, false),
            record("lightstream", 3.0, true, false),
            record("flight", 0.5, false, false),
            record("flight-8mib", 1.0, false, false),
            record("raw-tcp-fresh", 2.0, false, true),
        ];
        report.one_row = vec![OneRow {
            system: "flight".to_owned(),
            shape: "one-row".to_owned(),
            streams: 1,
            ordered: false,
            seconds: Spread::of(&[1e-4]),
            p99_seconds: 2e-4,
            scans_per_s: 1e4,
            cpu_s_per_scan: 1e-4,
            peak_rss_bytes: 1,
        }];
        report
    }

    #[test]
    fn records_have_the_agreed_fields() {
        let list: Vec<Value> = serde_json::from_str(&records(&report()).unwrap()).unwrap();
        assert_eq!(list.len(), 6);
        for record in &list[..5] {
            for field in ["system", "shape", "streams", "ordered"] {
                assert!(!record[field].is_null(), "{field} of {record}");
            }
            for field in [
                "/gib_s/median",
                "/gib_s/min",
                "/gib_s/max",
                "/cpu_s_per_gib",
            ] {
                assert!(
                    record.pointer(field).unwrap().is_f64(),
                    "{field} of {record}"
                );
            }
            for field in ["/batch_ms/p50", "/batch_ms/p95", "/batch_ms/p99"] {
                assert!(
                    record.pointer(field).unwrap().is_f64(),
                    "{field} of {record}"
                );
            }
            assert!(record["peak_rss_bytes"].is_u64());
        }
        assert_eq!(list[0].get("retain"), None);
        assert_eq!(list[4]["retain"], true);
        assert!(list[5].pointer("/seconds/median").unwrap().is_f64());
        assert_eq!(list[0].get("link"), None);
    }

    #[test]
    fn the_link_is_part_of_every_record() {
        let mut report = report();
        report.link = Some(Link {
            rtt_ms: 10.0,
            mbit_s: 100.0,
        });
        report.flight_info = true;
        let list: Vec<Value> = serde_json::from_str(&records(&report).unwrap()).unwrap();
        for record in &list {
            assert_eq!(record["link"]["rtt_ms"], 10.0);
            let is_flight = record["system"].as_str().unwrap().starts_with("flight");
            assert_eq!(record.get("flight_info").is_some(), is_flight);
        }
    }
}
