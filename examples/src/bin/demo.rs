//! Serves the tables of `examples/data` on this machine and asks them three questions in SQL, as from elsewhere.
//!
//! For each it prints the answer, what the server was asked to do, and how many bytes crossed the connection.

use std::error::Error;
use std::path::{Path, PathBuf};

use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::physical_plan::{ExecutionPlan, collect, displayable};
use datafusion::prelude::{ParquetReadOptions, SessionContext};
use futures::TryStreamExt;
use lightstream_core::protocol::request::ScanRequest;
use lightstream_core::server::Server;
use lightstream_core::{Client, Options};
use lightstream_datafusion::register_lightstream;
use lightstream_datafusion::serve::DataFusionCatalog;

const TABLES: [&str; 5] = ["flights", "airlines", "airports", "planes", "weather"];

const QUESTIONS: [(&str, &str); 3] = [
    (
        "Which airlines ran late in July? (a join)",
        "SELECT a.name, count(*) AS flights, round(avg(f.arr_delay), 1) AS minutes_late
         FROM flights f JOIN airlines a ON f.carrier = a.carrier
         WHERE f.month = 7
         GROUP BY a.name ORDER BY minutes_late DESC LIMIT 5",
    ),
    (
        "How far does each airport of New York fly? (an aggregate)",
        "SELECT origin, count(*) AS flights, round(avg(distance)) AS mean_miles, max(distance) AS most_miles
         FROM flights GROUP BY origin ORDER BY origin",
    ),
    (
        "Which flights were over fifteen hours late? (a selective filter)",
        "SELECT month, day, carrier, flight, origin, dest, arr_delay
         FROM flights WHERE arr_delay > 900 ORDER BY arr_delay DESC",
    ),
];

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let server = serve(&data_folder()).await?;
    println!("Serving {} at {}\n", TABLES.join(", "), server.url());

    let ctx = SessionContext::new();
    register_lightstream(&ctx, &server.url(), Options::default()).await?;
    let whole = whole_bytes(&server, "flights").await?;
    println!("The whole table flights is {} on the wire.\n", bytes(whole));

    for (question, sql) in QUESTIONS {
        println!("{question}\n");
        let plan = ctx.sql(sql).await?.create_physical_plan().await?;
        let before = server.stats().bytes_sent;
        let rows = collect(plan.clone(), ctx.task_ctx()).await?;
        let crossed = server.stats().bytes_sent - before;
        println!("{}", pretty_format_batches(&rows)?);
        for scan in remote_scans(&plan) {
            println!("pushed: {scan}");
        }
        let share = 100.0 * crossed as f64 / whole as f64;
        println!(
            "crossed: {} ({share:.2} % of the whole table flights)\n",
            bytes(crossed)
        );
    }
    Ok(())
}

fn data_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data")
}

/// A server over the Parquet files in a folder.
async fn serve(folder: &Path) -> Result<Server, Box<dyn Error>> {
    let ctx = SessionContext::new();
    for table in TABLES {
        let path = folder.join(format!("{table}.parquet"));
        let path = path.to_str().ok_or("the path of the data is not UTF-8")?;
        ctx.register_parquet(table, path, ParquetReadOptions::default())
            .await?;
    }
    let server = Server::builder().catalog(DataFusionCatalog::new(ctx));
    Ok(server.listen("lightstream://127.0.0.1:0").await?)
}

/// What a table takes on the wire when all of it is read.
async fn whole_bytes(server: &Server, table: &str) -> Result<u64, Box<dyn Error>> {
    let client = Client::connect(&server.url(), Options::default()).await?;
    let before = server.stats().bytes_sent;
    let mut rows = client.scan(&ScanRequest::table(table)).await?;
    while rows.try_next().await?.is_some() {}
    Ok(server.stats().bytes_sent - before)
}

/// The lines of a plan that are read from the server.
fn remote_scans(plan: &std::sync::Arc<dyn ExecutionPlan>) -> Vec<String> {
    let text = displayable(plan.as_ref()).indent(false).to_string();
    text.lines()
        .map(str::trim)
        .filter(|line| line.starts_with("LightstreamExec"))
        .map(str::to_owned)
        .collect()
}

fn bytes(count: u64) -> String {
    match count {
        0..10_000 => format!("{count} bytes"),
        10_000..10_000_000 => format!("{:.1} KiB", count as f64 / 1024.0),
        _ => format!("{:.1} MiB", count as f64 / 1024.0 / 1024.0),
    }
}
