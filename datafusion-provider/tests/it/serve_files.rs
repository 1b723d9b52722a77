//! Tables of files: however they are cut and read, they are what DataFusion reads.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, AsArray, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray,
};
use datafusion::arrow::datatypes::{DataType, Field, Int32Type, Schema};
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::file::properties::WriterProperties;
use datafusion::prelude::SessionContext;
use lightstream_core::ErrorCode;
use lightstream_core::protocol::filter::{CompareOp, Expr, FloatRule, Support};
use lightstream_core::protocol::request::ScanRequest;
use lightstream_core::protocol::statistics::Precision;
use lightstream_core::server::Units;
use lightstream_datafusion::serve::register_path;
use tempfile::TempDir;

use crate::serving::*;

/// Rows that tell where they stand: `id` counts on from `start`.
fn rows(start: i64, count: usize) -> RecordBatch {
    let ids: Vec<i64> = (start..).take(count).collect();
    let schema = Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("word", DataType::Utf8, true),
        Field::new("x", DataType::Float64, true),
    ]);
    let words = ids
        .iter()
        .map(|id| (id % 7 != 0).then(|| format!("w{}", id % 100)));
    let floats = ids
        .iter()
        .map(|id| (id % 5 != 0).then_some(*id as f64 / 4.0));
    RecordBatch::try_new(
        Arc::new(schema),
        vec![
            Arc::new(Int64Array::from(ids.clone())),
            Arc::new(StringArray::from_iter(words)),
            Arc::new(Float64Array::from_iter(floats)),
        ],
    )
    .unwrap()
}

fn write_parquet(path: &Path, batch: &RecordBatch, row_group_rows: usize) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let properties = WriterProperties::builder()
        .set_max_row_group_row_count(Some(row_group_rows))
        .build();
    let mut writer = ArrowWriter::try_new(
        File::create(path).unwrap(),
        batch.schema(),
        Some(properties),
    )
    .unwrap();
    writer.write(batch).unwrap();
    writer.close().unwrap();
}

fn write_csv(path: &Path, batch: &RecordBatch) {
    let mut writer =
        datafusion::arrow::csv::WriterBuilder::new().build(File::create(path).unwrap());
    writer.write(batch).unwrap();
}

fn write_ndjson(path: &Path, batch: &RecordBatch) {
    let mut writer = datafusion::arrow::json::LineDelimitedWriter::new(File::create(path).unwrap());
    writer.write(batch).unwrap();
    writer.finish().unwrap();
}

fn write_arrow(path: &Path, batch: &RecordBatch) {
    let mut writer = datafusion::arrow::ipc::writer::FileWriter::try_new(
        File::create(path).unwrap(),
        &batch.schema(),
    )
    .unwrap();
    for start in (0..batch.num_rows()).step_by(50) {
        writer
            .write(&batch.slice(start, 50.min(batch.num_rows() - start)))
            .unwrap();
    }
    writer.finish().unwrap();
}

async fn session_of(path: &Path) -> SessionContext {
    let context = plain_session();
    register_path(&context, "t", path).await.unwrap();
    context
}

async fn check(path: &Path) -> RecordBatch {
    let expected = plain_rows(&session_of(path).await, "t").await;
    check_cuts(
        async || session_of(path).await,
        "t",
        &ScanRequest::table("t"),
        &expected,
    )
    .await;
    expected
}

fn flights() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/data/flights.parquet")
}

#[tokio::test]
async fn row_groups_of_one_file() {
    let folder = TempDir::new().unwrap();
    write_parquet(&folder.path().join("a.parquet"), &rows(0, 1000), 90);
    let read = check(folder.path()).await;
    assert_eq!(read.num_rows(), 1000);
    let scan = plan(&session_of(folder.path()).await, &ScanRequest::table("t"))
        .await
        .unwrap();
    assert_eq!(
        scan.partitions()
            .iter()
            .map(|partition| partition.units)
            .sum::<u64>(),
        12
    );
    assert_eq!(scan.partitions().len(), 8);
}

