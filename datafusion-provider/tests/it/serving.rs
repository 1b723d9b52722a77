//! Reading what a catalog serves, unit by unit, and comparing it with what DataFusion reads by itself.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use datafusion::arrow::compute::concat_batches;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::prelude::{SessionConfig, SessionContext};
use futures::StreamExt;
use lightstream_core::protocol::filter::{Expr, Filter, FloatRule};
use lightstream_core::protocol::request::ScanRequest;
use lightstream_core::server::{Catalog, Scan, Table, UnitEvent, UnitStream, Units};
use lightstream_core::{Error, Result};
use lightstream_datafusion::serve::DataFusionCatalog;

/// Numbers that look random and are the same in every run.
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) as usize % sides.max(1)
    }

    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.roll(last + 1));
        }
    }
}

/// A session that reads in the order of its files.
pub fn plain_session() -> SessionContext {
    SessionContext::new_with_config(SessionConfig::new().with_target_partitions(1))
}

pub async fn table(context: &SessionContext, name: &str) -> Arc<dyn Table> {
    DataFusionCatalog::new(context.clone())
        .table(name)
        .await
        .unwrap()
        .expect("the table exists")
}

/// A plan made by a catalog of its own.
pub async fn plan(context: &SessionContext, request: &ScanRequest) -> Result<Arc<dyn Scan>> {
    use lightstream_core::protocol::request::ScanSource;
    let catalog = DataFusionCatalog::new(context.clone());
    let table = match &request.source {
        ScanSource::Table(name) => catalog.table(name).await?.expect("the table exists"),
        ScanSource::Sql(sql) => catalog.query(sql).await?,
    };
    table.plan(request).await
}

/// What a stream gives, unit by unit.
pub async fn units_of(mut stream: UnitStream) -> Result<Vec<(u64, Vec<RecordBatch>)>, Error> {
    let mut units = Vec::new();
    let mut batches = Vec::new();
    while let Some(event) = stream.next().await {
        match event? {
            UnitEvent::Batch(batch) => batches.push(batch),
            UnitEvent::End(unit) => units.push((unit, std::mem::take(&mut batches))),
        }
    }
    assert!(batches.is_empty(), "rows after the last unit's end");
    Ok(units)
}

pub async fn read_units(
    scan: &dyn Scan,
    partition: usize,
    units: Units,
) -> Vec<(u64, Vec<RecordBatch>)> {
    let read = units_of(scan.open(partition, units).unwrap())
        .await
        .unwrap();
    let count = scan.partitions()[partition].units;
    let ended: Vec<_> = read.iter().map(|(unit, _)| *unit).collect();
    assert_eq!(
        ended,
        units.within(count).collect::<Vec<_>>(),
        "every wanted unit ends, in order"
    );
    for batch in read.iter().flat_map(|(_, batches)| batches) {
        assert_eq!(batch.schema_ref(), scan.schema());
    }
    read
}

/// All rows of a scan, partition after partition.
pub async fn read_all(scan: &dyn Scan) -> RecordBatch {
    let mut batches = Vec::new();
    for partition in 0..scan.partitions().len() {
        batches.extend(
            read_units(scan, partition, Units::ALL)
                .await
                .into_iter()
                .flat_map(|(_, batches)| batches),
        );
    }
    concat(scan.schema(), &batches)
}

pub fn concat(schema: &SchemaRef, batches: &[RecordBatch]) -> RecordBatch {
    if schema.fields().is_empty() {
        let rows = batches.iter().map(RecordBatch::num_rows).sum();
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        return RecordBatch::try_new_with_options(Arc::clone(schema), Vec::new(), &options)
            .unwrap();
    }
    concat_batches(schema, batches).unwrap()
}

/// The rows of a table as DataFusion reads them by itself, in the order of its files.
pub async fn plain_rows(context: &SessionContext, name: &str) -> RecordBatch {
    let frame = context.table(name).await.unwrap();
    let schema = Arc::clone(frame.schema().inner());
    concat(&schema, &frame.collect().await.unwrap())
}

