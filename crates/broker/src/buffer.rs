//! Memory that frames are read into and that then *is* the log.
//!
//! A produce request is read from its socket into a [`Buffer`]; the partition's log keeps a [`Slice`] of that buffer, and
//! a fetch response names the same slice again. Nothing is copied between socket and socket. When the last slice of a
//! buffer is gone, the buffer goes back to its [`Pool`], because the first touch of fresh memory costs far more
//! (0.8 s a GiB) than reading into memory that has been used before.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// The smallest buffer: what a connection starts with.
pub(crate) const SMALLEST_BYTES: usize = 4 << 10;

/// Buffers by size, and how many bytes of them are in use.
#[derive(Debug)]
pub(crate) struct Pool {
    shelf: Mutex<Shelf>,
    /// Bytes of all buffers that somebody holds.
    in_use_bytes: AtomicUsize,
    /// In use and on the shelf together are not to be more than this, as far as the shelf can help it.
    keep_bytes: usize,
}

#[derive(Debug, Default)]
struct Shelf {
    by_size: BTreeMap<usize, Vec<Box<[u8]>>>,
    bytes: usize,
}

impl Pool {
    /// A pool that keeps returned buffers as long as they and those in use are at most `keep_bytes`.
    pub(crate) fn new(keep_bytes: usize) -> Arc<Pool> {
        Arc::new(Pool {
            shelf: Mutex::default(),
            in_use_bytes: AtomicUsize::new(0),
            keep_bytes,
        })
    }

    /// A buffer of at least `at_least_bytes`, zeroed or with the bytes of whoever had it before.
    pub(crate) fn take(self: &Arc<Self>, at_least_bytes: usize) -> Arc<Buffer> {
        // A somewhat larger one will do; a much larger one would be charged for nothing.
        self.take_between(at_least_bytes, at_least_bytes + at_least_bytes / 4)
    }

    /// A buffer of at least `at_least_bytes`; one of up to `at_most_bytes` rather than one that has to be made.
    pub(crate) fn take_between(self: &Arc<Self>, at_least_bytes: usize, at_most_bytes: usize) -> Arc<Buffer> {
        let wanted = size_class(at_least_bytes);
        let bytes = self
            .take_from_shelf(wanted, at_most_bytes)
            .unwrap_or_else(|| vec![0; wanted].into_boxed_slice());
        self.in_use_bytes.fetch_add(bytes.len(), Ordering::Relaxed);
        Arc::new(Buffer {
            len_bytes: bytes.len(),
            bytes: RwLock::new(bytes),
            pool: Arc::clone(self),
        })
    }

    /// Touches `bytes` of memory in buffers of `buffer_bytes`, so that the first to use them need not.
    pub(crate) fn prefault(self: &Arc<Self>, bytes: usize, buffer_bytes: usize) {
        let buffers: Vec<Arc<Buffer>> = (0..bytes / size_class(buffer_bytes))
            .map(|_| self.take(buffer_bytes))
            .collect();
        for buffer in buffers {
            // One byte a page is what makes the kernel give the page.
            buffer.write().iter_mut().step_by(4096).for_each(|byte| *byte = 1);
        }
    }

    /// Bytes of the buffers that are in use: by connections, logs and answers on their way.
    pub(crate) fn in_use_bytes(&self) -> usize {
        self.in_use_bytes.load(Ordering::Relaxed)
    }

    fn take_from_shelf(&self, wanted: usize, at_most: usize) -> Option<Box<[u8]>> {
        let mut shelf = self.shelf();
        let size = *shelf.by_size.range(wanted..=at_most.max(wanted)).next()?.0;
        let stack = shelf.by_size.get_mut(&size)?;
        let bytes = stack.pop()?;
        if stack.is_empty() {
            shelf.by_size.remove(&size);
        }
        shelf.bytes -= size;
        Some(bytes)
    }

    fn give_back(&self, bytes: Box<[u8]>) {
        let in_use = self.in_use_bytes.fetch_sub(bytes.len(), Ordering::Relaxed) - bytes.len();
        let mut dropped = Vec::new();
        let mut shelf = self.shelf();
        shelf.bytes += bytes.len();
        shelf.by_size.entry(bytes.len()).or_default().push(bytes);
        // What goes first is the size that there is most of by number: the load no longer asks for it.
        while in_use + shelf.bytes > self.keep_bytes {
            let Some(size) = shelf
                .by_size
                .iter()
                .max_by_key(|(size, stack)| *size * stack.len())
                .map(|(size, _)| *size)
            else {
                break;
            };
            let stack = shelf.by_size.entry(size).or_default();
            dropped.extend(stack.pop());
            if stack.is_empty() {
                shelf.by_size.remove(&size);
            }
            shelf.bytes -= size;
        }
        drop(shelf);
        drop(dropped);
    }

