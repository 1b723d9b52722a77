//! Memory that frames are received into: aligned, written without being zeroed first, and used again once the last
//! array that points into it is gone.
//!
//! Fresh memory costs a page fault for each 4 KiB, which makes receiving several times slower; hence the pool. It is
//! last-in-first-out, so that the block used next is the one most likely still in a cache.

mod idle;

use std::alloc::{Layout, alloc, dealloc};
use std::panic::RefUnwindSafe;
use std::ptr::NonNull;
use std::sync::{Arc, LazyLock, Weak};

use arrow_buffer::Buffer;
use bytes::BufMut;
use bytes::buf::UninitSlice;

use self::idle::Idle;
use crate::error::{Error, Result};

/// Every block starts at a multiple of this.
const ALIGNMENT: usize = 64;
/// Smaller blocks are not pooled: they would cost more than they save.
const SMALLEST_POOLED: usize = 64 << 10;
/// Larger blocks are not pooled: they would hold too much.
const LARGEST_POOLED: usize = 16 << 20;
/// Blocks from this size on lie in slabs of huge pages. A frame of the usual size fills one of the two in a slab.
const SMALLEST_IN_SLAB: usize = 1 << 20;
/// Most that waits in this process: about what a query holds that keeps its rows.
const MOST_IDLE_BYTES: usize = 1 << 30;
/// What waits for as long as the process lives. More waits for seconds only.
const LASTING_IDLE_BYTES: usize = 64 << 20;
/// The size of a huge page.
const HUGE_PAGE: usize = 2 << 20;

/// Memory of whole huge pages, where the system has them.
struct Slab {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: a slab is plain memory; who may touch which part of it is settled by the blocks made of it.
unsafe impl Send for Slab {}
// SAFETY: the same.
unsafe impl Sync for Slab {}

impl Slab {
    fn try_new(bytes: usize) -> Result<Arc<Self>> {
        let layout = layout(bytes.next_multiple_of(HUGE_PAGE), HUGE_PAGE)?;
        // SAFETY: the layout has a size above zero.
        let start = NonNull::new(unsafe { alloc(layout) }).ok_or_else(|| out_of_memory(bytes))?;
        // A system without huge pages refuses, and then small ones serve.
        // SAFETY: the range is the slab's own, and the advice changes nothing that can be read from it.
        #[cfg(not(miri))]
        unsafe {
            libc::madvise(start.as_ptr().cast(), layout.size(), libc::MADV_HUGEPAGE);
        }
        Ok(Arc::new(Self { start, layout }))
    }
}

impl Drop for Slab {
    fn drop(&mut self) {
        // SAFETY: `start` was allocated with this very layout, and no block of it is left.
        unsafe { dealloc(self.start.as_ptr(), self.layout) }
    }
}

fn layout(bytes: usize, alignment: usize) -> Result<Layout> {
    Layout::from_size_align(bytes.max(1), alignment).map_err(|_| out_of_memory(bytes))
}

fn out_of_memory(bytes: usize) -> Error {
    Error::resource_exhausted(format!("no memory for a frame of {bytes} bytes"))
}

/// A piece of memory with one owner.
struct Block {
    start: NonNull<u8>,
    bytes: usize,
    home: Home,
}

/// Where a block's memory comes from.
enum Home {
    Heap(Layout),
    Slab { _slab: Arc<Slab> },
}

// SAFETY: a block is plain memory with one owner; nothing in it is tied to a thread.
unsafe impl Send for Block {}
// SAFETY: a shared block is only read.
unsafe impl Sync for Block {}

impl Block {
    fn on_heap(bytes: usize) -> Result<Self> {
        let layout = layout(bytes, ALIGNMENT)?;
        // SAFETY: the layout has a size above zero.
        let start = NonNull::new(unsafe { alloc(layout) }).ok_or_else(|| out_of_memory(bytes))?;
        Ok(Self {
            start,
            bytes: layout.size(),
            home: Home::Heap(layout),
        })
    }

    /// The blocks of a fresh slab, all of one size that is a power of two.
    fn in_slab(bytes: usize) -> Result<Vec<Self>> {
        let slab = Slab::try_new(bytes)?;
        let count = slab.layout.size() / bytes;
        let block = |index: usize| Self {
            // SAFETY: `index < count`, so the block lies within the slab, and apart from all others.
            start: unsafe { slab.start.add(index * bytes) },
            bytes,
            home: Home::Slab {
                _slab: Arc::clone(&slab),
            },
        };
        Ok((0..count).map(block).collect())
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if let Home::Heap(layout) = self.home {
            // SAFETY: `start` was allocated with this very layout, and this is its only owner.
            unsafe { dealloc(self.start.as_ptr(), layout) }
        }
    }
}

/// Where memory for frames is taken from, and goes back to.
#[derive(Clone)]
pub(crate) struct FramePool(Arc<Idle>);

impl FramePool {
    /// A pool that keeps at most so many bytes in wait.
    pub(crate) fn new(most_idle_bytes: usize) -> Self {
        Self(Arc::new(Idle::new(most_idle_bytes, most_idle_bytes)))
    }

