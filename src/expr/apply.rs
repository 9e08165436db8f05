//! Operators on tuples of operands: more than two, or with several outputs.
// Imports: `error`, `layout`, `element`, `kernel`, `device`, `tensor`.

use super::leaf_list::{LeafList, row_axes};
use super::operand::{Expr, Leaves, Operand, RowAxes};
use crate::device::{Device, MAX_OPERANDS};
use crate::element::Element;
use crate::error::Result;
use crate::kernel::{Body, Call, ElementTuple, Input, Op, OpMany, Program, Store, StoreMany};
use crate::layout::Layout;
use crate::tensor::{Allocate, Destination, Existing, IntoViewMut, Leaf, Tensor, TensorView};
use std::marker::PhantomData;

/// A tuple of up to twelve operands of one rank and device.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a tuple of operands with elements `{IN}`, rank {RANK}, on `{D}`",
    label = "expected a tuple of tensors, views, lazy expressions and numbers: `(&x, &y, 0.5)`"
)]
pub trait OperandTuple<IN, const RANK: usize, D: Device>: Sized {
    /// The expressions, as a tuple.
    type Exprs: Copy;
    /// The bodies, as a tuple.
    type Bodies: Copy + Send + Sync + 'static;
    /// The operands as expressions.
    fn into_exprs(self) -> Self::Exprs;
    /// The bodies of the expressions.
    fn bodies(exprs: &Self::Exprs) -> Self::Bodies;
    #[doc(hidden)]
    #[allow(private_interfaces, private_bounds)]
    fn leaves<'s>(exprs: &'s Self::Exprs, visit: &mut impl Leaves<'s, RANK, D>);
    #[doc(hidden)]
    #[allow(private_interfaces, private_bounds)]
    fn rows(exprs: &Self::Exprs, rows: &mut RowAxes<RANK>);
}

/// A tuple of operands of one rank and device; the first is a tensor or view.
pub trait Operands<IN: ElementTuple, const RANK: usize, D: Device>: OperandTuple<IN, RANK, D> {
    #[doc(hidden)]
    fn device(exprs: &Self::Exprs) -> &D;
}

impl<IN: ElementTuple, O: OperandTuple<IN, RANK, D, Exprs: BeginsWithView<D>>, const RANK: usize, D: Device>
    Operands<IN, RANK, D> for O
{
    fn device(exprs: &Self::Exprs) -> &D {
        exprs.device()
    }
}

/// Expressions that begin with a view, which gives the device.
#[diagnostic::on_unimplemented(
    message = "the first operand is not a tensor or view on `{D}`",
    label = "expected a tuple that begins with a tensor or view: `(&x, &y, 0.5)`"
)]
pub trait BeginsWithView<D> {
    fn device(&self) -> &D;
}

macro_rules! operands {
    ($([$($t:ident $operand:ident $index:tt)*];)*) => { $(
        #[allow(clippy::unused_unit, unused_variables)] // the empty tuple
        impl<$($t: Element, $operand: Operand<$t, RANK, D>,)* const RANK: usize, D: Device>
            OperandTuple<($($t,)*), RANK, D> for ($($operand,)*)
        {
            type Exprs = ($($operand::Expr,)*);
            type Bodies = ($(<$operand::Expr as Expr<RANK, D>>::Body,)*);
            fn into_exprs(self) -> Self::Exprs {
                ($(self.$index.into_expr(),)*)
            }
            fn bodies(exprs: &Self::Exprs) -> Self::Bodies {
                ($(exprs.$index.body(),)*)
            }
            #[allow(private_interfaces, private_bounds)]
            fn leaves<'s>(exprs: &'s Self::Exprs, visit: &mut impl Leaves<'s, RANK, D>) {
                $(exprs.$index.leaves(visit);)*
            }
            #[allow(private_interfaces, private_bounds)]
            fn rows(exprs: &Self::Exprs, rows: &mut RowAxes<RANK>) {
                $(exprs.$index.rows(rows);)*
            }
        }
        operands! { @first [$($operand)*] }
    )* };
    (@first []) => {};
    (@first [$first:ident $($more:ident)*]) => {
        impl<T, $($more,)* const RANK: usize, D: Device> BeginsWithView<D>
            for (TensorView<'_, T, RANK, D>, $($more,)*)
        {
            fn device(&self) -> &D {
                self.0.device()
            }
        }
    };
}
operands! {
    [];
    [A PA 0];
    [A PA 0 B PB 1];
    [A PA 0 B PB 1 C PC 2];
    [A PA 0 B PB 1 C PC 2 E PE 3];
    [A PA 0 B PB 1 C PC 2 E PE 3 F PF 4];
    [A PA 0 B PB 1 C PC 2 E PE 3 F PF 4 G PG 5];
    [A PA 0 B PB 1 C PC 2 E PE 3 F PF 4 G PG 5 H PH 6];
    [A PA 0 B PB 1 C PC 2 E PE 3 F PF 4 G PG 5 H PH 6 I PI 7];
    [A PA 0 B PB 1 C PC 2 E PE 3 F PF 4 G PG 5 H PH 6 I PI 7 J PJ 8];
    [A PA 0 B PB 1 C PC 2 E PE 3 F PF 4 G PG 5 H PH 6 I PI 7 J PJ 8 K PK 9];
    [A PA 0 B PB 1 C PC 2 E PE 3 F PF 4 G PG 5 H PH 6 I PI 7 J PJ 8 K PK 9 M PM 10];
    [A PA 0 B PB 1 C PC 2 E PE 3 F PF 4 G PG 5 H PH 6 I PI 7 J PJ 8 K PK 9 M PM 10 N PN 11];
}

