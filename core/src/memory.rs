//! Memory that frames are received into: aligned, written without being zeroed first, and used again once the last
//! array that points into it is gone.
//!
//! Fresh memory costs a page fault for each 4 KiB, which makes receiving several times slower; hence the pool. It is
//! last-in-first-out, so that the block used next is the one most likely still in a cache.

use std::alloc::{Layout, alloc, dealloc};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, Weak};

use arrow_buffer::Buffer;
use bytes::BufMut;
use bytes::buf::UninitSlice;

use crate::error::{Error, Result};

/// Every block starts at a multiple of this.
const ALIGNMENT: usize = 64;
/// Smaller blocks are not pooled: they would cost more than they save.
const SMALLEST_POOLED: usize = 64 << 10;
/// Larger blocks are not pooled: they would hold too much.
const LARGEST_POOLED: usize = 16 << 20;

/// A piece of memory of its own.
struct Block {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: a block is plain memory with one owner; nothing in it is tied to a thread.
unsafe impl Send for Block {}
// SAFETY: a shared block is only read.
unsafe impl Sync for Block {}

impl Block {
    fn try_new(bytes: usize) -> Result<Self> {
        let out_of_memory =
            || Error::resource_exhausted(format!("no memory for a frame of {bytes} bytes"));
        let layout =
            Layout::from_size_align(bytes.max(1), ALIGNMENT).map_err(|_| out_of_memory())?;
        // SAFETY: the layout has a size above zero.
        let start = NonNull::new(unsafe { alloc(layout) }).ok_or_else(out_of_memory)?;
        Ok(Self { start, layout })
    }

    fn bytes(&self) -> usize {
        self.layout.size()
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: `start` was allocated with this very layout, and this is its only owner.
        unsafe { dealloc(self.start.as_ptr(), self.layout) }
    }
}

#[derive(Default)]
struct Idle {
    blocks: Vec<Block>,
    bytes: usize,
}

struct PoolState {
    idle: Mutex<Idle>,
    most_idle_bytes: usize,
}

/// Blocks that wait to be used again.
#[derive(Clone)]
pub(crate) struct FramePool(Arc<PoolState>);

impl FramePool {
    /// A pool that keeps at most so many bytes in wait.
    pub(crate) fn new(most_idle_bytes: usize) -> Self {
        Self(Arc::new(PoolState {
            idle: Mutex::default(),
            most_idle_bytes,
        }))
    }

    /// Room for a frame of this many bytes.
    pub(crate) fn take(&self, bytes: usize) -> Result<FrameBuffer> {
        if !(SMALLEST_POOLED..=LARGEST_POOLED).contains(&bytes) {
            return Ok(FrameBuffer {
                block: Block::try_new(bytes)?,
                filled: 0,
                wanted: bytes,
                pool: Weak::new(),
            });
        }
        let class = bytes.next_power_of_two();
        let reused = {
            let mut idle = lock(&self.0.idle);
            let at = idle.blocks.iter().rposition(|block| block.bytes() == class);
            let block = at.map(|at| idle.blocks.remove(at));
            if let Some(block) = &block {
                idle.bytes -= block.bytes();
            }
            block
        };
        let block = match reused {
            Some(block) => block,
            None => Block::try_new(class)?,
        };
        Ok(FrameBuffer {
            block,
            filled: 0,
            wanted: bytes,
            pool: Arc::downgrade(&self.0),
        })
    }

