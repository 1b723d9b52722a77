//! Failures keep their kind, and say which table and server they are about.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::error::DataFusionError;
use futures::{StreamExt, stream};
use lightstream_core::protocol::filter::Support;
use lightstream_core::protocol::request::ScanRequest;
use lightstream_core::protocol::statistics::Statistics;
use lightstream_core::protocol::table::{SortColumn, TableInfo};
use lightstream_core::server::{Scan, ScanPartition, Table, UnitEvent, UnitStream, Units};
use lightstream_core::{Error, ErrorCode};
use lightstream_datafusion::{LightstreamTable, Options, lightstream_error};

use crate::provider_support::{Pieces, register, rows, serve, session, url_of};

fn code(error: &DataFusionError) -> ErrorCode {
    lightstream_error(error)
        .unwrap_or_else(|| panic!("not ours: {error:?}"))
        .code()
}

#[tokio::test]
async fn connecting_fails_with_what_went_wrong() {
    let server = serve(Pieces::new(rows(1, 1))).await;
    let connect = async |url: &str| {
        LightstreamTable::connect(url, Options::default())
            .await
            .unwrap_err()
    };

    let error = connect(&server.url().to_string()).await;
    assert_eq!(code(&error), ErrorCode::InvalidArgument);
    assert!(
        error.to_string().contains("names a server but no table"),
        "{error}"
    );

    let error = connect(&url_of(&server, "gone")).await;
    assert_eq!(code(&error), ErrorCode::NotFound);
    let detail = lightstream_error(&error).unwrap().detail();
    assert_eq!(detail.table.as_deref(), Some("gone"));
    assert!(detail.peer.is_some());

    let error = connect("nonsense://127.0.0.1/t").await;
    assert_eq!(code(&error), ErrorCode::InvalidArgument);

    let options = Options::default().with("retries", "0").unwrap();
    let error = LightstreamTable::connect("lightstream://127.0.0.1:1/t", options)
        .await
        .unwrap_err();
    assert_eq!(code(&error), ErrorCode::Unavailable);
}

#[tokio::test]
async fn a_schema_other_than_described_is_refused_with_the_difference() {
    let table = Pieces::new(rows(2, 5));
    let mut fields: Vec<Field> = table
        .schema
        .fields()
        .iter()
        .map(|field| field.as_ref().clone())
        .collect();
    fields[1] = Field::new("k", DataType::Int32, false);
    let described = Some(Arc::new(Schema::new(fields)));
    let server = serve(Pieces { described, ..table }).await;
    let ctx = session(2);
    register(&ctx, &server, Options::default()).await;

    let error = ctx
        .sql("SELECT k FROM t")
        .await
        .unwrap()
        .collect()
        .await
        .unwrap_err();
    assert_eq!(code(&error), ErrorCode::InvalidArgument);
    let text = error.to_string();
    assert!(
        text.contains("column 0: described \"k\" Int32 not null, received \"k\" Int32"),
        "{text}"
    );
    // Columns that are as described can be read.
    assert_eq!(
        ctx.sql("SELECT id FROM t")
            .await
            .unwrap()
            .count()
            .await
            .unwrap(),
        10
    );
}

#[tokio::test]
async fn a_read_that_breaks_off_fails_the_query() {
    let server = serve(Breaking(Pieces::new(rows(2, 5)))).await;
    let ctx = session(2);
    register(
        &ctx,
        &server,
        Options::default().with("retries", "0").unwrap(),
    )
    .await;
    for sql in ["SELECT id FROM t", "SELECT sum(id) FROM t GROUP BY k"] {
        let error = ctx.sql(sql).await.unwrap().collect().await.unwrap_err();
        let ours = lightstream_error(&error).unwrap();
        assert_eq!(ours.code(), ErrorCode::DataLoss, "{error}");
        assert_eq!(ours.detail().table.as_deref(), Some("t"));
        assert!(ours.detail().peer.is_some());
        assert!(ours.to_string().contains("the disk is gone"), "{error}");
    }
}

/// A table whose reads end in an error after their first unit.
struct Breaking(Pieces);

#[async_trait]
impl Table for Breaking {
    async fn describe(
        &self,
        name: &str,
        snapshot: Option<&str>,
    ) -> lightstream_core::Result<TableInfo> {
        self.0.describe(name, snapshot).await
    }

    async fn plan(&self, request: &ScanRequest) -> lightstream_core::Result<Arc<dyn Scan>> {
        Ok(Arc::new(BreakingScan(self.0.plan(request).await?)))
    }
}

struct BreakingScan(Arc<dyn Scan>);

impl Scan for BreakingScan {
    fn snapshot(&self) -> Option<&str> {
        self.0.snapshot()
    }

    fn schema(&self) -> &datafusion::arrow::datatypes::SchemaRef {
        self.0.schema()
    }

    fn ordering(&self) -> Vec<SortColumn> {
        self.0.ordering()
    }

    fn statistics(&self) -> Statistics {
        self.0.statistics()
    }

    fn filters(&self) -> &[Support] {
        self.0.filters()
    }

    fn partitions(&self) -> &[ScanPartition] {
        self.0.partitions()
    }

    fn open(&self, partition: usize, units: Units) -> lightstream_core::Result<UnitStream> {
        let failure: lightstream_core::Result<UnitEvent> =
            Err(Error::data_loss("the disk is gone"));
        Ok(self
            .0
            .open(partition, units)?
            .take(1)
            .chain(stream::iter([failure]))
            .boxed())
    }
}
