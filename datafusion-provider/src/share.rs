//! Shares the server's partitions among the streams of one execution, so that a stream with nothing left to do takes over
//! from one that is behind.
//!
//! Each stream has a share of its own, which it begins with. What it takes is written down before it is read, and stays
//! its own: whoever executes the same partition again in the same execution reads the same again. So every partition of
//! the server belongs to exactly one stream, however often and in whatever order streams are executed, dropped and
//! executed anew. A share that nobody has begun is left alone, since it may be read elsewhere.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use datafusion::execution::TaskContext;

/// What the streams of a plan share, apart for each execution of it.
#[derive(Debug, Default)]
pub(crate) struct Executions(Mutex<Vec<(Weak<TaskContext>, Arc<Shares>)>>);

impl Executions {
    /// The shares of the execution that a context stands for.
    pub(crate) fn shares(
        &self,
        context: &Arc<TaskContext>,
        groups: &[Range<usize>],
    ) -> Arc<Shares> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|(context, _)| context.strong_count() > 0);
        let found = known
            .iter()
            .find(|(known, _)| std::ptr::eq(known.as_ptr(), Arc::as_ptr(context)));
        if let Some((_, shares)) = found {
            return Arc::clone(shares);
        }
        let shares = Arc::new(Shares::new(groups));
        known.push((Arc::downgrade(context), Arc::clone(&shares)));
        shares
    }
}

/// The shares of all streams of one execution.
#[derive(Debug)]
pub(crate) struct Shares(Mutex<Vec<Share>>);

#[derive(Debug, Default)]
struct Share {
    /// What nobody has taken yet.
    left: VecDeque<usize>,
    /// What its stream has taken, in order.
    taken: Vec<usize>,
    is_begun: bool,
    /// Its stream has found nothing more to take, and takes no more.
    is_closed: bool,
}

impl Shares {
    fn new(groups: &[Range<usize>]) -> Self {
        let share = |group: &Range<usize>| Share {
            left: group.clone().collect(),
            ..Share::default()
        };
        Self(Mutex::new(groups.iter().map(share).collect()))
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Share>> {
        // Nothing between two statements that change it can panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The partitions of the server that a stream is to read, one after the other.
    pub(crate) fn begin(self: &Arc<Self>, stream: usize) -> Turns {
        if let Some(share) = self.lock().get_mut(stream) {
            share.is_begun = true;
        }
        Turns {
            shares: Arc::clone(self),
            stream,
            read: 0,
        }
    }

    /// What comes after the first `read` of a stream.
    fn next(&self, stream: usize, read: usize) -> Option<usize> {
        let mut shares = self.lock();
        let own = shares.get_mut(stream)?;
        if let Some(&partition) = own.taken.get(read) {
            return Some(partition);
        }
        if own.is_closed {
            return None;
        }
        let next = own.left.pop_front().or_else(|| {
            let begun = shares.iter_mut().filter(|share| share.is_begun);
            begun.max_by_key(|share| share.left.len())?.left.pop_back()
        });
        let own = shares.get_mut(stream)?;
        own.taken.extend(next);
        own.is_closed = next.is_none();
        next
    }
}

/// The partitions of the server that one stream reads.
#[derive(Debug)]
pub(crate) struct Turns {
    shares: Arc<Shares>,
    stream: usize,
    /// How many it has been given.
    read: usize,
}

impl Iterator for Turns {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        let next = self.shares.next(self.stream, self.read)?;
        self.read += 1;
        Some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(groups: &[Range<usize>]) -> Arc<Shares> {
        Arc::new(Shares::new(groups))
    }

    #[test]
    fn an_idle_stream_takes_over_from_the_one_that_is_furthest_behind() {
        let shares = shares(&[0..2, 2..4, 4..9]);
        let mut streams: Vec<Turns> = (0..3).map(|stream| shares.begin(stream)).collect();
        assert_eq!(streams[0].by_ref().take(3).collect::<Vec<_>>(), [0, 1, 8]);
        assert_eq!(streams[2].next(), Some(4));
        assert_eq!(streams[0].by_ref().collect::<Vec<_>>(), [7, 6, 3, 5, 2]);
        assert_eq!((streams[1].next(), streams[2].next()), (None, None));
    }

    #[test]
    fn what_nobody_has_begun_is_left_alone() {
        let shares = shares(&[0..2, 2..4]);
        assert_eq!(shares.begin(1).collect::<Vec<_>>(), [2, 3]);
        assert_eq!(shares.begin(1).collect::<Vec<_>>(), [2, 3]);
        assert_eq!(shares.begin(0).collect::<Vec<_>>(), [0, 1]);
    }

    /// Small pseudo-random numbers.
    struct Dice(u64);

    impl Dice {
        fn below(&mut self, most: usize) -> usize {
            self.0 = self
                .0
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (self.0 >> 33) as usize % most
        }
    }

    #[test]
    fn whoever_reads_all_streams_reads_each_partition_once() {
        for seed in 0..3000 {
            let mut dice = Dice(seed);
            let groups: Vec<Range<usize>> = (0..1 + dice.below(4))
                .scan(0, |start, _| {
                    let from = *start;
                    *start += dice.below(5);
                    Some(from..*start)
                })
                .collect();
            let count = groups.last().map_or(0, |group| group.end);
            let shares = shares(&groups);
            // Several consumers execute all streams, in any order, and any of them is dropped and executed anew.
            let consumers = 1 + dice.below(3);
            let mut running: Vec<(usize, usize, Option<Turns>, Vec<usize>)> = (0..consumers)
                .flat_map(|consumer| {
                    (0..groups.len()).map(move |stream| (consumer, stream, None, Vec::new()))
                })
                .collect();
            let mut done: Vec<(usize, Vec<usize>)> = Vec::new();
            while !running.is_empty() {
                let which = dice.below(running.len());
                let (consumer, stream, turns, read) = &mut running[which];
                let turns = turns.get_or_insert_with(|| shares.begin(*stream));
                if dice.below(8) == 0 {
                    *turns = shares.begin(*stream);
                    read.clear();
                } else if let Some(partition) = turns.next() {
                    read.push(partition);
                } else {
                    done.push((*consumer, std::mem::take(read)));
                    running.swap_remove(which);
                }
            }
            for consumer in 0..consumers {
                let mut all: Vec<usize> = done
                    .iter()
                    .filter(|(of, _)| *of == consumer)
                    .flat_map(|(_, read)| read.clone())
                    .collect();
                all.sort_unstable();
                assert_eq!(
                    all,
                    (0..count).collect::<Vec<_>>(),
                    "seed {seed}, {groups:?}"
                );
            }
        }
    }
}
