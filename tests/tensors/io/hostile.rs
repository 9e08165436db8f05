//! Files of strangers, and readers and writers that fail or lie: rows 12, 13, 17 and 29 of the catalog of
//! bugs.

use super::npy_bytes;
use crate::{alloc, refused};
use rankform::io::npy::{self, Npy};
use rankform::prelude::*;
use std::io::{ErrorKind, Read, Write};

/// Reads bytes as every format and element that there is; nothing may come of it but results and errors.
fn read_as_all(bytes: &[u8]) {
    let _ = Npy::new(bytes).and_then(|file| file.read::<f32, 2>());
    let _ = Npy::new(bytes).and_then(|file| file.read::<bool, 1>());
    let _ = Npy::new(bytes).and_then(|file| file.read::<num_complex::Complex<f64>, 3>());
    #[cfg(feature = "npz")]
    if let Ok(mut file) = rankform::io::npz::Npz::new(std::io::Cursor::new(bytes)) {
        for name in file.names().map(String::from).collect::<Vec<_>>() {
            let _ = file.read::<f32, 2>(&name);
        }
    }
    #[cfg(feature = "safetensors")]
    if let Ok(file) = rankform::io::safetensors::SafeTensors::from_bytes(bytes.to_vec()) {
        for name in file.names() {
            let _ = (file.read::<f32, 2>(name), file.read::<bool, 1>(name));
        }
    }
}

/// One valid file of each format.
fn valid() -> Vec<Vec<u8>> {
    let room = super::room(&format!("hostile_{:?}", std::thread::current().id()));
    let (x, flags) = (Tensor::from([[1.0_f32, 2.0, 3.0], [4.0, 5.0, 6.0]]), Tensor::from([true, false]));
    npy::write(room.join("x.npy"), &x.transposed()).unwrap();
    npy::write(room.join("flags.npy"), &flags).unwrap();
    #[cfg(feature = "npz")]
    {
        use rankform::io::npz::{self, Compression};
        npz::write(room.join("stored.npz"), &[("x", &x), ("flags", &flags)], Compression::Stored).unwrap();
        npz::write(room.join("deflated.npz"), &[("x", &x)], Compression::Deflated).unwrap();
    }
    #[cfg(feature = "safetensors")]
    rankform::io::safetensors::write(
        room.join("x.safetensors"),
        &[("x", &x), ("flags", &flags)],
        &[("a", "b")],
    )
    .unwrap();
    let mut paths: Vec<_> = std::fs::read_dir(&room).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| std::fs::read(path).unwrap()).collect()
}

#[test]
fn every_prefix_and_every_changed_byte_of_a_valid_file_gives_a_tensor_or_an_error() {
    for file in valid() {
        for end in 0..=file.len() {
            read_as_all(&file[..end]);
        }
        for at in 0..file.len() {
            for byte in [0, 1, b' ', b'9', b'}', 0x7f, 0x80, 0xff, file[at] ^ 1, file[at].wrapping_add(1)] {
                let mut changed = file.clone();
                changed[at] = byte;
                read_as_all(&changed);
            }
        }
    }
}

#[test]
fn a_file_that_is_cut_anywhere_is_an_error() {
    for file in valid().iter().filter(|file| file.starts_with(b"\x93NUMPY")) {
        for end in 0..file.len() {
            assert!(
                Npy::new(&file[..end]).and_then(|file| file.read::<f32, 2>()).is_err(),
                "{end} of {} bytes",
                file.len()
            );
        }
    }
}

/// Row 29: fourteen bytes once asked for gigabytes.
#[test]
fn memory_grows_with_the_bytes_that_came_not_with_those_promised() {
    let promise = |shape: &str| {
        npy_bytes(
            [1, 0],
            &format!("{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}"),
            &[1; 100],
        )
    };
    let files = [
        promise("(1000000000, 100)"),
        promise("(300000, 1000)"),
        npy_bytes([2, 0], &"{'descr':".repeat(10_000), &[]),
        npy_bytes([1, 0], &format!("{{'shape': ({}), }}", "0,".repeat(20_000)), &[]),
        [&b"\x93NUMPY\x02\x00\xff\xff\x0f\x00"[..], &[b' '; 40]].concat(),
        [&(90_000_000_u64.to_le_bytes())[..], &[b'{'; 100]].concat(),
        [
            &(60_000_u64.to_le_bytes())[..],
            format!("{:60000}", format!("{{\"x\":{{\"shape\":[{}0]}}}}", "0,".repeat(29_000))).as_bytes(),
        ]
        .concat(),
    ];
    Cpu.set_memory_limit(0);
    for file in files.iter().chain(&valid()) {
        let (peak, ()) = alloc::peak_here(|| read_as_all(file));
        assert!(peak <= 16 * file.len() as isize + (64 << 10), "{peak} bytes for a file of {}", file.len());
    }
}