    #[cfg(test)]
    fn idle_bytes(&self) -> usize {
        lock(&self.0.idle).bytes
    }
}

fn lock(idle: &Mutex<Idle>) -> std::sync::MutexGuard<'_, Idle> {
    // The list is sound after every statement that changes it, so a panic elsewhere does not spoil it.
    idle.lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// A block that was filled; it goes back to its pool when the last array that points into it is gone.
struct Filled {
    block: Option<Block>,
    pool: Weak<PoolState>,
}

impl Drop for Filled {
    fn drop(&mut self) {
        let (Some(block), Some(pool)) = (self.block.take(), self.pool.upgrade()) else {
            return;
        };
        let mut idle = lock(&pool.idle);
        if idle.bytes + block.bytes() <= pool.most_idle_bytes {
            idle.bytes += block.bytes();
            idle.blocks.push(block);
        }
    }
}

/// Room for one frame, filled from its start. What is not filled is never read.
pub(crate) struct FrameBuffer {
    block: Block,
    filled: usize,
    wanted: usize,
    pool: Weak<PoolState>,
}

impl FrameBuffer {
    /// Whether the whole frame is there.
    pub(crate) fn is_full(&self) -> bool {
        self.filled == self.wanted
    }

    /// What is there so far.
    pub(crate) fn filled(&self) -> &[u8] {
        // SAFETY: the first `filled` bytes were written, and they lie within the block.
        unsafe { std::slice::from_raw_parts(self.block.start.as_ptr(), self.filled) }
    }

    /// Hands the filled part on as a buffer, without copying it.
    pub(crate) fn freeze(self) -> Buffer {
        let (start, length) = (self.block.start, self.filled);
        let owner = Arc::new(Filled {
            block: Some(self.block),
            pool: self.pool,
        });
        // SAFETY: `start` is good for `length` written bytes for as long as the owner holds the block, and nobody
        // writes to a filled block before the owner is dropped.
        unsafe { Buffer::from_custom_allocation(start, length, owner) }
    }
}

// SAFETY: `chunk_mut` gives exactly the unfilled part of the wanted bytes, all within the block, and `advance_mut`
// only moves within it.
unsafe impl BufMut for FrameBuffer {
    fn remaining_mut(&self) -> usize {
        self.wanted - self.filled
    }

    unsafe fn advance_mut(&mut self, count: usize) {
        debug_assert!(count <= self.remaining_mut());
        self.filled = self.wanted.min(self.filled + count);
    }

    fn chunk_mut(&mut self) -> &mut UninitSlice {
        // SAFETY: `filled <= wanted <= block.bytes()`, so the range lies within the block, which `self` owns alone.
        unsafe {
            UninitSlice::from_raw_parts_mut(
                self.block.start.as_ptr().add(self.filled),
                self.wanted - self.filled,
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(pool: &FramePool, bytes: usize, value: u8) -> Buffer {
        let mut buffer = pool.take(bytes).unwrap();
        buffer.put_bytes(value, bytes);
        assert!(buffer.is_full() && buffer.remaining_mut() == 0);
        buffer.freeze()
    }

    #[test]
    fn a_block_returns_when_its_last_slice_is_gone() {
        let pool = FramePool::new(1 << 20);
        let buffer = fill(&pool, 100_000, 7);
        assert_eq!(buffer.as_ptr().align_offset(ALIGNMENT), 0);
        let slice = buffer.slice_with_length(50_000, 10);
        let place = buffer.as_ptr();
        drop(buffer);
        assert_eq!(pool.idle_bytes(), 0);
        assert_eq!(slice.as_slice(), [7; 10]);
        drop(slice);
        assert_eq!(pool.idle_bytes(), 128 << 10);
        let again = fill(&pool, 120_000, 8);
        assert_eq!((again.as_ptr(), pool.idle_bytes()), (place, 0));
    }

    #[test]
    fn what_waits_is_bounded_and_small_frames_do_not_wait() {
        let pool = FramePool::new(1 << 20);
        let held: Vec<Buffer> = (0..40).map(|i| fill(&pool, 100_000, i)).collect();
        assert!(
            held.iter()
                .zip(0..)
                .all(|(buffer, i)| buffer.iter().all(|&byte| byte == i))
        );
        drop(held);
        assert_eq!(pool.idle_bytes(), 1 << 20);
        let small = fill(&FramePool::new(1 << 20), 10, 1);
        assert_eq!(small.len(), 10);
        let orphan = fill(&FramePool::new(1 << 20), 100_000, 2);
        drop(orphan);
        assert_eq!(fill(&pool, 0, 0).len(), 0);
    }
}
