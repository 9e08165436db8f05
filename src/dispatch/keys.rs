//! The keys that select a kernel: a set of 64 bits, of which the highest decides.
// Imports: `device`, `erased_memory`, `autograd`, `dynamic`.

#[cfg(feature = "autograd")]
use crate::autograd::TapeBlock;
#[cfg(feature = "cuda")]
use crate::device::Cuda;
use crate::device::{Cpu, Meta};
use crate::dynamic::{DynTensor, Opaque};
use crate::erased_memory::Memory;
use std::fmt;

/// The keys, in rising order: an enum, and all of them as a constant.
macro_rules! keys {
    ($($(#[$doc:meta])* $key:ident,)*) => {
        /// A property of operands for which a kernel may be registered. The last key in this order decides.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(u8)]
        #[allow(clippy::upper_case_acronyms)] // PyTorch's names
        pub enum DispatchKey {
            $($(#[$doc])* $key,)*
        }

        impl DispatchKey {
            /// Every key, in rising order.
            pub const ALL: [DispatchKey; [$(DispatchKey::$key),*].len()] = [$(DispatchKey::$key),*];
        }
    };
}
keys! {
    /// Elements on the host.
    CPU,
    /// Elements on a GPU.
    CUDA,
    /// Sizes without elements.
    Meta,
    /// Elements on any other device: a user's, or one chosen at run time.
    OtherDevice,
    /// Quantized elements on the host.
    QuantizedCPU,
    /// Quantized elements on a GPU.
    QuantizedCUDA,
    /// Quantized elements on another device.
    QuantizedOther,
    /// Indices and values on the host.
    SparseCPU,
    /// Indices and values on a GPU.
    SparseCUDA,
    /// Indices and values on another device.
    SparseOther,
    /// Axes with names.
    Named,
    /// A lazy view of conjugates.
    Conjugate,
    /// A lazy view of negatives.
    Negative,
    /// The tensor depends on a variable of a tape, on the host.
    AutogradCPU,
    /// The tensor depends on a variable of a tape, on a GPU.
    AutogradCUDA,
    /// The tensor depends on a variable of a tape, on another device.
    AutogradOther,
}

impl DispatchKey {
    /// Whether it marks tensors that depend on a variable. Without a kernel for it, the key is skipped: the
    /// kernel of the device runs on the tape, which records it.
    pub fn is_autograd(self) -> bool {
        self >= DispatchKey::AutogradCPU
    }

    /// The key of tensors on a tape over the device of a dense key, if they depend on a variable.
    #[cfg(feature = "autograd")]
    fn recording(self) -> DispatchKey {
        match self {
            DispatchKey::CPU => DispatchKey::AutogradCPU,
            DispatchKey::CUDA => DispatchKey::AutogradCUDA,
            _ => DispatchKey::AutogradOther,
        }
    }

    /// The keys of quantized and of sparse tensors on the device of a dense key.
    pub(super) fn beside(self) -> [DispatchKey; 2] {
        match self {
            DispatchKey::CPU => [DispatchKey::QuantizedCPU, DispatchKey::SparseCPU],
            DispatchKey::CUDA => [DispatchKey::QuantizedCUDA, DispatchKey::SparseCUDA],
            _ => [DispatchKey::QuantizedOther, DispatchKey::SparseOther],
        }
    }
}

/// A set of keys.
///
/// # Examples
/// ```
/// use rankform::dispatch::{DispatchKey, DispatchKeySet};
/// let keys = DispatchKeySet::of(&[DispatchKey::CPU, DispatchKey::Conjugate]);
/// assert_eq!(keys.highest(), Some(DispatchKey::Conjugate));
/// assert_eq!(keys.to_string(), "{Conjugate, CPU}");
/// assert_eq!(keys.without(DispatchKey::Conjugate).highest(), Some(DispatchKey::CPU));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct DispatchKeySet(u64);

impl DispatchKeySet {
    /// No key.
    pub const EMPTY: DispatchKeySet = DispatchKeySet(0);

    /// The set of some keys.
    pub fn of(keys: &[DispatchKey]) -> Self {
        keys.iter().fold(Self::EMPTY, |set, &key| set.with(key))
    }
    /// With one more key.
    #[inline]
    pub const fn with(self, key: DispatchKey) -> Self {
        DispatchKeySet(self.0 | 1 << key as u8)
    }
    /// Without a key.
    #[inline]
    pub const fn without(self, key: DispatchKey) -> Self {
        DispatchKeySet(self.0 & !(1 << key as u8))
    }
    /// Without the keys of derivatives.
    #[cfg(feature = "autograd")]
    pub(super) fn without_derivatives(self) -> Self {
        self.iter().filter(|key| !key.is_autograd()).fold(Self::EMPTY, Self::with)
    }
    /// The union of two sets.
    #[inline]
    pub const fn union(self, other: Self) -> Self {
        DispatchKeySet(self.0 | other.0)
    }
    /// Whether the set contains a key.
    pub const fn contains(self, key: DispatchKey) -> bool {
        self.0 >> key as u8 & 1 == 1
    }
    /// The highest key, which decides.
    #[inline]
    pub fn highest(self) -> Option<DispatchKey> {
        DispatchKey::ALL.get(63usize.wrapping_sub(self.0.leading_zeros() as usize)).copied()
    }
    /// The keys, from the highest down.
    pub fn iter(self) -> impl Iterator<Item = DispatchKey> {
        let mut rest = self;
        std::iter::from_fn(move || {
            let key = rest.highest()?;
            rest = rest.without(key);
            Some(key)
        })
    }
    /// The bits. Bit `key as u8` belongs to `key`.
    pub const fn bits(self) -> u64 {
        self.0
    }
}

impl fmt::Display for DispatchKeySet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        for (at, key) in self.iter().enumerate() {
            write!(f, "{}{key:?}", if at > 0 { ", " } else { "" })?;
        }
        f.write_str("}")
    }
}
impl fmt::Debug for DispatchKeySet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// The key of dense tensors in some memory. On a tape it is that of the inner device.
fn dense_key(memory: &Memory) -> DispatchKey {
    if memory.is::<Cpu>() {
        return DispatchKey::CPU;
    }
    #[cfg(feature = "autograd")]
    if let Some(values) = memory.block::<TapeBlock>().and_then(TapeBlock::values) {
        return dense_key(&values);
    }
    #[cfg(feature = "cuda")]
    if memory.is::<Cuda>() {
        return DispatchKey::CUDA;
    }
    if memory.is::<Meta>() { DispatchKey::Meta } else { DispatchKey::OtherDevice }
}

impl DynTensor {
    /// The keys that select a kernel for it. An undefined tensor has no key.
    ///
    /// On a tape they are those of the inner device, with `Autograd…` if the tensor depends on a variable.
    pub fn key_set(&self) -> DispatchKeySet {
        let Some(memory) = self.memory() else { return DispatchKeySet::EMPTY };
        let dense = dense_key(memory);
        let [quantized, sparse] = dense.beside();
        let own = if self.opaque() == Some(Opaque::Sparse) {
            sparse
        } else if self.dtype().is_quantized() {
            quantized
        } else {
            dense
        };
        let mut keys = DispatchKeySet::EMPTY.with(own);
        if !self.names().is_empty() {
            keys = keys.with(DispatchKey::Named);
        }
        if self.is_conjugate() {
            keys = keys.with(DispatchKey::Conjugate);
        }
        if self.is_negative() {
            keys = keys.with(DispatchKey::Negative);
        }
        #[cfg(feature = "autograd")]
        if self.requires_grad() {
            keys = keys.with(dense.recording());
        }
        keys
    }
}
