//! Operators with a derivative of their own, and parts of a program that are computed again.
// Imports: `error`, `dim`, `layout`, `element`, `device`, `tensor`.

use super::backward::Backward;
use super::small_vec::{Few, SmallVec};
use super::state::{Before, BlockView, Step, StepOutput};
use super::tape::tensor_in;
use super::{Differentiable, Gradients, Name, ParameterTree, ParameterVisitor, Tape, TensorMap, Var};
use crate::device::{Device, OperandRef};
use crate::dim::Dim;
use crate::element::Element;
use crate::error::Result;
use crate::tensor::Tensor;

/// The operands of a custom operator or a checkpoint: a tuple of up to six references to tensors on a tape or
/// to [trees of parameters](ParameterTree) on it.
///
/// # Examples
/// A layer that is computed again in the backward pass:
/// ```
/// use rankform::autograd::value_and_grad;
/// use rankform::prelude::*;
/// parameters! {
///     struct Layer<D> { weight: Tensor<f64, 2, D>, bias: Tensor<f64, 1, D> }
/// }
/// impl<D: Device> Layer<D> {
///     fn apply(&self, x: &Tensor<f64, 1, D>) -> Result<Tensor<f64, 1, D>> {
///         (x.matmul(&self.weight)?.lazy() + &self.bias).tanh().eval()
///     }
/// }
/// let layer = Layer { weight: Tensor::from([[0.0, 1.0], [1.0, 0.0]]), bias: Tensor::from([0.0, 0.0]) };
/// let (_, gradients) = value_and_grad(&layer, |layer, tape| {
///     let x = tape.constant(&Tensor::from([0.0, 0.0]))?;
///     tape.checkpoint((&x, layer), |(x, layer)| layer.apply(x))?.sum(All)
/// })?;
/// assert_eq!(gradients.bias.to_vec()?, [1.0, 1.0]);
/// # Ok::<(), rankform::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` are not operands on a tape over `{D}`",
    label = "expected a tuple of up to six references to tensors or structs of `parameters!` on the tape",
    note = "one operand is `(&x,)`"
)]
pub trait TapeOperands<D: Device> {
    /// The operands on the inner device.
    type Inner: Send + 'static;
    /// The operands on a tape.
    type OnTape;
    #[doc(hidden)]
    fn values(&self, tape: &Tape<D>) -> Result<Self::Inner>;
    #[doc(hidden)]
    #[allow(private_interfaces)]
    fn views(&self, op: &'static str, tape: &Tape<D>) -> Result<Views>;
    #[doc(hidden)]
    #[allow(private_interfaces)]
    fn watch(inner: &Self::Inner, tape: &Tape<D>, views: &[Option<BlockView>]) -> Result<Self::OnTape>;
    #[doc(hidden)]
    #[allow(private_interfaces)]
    fn add(add: Add<'_, &Self::Inner>, gradients: &Self::Inner) -> Result<()>;
    #[doc(hidden)]
    #[allow(private_interfaces)]
    fn add_from(add: Add<'_, &Self::OnTape>, gradients: &Gradients<D>) -> Result<()>;
}

/// The place of each operand that depends on a variable, in the order of their trees.
type Views = Vec<Option<BlockView>>;

/// The addition of gradients to those of operands.
struct Add<'a, O> {
    b: &'a mut Backward,
    views: &'a [Option<BlockView>],
    operands: O,
}

macro_rules! inputs {
    ($($($p:ident $index:tt)+;)*) => { $(
        impl<$($p: ParameterTree<Tape<D>, On<D>: Send + 'static>,)+ D: Device> TapeOperands<D> for ($(&$p,)+)
        {
            type Inner = ($($p::On<D>,)+);
            type OnTape = ($(<$p::On<D> as ParameterTree<D>>::On<Tape<D>>,)+);
            fn values(&self, tape: &Tape<D>) -> Result<Self::Inner> {
                Ok(($(self.$index.map_tensors(Name::ROOT, &mut Values(tape))?,)+))
            }
            #[allow(private_interfaces)]
            fn views(&self, op: &'static str, tape: &Tape<D>) -> Result<Views> {
                let mut places = Places { op, tape, views: Vec::new() };
                $(self.$index.visit(&mut places)?;)+
                Ok(places.views)
            }
            #[allow(private_interfaces)]
            fn watch(
                inner: &Self::Inner, tape: &Tape<D>, views: &[Option<BlockView>]
            ) -> Result<Self::OnTape> {
                let mut views = views.iter();
                Ok(($(
                    inner.$index.map_tensors(Name::ROOT, &mut WatchOperands { tape, views: &mut views })?,
                )+))
            }
            #[allow(private_interfaces)]
            fn add(add: Add<'_, &Self::Inner>, gradients: &Self::Inner) -> Result<()> {
                let mut each = AddEach { b: add.b, views: add.views.iter() };
                $(
                    ParameterTree::walk(
                        [], [&add.operands.$index, &gradients.$index], Name::ROOT, &mut each
                    )?;
                )+
                Ok(())
            }
            #[allow(private_interfaces)]
            fn add_from(add: Add<'_, &Self::OnTape>, gradients: &Gradients<D>) -> Result<()> {
                let mut each = AddOf { b: add.b, views: add.views.iter(), gradients };
                $(add.operands.$index.visit(&mut each)?;)+
                Ok(())
            }
        }
    )* };
}
inputs! {
    A 0;
    A 0 B 1;
    A 0 B 1 C 2;
    A 0 B 1 C 2 E 3;
    A 0 B 1 C 2 E 3 F 4;
    A 0 B 1 C 2 E 3 F 4 G 5;
}

/// The values of operands.
struct Values<'a, D: Device>(&'a Tape<D>);
impl<D: Device> TensorMap<Tape<D>, D> for Values<'_, D> {
    fn tensor<T: Differentiable, const RANK: usize>(
        &mut self,
        _: Name<'_>,
        x: &Var<T, RANK, D>,
    ) -> Result<Tensor<T, RANK, D>> {
        self.0.value(x)
    }
    fn buffer<T: Element, const RANK: usize>(
        &mut self,
        _: Name<'_>,
        x: &Var<T, RANK, D>,
    ) -> Result<Tensor<T, RANK, D>> {
        self.0.value(x)
    }
}

/// Finds the places of operands.
struct Places<'a, D: Device> {
    op: &'static str,
    tape: &'a Tape<D>,
    views: Views,
}
impl<D: Device> ParameterVisitor<Tape<D>, 0, 1> for Places<'_, D> {
    fn tensor<T: Differentiable, const RANK: usize>(
        &mut self,
        _: Name<'_>,
        _: [&mut Var<T, RANK, D>; 0],
        [x]: [&Var<T, RANK, D>; 1],
    ) -> Result<()> {
        self.views.push(self.tape.view_of(self.op, x)?);
        Ok(())
    }
}