/// Whether two batches hold the same rows in the same order, whatever their schemas say beside types and names.
pub fn assert_same_rows(found: &RecordBatch, expected: &RecordBatch, what: &str) {
    assert_eq!(found.num_rows(), expected.num_rows(), "rows of {what}");
    assert_eq!(
        found.num_columns(),
        expected.num_columns(),
        "columns of {what}"
    );
    for (index, field) in expected.schema().fields().iter().enumerate() {
        assert_eq!(found.schema().field(index).name(), field.name());
        assert_eq!(
            found.column(index),
            expected.column(index),
            "column {:?} of {what}",
            field.name()
        );
    }
}

/// Checks that a table of files gives the same rows however it is cut and read.
pub async fn check_cuts(
    make: impl AsyncFn() -> SessionContext,
    name: &str,
    request: &ScanRequest,
    expected: &RecordBatch,
) {
    let mut dice = Dice::new(7);
    for max_partitions in [1, 2, 3, 7, 100] {
        let request = ScanRequest {
            max_partitions: Some(max_partitions),
            ..request.clone()
        };
        let what = format!("{name} in {max_partitions} partitions");
        let scan = plan(&make().await, &request).await.unwrap();
        assert!(scan.partitions().len() <= max_partitions as usize);
        assert_same_rows(&read_all(scan.as_ref()).await, expected, &what);

        let counts: Vec<_> = scan
            .partitions()
            .iter()
            .map(|partition| partition.units)
            .collect();
        let mut places: Vec<(usize, u64)> = counts
            .iter()
            .enumerate()
            .flat_map(|(partition, &count)| (0..count).map(move |unit| (partition, unit)))
            .collect();
        places.extend(places.clone());
        dice.shuffle(&mut places);
        // Other processes: sessions and catalogs of their own, which know the snapshot alone.
        let request = ScanRequest {
            snapshot: scan.snapshot().map(str::to_owned),
            ..request
        };
        let mut others = Vec::new();
        for _ in 0..3 {
            others.push(plan(&make().await, &request).await.unwrap());
        }
        let mut read = std::collections::BTreeMap::new();
        for (partition, unit) in places {
            let other = &others[dice.roll(others.len())];
            assert_eq!(
                other
                    .partitions()
                    .iter()
                    .map(|partition| partition.units)
                    .collect::<Vec<_>>(),
                counts
            );
            let one = Units {
                from: unit,
                stripe: unit % 1_000_000,
                stripes: 1_000_000,
            };
            let batches = read_units(other.as_ref(), partition, one).await.remove(0).1;
            let rows = concat(other.schema(), &batches);
            if let Some(before) = read.insert((partition, unit), rows.clone()) {
                assert_eq!(
                    before, rows,
                    "unit {unit} of partition {partition} of {what}, read again"
                );
            }
        }
        let all: Vec<_> = read.into_values().collect();
        assert_same_rows(
            &concat(scan.schema(), &all),
            expected,
            &format!("{what}, unit by unit"),
        );
        check_stripes(scan.as_ref(), &counts).await;
    }
}

/// Stripes share out the units of a partition from any unit on.
async fn check_stripes(scan: &dyn Scan, counts: &[u64]) {
    for (partition, &count) in counts.iter().enumerate().take(2) {
        for (from, stripes) in [(0, 2), (1, 1), (count / 2, 3)] {
            let mut striped = Vec::new();
            for stripe in 0..stripes {
                striped.extend(
                    read_units(
                        scan,
                        partition,
                        Units {
                            from,
                            stripe,
                            stripes,
                        },
                    )
                    .await,
                );
            }
            striped.sort_by_key(|(unit, _)| *unit);
            let whole = read_units(
                scan,
                partition,
                Units {
                    from,
                    stripe: 0,
                    stripes: 1,
                },
            )
            .await;
            assert_eq!(striped, whole);
        }
    }
}

pub fn filtered(request: ScanRequest, rule: FloatRule, condition: Expr) -> ScanRequest {
    ScanRequest {
        filter: Filter::new(rule, condition),
        ..request
    }
}

pub fn literal(array: impl datafusion::arrow::array::Array + 'static) -> Expr {
    Expr::literal(Arc::new(array) as ArrayRef).unwrap()
}

pub fn expect_error<T>(result: Result<T>) -> Error {
    match result {
        Ok(_) => panic!("an error was expected"),
        Err(error) => error,
    }
}
