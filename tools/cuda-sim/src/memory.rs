//! Memory of a card: each allocation stands between marked bytes, and those between pages without access.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes without access on both sides.
const GUARD: usize = 1 << 20;
/// Marked bytes on both sides.
const MARGIN: usize = 256;
const MARK: u8 = 0xc5;
/// What fresh memory holds: NaN, for floats.
const FRESH: u8 = 0xff;
/// Alignment of an allocation, as on a card.
const ALIGNMENT: usize = 256;
const PAGE: usize = 4096;

/// By address: bytes, and where the mapping begins.
static BLOCKS: Mutex<BTreeMap<usize, (usize, usize)>> = Mutex::new(BTreeMap::new());

fn blocks() -> MutexGuard<'static, BTreeMap<usize, (usize, usize)>> {
    BLOCKS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn room(nbytes: usize) -> usize {
    (nbytes + 2 * MARGIN + ALIGNMENT).next_multiple_of(PAGE)
}

/// Bytes that allocations hold now.
pub fn live() -> usize {
    blocks().values().map(|(nbytes, _)| nbytes).sum()
}

/// Fresh memory, filled with what no program should read; none where the system has none.
pub fn allocate(nbytes: usize) -> Option<usize> {
    let inside = room(nbytes);
    // SAFETY: asks for address space, and makes the middle of it accessible.
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
    // As close to the upper end as alignment allows.
    let address = (base + GUARD + inside - MARGIN - nbytes) & !(ALIGNMENT - 1);
    // SAFETY: all of it lies between the pages without access.
    unsafe {
        std::ptr::write_bytes((address - MARGIN) as *mut u8, MARK, MARGIN);
        std::ptr::write_bytes(address as *mut u8, FRESH, nbytes);
        std::ptr::write_bytes((address + nbytes) as *mut u8, MARK, MARGIN);
    }
    blocks().insert(address, (nbytes, base));
    Some(address)
}

/// What giving back an address found.
#[derive(PartialEq, Debug)]
pub enum Freed {
    Fine,
    Unknown,
    /// Somebody wrote beside it.
    Marred,
}

pub fn free(address: usize) -> Freed {
    let Some((nbytes, base)) = blocks().remove(&address) else { return Freed::Unknown };
    let fine = is_marked(address, nbytes);
    // SAFETY: the whole mapping of this allocation, which nobody knows any more.
    unsafe { libc::munmap(base as *mut libc::c_void, room(nbytes) + 2 * GUARD) };
    if fine { Freed::Fine } else { Freed::Marred }
}

fn is_marked(address: usize, nbytes: usize) -> bool {
    // SAFETY: the margins of an allocation.
    let margin = |at: usize| unsafe { std::slice::from_raw_parts(at as *const u8, MARGIN) }.iter().all(|&byte| byte == MARK);
    margin(address - MARGIN) && margin(address + nbytes)
}

/// What all allocations hold.
pub fn contents() -> Vec<(usize, Vec<u8>)> {
    // SAFETY: allocations that are there while the map is locked; nothing runs meanwhile.
    blocks().iter().map(|(&address, &(nbytes, _))| (address, unsafe { std::slice::from_raw_parts(address as *const u8, nbytes) }.to_vec())).collect()
}

/// Puts [`contents`] back.
///
/// # Safety
/// The allocations are those that it was taken from.
pub unsafe fn restore(contents: &[(usize, Vec<u8>)]) {
    for (address, bytes) in contents {
        // SAFETY: the caller's promise.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), *address as *mut u8, bytes.len()) };
    }
}

/// The bytes of an allocation that somebody wrote beside; it is marked again, so that it is reported once.
pub fn marred() -> Option<usize> {
    let blocks = blocks();
    let (&address, &(nbytes, _)) = blocks.iter().find(|(address, (nbytes, _))| !is_marked(**address, *nbytes))?;
    // SAFETY: the margins of an allocation.
    unsafe {
        std::ptr::write_bytes((address - MARGIN) as *mut u8, MARK, MARGIN);
        std::ptr::write_bytes((address + nbytes) as *mut u8, MARK, MARGIN);
    }
    Some(nbytes)
}

/// The allocation that an address is near to, as text; for a handler of signals, which may not wait.
pub fn near(address: usize) -> Option<String> {
    let blocks = BLOCKS.try_lock().ok()?;
    let (start, (nbytes, _)) = blocks.iter().find(|(start, (nbytes, _))| address + GUARD >= **start && address < **start + nbytes + GUARD)?;
    Some(format!("{} bytes from the start of an allocation of {nbytes} bytes", address as isize - *start as isize))
}
