//! Archives of tensors.

use super::room;
use crate::refused;
use rankform::io::npz::{self, Compression, Npz};
use rankform::prelude::*;
use std::io::Cursor;

#[test]
fn tensors_of_all_kinds_come_back_stored_and_deflated() {
    let room = room("npz");
    let x = Tensor::from_fn([300, 400], |[i, j]| (i * j) as f32, &Cpu).unwrap();
    let (empty, scalar) = (Tensor::<i64, 2>::zeros([0, 3], &Cpu).unwrap(), Tensor::from(true));
    for compression in [Compression::Stored, Compression::Deflated] {
        let path = room.join("x.npz");
        let mut last = (0, 1);
        let nameless = Tensor::from([rankform::bf16::ONE, rankform::bf16::NEG_ONE]);
        let tensors: &[(&str, &dyn rankform::io::TensorBytes)] = &[
            ("x", &x),
            ("turned", &x.transposed()),
            ("empty", &empty),
            ("a/b", &scalar),
            ("bf16", &nameless),
        ];
        npz::write_with(&path, tensors, compression, &mut |done, of| last = (done, of)).unwrap();
        assert_eq!(last, (960_005, 960_005));
        let mut file = Npz::open(&path).unwrap();
        assert_eq!(file.names().collect::<Vec<_>>(), ["x", "turned", "empty", "a/b", "bf16"]);
        assert_eq!(file.read::<rankform::bf16, 1>("bf16").unwrap(), nameless);
        assert_eq!(file.read::<f32, 2>("turned").unwrap(), x.transposed());
        assert_eq!(file.read::<f32, 2>("x").unwrap(), x);
        assert_eq!(file.read::<i64, 2>("empty").unwrap().size(), [0, 3]);
        assert!(file.read::<bool, 0>("a/b").unwrap().item().unwrap());
        refused!(
            file.read::<f32, 2>("y"),
            Error::Value { .. },
            "no tensor \"y\"; there are [\"x\", \"turned\""
        );
        refused!(file.read::<f64, 2>("x"), Error::Type { .. }, "expected f64");
        let length = std::fs::metadata(&path).unwrap().len();
        assert_eq!(length < 700_000, compression == Compression::Deflated, "{length} bytes");
    }
}

#[test]
fn tensors_are_read_as_the_element_that_is_asked_for() -> Result<()> {
    let room = room("npz_as");
    let path = room.join("x.npz");
    let halves = Tensor::from([rankform::bf16::ONE]);
    let x = Tensor::from([[1.5_f32, -2.0], [300.0, f32::NAN]]);
    npz::write(
        &path,
        &[("x", &x.transposed()), ("flag", &Tensor::from(true)), ("bf16", &halves)],
        Compression::Stored,
    )?;
    let mut file = Npz::open(&path)?;
    assert_eq!(file.read_as::<f32, 2>("x")?.to_vec()?[..3], [1.5, 300.0, -2.0]);
    assert_eq!(file.read_as::<u8, 2>("x")?.to_vec()?, [1, 255, 0, 0]);
    assert_eq!(
        (file.read_as::<f64, 0>("flag")?.item()?, file.read_as::<rankform::bf16, 1>("bf16")?),
        (1.0, halves)
    );
    refused!(file.read_as::<f64, 1>("x"), Error::Type { .. }, "\"x\"");
    refused!(file.read_as::<f64, 1>("y"), Error::Value { .. }, "no tensor \"y\"");
    Ok(())
}

#[test]
fn a_changed_element_does_not_pass_the_checksum() {
    let room = room("npz_crc");
    let path = room.join("x.npz");
    npz::write(&path, &[("x", &Tensor::from([1.0, 2.0, 3.0]))], Compression::Stored).unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    let at = bytes.windows(8).position(|part| part == 2.0_f64.to_le_bytes()).unwrap();
    bytes[at] ^= 1;
    let mut file = Npz::new(Cursor::new(bytes)).unwrap();
    refused!(file.read::<f64, 1>("x"), Error::Io { .. }, "checksum");
}

#[test]
fn two_tensors_of_one_name_are_refused_and_an_empty_archive_is_not() {
    let room = room("npz_names");
    let x = Tensor::from([1]);
    refused!(
        npz::write(room.join("x.npz"), &[("x", &x), ("x", &x)], Compression::Stored),
        Error::Value { .. },
        "\"x\" occurs twice"
    );
    assert!(!room.join("x.npz").exists());
    npz::write(room.join("none.npz"), &[], Compression::Stored).unwrap();
    assert_eq!(Npz::open(room.join("none.npz")).unwrap().names().count(), 0);
}

#[test]
fn a_file_that_is_no_archive_is_refused() {
    refused!(Npz::new(Cursor::new(b"not a zip".to_vec())).map(drop), Error::Format { .. }, "");
    refused!(Npz::new(Cursor::new(Vec::new())).map(drop), Error::Format { .. }, "");
}

/// More entries than the first format of archives counts: the directory is one of zip64 then.
#[test]
fn an_archive_of_more_than_65535_tensors_comes_back() {
    let room = room("npz_many");
    const COUNT: usize = 65_540;
    let tensors: Vec<Tensor<u8, 0>> = (0..4).map(Tensor::from).collect();
    let names: Vec<String> = (0..COUNT).map(|i| format!("{i}")).collect();
    let all: Vec<(&str, &dyn rankform::io::TensorBytes)> = names
        .iter()
        .enumerate()
        .map(|(i, name)| (name.as_str(), &tensors[i % 4] as &dyn rankform::io::TensorBytes))
        .collect();
    let path = room.join("many.npz");
    npz::write(&path, &all, Compression::Stored).unwrap();
    let end = std::fs::read(&path).unwrap();
    assert!(end.windows(4).any(|word| word == b"PK\x06\x06"), "the record of zip64 is there");
    let mut file = Npz::open(&path).unwrap();
    assert_eq!(file.names().count(), COUNT);
    for i in [0, 65_534, 65_535, 65_536, COUNT - 1] {
        assert_eq!(file.read::<u8, 0>(&names[i]).unwrap().item().unwrap(), (i % 4) as u8);
    }
}