/// Makes the operands that depended on a variable variables of a tape, and the others constants.
struct WatchOperands<'a, 's, D: Device> {
    tape: &'a Tape<D>,
    views: &'a mut std::slice::Iter<'s, Option<BlockView>>,
}
impl<D: Device> TensorMap<D, Tape<D>> for WatchOperands<'_, '_, D> {
    fn tensor<T: Differentiable, const RANK: usize>(
        &mut self,
        _: Name<'_>,
        x: &Tensor<T, RANK, D>,
    ) -> Result<Var<T, RANK, D>> {
        match self.views.next() {
            Some(Some(_)) => self.tape.watch(x),
            _ => self.tape.constant(x),
        }
    }
    fn buffer<T: Element, const RANK: usize>(
        &mut self,
        _: Name<'_>,
        x: &Tensor<T, RANK, D>,
    ) -> Result<Var<T, RANK, D>> {
        self.tape.constant(x)
    }
}

/// Adds a gradient to that of each operand.
struct AddEach<'a> {
    b: &'a mut Backward,
    views: std::slice::Iter<'a, Option<BlockView>>,
}
impl<D: Device> ParameterVisitor<D, 0, 2> for AddEach<'_> {
    fn tensor<T: Differentiable, const RANK: usize>(
        &mut self,
        _: Name<'_>,
        _: [&mut Tensor<T, RANK, D>; 0],
        [operand, gradient]: [&Tensor<T, RANK, D>; 2],
    ) -> Result<()> {
        match self.views.next() {
            Some(Some(view)) => self.b.add_tensor("custom", view, operand, gradient),
            _ => Ok(()),
        }
    }
}

/// Adds the gradient of each variable of another tape.
struct AddOf<'a, D: Device> {
    b: &'a mut Backward,
    views: std::slice::Iter<'a, Option<BlockView>>,
    gradients: &'a Gradients<D>,
}
impl<D: Device> ParameterVisitor<Tape<D>, 0, 1> for AddOf<'_, D> {
    fn tensor<T: Differentiable, const RANK: usize>(
        &mut self,
        _: Name<'_>,
        _: [&mut Var<T, RANK, D>; 0],
        [x]: [&Var<T, RANK, D>; 1],
    ) -> Result<()> {
        match self.views.next() {
            Some(Some(view)) => self.b.add_gradient(view, &self.gradients.of(x)?),
            _ => Ok(()),
        }
    }
}

