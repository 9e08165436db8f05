//! NumPy's format: headers, orders of axes and bytes, elements.

use super::{npy_bytes, room};
use crate::refused;
use num_complex::Complex;
use rankform::io::npy::{self, Npy};
use rankform::io::{Order, TensorBytes};
use rankform::prelude::*;
use rankform::{DType, DynTensor, F8E5M2};
use rankform::{bf16, f16};

fn of_bytes<T: Element, const RANK: usize>(bytes: &[u8]) -> Result<Tensor<T, RANK>> {
    Npy::new(bytes)?.read()
}

fn written(x: &impl TensorBytes) -> Vec<u8> {
    let mut bytes = Vec::new();
    npy::write_to(&mut bytes, x).unwrap();
    bytes
}

fn header(bytes: &[u8]) -> &str {
    let end = bytes.iter().position(|&byte| byte == b'\n').unwrap();
    std::str::from_utf8(&bytes[10..end]).unwrap().trim_end()
}

#[test]
fn every_element_comes_back_in_both_byte_orders() {
    fn both<T: Element>(values: &[T], name: &str, word: usize) {
        let x = Tensor::from_slice(values, [values.len()], &Cpu).unwrap();
        let bytes = written(&x);
        assert!(header(&bytes).contains(name), "{name}: {}", header(&bytes));
        assert_eq!(bytes.len() % 64, size_of_val(values) % 64, "the header is filled up to 64 bytes");
        let same = |y: Tensor<T, 1>| assert_eq!(y.as_bytes().unwrap(), x.as_bytes().unwrap(), "{name}");
        same(of_bytes(&bytes).unwrap());
        let mut big = bytes.clone();
        let data = big.len() - size_of_val(values);
        big[data..].chunks_exact_mut(word).for_each(<[u8]>::reverse);
        let at = big.iter().position(|&byte| byte == b'<' || byte == b'|').unwrap();
        big[at] = if word == 1 { b'|' } else { b'>' };
        same(of_bytes(&big).unwrap());
    }
    both(&[true, false, true], "'|b1'", 1);
    both(&[1_i8, -128], "'|i1'", 1);
    both(&[1_i16, i16::MIN], "'<i2'", 2);
    both(&[1_i32, i32::MIN], "'<i4'", 4);
    both(&[1_i64, i64::MIN], "'<i8'", 8);
    both(&[1_u8, 255], "'|u1'", 1);
    both(&[1_u16, 65535], "'<u2'", 2);
    both(&[1_u32, u32::MAX], "'<u4'", 4);
    both(&[1_u64, u64::MAX], "'<u8'", 8);
    both(&[f16::from_f32(1.5), f16::NAN], "'<f2'", 2);
    both(&[1.5_f32, f32::NAN, -0.0], "'<f4'", 4);
    both(&[1.5_f64, f64::NEG_INFINITY], "'<f8'", 8);
    both(&[Complex::new(1.0_f32, -2.0)], "'<c8'", 4);
    both(&[Complex::new(1.0_f64, -2.0)], "'<c16'", 8);
    let x = Tensor::from([bf16::from_f32(1.5), bf16::NAN]);
    let bytes = written(&x);
    assert!(header(&bytes).contains("'<V2'"));
    assert_eq!(of_bytes::<bf16, 1>(&bytes).unwrap().as_bytes(), x.as_bytes());
    refused!(of_bytes::<f16, 1>(&bytes), Error::Format { .. }, "2 bytes each, without a meaning");
    refused!(
        Npy::new(&bytes[..]).unwrap().read_dyn().map(drop),
        Error::Format { .. },
        "2 bytes each, without a meaning"
    );
    let small = Tensor::from([F8E5M2::from_bits(0x3c), F8E5M2::from_bits(0xff)]);
    assert_eq!(of_bytes::<F8E5M2, 1>(&written(&small)).unwrap().as_bytes(), small.as_bytes());
    refused!(
        npy::write_to(&mut Vec::new(), &Tensor::from(Complex::new(f16::ONE, f16::ONE))),
        Error::Value { .. },
        "Complex<f16>"
    );
}

