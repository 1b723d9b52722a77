//! What a server has done and is at, in the text format of Prometheus. Each metric is described in `METRICS.md`.

use std::fmt::Error;
use std::sync::Arc;
use std::time::Duration;

use datafusion::execution::memory_pool::MemoryPool;
use lightstream_core::server::{Durations, Outcomes, ServerMetrics, StatsReader};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeGaugeValue, EncodeLabelSet, EncodeMetric, NoLabelSet, prometheus_text,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

/// The type of what [`Metrics::text`] gives.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// What is watched: a server, and the memory that its queries take.
#[derive(Debug, Clone)]
pub struct Metrics {
    pub stats: StatsReader,
    pub query_memory: Arc<dyn MemoryPool>,
}

impl Metrics {
    /// The metrics as they are now.
    ///
    /// # Errors
    /// None that is known: it is written to memory.
    pub fn text(&self) -> Result<String, Error> {
        let mut registry = Registry::with_prefix("lightstream");
        registry.register_collector(Box::new(self.clone()));
        let mut text = String::new();
        prometheus_text::encode(&mut text, &registry)?;
        Ok(text)
    }
}

impl Collector for Metrics {
    fn encode(&self, encoder: DescriptorEncoder) -> Result<(), Error> {
        let mut writer = Writer(encoder);
        let metrics = self.stats.metrics();
        writer.gauge(
            "build_info",
            "Always 1; the version is a label.",
            [([("version", env!("CARGO_PKG_VERSION"))], 1i64)],
        )?;
        writer.gauge(
            "draining",
            "1 while no connection is accepted any more and scans under way finish.",
            [(NONE, i64::from(metrics.is_draining))],
        )?;
        writer.connections(&metrics)?;
        writer.requests(&metrics)?;
        writer.scans(&metrics)?;
        writer.gauge(
            "query_memory_bytes",
            "Memory that queries hold to sort, join and group.",
            [(NONE, self.query_memory.reserved() as u64)],
        )
    }
}

/// No labels.
const NONE: [(&str, &str); 0] = [];

struct Writer<'a>(DescriptorEncoder<'a>);

