//! Memory in huge pages, there before it is asked for.

/// Elements on huge pages where the system has them; on ordinary ones elsewhere.
pub struct Pages {
    start: *mut f32,
    mapped: (*mut libc::c_void, usize),
}

// SAFETY: an address of memory that this value alone owns; each shared use has its own argument where it
// writes.
unsafe impl Send for Pages {}
// SAFETY: as above; `&Pages` gives an address only.
unsafe impl Sync for Pages {}

const HUGE: usize = 2 << 20;

impl Pages {
    /// Zeros.
    pub fn new(len: usize) -> Self {
        let (read_write, private) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let bytes = len * 4;
        let mapped = bytes + HUGE;
        // SAFETY: a new mapping at an address of the system's choice.
        let address = unsafe { libc::mmap(std::ptr::null_mut(), mapped, read_write, private, -1, 0) };
        assert!(address != libc::MAP_FAILED, "no memory for {mapped} bytes");
        let start = address.wrapping_byte_add(address.align_offset(HUGE));
        #[cfg(target_os = "linux")]
        // SAFETY: advice on a part of the mapping above; that it may be refused changes no byte.
        unsafe {
            libc::madvise(start, bytes, libc::MADV_HUGEPAGE);
        }
        // SAFETY: `bytes` bytes from `start` lie in the mapping, which is HUGE longer.
        unsafe { start.cast::<u8>().write_bytes(0, bytes) };
        Self { start: start.cast(), mapped: (address, mapped) }
    }

    pub fn start(&self) -> *mut f32 {
        self.start
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: mapped in `new`, with this length.
        unsafe { libc::munmap(self.mapped.0, self.mapped.1) };
    }
}