#[test]
fn the_header_equals_numpys() {
    for (bytes, expected) in [
        (written(&Tensor::<f64, 0>::from(1.0)), "{'descr': '<f8', 'fortran_order': False, 'shape': (), }"),
        (written(&Tensor::from([1_u8, 2])), "{'descr': '|u1', 'fortran_order': False, 'shape': (2,), }"),
        (
            written(&Tensor::from([[1_i16, 2]]).transposed()),
            "{'descr': '<i2', 'fortran_order': False, 'shape': (2, 1), }",
        ),
        (
            written(&Tensor::from([[1_i16, 2], [3, 4]]).transposed()),
            "{'descr': '<i2', 'fortran_order': True, 'shape': (2, 2), }",
        ),
    ] {
        assert_eq!((header(&bytes), &bytes[..8]), (expected, &b"\x93NUMPY\x01\x00"[..]));
    }
    assert_eq!(written(&Tensor::from([1_u8, 2])).len(), 128 + 2);
}

#[test]
fn layouts_are_written_as_their_elements_and_fortran_order_is_kept() {
    let x = Tensor::from_fn([3, 4, 5], |[i, j, k]| (100 * i + 10 * j + k) as i32, &Cpu).unwrap();
    let back = |x: TensorView<'_, i32, 3>| of_bytes::<i32, 3>(&written(&x)).unwrap();
    let views = [
        x.view(),
        x.transposed(),
        x.permuted([1, 2, 0]).unwrap(),
        x.slice(((..).step(2), (..).step(-3), (..).step(-1))).unwrap(),
        x.slice((1..2, .., 2..2)).unwrap(),
        x.slice((2..3, 1..2, ..)).unwrap(),
    ];
    for view in views {
        assert_eq!(back(view), view, "{:?}", view.layout());
    }
    let row = Tensor::from([1, 2, 3]);
    let spread = row.reshape([1, 1, 3]).unwrap();
    assert_eq!(back(spread.broadcast_to([4, 2, 3]).unwrap()), spread.broadcast_to([4, 2, 3]).unwrap());
    assert_eq!(
        (back(x.transposed()).stride(), TensorBytes::order(&back(x.transposed()))),
        (x.transposed().stride(), Order::ColumnMajor)
    );
    assert_eq!(of_bytes::<i32, 0>(&written(&Tensor::from(7))).unwrap().item().unwrap(), 7);
}

#[test]
fn large_strided_tensors_are_written_in_pieces() {
    // Rows longer than a piece, rows that several fit a piece, and a last piece that is not full.
    for size in [[3, 200_001], [200_001, 3], [1, 300_000], [300_000, 1], [517, 1031]] {
        let x = Tensor::from_fn(size, |[i, j]| (i * 31 + j) as u16, &Cpu).unwrap();
        for view in
            [x.slice((.., (..).step(-1))).unwrap(), x.transposed(), x.slice(((..).step(-1), ..)).unwrap()]
        {
            assert_eq!(of_bytes::<u16, 2>(&written(&view)).unwrap(), view, "{:?}", view.layout());
        }
    }
    let x = Tensor::<f32, 2>::zeros([1 << 11, 1 << 12], &Cpu).unwrap(); // 32 MiB
    let view = x.slice((.., (..).step(-1))).unwrap();
    Cpu.set_memory_limit(0);
    let (peak, _) = crate::alloc::peak_here(|| npy::write_to(&mut std::io::sink(), &view).unwrap());
    assert!(peak < 1 << 20, "{peak} bytes");
}

#[test]
fn tensors_of_run_time_types_are_written_and_read() {
    let x = Tensor::from_fn([3, 4, 5], |[i, j, k]| (100 * i + 10 * j + k) as i16, &Cpu).unwrap();
    let whole = DynTensor::from(x.share_data());
    for y in [
        whole.share_data(),
        whole.permuted(&[2, 1, 0]).unwrap(),
        whole.ranged(1, 0, 4, -2).unwrap(),
        whole.reshaped(&[3, 1, 2, 1, 2, 1, 5, 1, 1, 1]).unwrap(),
    ] {
        let back = Npy::new(&written(&y)[..]).unwrap().read_dyn().unwrap();
        assert_eq!(
            (back.dtype(), back.size(), back.to_bytes().unwrap()),
            (y.dtype(), y.size(), y.to_bytes().unwrap())
        );
        assert_eq!(TensorBytes::order(&back), TensorBytes::order(&y));
    }
    assert_eq!(written(&whole), written(&x));
}

