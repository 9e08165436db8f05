//! Many tensors in one file, read and mapped.

use super::room;
use crate::refused;
use num_complex::Complex;
use rankform::bf16;
use rankform::io::safetensors::{self, SafeTensors};
use rankform::prelude::*;

/// A file with this header and this number of bytes of data.
fn file(header: &str, data: usize) -> Vec<u8> {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.extend((0..data).map(|byte| byte as u8));
    bytes
}

#[test]
fn tensors_are_read_as_the_element_that_is_asked_for() -> Result<()> {
    let path = room("safetensors_as").join("x.safetensors");
    let x = Tensor::from([bf16::ONE, bf16::NEG_ONE]);
    safetensors::write(&path, &[("x", &x), ("flags", &Tensor::from([[true, false]]))], &[])?;
    for file in [
        SafeTensors::open(&path)?,
        // SAFETY: no other process has the file.
        unsafe { SafeTensors::map(&path)? },
        SafeTensors::from_bytes(std::fs::read(&path).unwrap())?,
    ] {
        assert_eq!(file.read_as::<f64, 1>("x")?.to_vec()?, [1.0, -1.0]);
        assert_eq!(file.read_as::<bf16, 1>("x")?, x);
        assert_eq!(file.read_as::<i32, 2>("flags")?, Tensor::from([[1, 0]]));
        refused!(file.read_as::<f32, 2>("x"), Error::Type { .. }, "\"x\"");
        refused!(file.read_as::<f32, 2>("y"), Error::Value { .. }, "no tensor \"y\"");
    }
    Ok(())
}

#[test]
fn tensors_come_back_read_mapped_and_from_memory() {
    let room = room("safetensors");
    let path = room.join("x.safetensors");
    let x = Tensor::from_fn([30, 40], |[i, j]| i as f32 - j as f32, &Cpu).unwrap();
    let (flags, halves) = (Tensor::from([true, false, true]), Tensor::from([bf16::ONE, bf16::NAN]));
    let (empty, scalar) =
        (Tensor::<i64, 2>::zeros([0, 3], &Cpu).unwrap(), Tensor::from(Complex::new(1.0_f32, 2.0)));
    let tensors: &[(&str, &dyn rankform::io::TensorBytes)] = &[
        ("flags", &flags),
        ("x", &x.transposed()),
        ("halves", &halves),
        ("empty", &empty),
        ("scalar", &scalar),
    ];
    let mut last = (0, 1);
    safetensors::write_with(&path, tensors, &[("who", "\"me\"\n")], &mut |done, of| last = (done, of))
        .unwrap();
    assert_eq!(last, (4815, 4815));
    let bytes = std::fs::read(&path).unwrap();
    // SAFETY: nobody else has the file.
    let files = [
        SafeTensors::open(&path).unwrap(),
        unsafe { SafeTensors::map(&path).unwrap() },
        SafeTensors::from_bytes(bytes).unwrap(),
    ];
    for file in &files {
        assert_eq!(
            file.names().collect::<Vec<_>>(),
            ["empty", "scalar", "x", "halves", "flags"],
            "the widest first"
        );
        assert_eq!(
            file.metadata().iter().map(|(key, value)| (&**key, &**value)).collect::<Vec<_>>(),
            [("who", "\"me\"\n")]
        );
        assert_eq!(file.read::<f32, 2>("x").unwrap(), x.transposed());
        assert_eq!(file.read::<bool, 1>("flags").unwrap(), flags);
        assert_eq!(file.read::<bf16, 1>("halves").unwrap().as_bytes(), halves.as_bytes());
        assert_eq!(file.read::<i64, 2>("empty").unwrap().size(), [0, 3]);
        assert_eq!(file.read::<Complex<f32>, 0>("scalar").unwrap().item().unwrap(), Complex::new(1.0, 2.0));
        let about = file.about("x").unwrap();
        assert_eq!((about.dtype_name, about.sizes, about.nbytes), ("F32", &[40, 30][..], 4800));
        refused!(file.read::<f32, 2>("y"), Error::Value { .. }, "there are [\"empty\"");
        refused!(file.read::<i32, 2>("x"), Error::Type { .. }, "expected i32");
    }
}

