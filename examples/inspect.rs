//! Lists the contents of a file of tensors:
//! `cargo run --release --example inspect --features npz,safetensors -- FILE…`
//!
//! For every tensor of an `.npy`, `.npz` or `.safetensors` file, or of a model's index: its name, element,
//! sizes, bytes, smallest and largest value, mean and standard deviation, and a small picture of a matrix (of
//! more axes, the first). Elements are known only when the file is read: each tensor is a [`DynTensor`];
//! numbers are read in chunks, as f64.
//!
//! `--make MIB FILE` writes an `.npy` file of that size first.

use indicatif::{ProgressBar, ProgressStyle};
use rankform::DynTensor;
use rankform::dynamic::ElementVisitor;
use rankform::io::{npy, npz::Npz, safetensors::SafeTensors};
use rankform::prelude::*;
use std::io::IsTerminal;
use std::time::Instant;

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1).peekable();
    if arguments.next_if_eq("--make").is_some() {
        let mib: usize = arguments.next().and_then(|mib| mib.parse().ok()).expect("--make MIB FILE");
        make(mib, arguments.peek().expect("--make MIB FILE"))?;
    }
    if arguments.peek().is_none() {
        println!("usage: inspect [--make MIB] FILE…");
    }
    for path in arguments {
        inspect(&path)?;
    }
    Ok(())
}

/// Everything in one file.
fn inspect(path: &str) -> Result<()> {
    println!("{path}");
    let start = Instant::now();
    if path.ends_with(".npz") {
        let mut file = Npz::open(path)?;
        for name in file.names().map(String::from).collect::<Vec<_>>() {
            show(&name, |progress| file.entry(&name)?.read_dyn_with(progress));
        }
    } else if path.ends_with(".npy") {
        show("", |progress| npy::open(path)?.read_dyn_with(progress));
    } else {
        let file = SafeTensors::open(path)?;
        for (key, value) in file.metadata() {
            println!("  {key}: {value}");
        }
        for name in file.names() {
            show(name, |progress| file.read_dyn_with(name, progress));
        }
    }
    println!(
        "  {:.2} s{}",
        start.elapsed().as_secs_f64(),
        peak_memory().map(|peak| format!(", {peak} at most")).unwrap_or_default()
    );
    Ok(())
}