/// Applies an operator to a tuple of up to twelve operands, tensors and numbers: `apply(f, (&x, &y, 0.5))`.
///
/// # Shapes
/// Sizes of 1 broadcast to the joint size.
///
/// # Errors
/// As [`Lazy::eval`](super::Lazy::eval).
///
/// # Examples
/// ```
/// use rankform::prelude::*;
/// elementwise! {
///     /// Straight line from `a` to `b`.
///     fn mix(a, b, t) { a + (b - a) * t }
/// }
/// let (a, b) = (Tensor::from([0.0, 10.0]), Tensor::from([1.0, 20.0]));
/// assert_eq!(apply(mix, (&a, &b, 0.5))?.to_vec()?, [0.5, 15.0]);
/// # Ok::<(), rankform::Error>(())
/// ```
pub fn apply<F, IN, O, const RANK: usize, D>(operator: F, operands: O) -> Result<Tensor<F::Out, RANK, D>>
where
    F: Op<IN>,
    IN: ElementTuple,
    D: Device,
    O: Operands<IN, RANK, D>,
    Call<F, O::Bodies>: Body<Out = F::Out>,
{
    by_pointer!(apply_at::<F, IN, O, RANK, D, Allocate>, operator, operands, Allocate)
}

/// As [`apply`], into an existing tensor or exclusive view of the joint size:
/// `apply_into(f, (&x, &y, 0.5), &mut z)`. No allocation.
///
/// # Errors
/// As [`apply`]; [`Error::Output`](crate::Error::Output) when `out` has other sizes,
/// [`Error::Shared`](crate::Error::Shared) when it has other handles.
///
/// # Examples
/// ```
/// use rankform::prelude::*;
/// elementwise! {
///     fn mix(a, b, t) { a + (b - a) * t }
/// }
/// let mut y = Tensor::<f64, 1>::zeros([2], &Cpu)?;
/// apply_into(mix, (&Tensor::from([0.0, 10.0]), &Tensor::from([1.0, 20.0]), 0.5), &mut y)?;
/// assert_eq!(y.to_vec()?, [0.5, 15.0]);
/// # Ok::<(), rankform::Error>(())
/// ```
pub fn apply_into<'o, F, IN, O, const RANK: usize, D>(
    operator: F,
    operands: O,
    out: impl IntoViewMut<'o, F::Out, RANK, D>,
) -> Result<()>
where
    F: Op<IN>,
    IN: ElementTuple,
    D: Device + 'o,
    O: Operands<IN, RANK, D>,
    Call<F, O::Bodies>: Body<Out = F::Out>,
{
    by_pointer!(apply_at::<F, IN, O, RANK, D, _>, operator, operands, Existing(out))
}

fn apply_at<F, IN, O, const RANK: usize, D, P: Destination<F::Out, RANK, D>>(
    _: F,
    operands: O,
    destination: P,
) -> Result<P::Done>
where
    F: Op<IN>,
    IN: ElementTuple,
    D: Device,
    O: Operands<IN, RANK, D>,
    Call<F, O::Bodies>: Body<Out = F::Out>,
{
    let exprs = operands.into_exprs();
    let device = O::device(&exprs);
    let mut list = LeafList::<RANK, D, MAX_OPERANDS>::new(F::NAME, device, 1);
    O::leaves(&exprs, &mut list);
    let size = list.size()?;
    let rows = row_axes(Call::<F, O::Bodies>::BY_ROWS, F::NAME, size, |rows| O::rows(&exprs, rows))?;
    destination.put(F::NAME, list.output_layout(size), device, |out| {
        // SAFETY: a tuple visits its leaves in the order of its bodies' loads; an exclusive view overlaps
        // neither itself nor an operand.
        unsafe { list.map(&Store(Call::<F, _>::new(O::bodies(&exprs))), size, rows, &[out.leaf()]) }
    })
}