#[tokio::test]
async fn more_files_than_partitions_and_fewer() {
    let folder = TempDir::new().unwrap();
    for file in 0..10 {
        write_parquet(
            &folder.path().join(format!("part-{file:02}.parquet")),
            &rows(file * 100, 100),
            40,
        );
    }
    assert_eq!(check(folder.path()).await.num_rows(), 1000);
    let few = TempDir::new().unwrap();
    for file in 0..2 {
        write_parquet(
            &few.path().join(format!("{file}.parquet")),
            &rows(file * 100, 100),
            1000,
        );
    }
    assert_eq!(check(few.path()).await.num_rows(), 200);
}

#[tokio::test]
async fn csv_ndjson_and_arrow_files() {
    for (extension, write) in [
        ("csv", write_csv as fn(&Path, &RecordBatch)),
        ("ndjson", write_ndjson),
        ("jsonl", write_ndjson),
        ("json", write_ndjson),
        ("arrow", write_arrow),
        ("feather", write_arrow),
    ] {
        let folder = TempDir::new().unwrap();
        for file in 0..5 {
            write(
                &folder.path().join(format!("{file}.{extension}")),
                &rows(file * 120, 120),
            );
        }
        assert_eq!(check(folder.path()).await.num_rows(), 600, "{extension}");
    }
}

#[tokio::test]
async fn hive_partitions_are_columns_and_prune_files() {
    let folder = TempDir::new().unwrap();
    for (file, (year, place)) in [(2023, "a b"), (2023, "c"), (2024, "a b"), (2024, "d%2Fe")]
        .into_iter()
        .enumerate()
    {
        let path = folder
            .path()
            .join(format!("year={year}/place={place}/data.parquet"));
        write_parquet(&path, &rows(file as i64 * 100, 100), 30);
    }
    let read = check(folder.path()).await;
    assert_eq!((read.num_rows(), read.num_columns()), (400, 5));
    let condition = Expr::compare(
        CompareOp::Eq,
        Expr::column("year"),
        literal(StringArray::from(vec!["2024"])),
    );
    let request = filtered(ScanRequest::table("t"), FloatRule::TotalOrder, condition);
    let context = session_of(folder.path()).await;
    let scan = plan(&context, &request).await.unwrap();
    assert_eq!(scan.filters(), [Support::Exact]);
    assert_eq!(read_all(scan.as_ref()).await.num_rows(), 200);
    // A file that need not be read may even be broken.
    let meta = fs::metadata(folder.path().join("year=2023/place=c/data.parquet")).unwrap();
    fs::write(
        folder.path().join("year=2023/place=c/data.parquet"),
        vec![0; meta.len() as usize],
    )
    .unwrap();
    assert_eq!(read_all(scan.as_ref()).await.num_rows(), 200);
}

#[tokio::test]
async fn flights_by_row_group() {
    let context = session_of(&flights()).await;
    let info = table(&context, "t")
        .await
        .describe("t", None)
        .await
        .unwrap();
    assert_eq!(info.statistics.rows, Precision::Exact(336_776));
    let scan = plan(
        &context,
        &ScanRequest {
            projection: Some(vec![1, 9]),
            ..ScanRequest::table("t")
        },
    )
    .await
    .unwrap();
    assert_eq!(scan.partitions().len(), 6);
    assert_eq!(read_all(scan.as_ref()).await.num_rows(), 336_776);
    let frame = context
        .sql("select count(*) from t where month = 12 and carrier = 'UA'")
        .await
        .unwrap();
    let expected = frame.collect().await.unwrap()[0]
        .column(0)
        .as_primitive::<datafusion::arrow::datatypes::Int64Type>()
        .value(0);
    let conjuncts = Expr::compare(
        CompareOp::Eq,
        Expr::column("month"),
        literal(Int32Array::from(vec![12])),
    )
    .and(Expr::compare(
        CompareOp::Eq,
        Expr::column("carrier"),
        literal(StringArray::from(vec!["UA"])),
    ));
    let request = filtered(ScanRequest::table("t"), FloatRule::TotalOrder, conjuncts);
    for projection in [Some(vec![]), Some(vec![0]), None] {
        let scan = plan(
            &context,
            &ScanRequest {
                projection,
                ..request.clone()
            },
        )
        .await
        .unwrap();
        assert_eq!(scan.filters(), [Support::Exact, Support::Exact]);
        assert_eq!(read_all(scan.as_ref()).await.num_rows() as i64, expected);
    }
}

