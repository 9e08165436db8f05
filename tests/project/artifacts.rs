//! The libraries that cargo has built for this test program, and the arguments by which a compiler uses them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The libraries next to this test program.
pub struct Artifacts {
    /// The file of each crate's metadata and code, by the crate's name.
    libraries: Vec<(String, PathBuf)>,
    /// The folder of them.
    folder: PathBuf,
    /// The options that name another machine than this.
    target: Vec<String>,
}

impl Artifacts {
    /// Asks cargo for the files that this program was linked from. Everything is built: cargo only compares
    /// time stamps.
    pub fn find() -> Self {
        let program = std::env::current_exe().expect("the path of this program");
        let folder = program.parent().expect("the folder `deps`");
        let profile = folder.parent().expect("the folder of a profile");
        let mut room = profile.parent().expect("the target folder").to_path_buf();
        let target = room.file_name().expect("a name").to_string_lossy().into_owned();
        let mut options =
            vec![String::from("--no-default-features"), format!("--features={}", features().join(","))];
        let target =
            if target.split('-').count() > 2 { vec![String::from("--target"), target] } else { Vec::new() };
        if !target.is_empty() {
            room.pop();
        }
        options.extend(target.iter().cloned());
        match profile.file_name().expect("a profile").to_str().expect("the name of a profile") {
            "debug" => {}
            other => options.push(format!("--profile={other}")),
        }
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
        cargo
            .args(["test", "--no-run", "--offline", "--test=project", "--message-format=json"])
            .args(options);
        let output = cargo
            .env("CARGO_TARGET_DIR", room)
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .output()
            .expect("cargo runs");
        let log = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{log}");
        let mut libraries = Vec::new();
        let mut found = false;
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            let message: serde_json::Value = serde_json::from_str(line).expect("a message of cargo");
            found |= message["executable"].as_str().is_some_and(|path| Path::new(path) == program);
            let mut files =
                message["filenames"].as_array().into_iter().flatten().filter_map(|file| file.as_str());
            let library =
                files.rfind(|file| [".rlib", ".so", ".dylib", ".dll"].iter().any(|end| file.ends_with(end)));
            if let (Some(file), Some(name)) = (library, message["target"]["name"].as_str()) {
                libraries.push((name.replace('-', "_"), PathBuf::from(file)));
            }
        }
        assert!(found, "cargo built another program than this, {}:\n{log}", program.display());
        Artifacts { libraries, folder: folder.to_path_buf(), target }
    }

    /// A compiler of this edition that finds the dependencies of `crates`, and these by their names.
    pub fn rustc(&self, crates: &[&str]) -> Command {
        let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or("rustc".into()));
        // In full: otherwise types that are alike are `_`.
        rustc
            .args(["--edition=2024", "--color=never", "--diagnostic-width=140", "--verbose"])
            .args(&self.target);
        rustc
            .arg("-L")
            .arg(["dependency=".as_ref(), self.folder.as_os_str()].into_iter().collect::<OsString>());
        for (name, file) in self.libraries.iter().filter(|(name, _)| crates.contains(&name.as_str())) {
            rustc
                .arg("--extern")
                .arg([format!("{name}=").as_ref(), file.as_os_str()].into_iter().collect::<OsString>());
        }
        rustc.current_dir(env!("CARGO_MANIFEST_DIR"));
        rustc
    }
}

/// The features that this program was built with.
fn features() -> Vec<&'static str> {
    macro_rules! chosen {
        ($($name:literal)*) => { [$(($name, cfg!(feature = $name))),*] };
    }
    let all = chosen!["default" "threads" "autograd" "compiled" "rayon" "dynamic" "cuda" "npz" "dlpack" "faer"
        "half" "image" "nalgebra" "ndarray" "serde"
        "linalg" "fft" "shared-memory" "safetensors"];
    let manifest =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")).expect("the manifest");
    let (_, features) = manifest.split_once("\n[features]\n").expect("features");
    let lines = features.lines().take_while(|line| !line.starts_with('['));
    let there: Vec<&str> = lines
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| Some(line.split_once(" = ")?.0))
        .collect();
    assert_eq!(there, all.map(|(name, _)| name), "the features of the manifest, in its order");
    all.into_iter().filter(|(_, chosen)| *chosen).map(|(name, _)| name).collect()
}

/// Runs `work` for each of `count` numbers, on as many threads as there are processors.
pub fn in_parallel<R: Send>(count: usize, work: impl Fn(usize) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let one = || {
        std::iter::from_fn(|| Some(next.fetch_add(1, Ordering::Relaxed)).filter(|&i| i < count))
            .map(|i| (i, work(i)))
    };
    let mut results: Vec<(usize, R)> = std::thread::scope(|scope| {
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(count);
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(|| one().collect::<Vec<_>>())).collect();
        running
            .into_iter()
            .flat_map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    results.sort_by_key(|(i, _)| *i);
    results.into_iter().map(|(_, result)| result).collect()
}