impl Writer<'_> {
    fn connections(&mut self, metrics: &ServerMetrics) -> Result<(), Error> {
        self.counter(
            "connections",
            "Connections accepted.",
            [(NONE, metrics.stats.connections)],
        )?;
        self.gauge(
            "connections_open",
            "Connections open now.",
            [(NONE, metrics.stats.active_connections)],
        )?;
        let refused = metrics.refused_connections.iter();
        self.counter(
            "connections_refused",
            "Connections that were not served, by reason.",
            refused.map(|(reason, count)| ([("reason", *reason)], *count)),
        )?;
        self.counter(
            "login_pauses",
            "Answers to wrong credentials that were held back.",
            [(NONE, metrics.login_pauses)],
        )?;
        self.seconds(
            "login_pause_seconds",
            "For how long they were held back, all together.",
            metrics.login_pause,
        )
    }

    fn requests(&mut self, metrics: &ServerMetrics) -> Result<(), Error> {
        let requests = &metrics.requests;
        self.counter(
            "requests",
            "Requests that ended, by what was asked for and how they ended.",
            requests.iter().flat_map(|(request, outcomes)| {
                ways(outcomes).map(move |(outcome, count)| {
                    ([("request", *request), ("outcome", outcome)], count)
                })
            }),
        )?;
        self.counter(
            "request_errors",
            "Requests answered with an error, by what was asked for and the code of the error.",
            requests.iter().flat_map(|(request, outcomes)| {
                outcomes.failed.iter().map(move |(code, count)| {
                    ([("request", *request), ("code", code.as_str())], *count)
                })
            }),
        )
    }

    fn scans(&mut self, metrics: &ServerMetrics) -> Result<(), Error> {
        let tables = &metrics.tables;
        self.gauge(
            "scans_active",
            "Partitions, or stripes of them, that are being read now.",
            [(NONE, metrics.stats.active_scans)],
        )?;
        self.gauge(
            "scans_queued",
            "Scans that wait for their turn now.",
            [(NONE, metrics.queued_scans)],
        )?;
        self.gauge(
            "plans_held",
            "Planned scans that are held with their snapshots, to be read or read on.",
            [(NONE, metrics.held_plans)],
        )?;
        self.counter(
            "scans",
            "Scans that ended, by table and how they ended.",
            tables.iter().flat_map(|(table, stats)| {
                ways(&stats.scans).map(move |(outcome, count)| {
                    ([("table", table.as_str()), ("outcome", outcome)], count)
                })
            }),
        )?;
        self.counter(
            "scan_errors",
            "Scans that ended with an error, by table and the code of the error.",
            tables.iter().flat_map(|(table, stats)| {
                stats.scans.failed.iter().map(move |(code, count)| {
                    ([("table", table.as_str()), ("code", code.as_str())], *count)
                })
            }),
        )?;
        let sent = tables.iter().map(|(table, stats)| {
            let label = [("table", table.as_str())];
            (label, stats.rows_sent, stats.bytes_sent, stats.batches_sent)
        });
        self.counter(
            "sent_rows",
            "Rows sent, by table.",
            sent.clone().map(|(label, rows, _, _)| (label, rows)),
        )?;
        self.counter(
            "sent_bytes",
            "Bytes of rows sent, by table.",
            sent.clone().map(|(label, _, bytes, _)| (label, bytes)),
        )?;
        self.counter(
            "sent_batches",
            "Batches of rows sent, by table.",
            sent.map(|(label, _, _, batches)| (label, batches)),
        )?;
        self.durations(
            "first_frame_seconds",
            "From a request for rows until the first of them had gone out.",
            &metrics.first_frame,
        )?;
        self.durations(
            "scan_seconds",
            "From a request for rows until its end, however it ended.",
            &metrics.scan,
        )
    }

    fn counter<L: EncodeLabelSet>(
        &mut self,
        name: &str,
        help: &str,
        values: impl IntoIterator<Item = (L, u64)>,
    ) -> Result<(), Error> {
        let mut family = self
            .0
            .encode_descriptor(name, help, None, MetricType::Counter)?;
        for (labels, value) in values {
            ConstCounter::new(value).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }

    fn gauge<L: EncodeLabelSet, N: EncodeGaugeValue>(
        &mut self,
        name: &str,
        help: &str,
        values: impl IntoIterator<Item = (L, N)>,
    ) -> Result<(), Error> {
        let mut family = self
            .0
            .encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (labels, value) in values {
            ConstGauge::new(value).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }

    fn seconds(&mut self, name: &str, help: &str, total: Duration) -> Result<(), Error> {
        let encoder = self
            .0
            .encode_descriptor(name, help, None, MetricType::Counter)?;
        ConstCounter::new(total.as_secs_f64()).encode(encoder)
    }

    fn durations(&mut self, name: &str, help: &str, durations: &Durations) -> Result<(), Error> {
        let buckets: Vec<_> = durations
            .buckets
            .iter()
            .map(|&(bound, count)| match bound {
                Duration::MAX => (f64::INFINITY, count),
                bound => (bound.as_secs_f64(), count),
            })
            .collect();
        let total = durations.total.as_secs_f64();
        self.0
            .encode_descriptor(name, help, None, MetricType::Histogram)?
            .encode_histogram::<NoLabelSet>(total, durations.count(), &buckets, None)
    }
}

/// Each way to end, and how often it was taken.
fn ways(outcomes: &Outcomes) -> impl Iterator<Item = (&'static str, u64)> {
    [
        ("finished", outcomes.finished),
        ("cancelled", outcomes.cancelled),
        ("abandoned", outcomes.abandoned),
        ("failed", outcomes.failures()),
    ]
    .into_iter()
}
