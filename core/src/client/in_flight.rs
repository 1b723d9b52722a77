//! A bound on the memory of rows that a consumer has been given and still holds, for consumers that take all they can get.
//!
//! The bound is soft. Whoever sorts or collects holds everything until the end, and would wait forever for rows that in turn
//! wait for memory to be freed. So where nothing has been freed for a while, somewhat more comes, and the longer that lasts
//! the more at a time.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use arrow_array::{RecordBatch, RecordBatchOptions, make_array};
use arrow_buffer::{BooleanBuffer, NullBuffer};
use arrow_data::ArrayData;
use futures::TryStreamExt;
use futures::stream::{self, BoxStream};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::error::{Error, Result};
use crate::memory::kept_with;

/// How long nothing is freed before more comes, while nothing has been freed yet: then it may well be that all is kept.
const FIRST_STALL: Duration = Duration::from_millis(250);

/// The same once something has been freed: then the consumer is slow, and more is only needed if it has begun to keep.
const STALL: Duration = Duration::from_millis(500);

/// What comes after the first stall, as a part of the limit. It doubles with each further one.
const FIRST_STEP: u64 = 64;

/// The most that comes after a stall, as a part of the limit.
const LARGEST_STEP: u64 = 2;

/// What this process has in flight, all its bounded readers together.
static IN_FLIGHT: Mutex<State> = Mutex::new(State {
    bytes: 0,
    beyond: 0,
    step: 0,
    has_freed: false,
    last_change: None,
});

static FREED: Notify = Notify::const_new();

struct State {
    bytes: u64,
    /// Bytes that stalls have added to the limit, until as much is freed.
    beyond: u64,
    /// What the last stall in a row has added.
    step: u64,
    /// Whether anything was freed since there was nothing.
    has_freed: bool,
    /// When something was freed or a stall ended last.
    last_change: Option<Instant>,
}

fn state() -> MutexGuard<'static, State> {
    // Plain numbers, sound after every statement.
    IN_FLIGHT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Rows that are held; dropped with the last array that points into them.
struct Charge(u64);

impl Charge {
    fn new(bytes: u64) -> Arc<Self> {
        let mut state = state();
        if state.bytes == 0 {
            state.last_change = Some(Instant::now());
        }
        state.bytes += bytes;
        Arc::new(Self(bytes))
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        let mut state = state();
        state.bytes -= self.0;
        state.beyond = state.beyond.saturating_sub(self.0);
        state.step = 0;
        state.has_freed = state.bytes > 0;
        state.last_change = Some(Instant::now());
        drop(state);
        FREED.notify_waiters();
    }
}

/// Waits until less is in flight than the limit says, or nothing has been freed for a while.
async fn admission(limit: u64) {
    loop {
        let freed = FREED.notified();
        let patient_until = {
            let mut state = state();
            if state.bytes < limit.saturating_add(state.beyond) {
                return;
            }
            let stall = if state.has_freed { STALL } else { FIRST_STALL };
            let now = Instant::now();
            let until = *state.last_change.get_or_insert(now) + stall;
            if until <= now {
                let largest = (limit / LARGEST_STEP).max(1);
                let first = (limit / FIRST_STEP).max(1);
                state.step = state.step.saturating_mul(2).clamp(first, largest);
                // From what is there on, which one large batch may have left far behind.
                state.beyond = state.bytes.saturating_sub(limit) + state.step;
                state.last_change = Some(now);
                return;
            }
            until
        };
        tokio::select! {
            () = freed => {}
            () = tokio::time::sleep_until(patient_until) => {}
        }
    }
}

/// Rows as a consumer takes them.
pub type Batches = BoxStream<'static, Result<RecordBatch>>;

/// A stream of rows that waits while the consumers in this process hold more than its limit.
pub(super) struct Bounded {
    batches: Batches,
    /// `None` where there is none, and once the stream minds it.
    limit: Option<u64>,
}

impl Bounded {
    pub(super) fn new(batches: Batches, limit: Option<u64>) -> Self {
        Self { batches, limit }
    }

    /// The rows without the bound.
    pub(super) fn unbounded(self) -> Batches {
        self.batches
    }

    /// What is made of the rows, with the bound on that.
    pub(super) fn through(self, work: impl FnOnce(Batches) -> Batches) -> Batches {
        bounded(work(self.batches), self.limit)
    }