#[tokio::test]
async fn projections_repeat_reorder_and_may_be_empty() {
    let folder = TempDir::new().unwrap();
    write_parquet(&folder.path().join("a.parquet"), &rows(0, 100), 30);
    write_parquet(&folder.path().join("b.parquet"), &rows(100, 100), 30);
    let context = session_of(folder.path()).await;
    let all = plain_rows(&context, "t").await;
    for projection in [vec![], vec![2], vec![2, 0], vec![1, 1, 0], vec![0, 1, 2]] {
        let request = ScanRequest {
            projection: Some(projection.clone()),
            ..ScanRequest::table("t")
        };
        check_cuts(
            async || session_of(folder.path()).await,
            "t",
            &request,
            &all.project(&projection).unwrap(),
        )
        .await;
    }
    let beyond = ScanRequest {
        projection: Some(vec![3]),
        ..ScanRequest::table("t")
    };
    assert_eq!(
        expect_error(plan(&context, &beyond).await).code(),
        ErrorCode::InvalidArgument
    );
}

#[tokio::test]
async fn a_snapshot_is_the_same_everywhere_until_a_file_changes() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("a.parquet");
    write_parquet(&path, &rows(0, 100), 30);
    write_parquet(&folder.path().join("b.parquet"), &rows(100, 100), 30);
    let (context, other) = (
        session_of(folder.path()).await,
        session_of(folder.path()).await,
    );
    let first = table(&context, "t")
        .await
        .describe("t", None)
        .await
        .unwrap();
    let again = table(&other, "t")
        .await
        .describe("t", first.snapshot.as_deref())
        .await
        .unwrap();
    assert_eq!(first.snapshot, again.snapshot);
    // A copy elsewhere, as a replica has it.
    let copy = TempDir::new().unwrap();
    for name in ["a.parquet", "b.parquet"] {
        fs::copy(folder.path().join(name), copy.path().join(name)).unwrap();
        let modified = fs::metadata(folder.path().join(name))
            .unwrap()
            .modified()
            .unwrap();
        File::options()
            .write(true)
            .open(copy.path().join(name))
            .unwrap()
            .set_modified(modified)
            .unwrap();
    }
    let replica = table(&session_of(copy.path()).await, "t")
        .await
        .describe("t", None)
        .await
        .unwrap();
    assert_eq!(first.snapshot, replica.snapshot);

    let request = ScanRequest {
        snapshot: first.snapshot.clone(),
        ..ScanRequest::table("t")
    };
    let scan = plan(&context, &request).await.unwrap();
    write_parquet(&path, &rows(5000, 100), 30);
    let table = table(&context, "t").await;
    let newer = table.describe("t", None).await.unwrap();
    assert_ne!(first.snapshot, newer.snapshot);
    let expired = expect_error(table.describe("t", first.snapshot.as_deref()).await);
    assert_eq!(expired.code(), ErrorCode::Expired, "{expired}");
    assert_eq!(
        expect_error(table.plan(&request).await).code(),
        ErrorCode::Expired
    );
    let read = units_of(scan.open(0, Units::ALL).unwrap()).await;
    assert_eq!(expect_error(read).code(), ErrorCode::Expired);
    // The session's own memory of the listing and of footers does not stand in the way.
    let read = read_all(
        plan(&context, &ScanRequest::table("t"))
            .await
            .unwrap()
            .as_ref(),
    )
    .await;
    assert_eq!(
        read.column(0)
            .as_primitive::<datafusion::arrow::datatypes::Int64Type>()
            .value(0),
        5000
    );

    fs::remove_file(&path).unwrap();
    fs::remove_file(folder.path().join("b.parquet")).unwrap();
    let empty = table.describe("t", None).await.unwrap();
    assert_eq!(empty.statistics.rows, Precision::Exact(0));
    let scan = plan(&context, &ScanRequest::table("t")).await.unwrap();
    assert_eq!(read_all(scan.as_ref()).await.num_rows(), 0);
}

