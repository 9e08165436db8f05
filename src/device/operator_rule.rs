//! Operators that state their own backward pass, for devices that record.
// Imports: `dtype`, `error`.

use super::{Device, OperandRef};
use crate::dtype::DType;
use crate::error::Result;

/// A strided operand with its sizes and its element type.
#[derive(Clone, Copy, Debug)]
pub struct TypedRef<'a> {
    pub(crate) slot: OperandRef<'a>,
    pub(crate) sizes: &'a [usize],
    pub(crate) dtype: DType,
}

/// An operand that is read.
///
/// Invariant: every index inside the sizes addresses a valid element of the type, in memory of the device,
/// which no other code writes during `'a`.
pub struct RuleOperand<'a, D> {
    operand: TypedRef<'a>,
    device: &'a D,
}

impl<D> Clone for RuleOperand<'_, D> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<D> Copy for RuleOperand<'_, D> {}

impl<'a, D> RuleOperand<'a, D> {
    /// # Safety
    /// The invariant.
    pub(crate) unsafe fn new(operand: TypedRef<'a>, device: &'a D) -> Self {
        RuleOperand { operand, device }
    }
    pub(crate) fn parts(&self) -> (TypedRef<'a>, &'a D) {
        (self.operand, self.device)
    }
}

/// An operand that is written. Its elements may be uninitialized.
///
/// Invariant: that of [`RuleOperand`], no two indices address one element, and no other code reads the
/// elements during `'a`.
pub struct RuleOutput<'a, D> {
    operand: TypedRef<'a>,
    device: &'a D,
}

impl<'a, D> RuleOutput<'a, D> {
    /// # Safety
    /// The invariant.
    pub(crate) unsafe fn new(operand: TypedRef<'a>, device: &'a D) -> Self {
        RuleOutput { operand, device }
    }
    pub(crate) fn parts(&self) -> (TypedRef<'a>, &'a D) {
        (self.operand, self.device)
    }
}

/// The values that the backward pass of an operator reads.
pub struct Recorded<'a, D, S> {
    /// The operands of the forward pass. Those that [`OperatorRule::reads`] does not name have unspecified
    /// elements.
    pub(crate) inputs: &'a [RuleOperand<'a, D>],
    /// The result; unspecified elements unless [`OperatorRule::READS_RESULT`].
    pub(crate) result: RuleOperand<'a, D>,
    /// The values that the forward pass saved.
    pub(crate) saved: S,
    /// The gradient of the result.
    pub(crate) gradient: RuleOperand<'a, D>,
}

/// The operands of a backward pass, without their device.
#[cfg(feature = "autograd")]
pub struct RuleOperands<'a> {
    pub(crate) inputs: &'a [TypedRef<'a>],
    pub(crate) result: TypedRef<'a>,
    pub(crate) gradient: TypedRef<'a>,
    pub(crate) targets: &'a [Option<TypedRef<'a>>],
}

/// A rule on its device, with its types erased, and the values that its forward pass has saved.
///
/// # Safety
/// An implementation reads and writes the operands alone.
#[cfg(feature = "autograd")]
pub unsafe trait ErasedRule: Send {
    /// Computes the operator. If `saves`, it keeps what the backward pass reads besides operands and result.
    ///
    /// # Errors
    /// Those of the operator.
    ///
    /// # Safety
    /// 1. `inputs` are operands on the device, with valid elements.
    /// 2. `output` is too, possibly uninitialized; it has one element for each index, and overlaps no input.
    unsafe fn forward(&mut self, inputs: &[TypedRef<'_>], output: TypedRef<'_>, saves: bool) -> Result<()>;

    /// Computes the gradients of the operands.
    ///
    /// # Errors
    /// Those of the operator.
    ///
    /// # Safety
    /// 1. `inputs`, `result` and `gradient` are operands on the device, with valid elements.
    /// 2. `targets` are too, possibly uninitialized; each has one element for each index, and overlaps no
    ///    other operand.
    unsafe fn backward(self: Box<Self>, operands: RuleOperands<'_>) -> Result<()>;
}

/// An operator of tensors, written for any device, that states its own backward pass.
///
/// A device that records (see [`Device::ruled`]) runs [`forward_and_save`](OperatorRule::forward_and_save) on
/// the device inside it and records one step, whose backward pass is [`backward`](OperatorRule::backward).
/// Both are programs of tensors, so a device inside that records too records their parts. A step that is not
/// recorded runs [`forward`](OperatorRule::forward).
pub trait OperatorRule: Copy + Send + 'static {
    /// The name of the operator.
    const NAME: &'static str;
    /// Whether the backward pass reads the result.
    const READS_RESULT: bool;
    /// The values that the backward pass reads besides operands and result.
    type Saved<D: Device>: Default + Send + 'static;

    /// The rule on the CPU with its types erased, if it is compiled with this crate.
    #[cfg(feature = "autograd")]
    const ON_CPU: Option<fn(Self) -> Box<dyn ErasedRule>> = None;

    /// The operands that the gradient of operand `of` reads: bit `k` is operand `k`.
    fn reads(of: usize) -> u64;

    /// Computes the operator.
    ///
    /// # Errors
    /// Those of the operator.
    fn forward<D: Device>(&self, inputs: &[RuleOperand<'_, D>], output: RuleOutput<'_, D>) -> Result<()>;

    /// Computes the operator, and what the backward pass reads besides operands and result.
    ///
    /// # Errors
    /// Those of the operator.
    fn forward_and_save<D: Device>(
        &self,
        inputs: &[RuleOperand<'_, D>],
        output: RuleOutput<'_, D>,
    ) -> Result<Self::Saved<D>> {
        self.forward(inputs, output)?;
        Ok(Self::Saved::default())
    }

    /// Writes the gradient of each operand that wants one. `targets` has as many entries as the operator has
    /// operands; all of one entry is written.
    ///
    /// # Errors
    /// Those of the device.
    fn backward<D: Device>(
        &self,
        recorded: Recorded<'_, D, Self::Saved<D>>,
        targets: Vec<Option<RuleOutput<'_, D>>>,
    ) -> Result<()>;
}
