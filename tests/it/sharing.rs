//! Streams of one DataFusion scan share the server's partitions.

use std::sync::Arc;
use std::time::Duration;

use datafusion::arrow::array::RecordBatch;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, execute_stream};
use datafusion::prelude::{SessionConfig, SessionContext};
use futures::TryStreamExt;
use futures::future::join_all;
use lightstream_datafusion::LightstreamTable;
use lightstream_tests::rows::{assert_same, count};
use lightstream_tests::servers::{options, serve};
use lightstream_tests::tables::{FirstIsLast, SmallUnits, many_types};

/// Ten times what it takes.
const PATIENCE: Duration = Duration::from_secs(60);

async fn session(url: &str, settings: &[(&str, &str)], shares: bool) -> SessionContext {
    let config = SessionConfig::new().with_target_partitions(2).set_bool(
        "datafusion.execution.enable_file_stream_work_stealing",
        shares,
    );
    let context = SessionContext::new_with_config(config);
    let table = LightstreamTable::connect(&format!("{url}/t"), options(settings))
        .await
        .unwrap();
    context.register_table("t", Arc::new(table)).unwrap();
    context
}

async fn scan(context: &SessionContext) -> Arc<dyn ExecutionPlan> {
    let table = context.table("t").await.unwrap();
    table.create_physical_plan().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn one_slow_partition_does_not_hold_back_the_rest() {
    let batch = many_types(1, 10).remove(0);
    let server = serve(FirstIsLast::new(batch.clone())).await;
    // Two streams begin with two partitions each. The first partition waits for the second, which its own stream cannot
    // read meanwhile.
    let context = session(&server.url(), &[("partitions", "4")], true).await;
    let collected = context.table("t").await.unwrap().collect();
    let read = tokio::time::timeout(PATIENCE, collected).await;
    let read = read
        .expect("the other stream reads what the slow one cannot")
        .unwrap();
    assert_same(&vec![batch; 4], &read, "four times the rows");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_stream_keeps_to_its_own_where_that_was_asked_for() {
    let batches = many_types(40, 25);
    let server = serve(SmallUnits::new(batches.clone())).await;
    for (settings, shares) in [
        (vec![("partitions", "8")], false),
        (vec![("partitions", "8"), ("ordered", "true")], true),
    ] {
        let context = session(&server.url(), &settings, shares).await;
        let plan = scan(&context).await;
        let count = plan.output_partitioning().partition_count();
        assert_eq!(count, 2);
        // All begin before any is read; the last is read first.
        let task = context.task_ctx();
        let mut streams: Vec<_> = (0..count)
            .map(|partition| plan.execute(partition, Arc::clone(&task)).unwrap())
            .collect();
        let mut parts: Vec<Vec<RecordBatch>> = Vec::new();
        while let Some(stream) = streams.pop() {
            parts.insert(0, stream.try_collect().await.unwrap());
        }
        assert_same(&batches, &parts.concat(), "in the order of the partitions");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn executions_of_one_plan_do_not_take_from_each_other() {
    let batches = many_types(40, 25);
    let server = serve(SmallUnits::new(batches.clone())).await;
    let context = session(&server.url(), &[("partitions", "8")], true).await;
    let plan = scan(&context).await;
    let rows = count(&batches);
    // At the same time, in one task context and in several, and again in the same.
    let task = context.task_ctx();
    for _ in 0..20 {
        let tasks = [Arc::clone(&task), Arc::clone(&task), context.task_ctx()];
        let executions = tasks.map(|task| execute_stream(Arc::clone(&plan), task).unwrap());
        let read = join_all(executions.map(TryStreamExt::try_collect::<Vec<_>>)).await;
        for read in read {
            assert_eq!(count(&read.unwrap()), rows);
        }
    }
    // A partition alone, as where the others are executed elsewhere.
    let mut alone = 0;
    for partition in 0..2 {
        let plan = Arc::clone(&plan).reset_state().unwrap();
        let stream = plan.execute(partition, Arc::clone(&task)).unwrap();
        alone += count(&stream.try_collect::<Vec<_>>().await.unwrap());
    }
    assert_eq!(alone, rows);
}