/// A deflated tensor may be a thousand times as large as its archive: memory grows with the output.
#[cfg(feature = "npz")]
#[test]
fn an_archive_with_a_too_large_size_takes_only_its_contents() {
    let room = super::room("hostile_bomb");
    let zeros = Tensor::<u8, 1>::zeros([4 << 20], &Cpu).unwrap();
    rankform::io::npz::write(room.join("x.npz"), &[("x", &zeros)], rankform::io::npz::Compression::Deflated)
        .unwrap();
    let file = std::fs::read(room.join("x.npz")).unwrap();
    assert!(file.len() < 8 << 10, "{} bytes", file.len());
    Cpu.set_memory_limit(0);
    let read = || {
        rankform::io::npz::Npz::new(std::io::Cursor::new(&file)).unwrap().read::<u8, 1>("x").unwrap().numel()
    };
    let (peak, numel) = alloc::peak_here(read);
    assert_eq!(numel, 4 << 20);
    assert!(peak < 3 * (4 << 20), "{peak} bytes");
}

/// Row 17: a reader that inspects its buffer, fills it in small parts with interruptions, and may lie.
struct Curious<'a> {
    bytes: &'a [u8],
    lies: bool,
    calls: usize,
}

impl Read for Curious<'_> {
    fn read(&mut self, room: &mut [u8]) -> std::io::Result<usize> {
        // Fresh memory of the checking allocator is 0xA5: whoever sees a row of it sees memory that nobody
        // wrote.
        assert!(!room.windows(16).any(|part| part == [0xA5; 16]), "memory that nobody wrote");
        self.calls += 1;
        if self.calls.is_multiple_of(3) {
            return Err(ErrorKind::Interrupted.into());
        }
        let count = self.calls.min(room.len()).min(self.bytes.len());
        room[..count].copy_from_slice(&self.bytes[..count]);
        self.bytes = &self.bytes[count..];
        Ok(if self.lies && self.calls > 40 { room.len() + 1 } else { count })
    }
}

#[test]
fn a_reader_sees_no_memory_that_nobody_wrote_and_is_not_believed() {
    let x = Tensor::from_fn([100_000], |[i]| i as u32, &Cpu).unwrap();
    let mut bytes = Vec::new();
    npy::write_to(&mut bytes, &x).unwrap();
    Cpu.set_memory_limit(0);
    let y = Npy::new(Curious { bytes: &bytes, lies: false, calls: 0 }).unwrap().read::<u32, 1>().unwrap();
    assert_eq!(x, y);
    let lied =
        Npy::new(Curious { bytes: &bytes, lies: true, calls: 0 }).and_then(|file| file.read::<u32, 1>());
    refused!(lied, Error::Format { .. }, "a reader says that it read");
}

#[test]
fn a_reader_that_fails_at_any_call_is_an_error_with_its_report() {
    struct Fails<'a>(&'a [u8], usize);
    impl Read for Fails<'_> {
        fn read(&mut self, room: &mut [u8]) -> std::io::Result<usize> {
            self.1 =
                self.1.checked_sub(1).ok_or(std::io::Error::new(ErrorKind::TimedOut, "the line is cut"))?;
            let count = room.len().min(100);
            self.0.read(&mut room[..count])
        }
    }
    let mut bytes = Vec::new();
    npy::write_to(&mut bytes, &Tensor::from([1.0; 200])).unwrap();
    for calls in 0..18 {
        let result = Npy::new(Fails(&bytes, calls)).and_then(|file| file.read::<f64, 1>());
        refused!(result, Error::Io { kind: ErrorKind::TimedOut, .. }, "the line is cut");
    }
}

#[test]
fn a_writer_that_fails_at_any_call_is_an_error_with_its_report() {
    struct Fails(usize);
    impl Write for Fails {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 = self.0.checked_sub(1).ok_or(std::io::Error::other("no room"))?;
            Ok(bytes.len().min(1000))
        }
        fn flush(&mut self) -> std::io::Result<()> {
            self.0.checked_sub(1).map(drop).ok_or(std::io::Error::other("no room"))
        }
    }
    let x = Tensor::<f32, 2>::zeros([50, 100], &Cpu).unwrap();
    for calls in 0..21 {
        refused!(npy::write_to(&mut Fails(calls), &x.transposed()), Error::Io { .. }, "no room");
    }
    npy::write_to(&mut Fails(22), &x.transposed()).unwrap();
}

#[test]
fn a_file_that_was_written_leaves_no_memory_behind() {
    let path = super::room("hostile_leaks").join("x");
    let x = Tensor::from([1.0_f32, 2.0]);
    let write = || {
        npy::write(&path, &x).unwrap();
        #[cfg(feature = "safetensors")]
        rankform::io::safetensors::write(&path, &[("x", &x)], &[]).unwrap();
    };
    write();
    let before = alloc::live_here();
    (0..10).for_each(|_| write());
    assert_eq!(alloc::live_here(), before);
}

/// Every allocation on the way of reading and writing fails in turn.
#[test]
fn memory_that_runs_out_is_an_error() {
    let x = Tensor::from_fn([300, 400], |[i, j]| (i * j) as f32, &Cpu).unwrap();
    let view = x.slice((.., (..).step(-1))).unwrap();
    let mut bytes = Vec::new();
    npy::write_to(&mut bytes, &view).unwrap();
    Cpu.set_memory_limit(0);
    let mut failed = 0;
    for n in 0.. {
        let armed = alloc::fail_from(n);
        let result = Npy::new(&bytes[..]).and_then(|file| file.read::<f32, 2>());
        if armed.refused() == 0 {
            break;
        }
        failed += 1;
        refused!(result, Error::OutOfMemory { .. }, "could not be allocated");
    }
    assert!(failed > 3, "{failed}");
}
