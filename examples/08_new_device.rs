//! A user's device, in one file: memory, the translation of its addresses, and every operator runs on it.
//!
//! `cargo run --release --example 08_new_device`
//!
//! `Ledger` has an address space that the host cannot read, as a GPU has, and keeps a ledger of its work. It
//! computes by the reference engine, whose loops run on the host, and names no operator. A faster device
//! writes its own mechanisms and takes the others from the engine.

use rankform::device::{Deleter, HostAddressable, Init};
use rankform::{prelude::*, reference_engine};
use std::alloc;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

// ------------------------------------------------------------ the device

/// Clones are the same device; `default` makes another one.
#[derive(Clone, Default)]
pub struct Ledger(Arc<Entries>);

/// The memory in use, and the work done.
#[derive(Default)]
pub struct Entries {
    bytes: AtomicUsize,
    kernels: AtomicUsize,
    elements: AtomicUsize,
}

impl PartialEq for Ledger {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ledger({:p})", Arc::as_ptr(&self.0))
    }
}

impl Ledger {
    /// How many bytes its blocks hold now.
    pub fn bytes(&self) -> usize {
        self.0.bytes.load(Relaxed)
    }
}

// ------------------------------------------------------------ memory

/// The distance from an address on the host to the same one on the device; a multiple of the alignment.
const AWAY: usize = 1 << (usize::BITS - 2);
const ALIGNMENT: usize = 64;

/// Freed when it is dropped.
pub struct Block {
    address: *mut u8,
    nbytes: usize,
    owner: Owner,
}
enum Owner {
    Ledger(Ledger),
    External(Option<Deleter>),
}

// SAFETY: the block owns its bytes, and gives their address only.
unsafe impl Send for Block {}
// SAFETY: as above.
unsafe impl Sync for Block {}

fn layout(nbytes: usize) -> Result<alloc::Layout> {
    alloc::Layout::from_size_align(nbytes.max(1), ALIGNMENT)
        .map_err(|_| Error::OutOfMemory { op: "allocate", nbytes })
}

impl Drop for Block {
    fn drop(&mut self) {
        match &mut self.owner {
            Owner::Ledger(device) => {
                device.0.bytes.fetch_sub(self.nbytes, Relaxed);
                if let Ok(layout) = layout(self.nbytes) {
                    // SAFETY: from `allocate`, with this layout.
                    unsafe { alloc::dealloc(device.host(self.address), layout) };
                }
            }
            Owner::External(free) => free.take().into_iter().for_each(|free| free(self.address, self.nbytes)),
        }
    }
}

// SAFETY: (1) `allocate` adds `AWAY` to the host's pointer; (2) the distance is the same for all addresses;
// (3) it is a multiple of 64.
unsafe impl HostAddressable for Ledger {
    fn host(&self, address: *mut u8) -> *mut u8 {
        address.wrapping_sub(AWAY)
    }

    fn enter(&self, _mechanism: &'static str, positions: usize) {
        self.0.kernels.fetch_add(1, Relaxed);
        self.0.elements.fetch_add(positions, Relaxed);
    }
}

// SAFETY: (1) `Block` owns its bytes and aligns them to 64; (2) the engine visits exactly the indices inside
// the sizes; (3) every call returns when its work is done.
unsafe impl Device for Ledger {
    type Block = Block;

    fn allocate(&self, nbytes: usize, fresh: Init) -> Result<Block> {
        // SAFETY: the layout is never empty.
        let address = unsafe { alloc::alloc_zeroed(layout(nbytes)?) };
        if address.is_null() {
            return Err(Error::OutOfMemory { op: "allocate", nbytes });
        }
        if fresh == Init::Unspecified {
            // SAFETY: just allocated. The pattern reveals an element that no kernel wrote.
            unsafe { address.write_bytes(0xA5, nbytes) };
        }
        self.0.bytes.fetch_add(nbytes, Relaxed);
        Ok(Block { address: address.wrapping_add(AWAY), nbytes, owner: Owner::Ledger(self.clone()) })
    }

    unsafe fn external_block(&self, address: *mut u8, nbytes: usize, free: Deleter) -> Result<Block> {
        Ok(Block { address, nbytes, owner: Owner::External(Some(free)) })
    }

    fn address(block: &Block) -> *mut u8 {
        block.address
    }

    reference_engine!(); // every mechanism, or the named ones: `reference_engine!(write read copy map …)`
}

// ------------------------------------------------------------ and now every operator runs on it

elementwise! {
    /// An operator that knows of no device.
    fn swish(x) { x / ((-x).exp() + 1.0) }
}

/// Some of everything, on any device.
fn work<D: Device>(x: &Tensor<f32, 2, D>) -> Result<Tensor<f32, 2, D>> {
    let mean = x.mean(Axis::<0>)?;
    let centered = (x.lazy() - mean.lift()).map(swish).eval()?;
    let mut product = centered.transposed().matmul(&centered)?;
    product += 1.0;
    let shares = product.softmax(Axis::<1>)?;
    shares.greater(0.3)?.select(&shares, 0.0)
}

pub fn main() -> Result<()> {
    let device = Ledger::default();
    let x = Tensor::from_fn([6, 4], |[i, j]| ((3 * i + 5 * j) % 7) as f32, &Cpu)?;

    let there = work(&x.to(&device)?)?;
    println!("computed by {device:?}:\n{there:.4}\n");
    let (kernels, elements) = (device.0.kernels.load(Relaxed), device.0.elements.load(Relaxed));
    println!("{} bytes held, {kernels} kernels, {elements} elements", device.bytes());

    // The same code on the CPU gives the same numbers.
    let here = work(&x)?;
    assert!((there.to(&Cpu)? - &here).abs()?.max(All)?.item()? < 1e-6);

    // Two devices of one kind have one type, and mixing them is an error at run time.
    let other = Ledger::default();
    let refused = there.add(&there.to(&other)?).unwrap_err();
    println!("refused: {refused}");
    assert!(matches!(refused, Error::Device { .. }));

    // Whatever was allocated is given back.
    assert_eq!(device.bytes(), there.nbytes());
    drop(there);
    assert_eq!(device.bytes(), 0);
    Ok(())
}
