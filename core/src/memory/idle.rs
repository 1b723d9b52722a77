//! Blocks that wait to be used again, and how long they wait: some for as long as the process lives, more for a moment.
//!
//! A query that keeps its rows needs much memory, and so does the next: between the two it waits here. What nobody has
//! wanted for a while goes back to the system.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use super::Block;

/// How long blocks beyond the lasting ones wait without being wanted, and twice that at most.
const PATIENCE: Duration = Duration::from_secs(2);

/// Idle blocks by size: class `n` holds those of `2^n` bytes, the one that came last at the end.
#[derive(Default)]
struct Blocks {
    classes: Vec<Vec<Block>>,
    bytes: usize,
    /// The fewest bytes that there were since it was last looked: nobody has wanted so many.
    unwanted_bytes: usize,
    is_watched: bool,
}

fn class_of(bytes: usize) -> usize {
    bytes.trailing_zeros() as usize
}

impl Blocks {
    fn push(&mut self, block: Block) {
        let class = class_of(block.bytes);
        if self.classes.len() <= class {
            self.classes.resize_with(class + 1, Vec::new);
        }
        self.bytes += block.bytes;
        if let Some(blocks) = self.classes.get_mut(class) {
            blocks.push(block);
        }
    }

    fn pop(&mut self, bytes: usize) -> Option<Block> {
        let block = self.classes.get_mut(class_of(bytes))?.pop()?;
        self.bytes -= block.bytes;
        self.unwanted_bytes = self.unwanted_bytes.min(self.bytes);
        Some(block)
    }

    /// Takes out what nobody has wanted beyond `lasting` bytes, of each size those that have waited longest.
    fn take_unwanted(&mut self, lasting: usize) -> Vec<Block> {
        let mut excess = self.unwanted_bytes.saturating_sub(lasting);
        let mut unwanted = Vec::new();
        for blocks in self.classes.iter_mut().rev() {
            let bytes = blocks.first().map_or(1, |block| block.bytes);
            let count = (excess / bytes).min(blocks.len());
            excess -= count * bytes;
            unwanted.extend(blocks.drain(..count));
        }
        self.bytes -= unwanted.iter().map(|block| block.bytes).sum::<usize>();
        self.unwanted_bytes = self.bytes;
        unwanted
    }
}

/// The idle blocks of a pool.
pub(super) struct Idle {
    blocks: Mutex<Blocks>,
    most_bytes: usize,
    lasting_bytes: usize,
}

impl Idle {
    /// Keeps at most `most_bytes`, and what is beyond `lasting_bytes` only for a while.
    pub(super) fn new(most_bytes: usize, lasting_bytes: usize) -> Self {
        Self {
            blocks: Mutex::default(),
            most_bytes,
            lasting_bytes,
        }
    }

    /// A block of exactly this size.
    pub(super) fn take(&self, bytes: usize) -> Option<Block> {
        self.lock().pop(bytes)
    }

    /// Keeps a block where there is room for it.
    pub(super) fn give_back(self: &Arc<Self>, block: Block) {
        let mut blocks = self.lock();
        if blocks.bytes + block.bytes > self.most_bytes {
            return;
        }
        blocks.push(block);
        if blocks.bytes > self.lasting_bytes && !blocks.is_watched {
            blocks.unwanted_bytes = 0;
            let idle = Arc::downgrade(self);
            let thread = std::thread::Builder::new().name("lightstream-idle".into());
            blocks.is_watched = thread.spawn(move || watch(&idle)).is_ok();
            if !blocks.is_watched {
                // Nobody would free it later.
                blocks.unwanted_bytes = blocks.bytes;
                let unwanted = blocks.take_unwanted(self.lasting_bytes);
                drop(blocks);
                drop(unwanted);
            }
        }
    }

    /// Frees what was not wanted since the last time; false where nothing is left to watch over.
    fn look(&self) -> bool {
        let mut blocks = self.lock();
        let unwanted = blocks.take_unwanted(self.lasting_bytes);
        blocks.is_watched = blocks.bytes > self.lasting_bytes;
        let is_watched = blocks.is_watched;
        drop(blocks);
        drop(unwanted);
        is_watched
    }

    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.lock().bytes
    }

    fn lock(&self) -> MutexGuard<'_, Blocks> {
        // The lists are sound after every statement that changes them, so a panic elsewhere does not spoil them.
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn watch(idle: &Weak<Idle>) {
    loop {
        std::thread::sleep(PATIENCE);
        match idle.upgrade() {
            Some(idle) if idle.look() => {}
            _ => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: usize = 1 << 10;

    fn block(bytes: usize) -> Block {
        Block::on_heap(bytes).unwrap()
    }

    #[test]
    fn what_nobody_wants_is_given_up_but_for_what_lasts() {
        let idle = Arc::new(Idle::new(1000 * KIB, 1000 * KIB));
        for _ in 0..10 {
            idle.give_back(block(64 * KIB));
        }
        let idle = Idle {
            lasting_bytes: 128 * KIB,
            ..Arc::into_inner(idle).unwrap()
        };
        // Six were wanted since the last look, and are wanted again.
        assert!(idle.look());
        assert_eq!(idle.bytes(), 640 * KIB);
        let wanted: Vec<_> = (0..6).map(|_| idle.take(64 * KIB).unwrap()).collect();
        idle.lock().push(block(256 * KIB));
        for block in wanted {
            idle.lock().push(block);
        }
        assert_eq!(idle.bytes(), 896 * KIB);
        assert!(idle.look());
        assert_eq!(idle.bytes(), 768 * KIB);
        assert!(!idle.look());
        assert_eq!(idle.bytes(), 128 * KIB);
        assert!(idle.take(256 * KIB).is_none());
    }

    #[test]
    fn a_pool_that_nobody_uses_shrinks_by_itself() {
        let idle = Arc::new(Idle::new(1000 * KIB, 64 * KIB));
        for _ in 0..10 {
            idle.give_back(block(64 * KIB));
        }
        assert_eq!(idle.bytes(), 640 * KIB);
        let start = std::time::Instant::now();
        while idle.bytes() > 64 * KIB {
            assert!(start.elapsed() < PATIENCE * 20);
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(idle.bytes(), 64 * KIB);
    }
}
