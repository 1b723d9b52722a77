//! All queries of TPC-H over remote tables: what DataFusion answers over the same rows in its own memory.

use std::sync::Arc;
use std::time::Instant;

use datafusion::catalog::MemTable;
use datafusion::prelude::{SessionConfig, SessionContext};
use lightstream_core::Options;
use lightstream_core::server::{MemoryTable, Server, ServerBuilder};
use lightstream_datafusion::register_lightstream;
use lightstream_datafusion::serve::{DataFusionCatalog, register_path};
use lightstream_tests::servers::ANY_PORT;
use lightstream_tpch::answers::Answer;
use lightstream_tpch::queries::QUERIES;
use lightstream_tpch::tables::{Table, generate, write_parquet};
use parquet::file::properties::WriterProperties;

/// Rows of a row group: few enough that large tables have several.
const GROUP_ROWS: usize = 40_000;

/// Batches of a Parquet file.
const FILE_BATCHES: usize = 20;

fn session(target_partitions: usize) -> SessionContext {
    SessionContext::new_with_config(SessionConfig::new().with_target_partitions(target_partitions))
}

async fn answers(context: &SessionContext) -> Vec<Answer> {
    let mut answers = Vec::new();
    for (number, sql) in QUERIES {
        let frame = context
            .sql(sql)
            .await
            .unwrap_or_else(|error| panic!("query {number}: {error}"));
        let batches = frame
            .collect()
            .await
            .unwrap_or_else(|error| panic!("query {number}: {error}"));
        answers.push(Answer::new(&batches).unwrap());
    }
    answers
}

async fn local_answers(tables: &[Table]) -> Vec<Answer> {
    let local = session(2);
    for (name, batches) in tables {
        let table = MemTable::try_new(batches[0].schema(), vec![batches.clone()]).unwrap();
        local.register_table(*name, Arc::new(table)).unwrap();
    }
    answers(&local).await
}

/// The URLs of a server at a TCP port and at a Unix socket.
async fn listen(
    server: ServerBuilder,
    folder: &std::path::Path,
    name: &str,
) -> (Server, String, String) {
    let socket = format!("lightstream+unix://{}", folder.join(name).display());
    let server = server.listen_all(&[ANY_PORT, &socket]).await.unwrap();
    let urls: Vec<String> = server.locations().iter().map(ToString::to_string).collect();
    (server, urls[0].clone(), urls[1].clone())
}

/// One test, so that rows are generated and answers found once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_queries_over_remote_tables_answer_as_over_local_ones() {
    let start = Instant::now();
    let folder = tempfile::tempdir().unwrap();
    let tables = generate(0.1);
    let properties = WriterProperties::builder()
        .set_max_row_group_row_count(Some(GROUP_ROWS))
        .build();
    write_parquet(&tables, folder.path(), FILE_BATCHES, &properties).unwrap();
    println!(
        "{:.1?}: rows generated, and written as Parquet",
        start.elapsed()
    );
    let expected = local_answers(&tables).await;
    println!(
        "{:.1?}: local answers of {:?} rows",
        start.elapsed(),
        expected.iter().map(Answer::rows).collect::<Vec<_>>()
    );
    assert!(expected.iter().all(|answer| answer.rows() > 0));

    let mut memory = Server::builder();
    let files = session(4);
    for (name, batches) in &tables {
        memory = memory.table(*name, MemoryTable::try_new(batches.clone()).unwrap());
        register_path(&files, name, folder.path().join(name))
            .await
            .unwrap();
    }
    let (memory, memory_tcp, memory_unix) = listen(memory, folder.path(), "m.sock").await;
    let files = Server::builder().catalog(DataFusionCatalog::new(files));
    let (files, files_tcp, files_unix) = listen(files, folder.path(), "f.sock").await;
    let served = [
        ("memory over tcp", &memory, memory_tcp),
        ("memory over unix", &memory, memory_unix),
        ("Parquet over tcp", &files, files_tcp),
        ("Parquet over unix", &files, files_unix),
    ];
    let settings = served
        .iter()
        .flat_map(|served| [1, 4].map(|partitions| (served, partitions)));
    for ((what, server, url), target_partitions) in settings {
        let remote = session(target_partitions);
        register_lightstream(&remote, url, Options::default())
            .await
            .unwrap();
        let before = server.stats();
        let found = answers(&remote).await;
        for ((number, _), (found, expected)) in QUERIES.iter().zip(found.iter().zip(&expected)) {
            if let Some(difference) = found.difference(expected) {
                panic!(
                    "query {number} from {what} with {target_partitions} partitions: {difference}"
                );
            }
        }
        let after = server.stats();
        println!(
            "{:.1?}: {what} with {target_partitions} partitions: {} plans, {} rows and {} MiB sent",
            start.elapsed(),
            after.plans - before.plans,
            after.rows_sent - before.rows_sent,
            (after.bytes_sent - before.bytes_sent) >> 20
        );
        assert!(
            after.plans - before.plans > 80 && after.errors == 0,
            "{after:?}"
        );
    }
}