#[test]
fn headers_of_all_versions_and_spellings_are_read() {
    // Without `<` the order is the machine's own.
    let (little, native) = ([1_u8, 0, 2, 0, 3, 0], [1_u16, 2, 3].map(u16::to_ne_bytes).concat());
    let x = Tensor::from([1_u16, 2, 3]);
    let reads = |version, header: &str| {
        let data = if header.contains('<') { &little[..] } else { &native };
        assert_eq!(of_bytes::<u16, 1>(&npy_bytes(version, header, data)).unwrap(), x, "{header}");
    };
    for version in [[1, 0], [2, 0], [3, 0]] {
        reads(version, "{'descr': '<u2', 'fortran_order': False, 'shape': (3,), }   \n");
    }
    reads([1, 0], "{'shape':(3L,),'fortran_order':True,'descr':\"<u2\"}");
    reads([1, 0], " { 'shape' : ( 3 , ) , 'descr' : '=u2' , 'fortran_order' : False } \n");
    reads([1, 0], "{'shape':(3,),'fortran_order':True,'descr':'u2'}");
    let long = format!("{{'descr': '<u2', 'fortran_order': False, 'shape': (3,), }}{}\n", " ".repeat(70_000));
    reads([2, 0], &long);
}

/// One element with many axes of size 1, from outside the crate.
struct Deep(usize);
impl TensorBytes for Deep {
    fn dtype(&self) -> rankform::DType {
        u8::DTYPE
    }
    fn sizes(&self) -> Vec<usize> {
        vec![1; self.0]
    }
    fn order(&self) -> Order {
        Order::RowMajor
    }
    fn for_each_chunk(&self, _: Order, each: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        each(&[7])
    }
}

#[test]
fn a_header_of_more_than_64_kib_is_written_in_version_2() {
    for (axes, version) in [(32, 1), (21_700, 1), (22_000, 2), (30_000, 2)] {
        let bytes = written(&Deep(axes));
        assert_eq!(bytes[6..8], [version, 0], "{axes}");
        assert_eq!(Npy::new(&bytes[..]).unwrap().sizes(), vec![1; axes]);
        assert_eq!(bytes.last(), Some(&7));
    }
}

#[test]
fn an_invalid_header_is_refused_with_a_reason() {
    let read = |header: &str| of_bytes::<f32, 1>(&npy_bytes([1, 0], header, &[0; 64])).map(drop);
    for (header, words) in [
        ("", "expected `{`"),
        ("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)", "`,` or `}`"),
        ("['descr']", "expected `{`"),
        ("{'descr': '<f4', 'fortran_order': False}", "lacks one of"),
        ("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'more': 1}", "entry \"more\""),
        ("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", "twice"),
        ("{'descr': '<f4', 'fortran_order': 0, 'shape': (1,)}", "`True` or `False`"),
        ("{'descr': '<f4', 'fortran_order': False, 'shape': (1)}", "`(3)` is a number"),
        ("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", "a size that fits"),
        ("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999999,)}", "a size that fits"),
        ("{'descr': '<f4', 'fortran_order': False, 'shape': (1 1,)}", "`,` or `)`"),
        ("{'descr': '<f4', 'fortran_order': False, 'shape': 1}", "expected `(`"),
        ("{'descr': 4, 'fortran_order': False, 'shape': (1,)}", "a string"),
        ("{'descr': '<f4\\x00', 'fortran_order': False, 'shape': (1,)}", "without escapes"),
        ("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} + 1", "the end of the line"),
        ("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", "with fields"),
        ("{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", "Python objects"),
        ("{'descr': '<M8[s]', 'fortran_order': False, 'shape': (1,)}", "dates"),
        ("{'descr': '<U3', 'fortran_order': False, 'shape': (1,)}", "text"),
        ("{'descr': '<f16', 'fortran_order': False, 'shape': (1,)}", "of a size"),
        ("{'descr': '<c32', 'fortran_order': False, 'shape': (1,)}", "of a size"),
        ("{'descr': '|f4', 'fortran_order': False, 'shape': (1,)}", "no byte order"),
        ("{'descr': '<V0', 'fortran_order': False, 'shape': (1,)}", "without a meaning"),
        ("{'descr': '<q4', 'fortran_order': False, 'shape': (1,)}", "unknown"),
    ] {
        refused!(read(header), Error::Format { .. }, words);
    }
    let good = "{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}";
    refused!(of_bytes::<f32, 1>(&npy_bytes([1, 1], good, &[0; 4])), Error::Format { .. }, "version 1.1");
    refused!(of_bytes::<f32, 1>(&npy_bytes([4, 0], good, &[0; 4])), Error::Format { .. }, "version 4.0");
    refused!(of_bytes::<f32, 1>(b"PK\x03\x04 and so on, a zip"), Error::Format { .. }, "not an npy file");
    refused!(of_bytes::<f32, 1>(b"\x93NUM"), Error::Format { .. }, "4 bytes too early");
    refused!(
        of_bytes::<f32, 1>(b"\x93NUMPY\x02\x00\xff\xff\xff\x7f"),
        Error::Format { .. },
        "1048576 are the most"
    );
}

