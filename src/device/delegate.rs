//! Mechanisms of a device by calls of another device: a table of the signatures of
//! [`Device`](super::Device)'s functions.
// Imports: `error`, `element`, `kernel`, `device`.

/// Writes mechanisms into an `unsafe impl Device` that call the same mechanism of another device.
///
/// `on` is a macro that evaluates a call on that device: `on!(self, |device| call)`. It may lock, count, or
/// choose between several devices. The mechanisms are the functions of [`Device`](crate::Device) from `write`
/// to `sort`, except `copy_from` and `packed_nbytes`. The compiler reports a required one that is neither
/// named nor written by hand.
///
/// # Examples
/// The CPU under another type, whose tensors do not mix with those of [`Cpu`](crate::Cpu):
/// ```
/// use rankform::device::{Deleter, Init};
/// use rankform::{delegate_device, prelude::*};
///
/// #[derive(Clone, PartialEq, Debug)]
/// struct Sandbox;
///
/// macro_rules! on_cpu {
///     ($own:expr, |$device:ident| $call:expr) => {{ let $device = Cpu; $call }};
/// }
///
/// // SAFETY: (1), (2) and (3): each call is a call of `Cpu`.
/// unsafe impl Device for Sandbox {
///     type Block = <Cpu as Device>::Block;
///     fn allocate(&self, nbytes: usize, fresh: Init) -> Result<Self::Block> {
///         Cpu.allocate(nbytes, fresh)
///     }
///     unsafe fn external_block(&self, at: *mut u8, nbytes: usize, free: Deleter) -> Result<Self::Block> {
///         // SAFETY: the caller's promise.
///         unsafe { Cpu.external_block(at, nbytes, free) }
///     }
///     fn address(block: &Self::Block) -> *mut u8 {
///         Cpu::address(block)
///     }
///     delegate_device! { on_cpu: write read copy map reduce contract scan gather scatter compact sort }
/// }
///
/// let x = Tensor::from([3.0, 1.0, 2.0]).to(&Sandbox)?;
/// assert_eq!(x.sort(Axis::<0>)?.to_vec()?, [1.0, 2.0, 3.0]);
/// # Ok::<(), rankform::Error>(())
/// ```
#[macro_export]
macro_rules! delegate_device {
    ($on:ident: $($mechanism:ident)+) => { $( $crate::__mechanism! { [$on] $mechanism } )+ };
}

