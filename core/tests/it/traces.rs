//! A trace that begins with the caller goes on at the server, as OpenTelemetry records it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use futures::TryStreamExt;
use lightstream_core::protocol::request::ScanRequest;
use lightstream_core::server::{MemoryTable, Server};
use lightstream_core::trace::{Propagator, TraceContext, set_propagator};
use lightstream_core::{Client, Options};
use opentelemetry::trace::{
    SpanContext, SpanId, SpanKind, TraceContextExt, TraceFlags, TraceId, TraceState, TracerProvider,
};
use opentelemetry::{Context, Value};
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};
use tracing::{Instrument, Span};
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::layer::SubscriberExt;

struct OpenTelemetry;

impl Propagator for OpenTelemetry {
    fn current(&self) -> Option<TraceContext> {
        let context = Span::current().context();
        let span = context.span().span_context().clone();
        span.is_valid().then(|| TraceContext {
            trace_id: span.trace_id().to_bytes(),
            parent_id: span.span_id().to_bytes(),
            flags: span.trace_flags().to_u8(),
        })
    }

    fn adopt(&self, span: &Span, caller: &TraceContext) {
        let caller = SpanContext::new(
            TraceId::from_bytes(caller.trace_id),
            SpanId::from_bytes(caller.parent_id),
            TraceFlags::new(caller.flags),
            true,
            TraceState::NONE,
        );
        span.set_parent(Context::new().with_remote_span_context(caller))
            .unwrap();
    }
}

fn attribute(span: &SpanData, name: &str) -> Option<Value> {
    let found = span
        .attributes
        .iter()
        .find(|pair| pair.key.as_str() == name);
    found.map(|pair| pair.value.clone())
}

/// Names of a span and of those around it, from the outermost in.
fn path(spans: &HashMap<SpanId, SpanData>, of: &SpanData) -> Vec<String> {
    let mut names = vec![of.name.to_string()];
    let mut parent = of.parent_span_id;
    while let Some(span) = spans.get(&parent) {
        names.insert(0, span.name.to_string());
        parent = span.parent_span_id;
    }
    names
}

#[tokio::test]
async fn the_spans_of_a_server_are_children_of_its_client_s() {
    let exporter = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder()
        .with_simple_exporter(exporter.clone())
        .build();
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("test"));
    let _recording = tracing::subscriber::set_default(tracing_subscriber::registry().with(layer));
    set_propagator(OpenTelemetry).unwrap();
    assert!(set_propagator(OpenTelemetry).is_err());

    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..100_000));
    let rows = RecordBatch::try_from_iter([("n", numbers)]).unwrap();
    let server = Server::builder()
        .table("numbers", MemoryTable::try_new(vec![rows]).unwrap())
        .listen("lightstream://127.0.0.1:0")
        .await
        .unwrap();
    let client = Client::new(&server.url(), Options::default()).unwrap();
    let request = ScanRequest {
        max_partitions: Some(1),
        ..ScanRequest::table("numbers")
    };
    let query = tracing::info_span!("query");
    let read = async {
        let scan = client.scan(&request).await.unwrap();
        scan.try_collect::<Vec<_>>().await.unwrap()
    };
    let batches = read.instrument(query.clone()).await;
    let count: usize = batches.iter().map(RecordBatch::num_rows).sum();
    assert_eq!(count, 100_000);
    drop(query);
    drop(client);
    assert!(server.shutdown(Duration::from_secs(10)).await);

    let spans = exporter.get_finished_spans().unwrap();
    let by_id: HashMap<SpanId, SpanData> = spans
        .iter()
        .map(|span| (span.span_context.span_id(), span.clone()))
        .collect();
    let query = spans.iter().find(|span| span.name == "query").unwrap();
    for (request, around) in [("plan", "lightstream.plan"), ("read", "lightstream.read")] {
        let at_server = spans.iter().find(|span| {
            span.span_kind == SpanKind::Server && attribute(span, "request") == Some(request.into())
        });
        let at_server = at_server.unwrap_or_else(|| panic!("no span of {request}"));
        assert_eq!(
            path(&by_id, at_server),
            [
                "query",
                around,
                "lightstream.request",
                "lightstream.request"
            ]
        );
        let trace = query.span_context.trace_id();
        assert_eq!(at_server.span_context.trace_id(), trace);
        assert!(at_server.parent_span_is_remote);
        assert_eq!(
            attribute(at_server, "trace_id"),
            Some(trace.to_string().into())
        );
        assert_eq!(attribute(at_server, "table"), Some("numbers".into()));
        assert_eq!(attribute(at_server, "outcome"), Some("finished".into()));
    }
    let read = spans.iter().find(|span| span.name == "lightstream.read");
    assert_eq!(attribute(read.unwrap(), "rows"), Some(Value::I64(100_000)));
}