/// One tensor, read under a bar, or why it cannot be.
fn show(name: &str, read: impl FnOnce(&mut dyn FnMut(u64, u64)) -> Result<DynTensor>) {
    let bar = if std::io::stderr().is_terminal() { ProgressBar::new(0) } else { ProgressBar::hidden() };
    let style = "  {msg} {wide_bar} {bytes} of {total_bytes}, {bytes_per_sec}";
    bar.set_style(ProgressStyle::with_template(style).unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.set_message(name.to_string());
    let start = Instant::now();
    let read = read(&mut |done, of| {
        bar.set_length(of);
        bar.set_position(done);
    });
    bar.finish_and_clear();
    let seconds = start.elapsed().as_secs_f64();
    match read.and_then(|x| describe(name, &x, seconds)) {
        Ok(()) => {}
        Err(error) => println!("  {name}: {error}"),
    }
}

fn describe(name: &str, x: &DynTensor, seconds: f64) -> Result<()> {
    let order = if x.is_contiguous() { "" } else { ", the first axis fastest" };
    println!(
        "  {name} {} {:?}, {} bytes{order}, read in {seconds:.2} s",
        x.dtype().name(),
        x.size(),
        x.nbytes()
    );
    if x.numel() == 0 {
        return Ok(());
    }
    let numbers = Numbers::of(x)?;
    let (mean, deviation) = (numbers.mean, (numbers.squares / numbers.count).sqrt());
    println!(
        "    {} … {}, mean {mean:.6}, standard deviation {deviation:.6}",
        numbers.smallest, numbers.largest
    );
    if numbers.nan > 0 {
        println!("    {} of {} are NaN", numbers.nan, x.numel());
    }
    picture(x, &numbers)
}

/// Statistics of some numbers; NaN is counted and excluded from the others.
struct Numbers {
    count: f64,
    nan: i64,
    smallest: f64,
    largest: f64,
    mean: f64,
    /// The sum of squared distances to the mean.
    squares: f64,
}

/// How many elements are looked at together: as f64 they stay in a core's cache.
const PIECE: usize = 64 << 10;

impl Numbers {
    fn of(x: &DynTensor) -> Result<Numbers> {
        let mut all = Numbers {
            count: 0.0,
            nan: 0,
            smallest: f64::INFINITY,
            largest: f64::NEG_INFINITY,
            mean: 0.0,
            squares: 0.0,
        };
        let flat = match x.is_contiguous() {
            true => x.reshaped(&[x.numel()])?,
            // the other order
            false => x.permuted(&(0..x.rank()).rev().collect::<Vec<_>>())?.reshaped(&[x.numel()])?,
        };
        for start in (0..x.numel()).step_by(PIECE) {
            let end = x.numel().min(start + PIECE);
            all.take(&as_f64(&flat.ranged(0, start, end, 1)?)?)?;
        }
        Ok(all)
    }

    fn take(&mut self, piece: &Tensor<f64, 1>) -> Result<()> {
        let nan = piece.lazy().not_equal(piece).count(All)?.item()?;
        self.nan += nan;
        let kept;
        let piece = match nan {
            0 => piece,
            _ => {
                kept = piece.masked_select(&piece.lazy().equal(piece).eval()?)?;
                &kept
            }
        };
        if piece.is_empty() {
            return Ok(());
        }
        self.smallest = self.smallest.min(piece.min(All)?.item()?);
        self.largest = self.largest.max(piece.max(All)?.item()?);
        let (count, mean) = (piece.numel() as f64, piece.mean(All)?.item()?);
        let squares = (piece.lazy() - mean).square().sum(All)?.item()?;
        // Means and squares of two parts give those of both.
        let (apart, both) = (mean - self.mean, self.count + count);
        self.mean += apart * count / both;
        self.squares += squares + apart * apart * self.count * count / both;
        self.count = both;
        Ok(())
    }
}

/// The numbers of a tensor as f64; of complex ones the real parts.
fn as_f64(x: &DynTensor) -> Result<Tensor<f64, 1>> {
    struct Cast<'a>(&'a DynTensor);
    impl ElementVisitor for Cast<'_> {
        type Output = Result<Tensor<f64, 1>>;
        fn visit<T: Element>(self) -> Self::Output {
            self.0.downcast_ref::<T, 1, Cpu>()?.cast::<f64>()
        }
    }
    x.dtype().visit(Cast(x))
}

/// A matrix, at most 16 rows of 64 columns of it, dark to bright.
fn picture(x: &DynTensor, numbers: &Numbers) -> Result<()> {
    const SHADES: &[u8] = b" .:-=+*#%@";
    let mut x = x.share_data();
    while x.rank() > 2 {
        x = x.at(0, 0)?;
    }
    if x.rank() < 2 || x.numel() == 0 {
        return Ok(());
    }
    let [rows, columns] = [x.size()[0], x.size()[1]];
    let shown = x.ranged(0, 0, rows, rows.div_ceil(16) as isize)?.ranged(
        1,
        0,
        columns,
        columns.div_ceil(64) as isize,
    )?;
    for row in 0..shown.size()[0] {
        let values = as_f64(&shown.at(0, row)?)?.to_vec()?;
        let shade = |value: f64| {
            let part = (value - numbers.smallest) / (numbers.largest - numbers.smallest);
            let at = (part * SHADES.len() as f64) as usize; // NaN is 0
            char::from(SHADES[at.min(SHADES.len() - 1)])
        };
        println!("    |{}|", values.into_iter().map(shade).collect::<String>());
    }
    Ok(())
}

/// A wave of f32, one row of 1 MiB at a time.
fn make(mib: usize, path: &str) -> Result<()> {
    let start = Instant::now();
    let columns = 1 << 18;
    let row = (Tensor::arange(0.0_f32, columns as f32, 1.0, &Cpu)? * (12.0 / columns as f32)).sin()?;
    let column = (Tensor::arange(0.0_f32, mib as f32, 1.0, &Cpu)? * (9.0 / mib as f32)).cos()?;
    let wave = row.insert_axis(Axis::<0>).lazy() * column.insert_axis(Axis::<1>);
    npy::write(path, &wave.eval()?)?;
    println!("made {path} in {:.2} s", start.elapsed().as_secs_f64());
    Ok(())
}

/// The peak memory of this process, where the system reports it.
fn peak_memory() -> Option<String> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(format!("{} MiB of memory", kib >> 10))
}