#[test]
fn a_mapped_tensor_shares_the_mapping_and_writes_stay_private() {
    let room = room("safetensors_map");
    let path = room.join("x.safetensors");
    let x = Tensor::from([1.0_f32, 2.0]);
    safetensors::write(&path, &[("x", &x), ("flags", &Tensor::from([true]))], &[]).unwrap();
    // SAFETY: nobody else has the file.
    let file = unsafe { SafeTensors::map(&path).unwrap() };
    let (mut one, two) = (file.read::<f32, 1>("x").unwrap(), file.read::<f32, 1>("x").unwrap());
    if cfg!(target_endian = "little") {
        assert_eq!(one.raw_ptr(), two.raw_ptr());
        refused!(one.view_mut().map(drop), Error::Shared { handles: 3, .. }, "handles");
    }
    assert!(file.read::<bool, 1>("flags").unwrap().is_unique(), "other bytes of the mapping are no booleans");
    drop((file, two));
    one.view_mut().unwrap().fill(7.0).unwrap();
    assert_eq!(one.to_vec().unwrap(), [7.0, 7.0]);
    assert_eq!(SafeTensors::open(&path).unwrap().read::<f32, 1>("x").unwrap(), x);
}

/// Row 31 of the catalog: why `map` is unsafe.
#[cfg(target_os = "linux")]
#[test]
fn a_mapped_file_that_is_cut_short_stops_the_process_that_reads_it() {
    use std::os::unix::process::ExitStatusExt;
    const NAME: &str = "RANKFORM_MAPPED_FILE_TO_CUT";
    if let Some(path) = std::env::var_os(NAME) {
        // SAFETY: none: this process breaks the promise, and is stopped for it.
        let file = unsafe { SafeTensors::map(&path).unwrap() };
        let x = file.read::<f32, 1>("x").unwrap();
        std::fs::File::options().write(true).open(&path).unwrap().set_len(100).unwrap();
        println!("{:?}", x.to_vec().unwrap().last());
        return;
    }
    let path = room("safetensors_cut").join("x.safetensors");
    safetensors::write(&path, &[("x", &Tensor::<f32, 1>::ones([1 << 20], &Cpu).unwrap())], &[]).unwrap();
    let name = "io::safetensors::a_mapped_file_that_is_cut_short_stops_the_process_that_reads_it";
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name])
        .env(NAME, &path)
        .output()
        .unwrap();
    const SIGBUS: i32 = 7;
    assert_eq!(child.status.signal(), Some(SIGBUS), "{child:?}");
}