    pub(super) fn poll_next(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<RecordBatch>>> {
        if let Some(limit) = self.limit.take() {
            let batches = std::mem::replace(&mut self.batches, Box::pin(stream::empty()));
            self.batches = bounded(batches, Some(limit));
        }
        self.batches.as_mut().poll_next(context)
    }
}

fn bounded(batches: Batches, limit: Option<u64>) -> Batches {
    let Some(limit) = limit else {
        return batches;
    };
    Box::pin(stream::try_unfold(batches, move |mut batches| async move {
        admission(limit).await;
        let Some(batch) = batches.try_next().await? else {
            return Ok(None);
        };
        Ok(Some((charged(&batch)?, batches)))
    }))
}

/// The same rows, counted as in flight until the last of their buffers is dropped.
fn charged(batch: &RecordBatch) -> Result<RecordBatch> {
    let charge = Charge::new(batch.get_array_memory_size() as u64);
    let columns = batch
        .columns()
        .iter()
        .map(|column| held(&column.to_data(), &charge).map(make_array))
        .collect::<Result<_>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(batch.schema(), columns, &options)
        .map_err(|error| Error::internal("rows could not be counted").with_source(error))
}

fn held(data: &ArrayData, charge: &Arc<Charge>) -> Result<ArrayData> {
    let hold = |buffer| kept_with(buffer, Arc::clone(charge));
    let nulls = data.nulls().map(|nulls| {
        let bits = nulls.inner();
        NullBuffer::new(BooleanBuffer::new(
            hold(bits.inner()),
            bits.offset(),
            bits.len(),
        ))
    });
    let children = data
        .child_data()
        .iter()
        .map(|child| held(child, charge))
        .collect::<Result<_>>()?;
    let builder = data
        .clone()
        .into_builder()
        .buffers(data.buffers().iter().map(hold).collect())
        .nulls(nulls)
        .child_data(children);
    // SAFETY: the same values in the same places, only owned differently.
    Ok(unsafe { builder.build_unchecked() })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Int64Array, StringArray};
    use futures::{FutureExt, StreamExt};

    use super::*;
    use crate::conformance::batches::arbitrary_schema_and_batches;

    const ROWS: usize = 1000;

    /// The bound is of the whole process.
    static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

    fn batch(index: usize) -> RecordBatch {
        let texts: ArrayRef = Arc::new(StringArray::from_iter(
            (0..ROWS).map(|row| (row % 3 > 0).then(|| format!("{index} {row}"))),
        ));
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(
            (0..ROWS).map(|row| (index * ROWS + row) as i64),
        ));
        RecordBatch::try_from_iter_with_nullable([
            ("texts", texts, true),
            ("numbers", numbers, false),
        ])
        .unwrap()
        .slice(index % 7, ROWS - 7)
    }

    fn source(batches: usize, limit: u64) -> Batches {
        let rows = stream::iter((0..batches).map(|index| Ok(batch(index)))).boxed();
        Bounded::new(rows, Some(limit)).through(|rows| rows)
    }

    fn size() -> u64 {
        batch(0).get_array_memory_size() as u64
    }

    proptest::proptest! {
        #[test]
        fn counted_rows_of_every_type_are_the_same((_, batches) in arbitrary_schema_and_batches()) {
            for batch in batches {
                let counted = charged(&batch).unwrap();
                assert_eq!(counted, batch);
                for column in counted.columns() {
                    column.to_data().validate_full().unwrap();
                }
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn rows_are_the_same_and_wait_for_what_is_held() {
        let _alone = ALONE.lock().await;
        let mut rows = source(20, 3 * size());
        let mut held = Vec::new();
        let mut seen = 0;
        while seen < 20 {
            while let Some(next) = rows.next().now_or_never() {
                let Some(next) = next else { break };
                let next = next.unwrap();
                assert_eq!(next, batch(seen));
                seen += 1;
                held.push(next);
            }
            assert!(held.len() <= 4, "{} are held", held.len());
            assert!(seen == 20 || held.len() >= 3, "{} are held", held.len());
            // One column alone keeps what it is part of.
            let column = Arc::clone(held.remove(0).column(1));
            assert!(rows.next().now_or_never().is_none() || seen == 20);
            drop(column);
            held.truncate(1);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_keeps_all_gets_all() {
        let _alone = ALONE.lock().await;
        let start = Instant::now();
        let held: Vec<_> = source(500, 5 * size()).collect().await;
        assert_eq!(held.len(), 500);
        assert!(
            start.elapsed() > FIRST_STALL && start.elapsed() < 300 * FIRST_STALL,
            "{:?}",
            start.elapsed()
        );
        drop(held);
        assert_eq!(state().bytes, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_consumer_holds_little() {
        let _alone = ALONE.lock().await;
        let mut rows = source(300, 100 * size());
        let mut waiting = std::collections::VecDeque::new();
        let mut most = 0;
        for _ in 0..300 {
            while let Some(Some(next)) = rows.next().now_or_never() {
                waiting.push_back(next.unwrap());
            }
            most = most.max(waiting.len());
            tokio::time::sleep(STALL / 2).await;
            waiting.pop_front().unwrap();
        }
        assert!((99..=102).contains(&most), "{most}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_reader_that_is_dropped_while_it_waits_holds_nothing() {
        let _alone = ALONE.lock().await;
        let mut first = source(2, 1);
        let kept = first.next().await;
        assert!(first.next().now_or_never().is_none());
        drop(first);
        drop(kept);
        assert_eq!(source(3, 1).count().await, 3);
        assert_eq!(state().bytes, 0);
    }
}
