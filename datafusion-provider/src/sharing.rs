//! Which partitions of the server a stream of DataFusion reads next.
//!
//! Where order does not matter, a stream that is done with its own run takes over from one that is not, so that a slow
//! partition holds up one stream and not the rest.
//!
//! A stream takes only from streams that have begun in the same execution of the same plan: their rows are wanted here. A
//! distributed engine that runs each partition of a plan elsewhere finds nobody to take from, and reads its own run and
//! nothing else, and so does a partition that is executed a second time by itself.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The executions of one plan that are under way, or were.
#[derive(Debug)]
pub(crate) struct Sharing {
    groups: Vec<Range<usize>>,
    is_shared: bool,
    executions: Mutex<Executions>,
}

#[derive(Debug, Default)]
struct Executions {
    /// How often each partition was executed.
    counts: Vec<usize>,
    /// The runs of the executions with a partition that is not begun.
    open: VecDeque<(usize, Arc<Mutex<Runs>>)>,
}

/// What is left of each run; `None` while its stream has not begun.
type Runs = Vec<Option<VecDeque<usize>>>;

/// The partitions that one stream reads.
#[derive(Debug)]
pub(crate) struct Turn {
    runs: Arc<Mutex<Runs>>,
    own: usize,
    is_shared: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is locked here is sound after every statement, so a panic elsewhere does not spoil it.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Sharing {
    /// Runs of partitions of the server, one for each stream; shared between streams where order does not matter.
    pub(crate) fn new(groups: Vec<Range<usize>>, is_shared: bool) -> Self {
        Self {
            executions: Mutex::new(Executions {
                counts: vec![0; groups.len()],
                open: VecDeque::new(),
            }),
            groups,
            is_shared,
        }
    }

    /// The same runs, with no execution begun.
    pub(crate) fn anew(&self) -> Self {
        Self::new(self.groups.clone(), self.is_shared)
    }

    /// The run of each stream.
    pub(crate) fn groups(&self) -> &[Range<usize>] {
        &self.groups
    }

    /// Begins a stream. The n-th time that a partition is begun belongs to the n-th execution of the plan.
    pub(crate) fn begin(&self, own: usize) -> Turn {
        let mut executions = lock(&self.executions);
        let count = executions.counts.get_mut(own);
        let execution = count.map_or(0, |count| {
            *count += 1;
            *count
        });
        let known = executions
            .open
            .iter()
            .find(|(number, _)| *number == execution);
        let runs = match known {
            Some((_, runs)) => Arc::clone(runs),
            None => {
                let runs = Arc::new(Mutex::new(vec![None; self.groups.len()]));
                executions.open.push_back((execution, Arc::clone(&runs)));
                runs
            }
        };
        let mut begun = lock(&runs);
        if let (Some(run), Some(group)) = (begun.get_mut(own), self.groups.get(own)) {
            *run = Some(group.clone().collect());
        }
        if begun.iter().all(Option::is_some) {
            executions.open.retain(|(number, _)| *number != execution);
        }
        drop(begun);
        Turn {
            runs,
            own,
            is_shared: self.is_shared,
        }
    }
}

impl Turn {
    /// The next partition of the server: of the own run, then from the end of the longest run of another.
    pub(crate) fn next(&self) -> Option<usize> {
        let mut runs = lock(&self.runs);
        let own = runs
            .get_mut(self.own)
            .and_then(Option::as_mut)
            .and_then(VecDeque::pop_front);
        if own.is_some() || !self.is_shared {
            return own;
        }
        let longest = runs.iter_mut().flatten().max_by_key(|run| run.len())?;
        longest.pop_back()
    }
}

impl Drop for Turn {
    /// A stream that is dropped early wants no more of its run, and neither does anybody else: its rows are not wanted.
    fn drop(&mut self) {
        if let Some(run) = lock(&self.runs).get_mut(self.own).and_then(Option::as_mut) {
            run.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rest(turn: &Turn) -> Vec<usize> {
        std::iter::from_fn(|| turn.next()).collect()
    }

    #[test]
    fn an_idle_stream_takes_over_from_one_that_has_begun() {
        let sharing = Sharing::new(vec![0..3, 3..6, 6..9], true);
        let (first, second) = (sharing.begin(0), sharing.begin(1));
        assert_eq!(first.next(), Some(0));
        assert_eq!(
            rest(&second),
            [3, 4, 5, 2, 1],
            "its own, then what the first has not begun"
        );
        assert_eq!(rest(&first), Vec::<usize>::new());
        assert_eq!(
            rest(&sharing.begin(2)),
            [6, 7, 8],
            "what had not begun was left alone"
        );
    }

    #[test]
    fn each_execution_reads_everything_once() {
        let sharing = Sharing::new(vec![0..2, 2..4], true);
        for _ in 0..3 {
            let (first, second) = (sharing.begin(0), sharing.begin(1));
            let mut read = rest(&second);
            read.extend(rest(&first));
            read.sort_unstable();
            assert_eq!(read, [0, 1, 2, 3]);
        }
        assert!(lock(&sharing.executions).open.is_empty());
    }

    #[test]
    fn a_partition_executed_by_itself_reads_its_own_run() {
        let sharing = Sharing::new(vec![0..2, 2..4], true);
        for _ in 0..3 {
            assert_eq!(rest(&sharing.begin(1)), [2, 3]);
        }
        assert_eq!(rest(&sharing.begin(0)), [0, 1]);
    }

    #[test]
    fn without_sharing_everybody_keeps_their_run() {
        let sharing = Sharing::new(vec![0..2, 2..4], false);
        let (first, second) = (sharing.begin(0), sharing.begin(1));
        assert_eq!(rest(&second), [2, 3]);
        assert_eq!(rest(&first), [0, 1]);
    }

    #[test]
    fn what_a_dropped_stream_did_not_read_is_not_read() {
        let sharing = Sharing::new(vec![0..2, 2..4], true);
        let (first, second) = (sharing.begin(0), sharing.begin(1));
        drop(first);
        assert_eq!(rest(&second), [2, 3]);
    }
}