#[tokio::test]
async fn a_file_that_changes_under_a_read_expires_it() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("a.csv");
    write_csv(&path, &rows(0, 100_000));
    let scan = plan(&session_of(folder.path()).await, &ScanRequest::table("t"))
        .await
        .unwrap();
    let mut stream = scan.open(0, Units::ALL).unwrap();
    use futures::StreamExt;
    assert!(stream.next().await.unwrap().is_ok());
    write_csv(&path, &rows(0, 200_000));
    assert_eq!(
        expect_error(units_of(stream).await).code(),
        ErrorCode::Expired
    );
}

#[tokio::test]
async fn a_single_file_that_is_gone_is_not_an_empty_table() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("a.parquet");
    write_parquet(&path, &rows(0, 100), 30);
    let context = session_of(&path).await;
    fs::remove_file(&path).unwrap();
    let gone = expect_error(table(&context, "t").await.describe("t", None).await);
    assert_eq!(gone.code(), ErrorCode::NotFound, "{gone}");
}

#[tokio::test]
async fn damaged_files_are_errors_and_never_panics() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("a.parquet");
    write_parquet(&path, &rows(0, 2000), 500);
    let whole = fs::read(&path).unwrap();
    let mut dice = Dice::new(3);
    for _ in 0..60 {
        let mut damaged = whole.clone();
        for _ in 0..1 + dice.roll(20) {
            let at = dice.roll(damaged.len());
            damaged[at] = dice.roll(256) as u8;
        }
        fs::write(&path, &whole).unwrap();
        let context = session_of(folder.path()).await;
        fs::write(&path, &damaged).unwrap();
        let Ok(scan) = plan(&context, &ScanRequest::table("t")).await else {
            continue;
        };
        for partition in 0..scan.partitions().len() {
            let _ = units_of(scan.open(partition, Units::ALL).unwrap()).await;
        }
    }
}

#[tokio::test]
async fn statistics_are_those_of_the_rows() {
    let folder = TempDir::new().unwrap();
    for file in 0..3 {
        write_parquet(
            &folder.path().join(format!("{file}.parquet")),
            &rows(file * 100, 100),
            30,
        );
    }
    let context = session_of(folder.path()).await;
    let all = plain_rows(&context, "t").await;
    let info = table(&context, "t")
        .await
        .describe("t", None)
        .await
        .unwrap();
    assert_eq!(info.statistics.rows, Precision::Exact(300));
    let id = &info.statistics.columns[0];
    assert_eq!(id.nulls, Precision::Exact(0));
    assert!(id.bounds_exact);
    let number = |array: &Option<datafusion::arrow::array::ArrayRef>| {
        array
            .as_ref()
            .unwrap()
            .as_primitive::<datafusion::arrow::datatypes::Int64Type>()
            .value(0)
    };
    assert_eq!((number(&id.min), number(&id.max)), (0, 299));
    let word = &info.statistics.columns[1];
    assert_eq!(
        word.nulls,
        Precision::Exact(all.column(1).null_count() as u64)
    );
    assert_eq!(
        word.min.as_ref().unwrap().data_type(),
        info.schema.field(1).data_type()
    );
    // Bounds of floats say nothing of NaN.
    assert!(info.statistics.columns[2].min.is_none());

    let request = ScanRequest {
        projection: Some(vec![1, 0]),
        max_partitions: Some(2),
        ..ScanRequest::table("t")
    };
    let scan = plan(&context, &request).await.unwrap();
    assert_eq!(number(&scan.statistics().columns[1].max), 299);
    let counted: u64 = scan
        .partitions()
        .iter()
        .filter_map(|partition| partition.rows.value())
        .sum();
    assert_eq!(counted, 300);
    let condition = Expr::compare(
        CompareOp::Lt,
        Expr::column("id"),
        literal(Int64Array::from(vec![5])),
    );
    let scan = plan(&context, &filtered(request, FloatRule::Ieee, condition))
        .await
        .unwrap();
    assert_eq!(scan.statistics().rows, Precision::Inexact(300));
    assert!(!scan.statistics().columns[1].bounds_exact);
}

