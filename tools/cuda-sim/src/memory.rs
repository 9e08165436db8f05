//! Memory of a device: each allocation lies between marked bytes, and these between pages without access.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes without access on both sides.
const GUARD: usize = 1 << 20;
/// Marked bytes on both sides.
const MARGIN: usize = 256;
const MARK: u8 = 0xc5;
/// The bytes of new memory: NaN as floats.
const FRESH: u8 = 0xff;
/// Alignment of an allocation, as on a GPU.
const ALIGNMENT: usize = 256;
const PAGE: usize = 4096;

/// One use of a block by a stream.
#[derive(Clone, Copy, Debug)]
pub struct Access {
    pub address: usize,
    pub write: bool,
    pub stream: usize,
    pub tick: u64,
}

struct Block {
    nbytes: usize,
    /// The begin of the mapping.
    base: usize,
    /// Page-locked memory of the host.
    host: bool,
    /// The last write and the reads since.
    write: Option<Access>,
    reads: Vec<Access>,
}

/// By address.
static BLOCKS: Mutex<BTreeMap<usize, Block>> = Mutex::new(BTreeMap::new());

/// Freed allocations by address, until their addresses are used again.
static FREED: Mutex<BTreeMap<usize, usize>> = Mutex::new(BTreeMap::new());

fn freed() -> MutexGuard<'static, BTreeMap<usize, usize>> {
    FREED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A report of an address in freed memory.
pub fn gone(address: usize) -> Option<String> {
    if block_of(&blocks(), address).is_some() {
        return None;
    }
    let freed = freed();
    let (&start, &nbytes) = freed.range(..=address).next_back()?;
    // Threads of the host and their stacks may have the addresses now.
    (address < start + nbytes && !is_mapped(address))
        .then(|| format!("byte {} of an allocation of {nbytes} bytes that was freed before", address - start))
}

/// Whether the process has a page at an address.
fn is_mapped(address: usize) -> bool {
    let mut resident = 0u8;
    // SAFETY: only asks for one page, and writes one byte.
    unsafe { libc::mincore((address & !(PAGE - 1)) as *mut libc::c_void, 1, &raw mut resident) == 0 }
}

fn blocks() -> MutexGuard<'static, BTreeMap<usize, Block>> {
    BLOCKS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The block that contains an address.
fn block_of(blocks: &BTreeMap<usize, Block>, address: usize) -> Option<(usize, &Block)> {
    let (&start, block) = blocks.range(..=address).next_back()?;
    (address < start + block.nbytes).then_some((start, block))
}

/// Bytes of the accessible pages of an allocation.
fn accessible_bytes(nbytes: usize) -> usize {
    (nbytes + 2 * MARGIN + ALIGNMENT).next_multiple_of(PAGE)
}

/// Bytes that allocations hold now.
pub fn live() -> usize {
    blocks().values().filter(|block| !block.host).map(|block| block.nbytes).sum()
}

/// Allocates memory, filled with bytes that no program should read. `None` if the system has no memory.
pub fn allocate(nbytes: usize, host: bool) -> Option<usize> {
    let inside = accessible_bytes(nbytes);
    // SAFETY: reserves address space, and makes its middle accessible.
    let base = unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let base = libc::mmap(std::ptr::null_mut(), inside + 2 * GUARD, libc::PROT_NONE, flags, -1, 0);
        if base == libc::MAP_FAILED {
            return None;
        }
        if libc::mprotect(base.byte_add(GUARD), inside, libc::PROT_READ | libc::PROT_WRITE) != 0 {
            libc::munmap(base, inside + 2 * GUARD);
            return None;
        }
        base as usize
    };
    // The allocation ends as close to the upper guard as its alignment allows.
    let address = (base + GUARD + inside - MARGIN - nbytes) & !(ALIGNMENT - 1);
    // SAFETY: the margins and the allocation lie in the accessible pages.
    unsafe {
        std::ptr::write_bytes((address - MARGIN) as *mut u8, MARK, MARGIN);
        std::ptr::write_bytes(address as *mut u8, FRESH, nbytes);
        std::ptr::write_bytes((address + nbytes) as *mut u8, MARK, MARGIN);
    }
    let mut gone = freed();
    let over: Vec<usize> = gone.range(base..base + inside + 2 * GUARD).map(|(&address, _)| address).collect();
    for address in over {
        gone.remove(&address);
    }
    blocks().insert(address, Block { nbytes, base, host, write: None, reads: Vec::new() });
    Some(address)
}

/// The result of freeing an address.
#[derive(PartialEq, Debug)]
pub enum Freed {
    Fine,
    Unknown,
    /// Its margins were overwritten.
    Marred,
}

pub fn free(address: usize) -> Freed {
    let Some(Block { nbytes, base, .. }) = blocks().remove(&address) else { return Freed::Unknown };
    let fine = is_marked(address, nbytes);
    freed().insert(address, nbytes);
    // SAFETY: the whole mapping of this allocation, which was removed from the map.
    unsafe { libc::munmap(base as *mut libc::c_void, accessible_bytes(nbytes) + 2 * GUARD) };
    if fine { Freed::Fine } else { Freed::Marred }
}