    fn shelf(&self) -> MutexGuard<'_, Shelf> {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sizes in steps that waste at most a quarter on small buffers and 6 % on large ones, so that buffers of about one
/// size can stand in for one another.
fn size_class(bytes: usize) -> usize {
    const STEP: usize = 64 << 10;
    match bytes {
        0..=SMALLEST_BYTES => SMALLEST_BYTES,
        _ if bytes <= STEP => bytes.next_power_of_two(),
        _ if bytes <= 16 * STEP => bytes.next_multiple_of(STEP),
        _ => bytes.next_multiple_of(bytes.next_power_of_two() / 32),
    }
}

/// Memory of a fixed size. One connection writes to its free end while others read what already stands in it, which is
/// why there is a lock; readers and the writer never want the same bytes.
#[derive(Debug)]
pub(crate) struct Buffer {
    bytes: RwLock<Box<[u8]>>,
    len_bytes: usize,
    pool: Arc<Pool>,
}

impl Buffer {
    /// Its size.
    pub(crate) fn len_bytes(&self) -> usize {
        self.len_bytes
    }

    pub(crate) fn read(&self) -> RwLockReadGuard<'_, Box<[u8]>> {
        self.bytes.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, Box<[u8]>> {
        self.bytes.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let bytes = self.bytes.get_mut().unwrap_or_else(PoisonError::into_inner);
        self.pool.give_back(std::mem::take(bytes));
    }
}

/// Bytes of a buffer, which stay as they are as long as the slice lives.
#[derive(Clone, Debug)]
pub(crate) struct Slice {
    buffer: Arc<Buffer>,
    start: u32,
    len: u32,
}

impl Slice {
    /// The `range` of `buffer`; a range beyond its end, or of 4 GiB and more, is cut to nothing.
    pub(crate) fn new(buffer: Arc<Buffer>, range: Range<usize>) -> Slice {
        let fits = range.start <= range.end && range.end <= buffer.len_bytes;
        match (u32::try_from(range.start), u32::try_from(range.len())) {
            (Ok(start), Ok(len)) if fits => Slice { buffer, start, len },
            _ => Slice {
                buffer,
                start: 0,
                len: 0,
            },
        }
    }

    /// Copies `bytes` into a buffer of its own.
    #[cfg(test)]
    pub(crate) fn copied(pool: &Arc<Pool>, bytes: &[u8]) -> Slice {
        let buffer = pool.take(bytes.len());
        buffer.write()[..bytes.len()].copy_from_slice(bytes);
        Slice::new(buffer, 0..bytes.len())
    }

    pub(crate) fn len_bytes(&self) -> usize {
        self.len as usize
    }

    /// The slice without its first `bytes`.
    pub(crate) fn skip(mut self, bytes: usize) -> Slice {
        let bytes = (bytes as u64).min(self.len.into()) as u32;
        self.start += bytes;
        self.len -= bytes;
        self
    }

    /// Where it lies in its buffer.
    pub(crate) fn range(&self) -> Range<usize> {
        self.start as usize..(self.start + self.len) as usize
    }

    pub(crate) fn buffer(&self) -> &Arc<Buffer> {
        &self.buffer
    }

    /// Hands the bytes to `look`.
    pub(crate) fn with<T>(&self, look: impl FnOnce(&[u8]) -> T) -> T {
        look(&self.buffer.read()[self.range()])
    }

    /// Hands the bytes to `change`. Only for bytes that nobody else knows of yet.
    pub(crate) fn with_mut<T>(&self, change: impl FnOnce(&mut [u8]) -> T) -> T {
        change(&mut self.buffer.write()[self.range()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_comes_back_when_its_last_slice_is_gone() {
        let pool = Pool::new(1 << 20);
        let buffer = pool.take(10_000);
        assert_eq!(buffer.len_bytes(), 16 << 10);
        let slice = Slice::new(Arc::clone(&buffer), 0..100);
        buffer.write()[0] = 7;
        drop(buffer);
        assert_eq!(pool.in_use_bytes(), 16 << 10);
        drop(slice);
        assert_eq!(pool.in_use_bytes(), 0);
        assert_eq!(pool.take(12_000).read()[0], 7, "the same memory is used again");
    }

    #[test]
    fn the_shelf_gives_up_what_is_too_much() {
        let pool = Pool::new(256 << 10);
        let many: Vec<_> = (0..8).map(|_| pool.take(64 << 10)).collect();
        assert_eq!(pool.in_use_bytes(), 512 << 10);
        drop(many);
        assert_eq!(pool.shelf().bytes, 256 << 10);
        // A load that turns to other sizes pushes the old ones out.
        let other: Vec<_> = (0..2).map(|_| pool.take(128 << 10)).collect();
        drop(other);
        assert!(pool.shelf().bytes <= 256 << 10);
    }

    #[test]
    fn sizes_fit_and_waste_little() {
        for bytes in [
            0,
            1,
            4096,
            4097,
            65_536,
            65_537,
            1_048_576 + 70,
            5_000_000,
            100_000_000,
        ] {
            let class = size_class(bytes);
            assert!(class >= bytes);
            assert!(
                bytes <= 65_536 || class - bytes <= (bytes / 15).max(65_536),
                "{bytes} in {class}"
            );
        }
    }

    #[test]
    fn a_range_outside_the_buffer_is_no_panic() {
        let pool = Pool::new(0);
        assert_eq!(Slice::new(pool.take(10), 5..100_000).len_bytes(), 0);
    }
}