#[test]
fn another_element_or_rank_is_refused_before_anything_is_read() {
    let bytes = written(&Tensor::from([[1.0_f32, 2.0]]));
    let short = &bytes[..bytes.len() - 8];
    refused!(
        of_bytes::<f64, 2>(short),
        Error::Type { .. },
        "expected f64 of rank 2, found f32 of sizes [1, 2]"
    );
    refused!(
        of_bytes::<f32, 1>(short),
        Error::Type { .. },
        "expected f32 of rank 1, found f32 of sizes [1, 2]"
    );
    refused!(of_bytes::<f32, 2>(short), Error::Format { .. }, "8 bytes too early");
}

#[test]
fn sizes_that_cannot_be_counted_are_refused() {
    let most = isize::MAX;
    for shape in [format!("({most}, 2)"), format!("(0, {most}, 9)"), format!("({}, 0, 0)", usize::MAX)] {
        let header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}}}");
        let bytes = npy_bytes([1, 0], &header, &[]);
        let file = Npy::new(&bytes[..]).unwrap();
        let result = if file.sizes().len() == 2 {
            file.read::<f32, 2>().map(drop)
        } else {
            file.read::<f32, 3>().map(drop)
        };
        refused!(result, Error::Overflow { .. }, "more than isize::MAX bytes");
    }
}

#[test]
fn booleans_are_0_or_1() {
    let header = "{'descr': '|b1', 'fortran_order': False, 'shape': (3,)}";
    assert_eq!(
        of_bytes::<bool, 1>(&npy_bytes([1, 0], header, &[0, 1, 1])).unwrap().to_vec().unwrap(),
        [false, true, true]
    );
    refused!(
        of_bytes::<bool, 1>(&npy_bytes([1, 0], header, &[0, 1, 2])),
        Error::Value { .. },
        "[2] of element 2"
    );
}

#[test]
fn several_tensors_may_follow_each_other_in_a_stream_but_not_in_a_file() {
    let room = room("npy_follow");
    let mut bytes = written(&Tensor::from([1_u8, 2]));
    bytes.extend(written(&Tensor::from([[1.5_f32]])));
    let mut stream = &bytes[..];
    assert_eq!(Npy::new(&mut stream).unwrap().read::<u8, 1>().unwrap(), Tensor::from([1, 2]));
    assert_eq!(Npy::new(&mut stream).unwrap().read::<f32, 2>().unwrap(), Tensor::from([[1.5]]));
    assert!(stream.is_empty());
    std::fs::write(room.join("two.npy"), &bytes).unwrap();
    refused!(npy::read::<u8, 1>(room.join("two.npy")), Error::Format { .. }, "goes on after the tensor");
}