/// Applies an operator with several outputs to a tuple of up to twelve operands, tensors and numbers, in one
/// pass.
///
/// # Errors
/// As [`Lazy::eval`](super::Lazy::eval).
///
/// # Examples
/// ```
/// use rankform::prelude::*;
/// elementwise! {
///     fn polar(x, y) -> (T, T) { ((x * x + y * y).sqrt(), y.atan2(x)) }
/// }
/// let (x, y) = (Tensor::from([3.0, 0.0]), Tensor::from([4.0, 1.0]));
/// let (radius, angle) = apply_many(polar, (&x, &y))?;
/// assert_eq!((radius.to_vec()?, angle.to_vec()?[1]), (vec![5.0, 1.0], std::f64::consts::FRAC_PI_2));
/// # Ok::<(), rankform::Error>(())
/// ```
pub fn apply_many<F, IN, O, const RANK: usize, D>(
    operator: F,
    operands: O,
) -> Result<<F::Out as Outputs>::Tensors<RANK, D>>
where
    F: OpMany<IN>,
    IN: ElementTuple,
    D: Device,
    O: Operands<IN, RANK, D>,
    F::Out: Outputs,
    StoreMany<F, O::Bodies>: Program,
{
    apply_many_at(operator, operands, |layout, device, run| {
        <F::Out as Outputs>::make(F::NAME, layout, device, run)
    })
}

/// As [`apply_many`], into a tuple of existing tensors or exclusive views of the joint size. No allocation.
///
/// # Errors
/// As [`apply_many`]; [`Error::Output`](crate::Error::Output) when an output has other sizes,
/// [`Error::Shared`](crate::Error::Shared) when it has other handles. Nothing is written then.
///
/// # Examples
/// ```
/// use rankform::prelude::*;
/// elementwise! {
///     fn both(x, y) -> (T, T) { (x + y, x - y) }
/// }
/// let (x, y) = (Tensor::from([3.0, 0.0]), Tensor::from([4.0, 1.0]));
/// let (mut sums, mut differences) = (x.copy()?, x.copy()?);
/// apply_many_into(both, (&x, &y), (&mut sums, &mut differences))?;
/// assert_eq!((sums.to_vec()?, differences.to_vec()?), (vec![7.0, 1.0], vec![-1.0, -1.0]));
/// # Ok::<(), rankform::Error>(())
/// ```
pub fn apply_many_into<F, IN, O, W, const RANK: usize, D>(operator: F, operands: O, outputs: W) -> Result<()>
where
    F: OpMany<IN>,
    IN: ElementTuple,
    D: Device,
    O: Operands<IN, RANK, D>,
    W: IntoViewsMut<F::Out, RANK, D>,
    StoreMany<F, O::Bodies>: Program,
{
    apply_many_at(operator, operands, |layout, device, run| outputs.write(F::NAME, layout, device, run))
}

/// A closure that writes the outputs of a program to the given leaves.
pub(super) type WriteOutputs<'w, const RANK: usize, D> =
    &'w mut dyn FnMut(&[Leaf<'_, RANK, D>]) -> Result<()>;

