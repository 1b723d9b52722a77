//! Every kind of source behind a connection that is cut: all rows once, or a typed error where it cannot go on.

use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::{AsArray, Int64Array, RecordBatch};
use datafusion::arrow::datatypes::Int64Type;
use datafusion::prelude::SessionContext;
use futures::{StreamExt, TryStreamExt, stream};
use lightstream_core::protocol::filter::{CompareOp, Expr, Filter, FloatRule};
use lightstream_core::protocol::request::ScanRequest;
use lightstream_core::server::{
    MappedIpcTable, MemoryTable, RowSource, RowStream, Server, StreamTable,
};
use lightstream_core::{Client, Error, ErrorCode, Options};
use lightstream_datafusion::serve::{DataFusionCatalog, register_path};
use lightstream_tests::fixture::{large_rows, small_rows, write_ipc, write_parquet};
use lightstream_tests::proxy::{Direction, Ending, Fault, Proxy};
use lightstream_tests::servers::{ANY_PORT, becomes_idle, options};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

const AT_ONCE: usize = 4;

const FILES: i64 = 3;
const FILE_ROWS: i64 = 3000;

/// Rows that are made anew for each scan.
struct Made(i64);

#[async_trait]
impl RowSource for Made {
    async fn open(&self) -> Result<RowStream, Error> {
        let batches = (0..self.0)
            .step_by(100)
            .map(|from| Ok(small_rows(from..from + 100)));
        let batches: Vec<_> = batches.collect();
        Ok(RowStream {
            schema: small_rows(0..1).schema(),
            batches: stream::iter(batches).boxed(),
        })
    }
}

/// A scan of a source, and what is to come of it.
struct Case {
    name: &'static str,
    request: ScanRequest,
    ids: Vec<i64>,
    /// Whether it can go on in the middle.
    resumes: bool,
}

fn id_filter(ids: Range<i64>) -> Filter {
    let bound = |op, value: i64| {
        let literal = Expr::literal(Arc::new(Int64Array::from(vec![value]))).unwrap();
        Expr::compare(op, Expr::column("id"), literal)
    };
    let from = bound(CompareOp::GtEq, ids.start);
    Filter::new(
        FloatRule::TotalOrder,
        from.and(bound(CompareOp::Lt, ids.end)),
    )
}

fn cases() -> Vec<Case> {
    let ordered = |request: ScanRequest| ScanRequest {
        ordered: true,
        ..request
    };
    let table = |name: &str| ordered(ScanRequest::table(name));
    let all: Vec<i64> = (0..FILES * FILE_ROWS).collect();
    let join = "SELECT a.id, b.text FROM parquet AS a JOIN parquet AS b ON a.id = b.id WHERE a.id % 2 = 0 ORDER BY a.id";
    vec![
        Case {
            name: "memory",
            request: table("memory"),
            ids: all.clone(),
            resumes: true,
        },
        Case {
            name: "mapped IPC",
            request: table("ipc"),
            ids: (0..4 * 256).collect(),
            resumes: true,
        },
        Case {
            name: "a folder of Parquet files",
            request: table("parquet"),
            ids: all.clone(),
            resumes: true,
        },
        Case {
            name: "a filtered folder",
            request: ScanRequest {
                filter: id_filter(700..7100),
                ..table("parquet")
            },
            ids: (700..7100).collect(),
            resumes: true,
        },
        Case {
            name: "a join",
            request: ordered(ScanRequest::sql(join)),
            ids: all.iter().copied().filter(|id| id % 2 == 0).collect(),
            resumes: false,
        },
        Case {
            name: "rows made for each scan",
            request: table("made"),
            ids: all,
            resumes: false,
        },
    ]
}

async fn serve(folder: &std::path::Path) -> Server {
    let parquet = folder.join("parquet");
    std::fs::create_dir(&parquet).unwrap();
    for file in 0..FILES {
        let rows = small_rows(file * FILE_ROWS..(file + 1) * FILE_ROWS);
        write_parquet(&parquet.join(format!("{file}.parquet")), &[rows], 400);
    }
    let ipc = folder.join("t.arrow");
    write_ipc(&ipc, &large_rows(4));
    let context = SessionContext::new();
    register_path(&context, "parquet", &parquet).await.unwrap();
    let rows = small_rows(0..FILES * FILE_ROWS);
    Server::builder()
        .table("memory", MemoryTable::try_new(vec![rows]).unwrap())
        .table("ipc", MappedIpcTable::open(ipc).unwrap())
        .table("made", StreamTable::new(Made(FILES * FILE_ROWS)))
        .catalog(DataFusionCatalog::new(context))
        .listen(ANY_PORT)
        .await
        .unwrap()
}

fn small_frames(retries: &str) -> Options {
    options(&[
        ("max_frame_bytes", "8KiB"),
        ("retries", retries),
        ("retry_backoff", "1ms"),
    ])
}

async fn ids(url: &str, request: &ScanRequest, options: Options) -> Result<Vec<i64>, Error> {
    let client = Client::new(url, options)?;
    // Read, and not sent along with the plan.
    let plan = client.plan_superset(request).await?;
    let batches: Vec<RecordBatch> = plan.read().try_collect().await?;
    let column = |batch: &RecordBatch| {
        batch
            .column(0)
            .as_primitive::<Int64Type>()
            .values()
            .to_vec()
    };
    Ok(batches.iter().flat_map(column).collect())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_source_goes_on_after_a_cut_or_says_that_it_cannot() {
    let folder = tempfile::tempdir().unwrap();
    let server = serve(folder.path()).await;
    for case in cases() {
        let proxy = Proxy::start(&server.url(), |_| Fault::NONE).await;
        let found = ids(proxy.url(), &case.request, small_frames("0"))
            .await
            .unwrap();
        assert_eq!(found, case.ids, "{}", case.name);
        let total = proxy.to_client();
        let mut random = StdRng::seed_from_u64(7);
        let places: Vec<u64> = (0..40).map(|_| random.random_range(0..total)).collect();
        let (url, request) = (server.url(), &case.request);
        let mut scans = stream::iter(places)
            .map(|place| {
                let url = url.clone();
                async move {
                    let ending = if place % 2 == 0 {
                        Ending::Close
                    } else {
                        Ending::Reset
                    };
                    let cut = Fault::end(Direction::ToClient, place, ending);
                    let first = move |number| if number == 0 { cut } else { Fault::NONE };
                    let always = Proxy::start(&url, move |_| cut).await;
                    let once = ids(always.url(), request, small_frames("0")).await;
                    let first = Proxy::start(&url, first).await;
                    (
                        place,
                        once,
                        ids(first.url(), request, small_frames("3")).await,
                    )
                }
            })
            .buffer_unordered(AT_ONCE);
        let (mut whole, mut refused) = (0, 0);
        while let Some((place, once, again)) = scans.next().await {
            let what = format!("{} cut after {place} of {total}", case.name);
            let error = once.expect_err(&what);
            let expected = [ErrorCode::DataLoss, ErrorCode::Unavailable];
            assert!(expected.contains(&error.code()), "{what}: {error}");
            match again {
                Ok(found) => {
                    assert!(found == case.ids, "{what}");
                    whole += 1;
                }
                Err(error) => {
                    assert!(!case.resumes, "{what}: {error}");
                    assert!(
                        error.to_string().contains("cannot be read from the middle"),
                        "{what}: {error}"
                    );
                    refused += 1;
                }
            }
        }
        drop(scans);
        println!("{}: {whole} whole, {refused} refused", case.name);
        assert_eq!(refused > 0, !case.resumes, "{}", case.name);
    }
    becomes_idle(&server).await;
}