/// The mechanisms: for each its name, the generics, their names, and the parameters. Here are those that move
/// elements.
#[doc(hidden)]
#[macro_export]
macro_rules! __mechanism {
    ($on:tt write) => {
        $crate::__delegated! { $on write [] [] (to: *mut u8, bytes: &[u8]) }
    };
    ($on:tt read) => {
        $crate::__delegated! { $on read [] []
        (from: *const u8, bytes: &mut [::core::mem::MaybeUninit<u8>]) }
    };
    ($on:tt copy) => {
        $crate::__delegated! { $on copy [] []
        (sizes: &[usize], to: $crate::device::OperandRef<'_>, from: $crate::device::OperandRef<'_>) }
    };
    ($on:tt gather) => {
        $crate::__delegated! { $on gather [] []
        (plan: $crate::kernel::GatherPlan<'_>, to: $crate::device::OperandRef<'_>,
         cells: $crate::device::OperandRef<'_>, index: $crate::device::OperandRef<'_>) }
    };
    ($on:tt scatter) => {
        $crate::__delegated! { $on scatter
        [T: $crate::element::Element, F: $crate::kernel::Op<(T, T), Out = T>] [T, F]
        (operator: F, plan: $crate::kernel::GatherPlan<'_>, cells: $crate::device::OperandRef<'_>,
         from: $crate::device::OperandRef<'_>, index: $crate::device::OperandRef<'_>) }
    };
    ($on:tt compact) => {
        $crate::__delegated! { $on compact [] []
        (sizes: &[usize], count: usize, to: $crate::device::OperandRef<'_>,
         from: $crate::device::OperandRef<'_>, mask: $crate::device::OperandRef<'_>) }
    };
    ($on:tt sort) => {
        $crate::__delegated! { $on sort [T: $crate::element::Comparable] [T]
        (plan: $crate::kernel::SortPlan<'_>, values: ::core::option::Option<$crate::device::OperandRef<'_>>,
         positions: ::core::option::Option<$crate::device::OperandRef<'_>>,
         from: $crate::device::OperandRef<'_>) }
    };
    ($on:tt $other:ident) => {
        $crate::__mechanism_of_bodies! { $on $other }
    };
}

/// The mechanisms that run bodies.
#[doc(hidden)]
#[macro_export]
macro_rules! __mechanism_of_bodies {
    ($on:tt map) => {
        $crate::__delegated! { $on map [P: $crate::kernel::Program] [P]
        (program: &P, sizes: &[usize], row: usize, outputs: &[$crate::device::OperandRef<'_>],
         inputs: $crate::device::Inputs<'_>) }
    };
    ($on:tt map_apart) => {
        $crate::__delegated! { $on map_apart [P: $crate::kernel::Program] [P]
        (program: &P, sizes: &[usize], row: usize, outputs: &[$crate::device::OperandRef<'_>],
         inputs: $crate::device::Inputs<'_>) }
    };
    ($on:tt map_by_name) => {
        $crate::__delegated! { $on map_by_name [P: $crate::kernel::Program] [P]
        (program: &P, sizes: &[usize], outputs: &[$crate::device::OperandRef<'_>],
         inputs: $crate::device::Inputs<'_>) }
    };
    ($on:tt reduce) => {
        $crate::__delegated! { $on reduce
        [B: $crate::kernel::Body, R: $crate::kernel::Reducer<B::Out>] [B, R]
        (body: &B, reducer: R, axes: $crate::device::Reduction<'_>, output: $crate::device::OperandRef<'_>,
         inputs: $crate::device::Inputs<'_>) }
    };
    ($on:tt reduce_by_name) => {
        $crate::__delegated! { $on reduce_by_name
        [B: $crate::kernel::Body, R: $crate::kernel::Reducer<B::Out>] [B, R]
        (body: &B, reducer: R, axes: $crate::device::Reduction<'_>, output: $crate::device::OperandRef<'_>,
         inputs: $crate::device::Inputs<'_>) }
    };
    ($on:tt scan) => {
        $crate::__delegated! { $on scan
        [B: $crate::kernel::Body, R: $crate::kernel::Reducer<B::Out>] [B, R]
        (body: &B, reducer: R, plan: $crate::kernel::ScanPlan<'_>, output: $crate::device::OperandRef<'_>,
         inputs: $crate::device::Inputs<'_>) }
    };
    ($on:tt $other:ident) => {
        $crate::__mechanism_of_products! { $on $other }
    };
}

/// The mechanisms that multiply matrices.
#[doc(hidden)]
#[macro_export]
macro_rules! __mechanism_of_products {
    ($on:tt contract) => {
        $crate::__delegated! { $on contract
        [T: $crate::element::Number, L: $crate::element::Number, R: $crate::element::Number] [T, L, R]
        (plan: $crate::kernel::ContractPlan<'_>, output: $crate::device::OperandRef<'_>,
         left: $crate::device::OperandRef<'_>, right: $crate::device::OperandRef<'_>) }
    };
    ($on:tt pack) => {
        $crate::__delegated! { $on pack
        [T: $crate::element::Number, R: $crate::element::Number] [T, R]
        (size: [usize; 2], to: *mut u8, matrix: $crate::device::OperandRef<'_>) }
    };
    ($on:tt unpack) => {
        $crate::__delegated! { $on unpack
        [T: $crate::element::Number, R: $crate::element::Number] [T, R]
        (size: [usize; 2], to: *mut u8, packed: *const u8) }
    };
    ($on:tt contract_packed) => {
        $crate::__delegated! { $on contract_packed
        [T: $crate::element::Number, R: $crate::element::Number] [T, R]
        (plan: $crate::kernel::ContractPlan<'_>, output: $crate::device::OperandRef<'_>,
         left: $crate::device::OperandRef<'_>, packed: *const u8) }
    };
}

/// Writes one mechanism.
#[doc(hidden)]
#[macro_export]
macro_rules! __delegated {
    ([$($on:tt)+] $name:ident [$($generics:tt)*] [$($generic:ident),*] ($($argument:ident: $Type:ty),+)) => {
        #[allow(unused_variables)] // By an `on` that makes no call.
        unsafe fn $name<$($generics)*>(&self, $($argument: $Type),+) -> $crate::Result<()> {
            // SAFETY: the caller's promise is the promise of the same mechanism.
            $($on)+!(self, |device| unsafe { device.$name::<$($generic),*>($($argument),+) })
        }
    };
}