fn apply_many_at<F, IN, O, R, const RANK: usize, D>(
    _: F,
    operands: O,
    place: impl FnOnce(Layout<RANK>, &D, WriteOutputs<'_, RANK, D>) -> Result<R>,
) -> Result<R>
where
    F: OpMany<IN>,
    IN: ElementTuple,
    D: Device,
    O: Operands<IN, RANK, D>,
    StoreMany<F, O::Bodies>: Program,
{
    let exprs = operands.into_exprs();
    let device = O::device(&exprs);
    let mut list = LeafList::<RANK, D, MAX_OPERANDS>::new(F::NAME, device, F::Out::COUNT);
    O::leaves(&exprs, &mut list);
    let size = list.size()?;
    let rows = row_axes(StoreMany::<F, O::Bodies>::BY_ROWS, F::NAME, size, |rows| O::rows(&exprs, rows))?;
    place(list.output_layout(size), device, &mut |outputs| {
        // SAFETY: as in `apply_at`; the outputs are exclusive views of the program's elements, in order.
        unsafe { list.map(&StoreMany::<F, _>::new(O::bodies(&exprs)), size, rows, outputs) }
    })
}

/// Tuples of the element types of an operator's outputs.
pub trait Outputs: ElementTuple {
    /// One tensor for each output.
    type Tensors<const RANK: usize, D: Device>;
    /// The bodies that load the operands that are updated.
    #[doc(hidden)]
    type Loads: Copy + Send + Sync + 'static;
    #[doc(hidden)]
    const LOADS: Self::Loads;
    #[doc(hidden)]
    #[allow(private_interfaces, private_bounds)]
    fn make<const RANK: usize, D: Device>(
        op: &'static str,
        layout: Layout<RANK>,
        device: &D,
        run: WriteOutputs<'_, RANK, D>,
    ) -> Result<Self::Tensors<RANK, D>>;
}

/// A tuple of writable tensors, one for each output of an operator.
#[diagnostic::on_unimplemented(
    message = "`{Self}` are not the outputs of an operator that gives `{OUT}`, rank {RANK}, on `{D}`",
    label = "expected a tuple of tensors to write: `(&mut x, &mut y)`"
)]
pub trait IntoViewsMut<OUT: ElementTuple, const RANK: usize, D: Device> {
    #[doc(hidden)]
    #[allow(private_interfaces, private_bounds)]
    fn write(
        self,
        op: &'static str,
        layout: Layout<RANK>,
        device: &D,
        run: WriteOutputs<'_, RANK, D>,
    ) -> Result<()>;
    /// Updates the tensors in place.
    #[doc(hidden)]
    #[allow(private_interfaces, private_bounds)]
    fn update(self, op: &'static str, run: WriteOutputs<'_, RANK, D>) -> Result<()>;
}

/// Tuples of outputs: new tensors of them, and existing ones.
macro_rules! outputs {
    ($($($element:ident $place:ident $tensor:ident $index:tt)+;)*) => { $(
        impl<$($element: Element),+> Outputs for ($($element,)+) {
            type Tensors<const RANK: usize, DEVICE: Device> = ($(Tensor<$element, RANK, DEVICE>,)+);
            type Loads = ($(Input<$element>,)+);
            const LOADS: Self::Loads = ($(Input::<$element>(PhantomData),)+);
            #[allow(private_interfaces, private_bounds)]
            fn make<const RANK: usize, DEVICE: Device>(
                op: &'static str,
                layout: Layout<RANK>,
                device: &DEVICE,
                run: WriteOutputs<'_, RANK, DEVICE>,
            ) -> Result<Self::Tensors<RANK, DEVICE>> {
                $(let mut $tensor = Tensor::<$element, RANK, DEVICE>::uninit(op, layout, device)?;)+
                run(&[$($tensor.try_view_mut(op)?.leaf()),+])?;
                Ok(($($tensor,)+))
            }
        }
        into_views_mut! { $($element $place $tensor $index)+ }
    )* };
}

/// A tuple of existing outputs.
macro_rules! into_views_mut {
    ($($element:ident $place:ident $tensor:ident $index:tt)+) => {
        impl<
            'a,
            $($element: Element, $place: IntoViewMut<'a, $element, RANK, DEVICE>,)+
            const RANK: usize,
            DEVICE: Device + 'a,
        >
            IntoViewsMut<($($element,)+), RANK, DEVICE> for ($($place,)+)
        {
            #[allow(private_interfaces, private_bounds)]
            fn write(
                self,
                op: &'static str,
                layout: Layout<RANK>,
                device: &DEVICE,
                run: WriteOutputs<'_, RANK, DEVICE>,
            ) -> Result<()> {
                $(let mut $tensor = Existing(self.$index).open(op, layout, device)?;)+
                run(&[$($tensor.leaf()),+])
            }
            #[allow(private_interfaces, private_bounds)]
            fn update(self, op: &'static str, run: WriteOutputs<'_, RANK, DEVICE>) -> Result<()> {
                $(let mut $tensor = self.$index.into_view_mut(op)?;)+
                run(&[$($tensor.leaf()),+])
            }
        }
    };
}
outputs! {
    A PA a 0;
    A PA a 0 B PB b 1;
    A PA a 0 B PB b 1 C PC c 2;
    A PA a 0 B PB b 1 C PC c 2 D PD d 3;
    A PA a 0 B PB b 1 C PC c 2 D PD d 3 E PE e 4;
    A PA a 0 B PB b 1 C PC c 2 D PD d 3 E PE e 4 F PF f 5;
}
