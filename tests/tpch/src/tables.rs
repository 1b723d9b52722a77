//! The tables of TPC-H, generated in memory, and written as Parquet.

use std::path::Path;

use datafusion::arrow::array::RecordBatch;
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::errors::Result;
use datafusion::parquet::file::properties::WriterProperties;
use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator,
    PartSuppGenerator, RegionGenerator, SupplierGenerator,
};
use tpchgen_arrow::{
    CustomerArrow, LineItemArrow, NationArrow, OrderArrow, PartArrow, PartSuppArrow, RegionArrow,
    SupplierArrow,
};

/// A table's name and rows.
pub type Table = (&'static str, Vec<RecordBatch>);

macro_rules! generated {
    ($scale:ident: $($name:literal $arrow:ident $generator:ident,)*) => {
        std::thread::scope(|scope| {
            $(
                let rows = move || $arrow::new($generator::new($scale, 1, 1)).collect();
                let $arrow = scope.spawn(rows);
            )*
            vec![$(($name, joined($arrow))),*]
        })
    };
}

/// All tables at a scale factor, the largest last.
pub fn generate(scale: f64) -> Vec<Table> {
    #[allow(non_snake_case, reason = "each thread is named after what it runs")]
    let tables = generated! { scale:
        "region" RegionArrow RegionGenerator,
        "nation" NationArrow NationGenerator,
        "part" PartArrow PartGenerator,
        "supplier" SupplierArrow SupplierGenerator,
        "partsupp" PartSuppArrow PartSuppGenerator,
        "customer" CustomerArrow CustomerGenerator,
        "orders" OrderArrow OrderGenerator,
        "lineitem" LineItemArrow LineItemGenerator,
    };
    tables
}

/// What a thread has made. A panic goes on where it is waited for.
fn joined<T>(thread: std::thread::ScopedJoinHandle<'_, T>) -> T {
    thread
        .join()
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Writes each table as a folder of Parquet files, so many batches in each.
///
/// # Errors
/// Where a folder is there already, or a file cannot be written.
pub fn write_parquet(
    tables: &[Table],
    folder: &Path,
    file_batches: usize,
    properties: &WriterProperties,
) -> Result<()> {
    for (name, batches) in tables {
        let folder = folder.join(name);
        std::fs::create_dir(&folder)?;
        for (number, batches) in batches.chunks(file_batches).enumerate() {
            let Some(first) = batches.first() else {
                continue;
            };
            let file = std::fs::File::create(folder.join(format!("{number:03}.parquet")))?;
            let mut writer = ArrowWriter::try_new(file, first.schema(), Some(properties.clone()))?;
            batches.iter().try_for_each(|batch| writer.write(batch))?;
            writer.close()?;
        }
    }
    Ok(())
}
