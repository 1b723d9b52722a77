//! The tables and queries of TPC-H.

use std::path::Path;
use std::sync::OnceLock;

use datafusion::arrow::array::RecordBatch;
use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator,
    PartSuppGenerator, RegionGenerator, SupplierGenerator,
};
use tpchgen_arrow::{
    CustomerArrow, LineItemArrow, NationArrow, OrderArrow, PartArrow, PartSuppArrow, RegionArrow,
    SupplierArrow,
};

use crate::fixture::write_parquet;

/// Rows of a row group: few enough that large tables have several.
const GROUP_ROWS: usize = 40_000;

/// Batches of a Parquet file.
const FILE_BATCHES: usize = 20;

macro_rules! queries {
    ($($number:literal),*) => {
        /// The queries by number, with the parameters of the specification's validation.
        pub const QUERIES: &[(&str, &str)] =
            &[$(($number, include_str!(concat!("../queries/q", $number, ".sql")))),*];
    };
}

queries!(
    "01", "02", "03", "04", "05", "06", "07", "08", "09", "10", "11", "12", "13", "14", "15", "16",
    "17", "18", "19", "20", "21", "22"
);

/// All tables at a scale factor of 0.1, made once in each process.
pub fn tables() -> &'static [(&'static str, Vec<RecordBatch>)] {
    static TABLES: OnceLock<Vec<(&str, Vec<RecordBatch>)>> = OnceLock::new();
    TABLES.get_or_init(|| {
        std::thread::scope(|scope| {
            let lineitem = scope.spawn(|| {
                LineItemArrow::new(LineItemGenerator::new(0.1, 1, 1)).collect::<Vec<_>>()
            });
            vec![
                (
                    "region",
                    RegionArrow::new(RegionGenerator::new(0.1, 1, 1)).collect(),
                ),
                (
                    "nation",
                    NationArrow::new(NationGenerator::new(0.1, 1, 1)).collect(),
                ),
                (
                    "part",
                    PartArrow::new(PartGenerator::new(0.1, 1, 1)).collect(),
                ),
                (
                    "supplier",
                    SupplierArrow::new(SupplierGenerator::new(0.1, 1, 1)).collect(),
                ),
                (
                    "partsupp",
                    PartSuppArrow::new(PartSuppGenerator::new(0.1, 1, 1)).collect(),
                ),
                (
                    "customer",
                    CustomerArrow::new(CustomerGenerator::new(0.1, 1, 1)).collect(),
                ),
                (
                    "orders",
                    OrderArrow::new(OrderGenerator::new(0.1, 1, 1)).collect(),
                ),
                ("lineitem", lineitem.join().unwrap()),
            ]
        })
    })
}

/// Writes each table as a folder of Parquet files.
pub fn write(folder: &Path) {
    for (name, batches) in tables() {
        let table = folder.join(name);
        std::fs::create_dir(&table).unwrap();
        for (number, batches) in batches.chunks(FILE_BATCHES).enumerate() {
            write_parquet(
                &table.join(format!("{number:03}.parquet")),
                batches,
                GROUP_ROWS,
            );
        }
    }
}
