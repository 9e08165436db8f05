//! Both ways with NumPy and the package of safetensors, for every element and layout that NumPy has. The
//! other side is `round_trip.py`. `RANKFORM_PYTHON` names a Python with NumPy, else `python3` or `python` is
//! asked; without one the test says that it was skipped.

use crate::with_python::{python, say};
use num_complex::Complex;
use rankform::f16;
use rankform::io::{TensorBytes, npy};
use rankform::prelude::*;
use std::path::{Path, PathBuf};
use std::process::Command;

fn script(python: &str, mode: &str, room: &Path) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tensors/io/round_trip.py");
    let output = Command::new(python).arg(script).arg(mode).arg(room).output().unwrap();
    let (text, errors) =
        (String::from_utf8_lossy(&output.stdout).trim().to_string(), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{mode}: {text}\n{errors}");
    text
}

/// One array of NumPy's: its name, and its elements row-major as they should be.
struct Array<'a> {
    room: &'a Path,
    name: &'a str,
    expected: Vec<u8>,
}

/// The checks of each array once its element and rank are known.
type Found = Vec<(String, Box<dyn TensorBytes>)>;

impl Array<'_> {
    fn same<T: Element, const RANK: usize>(&self, from: &str, x: &Tensor<T, RANK>) {
        let bytes: Vec<u8> =
            x.to_vec().unwrap().iter().flat_map(|x| bytemuck::bytes_of(x).to_vec()).collect();
        assert_eq!(bytes, self.expected, "{} from {from}", self.name);
    }

    fn with<T: Element, const RANK: usize>(&self, all: &mut Found) {
        let x = npy::read::<T, RANK>(self.room.join(format!("{}.npy", self.name))).unwrap();
        self.same("npy", &x);
        #[cfg(feature = "npz")]
        for archive in ["stored.npz", "deflated.npz"] {
            let mut file = rankform::io::npz::Npz::open(self.room.join(archive)).unwrap();
            self.same(archive, &file.read::<T, RANK>(self.name).unwrap());
        }
        #[cfg(feature = "safetensors")]
        if self.room.join("all.safetensors").exists() && T::DTYPE != Complex::<f64>::DTYPE {
            use rankform::io::safetensors::SafeTensors;
            let path = self.room.join("all.safetensors");
            self.same("safetensors", &SafeTensors::open(&path).unwrap().read::<T, RANK>(self.name).unwrap());
            // SAFETY: nobody else has the file.
            self.same(
                "a mapping",
                &unsafe { SafeTensors::map(&path) }.unwrap().read::<T, RANK>(self.name).unwrap(),
            );
        }
        // The same elements in other layouts.
        let turned = x.transposed().to_contiguous().unwrap().into_transposed().unwrap();
        let mut wide = Tensor::<T, RANK>::zeros(Dim(x.size().0.map(|size| 2 * size)), &Cpu).unwrap();
        let (mut backwards, mut stepped) = (x.copy().unwrap(), x.copy().unwrap());
        for axis in 0..RANK {
            backwards = backwards.reversed_axis(axis).unwrap().to_contiguous().unwrap();
        }
        for axis in 0..RANK {
            backwards = backwards.into_reversed_axis(axis).unwrap();
        }
        if RANK > 0 {
            let mut part = wide.view_mut().unwrap();
            for axis in 0..RANK {
                part = part.slice_axis(axis, 0..2 * x.size()[axis], 2).unwrap();
            }
            x.view().copy_to(&mut part).unwrap();
            stepped = wide;
            for axis in 0..RANK {
                stepped = stepped.into_slice_axis(axis, 0..2 * x.size()[axis], 2).unwrap();
            }
        }
        for (form, x) in
            [("plain", &x), ("turned", &turned), ("backwards", &backwards), ("stepped", &stepped)]
        {
            npy::write(self.room.join("back").join(format!("{}.{form}.npy", self.name)), x).unwrap();
        }
        all.push((self.name.to_string(), Box::new(stepped)));
    }

    fn of_rank<const RANK: usize>(&self, dtype: &str, all: &mut Found) {
        match dtype {
            "bool" => self.with::<bool, RANK>(all),
            "int8" => self.with::<i8, RANK>(all),
            "int16" => self.with::<i16, RANK>(all),
            "int32" => self.with::<i32, RANK>(all),
            "int64" => self.with::<i64, RANK>(all),
            "uint8" => self.with::<u8, RANK>(all),
            "uint16" => self.with::<u16, RANK>(all),
            "uint32" => self.with::<u32, RANK>(all),
            "uint64" => self.with::<u64, RANK>(all),
            "float16" => self.with::<f16, RANK>(all),
            "float32" => self.with::<f32, RANK>(all),
            "float64" => self.with::<f64, RANK>(all),
            "complex64" => self.with::<Complex<f32>, RANK>(all),
            "complex128" => self.with::<Complex<f64>, RANK>(all),
            other => panic!("{other}"),
        }
    }
}

#[test]
fn numpy_and_safetensors_read_files_written_here_and_the_reverse() {
    let Some(python) = python() else { return };
    let room: PathBuf = super::room("python");
    say(&script(&python, "write", &room));
    std::fs::create_dir(room.join("back")).unwrap();
    let mut all = Found::new();
    let mut names: Vec<String> = std::fs::read_dir(&room)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    for name in names.iter().filter_map(|name| name.strip_suffix(".bin")) {
        let array =
            Array { room: &room, name, expected: std::fs::read(room.join(format!("{name}.bin"))).unwrap() };
        let (dtype, case) = name.split_once('-').unwrap();
        match case {
            "scalar" => array.of_rank::<0>(dtype, &mut all),
            "vector" => array.of_rank::<1>(dtype, &mut all),
            "cube" | "cube_fortran" | "permuted" => array.of_rank::<3>(dtype, &mut all),
            _ => array.of_rank::<2>(dtype, &mut all),
        }
    }
    assert!(all.len() == 14 * 13, "{}", all.len());
    let matrix = npy::read::<f32, 2>(room.join("float32-matrix.npy")).unwrap();
    for version in 1..=3 {
        let x = npy::read::<f32, 2>(room.join(format!("version{version}.npy"))).unwrap();
        assert_eq!(x.as_bytes(), matrix.as_bytes());
    }
    let tensors: Vec<(&str, &dyn TensorBytes)> = all.iter().map(|(name, x)| (name.as_str(), &**x)).collect();
    #[cfg(feature = "npz")]
    for (archive, compression) in [
        ("stored.npz", rankform::io::npz::Compression::Stored),
        ("deflated.npz", rankform::io::npz::Compression::Deflated),
    ] {
        rankform::io::npz::write(room.join("back").join(archive), &tensors, compression).unwrap();
    }
    #[cfg(feature = "safetensors")]
    {
        let kept: Vec<_> =
            tensors.iter().copied().filter(|(_, x)| x.dtype() != Complex::<f64>::DTYPE).collect();
        rankform::io::safetensors::write(room.join("back/all.safetensors"), &kept, &[("made", "here")])
            .unwrap();
    }
    if cfg!(all(feature = "npz", feature = "safetensors")) {
        say(&script(&python, "check", &room));
    } else {
        say("skipped: what is written here is checked with the features npz and safetensors");
    }
    let _ = tensors;
}