#[tokio::test]
async fn a_filter_that_is_always_false_reads_nothing() {
    let folder = TempDir::new().unwrap();
    write_parquet(&folder.path().join("a.parquet"), &rows(0, 100), 30);
    let context = session_of(folder.path()).await;
    // The column is not nullable: DataFusion plans no scan at all.
    for condition in [
        Expr::IsNull(Box::new(Expr::column("id"))),
        Expr::Or(Vec::new()),
        Expr::compare(
            CompareOp::Gt,
            literal(Int64Array::from(vec![1])),
            literal(Int64Array::from(vec![2])),
        ),
    ] {
        let scan = plan(
            &context,
            &filtered(ScanRequest::table("t"), FloatRule::Ieee, condition),
        )
        .await
        .unwrap();
        assert_eq!(
            scan.partitions()
                .iter()
                .map(|partition| partition.units)
                .sum::<u64>(),
            4
        );
        assert_eq!(read_all(scan.as_ref()).await.num_rows(), 0);
    }
}

#[tokio::test]
async fn files_of_other_schemas_fill_in_nulls() {
    let folder = TempDir::new().unwrap();
    write_parquet(&folder.path().join("a.parquet"), &rows(0, 100), 30);
    write_parquet(
        &folder.path().join("b.parquet"),
        &rows(100, 100).project(&[0, 2]).unwrap(),
        30,
    );
    let read = check(folder.path()).await;
    assert_eq!(read.column(1).slice(100, 100).null_count(), 100);
    let narrow = TempDir::new().unwrap();
    let ids = Arc::new(Int32Array::from_iter_values(0..50));
    let batch =
        RecordBatch::try_from_iter([("id", ids as datafusion::arrow::array::ArrayRef)]).unwrap();
    write_parquet(&narrow.path().join("a.parquet"), &batch, 20);
    assert_eq!(
        check(narrow.path())
            .await
            .column(0)
            .as_primitive::<Int32Type>()
            .value(49),
        49
    );
}

#[tokio::test]
async fn a_declared_order_holds_for_one_file_alone() {
    use datafusion::datasource::file_format::options::ParquetReadOptions;
    use datafusion::logical_expr::col;
    let folder = TempDir::new().unwrap();
    write_parquet(&folder.path().join("a.parquet"), &rows(0, 100), 30);
    let order = vec![vec![
        col("id").sort(true, false),
        col("word").sort(false, true),
    ]];
    let context = SessionContext::new();
    let options = || ParquetReadOptions::default().file_sort_order(order.clone());
    let path = folder.path().to_str().unwrap().to_owned() + "/";
    context
        .register_parquet("t", &path, options())
        .await
        .unwrap();
    let info = table(&context, "t")
        .await
        .describe("t", None)
        .await
        .unwrap();
    let said: Vec<_> = info
        .ordering
        .iter()
        .map(|sort| (sort.path[0].as_str(), sort.descending))
        .collect();
    assert_eq!(said, [("id", false), ("word", true)]);
    let request = ScanRequest {
        projection: Some(vec![0]),
        ..ScanRequest::table("t")
    };
    assert_eq!(plan(&context, &request).await.unwrap().ordering().len(), 1);
    write_parquet(&folder.path().join("b.parquet"), &rows(50, 100), 30);
    assert!(
        plan(&context, &request)
            .await
            .unwrap()
            .ordering()
            .is_empty()
    );
    assert_eq!(
        read_all(plan(&context, &request).await.unwrap().as_ref())
            .await
            .num_rows(),
        200
    );
}