/// Says that it has three elements, and gives one.
struct TooFew;
impl TensorBytes for TooFew {
    fn dtype(&self) -> DType {
        DType::I32
    }
    fn sizes(&self) -> Vec<usize> {
        vec![3]
    }
    fn order(&self) -> Order {
        Order::RowMajor
    }
    fn for_each_chunk(&self, _: Order, each: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        each(&[1, 0, 0, 0])
    }
}

#[test]
fn a_file_is_replaced_whole_or_stays_as_it_was() {
    let room = room("npy_atomic");
    let path = room.join("x.npy");
    npy::write(&path, &Tensor::from([1, 2, 3])).unwrap();
    let waiting = {
        let mut x = Tensor::<i32, 1>::zeros([2], &Cpu).unwrap();
        x.resize([1000]).unwrap();
        x
    };
    refused!(npy::write(&path, &waiting), Error::Unallocated { .. }, "no memory yet");
    refused!(
        npy::write(&path, &Tensor::<i32, 1, Meta>::zeros([4], &Meta::new()).unwrap()),
        Error::NoData { .. },
        "no data"
    );
    assert_eq!(npy::read::<i32, 1>(&path).unwrap(), Tensor::from([1, 2, 3]));
    let lazy = DynTensor::from(Tensor::from([1, 2])).negative().unwrap();
    refused!(npy::write(&path, &lazy), Error::Type { .. }, "a lazy view");
    let closed = DynTensor::from(Tensor::from([1, 2])).without_access("not to be read").unwrap();
    refused!(npy::write(&path, &closed), Error::Value { .. }, "not to be read");
    refused!(npy::write(&path, &TooFew), Error::Value { .. }, "8 bytes too few");
    assert_eq!(npy::read::<i32, 1>(&path).unwrap(), Tensor::from([1, 2, 3]));
    let long = room.join("x".repeat(251) + ".npy");
    npy::write(&long, &Tensor::from([1])).unwrap();
    std::fs::remove_file(long).unwrap();
    npy::write(&path, &Tensor::from([4.0])).unwrap();
    assert_eq!(npy::read::<f64, 1>(&path).unwrap(), Tensor::from([4.0]));
    assert_eq!(std::fs::read_dir(&room).unwrap().count(), 1, "nothing else is left in the folder");
    refused!(
        npy::write(room.join("no/such/folder.npy"), &waiting),
        Error::Io { kind: std::io::ErrorKind::NotFound, .. },
        "folder"
    );
    refused!(
        npy::read::<i32, 1>(room.join("none.npy")),
        Error::Io { kind: std::io::ErrorKind::NotFound, .. },
        "none.npy"
    );
}

#[cfg(target_os = "linux")]
#[test]
fn permissions_links_and_full_disks_are_respected() {
    use std::os::unix::fs::PermissionsExt;
    let room = room("npy_unix");
    let (path, link) = (room.join("x.npy"), room.join("link.npy"));
    npy::write(&path, &Tensor::from([1])).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
    std::os::unix::fs::symlink("x.npy", &link).unwrap();
    npy::write(&link, &Tensor::from([2])).unwrap();
    assert!(link.is_symlink());
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(npy::read::<i32, 1>(&path).unwrap(), Tensor::from([2]));
    let large = Tensor::<u8, 1>::zeros([1 << 20], &Cpu).unwrap();
    refused!(
        npy::write("/dev/full", &large),
        Error::Io { kind: std::io::ErrorKind::StorageFull, .. },
        "No space left"
    );
}

#[test]
fn progress_is_told_and_ends_with_all() {
    let room = room("npy_progress");
    let x = Tensor::<u16, 2>::zeros([1000, 1000], &Cpu).unwrap();
    let mut calls = Vec::new();
    npy::write_with(room.join("x.npy"), &x, &mut |done, of| calls.push((done, of))).unwrap();
    assert!(
        calls.len() > 4 && calls.is_sorted() && calls.last() == Some(&(2_000_000, 2_000_000)),
        "{calls:?}"
    );
    calls.clear();
    npy::open(room.join("x.npy"))
        .unwrap()
        .read_with::<u16, 2>(&mut |done, of| calls.push((done, of)))
        .unwrap();
    assert!(
        calls.len() > 4 && calls.is_sorted() && calls.last() == Some(&(2_000_000, 2_000_000)),
        "{calls:?}"
    );
}