#[test]
fn a_model_in_several_files_is_one() {
    let room = room("safetensors_index");
    let (x, y) = (Tensor::from([1.0_f32]), Tensor::from([2_u8, 3]));
    safetensors::write(room.join("model-1.safetensors"), &[("x", &x), ("left", &x)], &[]).unwrap();
    safetensors::write(room.join("model-2.safetensors"), &[("y", &y), ("x", &y)], &[]).unwrap();
    let index = room.join("model.safetensors.index.json");
    let write = |text: &str| std::fs::write(&index, text).unwrap();
    write(
        r#"{"metadata": {"total_size": 6},
            "weight_map": {"x": "model-1.safetensors", "y": "model-2.safetensors"}}"#,
    );
    let model = SafeTensors::open(&index).unwrap();
    assert_eq!(model.names().collect::<Vec<_>>(), ["x", "y"]);
    assert_eq!((model.read::<f32, 1>("x").unwrap(), model.read::<u8, 1>("y").unwrap()), (x, y));
    let read = |text: &str| {
        write(text);
        SafeTensors::open(&index).map(drop)
    };
    refused!(
        read(r#"{"weight_map": {"z": "model-1.safetensors"}}"#),
        Error::Format { .. },
        "no tensor \"z\""
    );
    refused!(read(r#"{"weight_map": {"z": "model-3.safetensors"}}"#), Error::Io { .. }, "model-3");
    for outside in ["../model-1.safetensors", "/etc/passwd", "..", "a/b", "a\\\\b", ""] {
        refused!(
            read(&format!(r#"{{"weight_map": {{"z": "{outside}"}}}}"#)),
            Error::Format { .. },
            "in its folder"
        );
    }
    refused!(read(r#"{"metadata": {}}"#), Error::Format { .. }, "no `weight_map`");
    refused!(read(r#"{"weight_map": {"x": "a", "x": "b"}}"#), Error::Format { .. }, "twice");
    refused!(read("[]"), Error::Format { .. }, "not valid");
}

#[test]
fn a_header_that_does_not_fit_its_file_is_refused() {
    let read = |header: &str, data| SafeTensors::from_bytes(file(header, data)).map(drop);
    let one = |entry: &str| format!("{{\"x\":{{{entry}}}}}");
    for (header, data, words) in [
        (one(r#""dtype":"F32","shape":[2],"data_offsets":[0,8]"#), 7, "has 7 for them"),
        (one(r#""dtype":"F32","shape":[2],"data_offsets":[0,8]"#), 9, "has 9 for them"),
        (one(r#""dtype":"F32","shape":[2],"data_offsets":[1,9]"#), 9, "from byte 0"),
        (one(r#""dtype":"F32","shape":[2],"data_offsets":[8,0]"#), 8, "from byte 0"),
        (one(r#""dtype":"F32","shape":[3],"data_offsets":[0,8]"#), 8, "does not fill"),
        (
            one(&format!(r#""dtype":"F32","shape":[2,{}],"data_offsets":[0,8]"#, usize::MAX - 1)),
            8,
            "does not fill",
        ),
        (
            one(&format!(r#""dtype":"F32","shape":[2,{}],"data_offsets":[0,8]"#, isize::MAX)),
            8,
            "does not fill",
        ),
        (one(r#""dtype":"F32","shape":[-2],"data_offsets":[0,8]"#), 8, "not valid"),
        (one(r#""dtype":"F32","shape":[2]"#), 8, "lacks one of"),
        (one(r#""dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]"#), 8, "twice"),
        (
            r#"{"x":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},
                "x":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}"#
                .into(),
            2,
            "twice",
        ),
        (
            r#"{"x":{"dtype":"U8","shape":[8],"data_offsets":[0,8]},
                "y":{"dtype":"U8","shape":[8],"data_offsets":[0,8]}}"#
                .into(),
            8,
            "from byte 8",
        ),
        (r#"{"__metadata__":{"a":1}}"#.into(), 0, "not valid"),
        (r#"{"__metadata__":{"a":"1","a":"2"}}"#.into(), 0, "twice"),
        ("[]".into(), 0, "not valid"),
        ("".into(), 0, "not valid"),
        ("{} {}".into(), 0, "not valid"),
        (format!("{{\"x\":{{\"y\":{}1{}}}}}", "[".repeat(10_000), "]".repeat(10_000)), 0, "not valid"),
    ] {
        refused!(read(&header, data), Error::Format { .. }, words);
    }
    assert!(read("  {}  ", 0).is_ok() && read(r#"{"__metadata__":{}}"#, 0).is_ok());
    let strange =
        SafeTensors::from_bytes(file(&one(r#""dtype":"F4","shape":[4],"data_offsets":[0,2]"#), 2)).unwrap();
    assert_eq!((strange.about("x").unwrap().dtype, strange.about("x").unwrap().dtype_name), (None, "F4"));
    refused!(strange.read::<u8, 1>("x"), Error::Format { .. }, "elements F4");
    for length in [100_000_001_u64, u64::MAX, 1 << 40] {
        refused!(
            SafeTensors::from_bytes(length.to_le_bytes().to_vec()).map(drop),
            Error::Format { .. },
            "a header of"
        );
    }
    refused!(SafeTensors::from_bytes(vec![0; 7]).map(drop), Error::Format { .. }, "1 bytes too early");
}

/// Row 13 of the catalog: elements at every distance from an aligned address.
#[test]
fn elements_that_are_not_aligned_in_the_file_are_copied() {
    for shift in 0..64 {
        let header =
            format!(r#"{{"x":{{"dtype":"F64","shape":[2],"data_offsets":[0,16]}}}}{}"#, " ".repeat(shift));
        let x = SafeTensors::from_bytes(file(&header, 16)).unwrap().read::<f64, 1>("x").unwrap();
        assert!(x.raw_ptr().is_aligned());
        let bytes: Vec<u8> = x.to_vec().unwrap().iter().flat_map(|x| x.to_le_bytes()).collect();
        assert_eq!(bytes, (0..16).collect::<Vec<u8>>());
    }
}

#[test]
fn names_that_occur_twice_are_not_written() {
    let room = room("safetensors_names");
    let x = Tensor::from([1]);
    refused!(
        safetensors::write(room.join("x"), &[("x", &x), ("x", &x)], &[]),
        Error::Value { .. },
        "\"x\" occurs twice"
    );
    refused!(
        safetensors::write(room.join("x"), &[("__metadata__", &x)], &[]),
        Error::Value { .. },
        "\"__metadata__\" occurs twice"
    );
    refused!(
        safetensors::write(room.join("x"), &[], &[("a", "b"), ("a", "c")]),
        Error::Value { .. },
        "\"a\" occurs twice"
    );
}
