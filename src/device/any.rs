//! A device whose kind is chosen at run time, as by `--device cuda:0`.
// Imports: `error`, `element`.

#[cfg(feature = "cuda")]
use super::Cuda;
use super::{Cpu, Deleter, Device, Init};
use crate::element::Number;
use crate::error::{Error, Result, text};
use std::fmt;
use std::str::FromStr;

/// Evaluates a call on the device, whichever kind it is.
macro_rules! on {
    ($any:expr, |$device:ident| $call:expr) => {
        match $any {
            AnyDevice::Host($device) => $call,
            #[cfg(feature = "cuda")]
            AnyDevice::Gpu($device) => $call,
        }
    };
}
/// The CPU or a GPU, chosen at run time: programs that use it run on every device. Tensors on devices of
/// different kinds do not mix, and an operator of both is [`Error::Device`].
///
/// # Examples
/// ```
/// use rankform::prelude::*;
/// use rankform::AnyDevice;
/// let chosen: AnyDevice = "cpu".parse()?; // or "cuda", "cuda:1"
/// let x = Tensor::from([1.0, 2.0, 3.0]).to(&chosen)?;
/// assert_eq!((x.lazy() * 2.0).eval()?.to_vec()?, [2.0, 4.0, 6.0]);
/// assert!("gpu".parse::<AnyDevice>().unwrap_err().to_string().contains("cpu"));
/// # Ok::<(), rankform::Error>(())
/// ```
#[derive(Clone, PartialEq)]
pub enum AnyDevice {
    /// The CPU.
    Host(Cpu),
    /// A GPU.
    #[cfg(feature = "cuda")]
    Gpu(Cuda),
}

/// Memory of an [`AnyDevice`].
pub enum AnyBlock {
    /// Memory of the CPU.
    Host(<Cpu as Device>::Block),
    /// Memory of a GPU.
    #[cfg(feature = "cuda")]
    Gpu(<Cuda as Device>::Block),
}

impl From<Cpu> for AnyDevice {
    fn from(device: Cpu) -> AnyDevice {
        AnyDevice::Host(device)
    }
}

#[cfg(feature = "cuda")]
impl From<Cuda> for AnyDevice {
    fn from(device: Cuda) -> AnyDevice {
        AnyDevice::Gpu(device)
    }
}

/// A device that an [`AnyDevice`] can be: `Cpu` or `Cuda`.
pub trait AnyDeviceKind: Device + Into<AnyDevice> {
    /// Whether a block may be moved out of its handle: not if it may be inside the handle's own allocation.
    #[doc(hidden)]
    const BLOCKS_MOVE: bool;
    /// The device, if it is of this type.
    #[doc(hidden)]
    fn of_any(any: &AnyDevice) -> Option<&Self>;
    #[doc(hidden)]
    fn into_any(block: Self::Block) -> AnyBlock;
    #[doc(hidden)]
    fn from_any(block: AnyBlock) -> Option<Self::Block>;
}

macro_rules! one_of_any {
    ($device:ident, $variant:ident, $moves:literal) => {
        impl AnyDeviceKind for $device {
            const BLOCKS_MOVE: bool = $moves;
            fn of_any(any: &AnyDevice) -> Option<&Self> {
                #[allow(irrefutable_let_patterns)]
                if let AnyDevice::$variant(device) = any { Some(device) } else { None }
            }
            fn into_any(block: Self::Block) -> AnyBlock {
                AnyBlock::$variant(block)
            }
            fn from_any(block: AnyBlock) -> Option<Self::Block> {
                #[allow(irrefutable_let_patterns)]
                if let AnyBlock::$variant(block) = block { Some(block) } else { None }
            }
        }
    };
}
one_of_any!(Cpu, Host, false);
#[cfg(feature = "cuda")]
one_of_any!(Cuda, Gpu, true);

impl FromStr for AnyDevice {
    type Err = Error;

    /// Parses `cpu`, `cuda` (the first GPU) or `cuda:1`.
    fn from_str(name: &str) -> Result<AnyDevice> {
        let unknown = || Error::Value {
            op: "device",
            what: text(format_args!("{name:?} is none of `cpu`, `cuda`, `cuda:0`, `cuda:1`, …")),
        };
        let (kind, number) = name.split_once(':').unwrap_or((name, "0"));
        let ordinal: usize = number.parse().map_err(|_| unknown())?;
        match kind {
            "cpu" if ordinal == 0 => Ok(AnyDevice::Host(Cpu)),
            #[cfg(feature = "cuda")]
            "cuda" => Cuda::new(ordinal).map(AnyDevice::Gpu),
            #[cfg(not(feature = "cuda"))]
            "cuda" => Err(Error::Value {
                op: "device",
                what: "this program was built without the feature `cuda`".into(),
            }),
            _ => Err(unknown()),
        }
    }
}

impl fmt::Debug for AnyDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        on!(self, |device| device.fmt(f))
    }
}

// SAFETY: (1), (2) and (3): each call is a call of a device that satisfies them.
unsafe impl Device for AnyDevice {
    type Block = AnyBlock;

    fn allocate(&self, nbytes: usize, fresh: Init) -> Result<AnyBlock> {
        match self {
            AnyDevice::Host(device) => device.allocate(nbytes, fresh).map(AnyBlock::Host),
            #[cfg(feature = "cuda")]
            AnyDevice::Gpu(device) => device.allocate(nbytes, fresh).map(AnyBlock::Gpu),
        }
    }

    unsafe fn external_block(&self, address: *mut u8, nbytes: usize, free: Deleter) -> Result<AnyBlock> {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                AnyDevice::Host(device) => device.external_block(address, nbytes, free).map(AnyBlock::Host),
                #[cfg(feature = "cuda")]
                AnyDevice::Gpu(device) => device.external_block(address, nbytes, free).map(AnyBlock::Gpu),
            }
        }
    }

    fn address(block: &AnyBlock) -> *mut u8 {
        match block {
            AnyBlock::Host(block) => Cpu::address(block),
            #[cfg(feature = "cuda")]
            AnyBlock::Gpu(block) => Cuda::address(block),
        }
    }

    unsafe fn copy_from<E: Device>(
        &self,
        to: *mut u8,
        from: &E,
        address: *const u8,
        numel: usize,
        element: usize,
    ) -> Result<bool> {
        match (from as &dyn std::any::Any).downcast_ref::<AnyDevice>() {
            Some(from) => on!(self, |device| on!(from, |from| {
                // SAFETY: the caller's promise.
                unsafe { device.copy_from(to, from, address, numel, element) }
            })),
            // SAFETY: the caller's promise.
            None => on!(self, |device| unsafe { device.copy_from(to, from, address, numel, element) }),
        }
    }

    fn is_host(&self) -> bool {
        on!(self, |device| device.is_host())
    }

    crate::delegate_device! {
        on: write read copy map map_apart map_by_name reduce reduce_by_name contract pack unpack
            contract_packed scan gather scatter compact sort
    }

    fn packed_nbytes<T: Number, R: Number>(&self, size: [usize; 2]) -> Option<usize> {
        on!(self, |device| device.packed_nbytes::<T, R>(size))
    }

    fn task_nbytes(&self) -> Option<usize> {
        on!(self, |device| device.task_nbytes())
    }

    fn for_each_task(&self, count: usize, task: &(dyn Fn(usize) -> Result<()> + Sync)) -> Result<()> {
        on!(self, |device| device.for_each_task(count, task))
    }

    fn synchronize(&self) -> Result<()> {
        on!(self, |device| device.synchronize())
    }

    fn check(&self) -> Result<()> {
        on!(self, |device| device.check())
    }
}