    /// The pool that the clients of this process share.
    pub(crate) fn of_process() -> Self {
        static SHARED: LazyLock<FramePool> =
            LazyLock::new(|| FramePool(Arc::new(Idle::new(MOST_IDLE_BYTES, LASTING_IDLE_BYTES))));
        SHARED.clone()
    }

    /// Room for a frame of this many bytes.
    pub(crate) fn take(&self, bytes: usize) -> Result<FrameBuffer> {
        if !(SMALLEST_POOLED..=LARGEST_POOLED).contains(&bytes) {
            return Ok(FrameBuffer {
                block: Block::on_heap(bytes)?,
                filled: 0,
                wanted: bytes,
                pool: Weak::new(),
            });
        }
        let class = bytes.next_power_of_two();
        let block = match self.0.take(class) {
            Some(block) => block,
            None if class < SMALLEST_IN_SLAB => Block::on_heap(class)?,
            None => {
                let mut blocks = Block::in_slab(class)?;
                let block = blocks.pop().ok_or_else(|| out_of_memory(bytes))?;
                // Its neighbour shares the huge page, and so is the best one to take next.
                blocks.into_iter().for_each(|block| self.0.give_back(block));
                block
            }
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
        self.0.bytes()
    }
}

/// A block that was filled; it goes back to its pool when the last array that points into it is gone.
struct Filled {
    block: Option<Block>,
    pool: Weak<Idle>,
}

impl Drop for Filled {
    fn drop(&mut self) {
        let (Some(block), Some(pool)) = (self.block.take(), self.pool.upgrade()) else {
            return;
        };
        pool.give_back(block);
    }
}

/// A part of a buffer that counts as its own bytes, not as the whole frame, where memory is summed up array by array. It
/// keeps the whole alive.
pub(crate) fn part(whole: &Buffer, start: usize, length: usize) -> Buffer {
    kept_with(&whole.slice_with_length(start, length), ())
}

/// The same bytes, which `with` stays alive as long as. It is dropped with the last that points to them.
pub(crate) fn kept_with<T: Send + Sync + RefUnwindSafe + 'static>(
    whole: &Buffer,
    with: T,
) -> Buffer {
    let Some(start) = NonNull::new(whole.as_ptr().cast_mut()) else {
        return whole.clone();
    };
    let owner = Arc::new((whole.clone(), with));
    // SAFETY: the bytes are good for as long as the owner, which holds the buffer that they are.
    unsafe { Buffer::from_custom_allocation(start, whole.len(), owner) }
}

/// Room for one frame, filled from its start. What is not filled is never read.
pub(crate) struct FrameBuffer {
    block: Block,
    filled: usize,
    wanted: usize,
    pool: Weak<Idle>,
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
        // SAFETY: `filled <= wanted <= block.bytes`, so the range lies within the block, which `self` owns alone.
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
    fn blocks_of_a_slab_share_its_huge_page_and_nothing_else() {
        let pool = FramePool::new(8 << 20);
        let first = fill(&pool, 1_000_000, 1);
        assert_eq!(pool.idle_bytes(), 1 << 20);
        let second = fill(&pool, 1_000_000, 2);
        assert_eq!(pool.idle_bytes(), 0);
        let distance = (first.as_ptr() as usize).abs_diff(second.as_ptr() as usize);
        assert_eq!(distance, 1 << 20);
        drop(first);
        let third = fill(&pool, 1 << 20, 3);
        assert!(second.iter().all(|&byte| byte == 2) && third.iter().all(|&byte| byte == 3));
        let large = fill(&pool, 5 << 20, 4);
        assert_eq!(large.as_ptr().align_offset(HUGE_PAGE), 0);
        drop(pool);
        assert!(second.iter().all(|&byte| byte == 2) && large.iter().all(|&byte| byte == 4));
    }

    #[test]
    fn a_part_counts_as_itself_and_keeps_the_whole() {
        let whole = fill(&FramePool::new(0), 100_000, 9);
        let (one, two) = (part(&whole, 64, 1000), part(&whole, 1064, 10));
        drop(whole);
        assert_eq!((one.capacity(), two.capacity()), (1000, 10));
        assert!(one.iter().chain(two.iter()).all(|&byte| byte == 9));
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
