//! Writes seeds for the fuzz targets into the folder that is named: frames, table payloads, files and streams of
//! arbitrary batches, and requests to a server.

use std::error::Error;
use std::path::PathBuf;

use arrow_ipc::CompressionType;
use arrow_ipc::writer::{FileWriter, IpcWriteOptions};
use lightstream_core::conformance::batches::arbitrary_schema_and_batches;
use lightstream_core::protocol::frame::{Header, Tag};
use lightstream_core::protocol::ipc::{Encoder, encode_batches};
use lightstream_core::protocol::messages::{
    Cancel, Column, DescribeTable, Expr, Filter, ListTables, Ping, Plan, Projection, Read, Release,
    Renew, Request, ScanRequest, expr, request, scan_request,
};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use prost::Message;

const SEEDS: usize = 100;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = PathBuf::from(
        std::env::args_os()
            .nth(1)
            .ok_or("usage: fuzz_seeds FOLDER")?,
    );
    let [frames, payloads, files, requests] =
        ["frames", "ipc_payload", "ipc_file", "requests"].map(|name| folder.join(name));
    for folder in [&frames, &payloads, &files, &requests] {
        std::fs::create_dir_all(folder)?;
    }
    for (n, request) in client_requests().into_iter().enumerate() {
        let encoded = Request {
            timeout_ms: 1000,
            traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".to_owned(),
            kind: Some(request),
        }
        .encode_to_vec();
        let mut seed = u16::try_from(encoded.len())?.to_le_bytes().to_vec();
        seed.extend_from_slice(&encoded);
        std::fs::write(requests.join(format!("request-{n}")), seed)?;
    }
    let mut runner = TestRunner::deterministic();
    for seed in 0..SEEDS {
        let tree = arbitrary_schema_and_batches()
            .new_tree(&mut runner)
            .map_err(|why| why.to_string())?;
        let (schema, batches) = tree.current();
        let mut encoder = Encoder::try_new(schema)?;
        let (mut framed, mut with_lengths) = (Vec::new(), Vec::new());
        for batch in &batches {
            let payload = encoder.encode(batch)?.to_vec();
            let header = Header::try_new(Tag::Batch, payload.len())?;
            framed.extend_from_slice(&header.to_bytes());
            framed.extend_from_slice(&payload);
            with_lengths.extend_from_slice(&header.length.to_le_bytes());
            with_lengths.extend_from_slice(&payload);
        }
        std::fs::write(frames.join(format!("arbitrary-{seed}")), framed)?;
        std::fs::write(payloads.join(format!("arbitrary-{seed}")), with_lengths)?;
        std::fs::write(
            files.join(format!("arbitrary-{seed}.arrows")),
            encode_batches(&batches)?,
        )?;
        let Some(batch) = batches.first() else {
            continue;
        };
        for (name, compression) in [
            ("plain", None),
            ("lz4", Some(CompressionType::LZ4_FRAME)),
            ("zstd", Some(CompressionType::ZSTD)),
        ] {
            let options = IpcWriteOptions::default().try_with_compression(compression)?;
            let mut writer =
                FileWriter::try_new_with_options(Vec::new(), &batch.schema(), options)?;
            // Arrow's writer does not know every type.
            if writer.write(batch).is_ok() {
                std::fs::write(
                    files.join(format!("arbitrary-{seed}-{name}.arrow")),
                    writer.into_inner()?,
                )?;
            }
        }
    }
    Ok(())
}

/// One request of each kind, and scans of several. Without a ticket the fuzz target gives them one.
fn client_requests() -> Vec<request::Kind> {
    let scan = |request: ScanRequest| {
        let request = ScanRequest {
            source: Some(scan_request::Source::Table("t".into())),
            ..request
        };
        let plan = request::Kind::Plan(Plan {
            request: Some(request.clone()),
            inline_up_to_bytes: 1000,
        });
        let read = request::Kind::Read(Read {
            request: Some(request),
            stripes: 1,
            ..Read::default()
        });
        [plan, read]
    };
    let column = |name: &str| Expr {
        kind: Some(expr::Kind::Column(Column {
            path: vec![name.into()],
        })),
    };
    let not_null = Filter {
        conjuncts: vec![Expr {
            kind: Some(expr::Kind::IsNotNull(Box::new(column("b")))),
        }],
        ..Filter::default()
    };
    let some_columns = ScanRequest {
        projection: Some(Projection {
            columns: vec![2, 0],
        }),
        limit: Some(10),
        ordered: true,
        max_partitions: 4,
        ..ScanRequest::default()
    };
    let filtered = ScanRequest {
        filter: Some(not_null),
        ..ScanRequest::default()
    };
    let mut kinds = vec![
        request::Kind::Ping(Ping {}),
        request::Kind::Cancel(Cancel {}),
        request::Kind::Renew(Renew::default()),
        request::Kind::Release(Release::default()),
        request::Kind::ListTables(ListTables {
            prefix: "t".into(),
            ..ListTables::default()
        }),
        request::Kind::DescribeTable(DescribeTable {
            name: "t".into(),
            ..DescribeTable::default()
        }),
    ];
    for request in [ScanRequest::default(), some_columns, filtered] {
        kinds.extend(scan(request));
    }
    kinds
}
