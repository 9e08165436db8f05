//! Operators with a derivative of their own, and parts of a program that are computed again.
// Imports: `error`, `device`, `tensor`, `autograd`.

use super::backward::Backward;
use super::state::{Before, Node, Output, Spot, Step};
use super::tape::tensor_in;
use super::{Differentiable, Gradients, Tape, Var};
use crate::device::Device;
use crate::dim::Dim;
use crate::error::Result;
use crate::tensor::Tensor;

/// The operands of a custom operator: a tuple of up to six `&Var`.
pub trait Inputs<D: Device> {
    /// The operands on the inner device.
    type Inner: Send + 'static;
    /// The operands on a tape.
    type OnTape;
    #[doc(hidden)]
    fn values(&self, tape: &Tape<D>) -> Result<Self::Inner>;
    #[doc(hidden)]
    #[allow(private_interfaces)]
    fn spots(&self, tape: &Tape<D>) -> Result<Vec<Option<Spot>>>;
    #[doc(hidden)]
    fn constant(inner: &Self::Inner, tape: &Tape<D>) -> Result<Self::OnTape>;
    #[doc(hidden)]
    fn watch(inner: &Self::Inner, tape: &Tape<D>) -> Result<Self::OnTape>;
    #[doc(hidden)]
    fn of(on_tape: &Self::OnTape, gradients: &Gradients<D>) -> Result<Self::Inner>;
    #[doc(hidden)]
    #[allow(private_interfaces)]
    fn add(
        b: &mut Backward,
        spots: &[Option<Spot>],
        inner: &Self::Inner,
        gradients: &Self::Inner,
    ) -> Result<()>;
}

macro_rules! inputs {
    ($($($t:ident $r:ident $index:tt)+;)*) => { $(
        impl<$($t: Differentiable,)+ $(const $r: usize,)+ D: Device> Inputs<D> for ($(&Var<$t, $r, D>,)+) {
            type Inner = ($(Tensor<$t, $r, D>,)+);
            type OnTape = ($(Var<$t, $r, D>,)+);
            fn values(&self, tape: &Tape<D>) -> Result<Self::Inner> {
                Ok(($(tape.value(self.$index)?,)+))
            }
            #[allow(private_interfaces)]
            fn spots(&self, tape: &Tape<D>) -> Result<Vec<Option<Spot>>> {
                Ok(vec![$(tape.spot_of("custom", self.$index)?),+])
            }
            fn constant(inner: &Self::Inner, tape: &Tape<D>) -> Result<Self::OnTape> {
                Ok(($(tape.constant(&inner.$index)?,)+))
            }
            fn watch(inner: &Self::Inner, tape: &Tape<D>) -> Result<Self::OnTape> {
                Ok(($(tape.watch(&inner.$index)?,)+))
            }
            fn of(on_tape: &Self::OnTape, gradients: &Gradients<D>) -> Result<Self::Inner> {
                Ok(($(gradients.of(&on_tape.$index)?,)+))
            }
            #[allow(private_interfaces)]
            fn add(
                b: &mut Backward,
                spots: &[Option<Spot>],
                inner: &Self::Inner,
                gradients: &Self::Inner,
            ) -> Result<()> {
                $(if let Some(spot) = &spots[$index] {
                    b.add_tensor("custom", spot, &inner.$index, &gradients.$index)?;
                })+
                Ok(())
            }
        }
    )* };
}
inputs! {
    A RA 0;
    A RA 0 B RB 1;
    A RA 0 B RB 1 C RC 2;
    A RA 0 B RB 1 C RC 2 E RE 3;
    A RA 0 B RB 1 C RC 2 E RE 3 F RF 4;
    A RA 0 B RB 1 C RC 2 E RE 3 F RF 4 G RG 5;
}