impl<D: Device> Tape<D> {
    /// An operator with its own derivative. `forward` computes the result from the operands on the inner
    /// device. `backward` computes the gradients of the operands from the operands, the result and the
    /// gradient of the result. Neither is recorded on this tape, so both may call code outside of this crate.
    ///
    /// `backward` captures no tensor of this tape: the tensors that it needs are operands. A captured one
    /// would keep the tape alive until it is [cleared](Tape::clear).
    ///
    /// # Errors
    /// The errors of `forward`; [`Error::Device`](crate::Error::Device) if an operand is on another tape.
    /// [`Tape::backward`] returns the errors of `backward`, and [`Error::Output`](crate::Error::Output) if
    /// the sizes of a gradient are not those of its operand.
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
    pub fn custom<I: TapeOperands<D>, T: Differentiable, const RANK: usize>(
        &self,
        inputs: I,
        forward: impl FnOnce(&I::Inner) -> Result<Tensor<T, RANK, D>>,
        backward: impl FnOnce(&I::Inner, &Tensor<T, RANK, D>, &Tensor<T, RANK, D>) -> Result<I::Inner>
        + Send
        + 'static,
    ) -> Result<Var<T, RANK, D>> {
        let recording = self.shared.lock().recording();
        let inner = inputs.values(self)?;
        let result = forward(&inner)?;
        let views = inputs.views("custom", self)?;
        let saved = result.share_data();
        self.result("custom", recording, result, views, move |b, views, gradient| {
            let gradients = backward(&inner, &saved, gradient)?;
            I::add(Add { b, views, operands: &inner }, &gradients)
        })
    }

    /// `f(inputs)`, of which the tape keeps the inputs only: the backward pass computes `f` again, on a tape
    /// of its own. `f` receives this tape's kind of tensors; random numbers with a seed are the same both
    /// times.
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
    pub fn checkpoint<I: TapeOperands<D>, T: Differentiable, const RANK: usize>(
        &self,
        inputs: I,
        f: impl Fn(&I::OnTape) -> Result<Var<T, RANK, D>> + Send + 'static,
    ) -> Result<Var<T, RANK, D>> {
        let recording = self.shared.lock().recording();
        let inner = inputs.values(self)?;
        let result = {
            let tape = Tape::new(self.inner());
            let y = f(&I::watch(&inner, &tape, &[])?)?; // no variable, so nothing is recorded
            tape.value(&y)?
        };
        let views = inputs.views("checkpoint", self)?;
        let device = self.inner().clone();
        self.result("checkpoint", recording, result, views, move |b, views, gradient| {
            let tape = Tape::new(&device);
            let on_tape = I::watch(&inner, &tape, views)?;
            let y = f(&on_tape)?;
            if !tape.depends_on_variable(&y) {
                return Ok(());
            }
            let gradients = tape.vjp(&y, gradient)?;
            I::add_from(Add { b, views, operands: &on_tape }, &gradients)
        })
    }

    /// A tensor on the tape in the memory of `result`, whose gradient `run` takes. The step belongs to the
    /// recording in which it began.
    fn result<T: Differentiable, const RANK: usize, F>(
        &self,
        op: &'static str,
        recording: u64,
        result: Tensor<T, RANK, D>,
        views: Vec<Option<BlockView>>,
        run: F,
    ) -> Result<Var<T, RANK, D>>
    where
        F: FnOnce(&mut Backward, &[Option<BlockView>], &Tensor<T, RANK, D>) -> Result<()> + Send + 'static,
    {
        // Memory that nothing lies between: the gradient has the layout of the result.
        let result = if result.layout().is_contiguous() { result } else { result.to_contiguous()? };
        let (y, layout, size) = (self.constant(&result)?, *result.layout(), result.size());
        drop(result);
        if views.iter().all(Option::is_none) {
            return Ok(y);
        }
        let stride = y.stride();
        let slot =
            OperandRef { address: y.raw_ptr().cast_mut().cast(), stride: &stride.0, element: size_of::<T>() };
        let mut state = self.shared.lock();
        if state.paused > 0 {
            return Ok(y);
        }
        state.reserve_step(op)?;
        let Some(view) = state.view(&slot, T::DTYPE) else { return Ok(y) };
        let output = StepOutput::new(view.clone(), Before::Nothing);
        let (sizes, outputs) = (SmallVec::new(&size.0), Few::One([output]));
        let step = Box::new(Step { op, recording, sizes, outputs, ..Step::default() });
        let device = self.device.clone();
        let backward = move |b: &mut Backward, _: &Step| {
            let gradient = b.share_gradient(&view, layout, size, &device)?;
            run(b, &views, &gradient)
        };
        let ended = state.end(step, &[slot], Box::new(backward));
        drop(state);
        drop(ended); // after the lock is released
        Ok(y)
    }
}

impl Backward {
    /// The gradient of a whole block, as a tensor.
    fn share_gradient<T: Differentiable, const RANK: usize, D: Device>(
        &self,
        view: &BlockView,
        layout: crate::layout::Layout<RANK>,
        size: Dim<RANK>,
        device: &D,
    ) -> Result<Tensor<T, RANK, D>> {
        match self.memory_of(view.id) {
            // SAFETY: a gradient has as many bytes as its block, and its layout.
            Some(memory) => unsafe { tensor_in(memory, layout, device) },
            None => Tensor::zeros(size, device),
        }
    }
}