/// Whether an address lies in page-locked memory of the host.
pub fn is_host(address: usize) -> bool {
    block_of(&blocks(), address).is_some_and(|(_, block)| block.host)
}

/// The device's blocks into which words point.
pub fn blocks_of(words: &[u64]) -> Vec<usize> {
    let blocks = blocks();
    let found =
        words.iter().filter_map(|&word| block_of(&blocks, word as usize)).filter(|(_, block)| !block.host);
    let mut found: Vec<usize> = found.map(|(start, _)| start).collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// A hash of the contents of a block.
pub fn digest(address: usize) -> u64 {
    let nbytes = blocks().get(&address).map_or(0, |block| block.nbytes);
    // SAFETY: the block is allocated, and one thread at a time runs work.
    let bytes = unsafe { std::slice::from_raw_parts(address as *const u8, nbytes) };
    let (words, rest) = bytes.as_chunks::<8>();
    let mix = |sum: u64, word: u64| (sum ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23);
    let sum = words.iter().fold(1, |sum, word| mix(sum, u64::from_ne_bytes(*word)));
    rest.iter().fold(sum, |sum, &byte| mix(sum, u64::from(byte)))
}

/// A report of bytes that begin in a block and end outside it.
pub fn outside(address: usize, nbytes: usize) -> Option<String> {
    let blocks = blocks();
    let (start, block) = block_of(&blocks, address)?;
    let end = start + block.nbytes;
    (address + nbytes > end).then(|| {
        format!("{nbytes} bytes from byte {} of an allocation of {} bytes", address - start, block.nbytes)
    })
}

/// Records a use. Returns a report if it conflicts with another use and is not ordered after it.
pub fn touch(access: Access, clock: &BTreeMap<usize, u64>) -> Option<String> {
    let mut blocks = blocks();
    let (start, _) = block_of(&blocks, access.address)?;
    let block = blocks.get_mut(&start)?;
    let is_before = |other: &Access| {
        other.stream == access.stream || clock.get(&other.stream).is_some_and(|&tick| tick >= other.tick)
    };
    let earlier = block.write.iter().chain(block.reads.iter().filter(|_| access.write));
    let mut unordered = earlier.filter(|other| !is_before(other));
    let complaint = unordered.next().map(|other| {
        let (own, theirs) =
            (if access.write { "writes" } else { "reads" }, if other.write { "wrote" } else { "read" });
        format!(
            "{own} an allocation of {} bytes that stream {:#x} {theirs}, \
             and neither is ordered before the other",
            block.nbytes, other.stream
        )
    });
    if access.write {
        (block.write, block.reads) = (Some(access), Vec::new());
    } else {
        block.reads.retain(|read| read.stream != access.stream);
        block.reads.push(access);
    }
    complaint
}

fn is_marked(address: usize, nbytes: usize) -> bool {
    // SAFETY: the margins belong to the allocation.
    let margin = |at: usize| {
        unsafe { std::slice::from_raw_parts(at as *const u8, MARGIN) }.iter().all(|&byte| byte == MARK)
    };
    margin(address - MARGIN) && margin(address + nbytes)
}

/// The contents of these blocks.
pub fn contents(starts: &[usize]) -> Vec<(usize, Vec<u8>)> {
    let blocks = blocks();
    let found = starts.iter().filter_map(|&start| Some((start, blocks.get(&start)?.nbytes)));
    // SAFETY: the allocations exist while the map is locked, and no kernel runs.
    found
        .map(|(start, nbytes)| {
            (start, unsafe { std::slice::from_raw_parts(start as *const u8, nbytes) }.to_vec())
        })
        .collect()
}

/// Restores [`contents`].
///
/// # Safety
/// The allocations are those from which the contents were taken.
pub unsafe fn restore(contents: &[(usize, Vec<u8>)]) {
    for (address, bytes) in contents {
        // SAFETY: the caller's promise.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), *address as *mut u8, bytes.len()) };
    }
}

/// The size of one of these blocks whose margins were overwritten. The margins are marked again: it is
/// reported once.
pub fn marred(starts: &[usize]) -> Option<usize> {
    let blocks = blocks();
    let mut reached = starts.iter().filter_map(|&start| Some((start, blocks.get(&start)?.nbytes)));
    let (address, nbytes) = reached.find(|&(address, nbytes)| !is_marked(address, nbytes))?;
    // SAFETY: the margins belong to the allocation.
    unsafe {
        std::ptr::write_bytes((address - MARGIN) as *mut u8, MARK, MARGIN);
        std::ptr::write_bytes((address + nbytes) as *mut u8, MARK, MARGIN);
    }
    Some(nbytes)
}

/// The allocation near an address, as text. For a signal handler, which must not wait for locks.
pub fn near(address: usize) -> Option<String> {
    let blocks = BLOCKS.try_lock().ok()?;
    let (start, block) = blocks
        .iter()
        .find(|(start, block)| address + GUARD >= **start && address < **start + block.nbytes + GUARD)?;
    let nbytes = block.nbytes;
    Some(format!(
        "{} bytes from the start of an allocation of {nbytes} bytes",
        address as isize - *start as isize
    ))
}