impl<D: Device> Tape<D> {
    /// An operator with its own derivative. `forward` computes the result from the operands on the inner
    /// device. `backward` computes the gradients of the operands from the operands, the result and the gradient
    /// of the result. Neither is recorded on this tape, so both may call code outside of this crate.
    ///
    /// # Errors
    /// The errors of `forward`; [`Error::Device`](crate::Error::Device) if an operand is on another tape.
    /// [`Tape::backward`] returns the errors of `backward`, and [`Error::Output`](crate::Error::Output) if the
    /// sizes of a gradient are not those of its operand.
    ///
    /// # Examples
    /// A gradient that is clipped on its way back:
    /// ```
    /// use rankform::autograd::grad;
    /// use rankform::prelude::*;
    /// let x = Tensor::from([1.0, 30.0]);
    /// let gradient = grad(&x, |x, tape| {
    ///     let clipped = tape.custom(
    ///         (x,),
    ///         |(x,)| Ok(x.share_data()),
    ///         |_, _, gradient| Ok((gradient.lazy().clamp(-5.0, 5.0).eval()?,)),
    ///     )?;
    ///     (clipped.lazy() * &clipped).sum(All)
    /// })?;
    /// assert_eq!(gradient.to_vec()?, [2.0, 5.0]);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn custom<I: Inputs<D>, T: Differentiable, const RANK: usize>(
        &self,
        inputs: I,
        forward: impl FnOnce(&I::Inner) -> Result<Tensor<T, RANK, D>>,
        backward: impl FnOnce(&I::Inner, &Tensor<T, RANK, D>, &Tensor<T, RANK, D>) -> Result<I::Inner>
        + Send
        + 'static,
    ) -> Result<Var<T, RANK, D>> {
        let inner = inputs.values(self)?;
        let result = forward(&inner)?;
        let spots = inputs.spots(self)?;
        let saved = result.share_data();
        self.result("custom", result, spots, move |b, spots, gradient| {
            let gradients = backward(&inner, &saved, gradient)?;
            I::add(b, spots, &inner, &gradients)
        })
    }

    /// `f(inputs)`, of which the tape keeps the inputs only: the backward pass computes `f` again, on a tape
    /// of its own. `f` receives this tape's kind of tensors; random numbers with a seed are the same both times.
    ///
    /// # Cost
    /// The time of one more evaluation of `f`, for the memory of all its intermediate results.
    ///
    /// # Errors
    /// The errors of `f`; [`Error::Device`](crate::Error::Device) if an operand is on another tape.
    ///
    /// # Examples
    /// ```
    /// use rankform::autograd::grad;
    /// use rankform::prelude::*;
    /// let x = Tensor::from([1.0, 2.0]);
    /// let gradient = grad(&x, |x, tape| {
    ///     let y = tape.checkpoint((x,), |(x,)| (x.lazy() * x * x).eval())?;
    ///     y.sum(All)
    /// })?;
    /// assert_eq!(gradient.to_vec()?, [3.0, 12.0]);
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn checkpoint<I: Inputs<D>, T: Differentiable, const RANK: usize>(
        &self,
        inputs: I,
        f: impl Fn(&I::OnTape) -> Result<Var<T, RANK, D>> + Send + 'static,
    ) -> Result<Var<T, RANK, D>> {
        let inner = inputs.values(self)?;
        let result = {
            let tape = Tape::new(self.inner());
            let y = tape.paused(|| f(&I::constant(&inner, &tape)?))?;
            tape.value(&y)?
        };
        let spots = inputs.spots(self)?;
        let device = self.inner().clone();
        self.result("checkpoint", result, spots, move |b, spots, gradient| {
            let tape = Tape::new(&device);
            let on_tape = I::watch(&inner, &tape)?;
            let gradients = tape.pull(&f(&on_tape)?, gradient)?;
            I::add(b, spots, &inner, &I::of(&on_tape, &gradients)?)
        })
    }

    /// A tensor on the tape in the memory of `result`, whose gradient `rule` takes.
    fn result<T: Differentiable, const RANK: usize>(
        &self,
        op: &'static str,
        result: Tensor<T, RANK, D>,
        spots: Vec<Option<Spot>>,
        rule: impl FnOnce(&mut Backward, &[Option<Spot>], &Tensor<T, RANK, D>) -> Result<()> + Send + 'static,
    ) -> Result<Var<T, RANK, D>> {
        // Memory that nothing lies between: the gradient has the layout of the result.
        let result = if result.layout().is_contiguous() { result } else { result.to_contiguous()? };
        let (y, layout, size) = (self.constant(&result)?, *result.layout(), result.size());
        drop(result);
        if spots.iter().all(Option::is_none) || self.shared.lock().paused > 0 {
            return Ok(y);
        }
        let number = y.allocation().block().number();
        self.shared.lock().activate(number, T::DTYPE);
        let Some(spot) = self.spot_of(op, &y)? else { return Ok(y) };
        let output = Output::new(spot.clone(), Before::Nothing);
        let sizes = super::axes::Axes::new(&size.0);
        let step = Step { op, sizes, inputs: Vec::new(), outputs: vec![output] };
        let device = self.device.clone();
        let rule = move |b: &mut Backward, _: &Step| {
            let gradient = b.share_gradient(&spot, layout, size, &device)?;
            rule(b, &spots, &gradient)
        };
        self.shared.lock().nodes.push(Node { step, rule: Box::new(rule) });
        Ok(y)
    }
}

impl Backward {
    /// The gradient of a whole block, as a tensor.
    fn share_gradient<T: Differentiable, const RANK: usize, D: Device>(
        &self,
        spot: &Spot,
        layout: crate::layout::Layout<RANK>,
        size: Dim<RANK>,
        device: &D,
    ) -> Result<Tensor<T, RANK, D>> {
        match self.memory_of(spot.id) {
            // SAFETY: a gradient has as many bytes as its block, and its layout.
            Some(memory) => unsafe { tensor_in(memory, layout, device) },
            None => Tensor::zeros(size, device),
        }
    }
}
