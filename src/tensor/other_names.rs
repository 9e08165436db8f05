//! Names of other libraries for functions that have another name here. A call does not compile, and the
//! message names the right function.
//!
//! Each method takes `&mut self`, which method resolution tries last: a method of the same name that takes
//! `self` or `&self`, from any trait in scope (also a user's), is found first. A method that takes
//! `&mut self`, or a function without `self`, has the same priority: the compiler then reports an ambiguity,
//! which `Trait::name(&mut x)` resolves. The result of each method is the output of a trait that nothing
//! implements; the only message is that trait's.
// Imports: `error`, `device`.

use super::{Tensor, TensorView, TensorViewMut};
use crate::device::Device;
use crate::error::{Error, Result};

/// One message for each row, and the methods that give it.
macro_rules! names {
    ($(#[$doc:meta])* $names:ident {
        $($text:ident: $message:literal, $label:literal;
          $($name:ident($($x:ident)*))*;)*
    }) => {
        $(
            #[diagnostic::on_unimplemented(message = $message, label = $label)]
            pub trait $text {
                type Out: Default;
            }
        )*
        $(#[$doc])*
        pub trait $names: Sized {
            $(
                $(
                    #[allow(non_camel_case_types)]
                    #[doc(hidden)] // hidden from the completion of editors
                    fn $name<$($x),*>(&mut self, $(_: $x),*) -> <Self as $text>::Out where Self: $text {
                        Default::default()
                    }
                )*
            )*
        }
    };
}

names! { /// Names of other libraries. None of these methods can be called.
OtherNames {
    CalledSize: "the sizes of a tensor are called `size` here",
        "`x.size()` is a `Dim`, which holds an array: `x.size()[0]`";
        shape() dims();
    CalledNumel: "the number of elements is called `numel` here",
        "`x.numel()`; the size of an axis is `x.size()[0]`";
        len() nelement() elem_count();
    CalledRank: "the number of axes is part of the type here",
        "it is `RANK` in `Tensor<T, RANK, D>`; as a number, `x.size().0.len()`";
        ndim() rank() dim();
    CalledDtype: "the element is part of the type here",
        "it is `T` in `Tensor<T, RANK, D>`; as a value, `T::DTYPE` with `T: Element`";
        dtype();
    CalledTransposed: "a transposed view is called `transposed` here",
        "`x.transposed()`; other orders are `x.permuted([0, 2, 1])?`";
        t() transpose(first second) swap_axes(first second) swapaxes(first second);
    CalledPermuted: "a view with its axes in another order is called `permuted` here",
        "`x.permuted([1, 0])?`";
        permute(order) permuted_axes(order);
    CalledMatmul: "a product of matrices or vectors is called `matmul` here",
        "`x.matmul(&y)?`; of two vectors it has rank 0: `.item()?`";
        dot(other) mm(other) bmm(other) mv(other);
    CalledReshape: "other sizes are called `reshape` here",
        "`x.reshape([x.numel()])?` is a view of rank 1, `x.to_vec()?` a `Vec`";
        flatten() ravel() flatten_all();
    CalledToContiguous: "a row-major copy is called `to_contiguous` here",
        "`x.to_contiguous()?`, which copies even what is contiguous";
        contiguous();
    CalledBroadcastTo: "a view that repeats axes of size 1 is called `broadcast_to` here",
        "`x.broadcast_to([2, 3])?`";
        expand(size) broadcast(size) broadcast_as(size);
    CalledReversed: "an axis that is read backwards is called `reversed` here", "`x.reversed(Axis::<0>)`";
        flip(axis) fliplr() flipud() invert_axis(axis);
    CalledInsertAxis: "a new axis of size 1 is called `insert_axis` here", "`x.insert_axis(Axis::<0>)`";
        unsqueeze(axis) expand_dims(axis);
    CalledRemoveAxis: "a view without an axis of size 1 is made by `remove_axis` here",
        "`x.remove_axis(Axis::<0>)?`";
        squeeze(axis);
    CalledSliceOfViewMut: "a part that can be written is a slice of a view for writing",
        "`x.view_mut()?.slice((0, ..))?`";
        slice_mut(part) row_mut(index);
    CalledSlice: "a part of a tensor is called `slice` here",
        "`x.slice((0, ..))?` is a row, `x.slice((.., 1..3))?` some columns";
        row(index) column(index) index_axis(axis index) narrow(axis start length);
    CalledAxisIter: "the parts along an axis are called `axis_iter` here",
        "`x.axis_iter(Axis::<0>)` goes over the rows of a matrix";
        rows() outer_iter();
    CalledIterOfHost: "elements are read one by one from a tensor on the CPU only",
        "`.eval()?` of an expression, `.to(&Cpu)?` from another device";
        iter();
    CalledToVec: "elements on the host are called `to_vec` here",
        "`x.to_vec()?` is a `Vec` in row-major order; `x.axis_iter(Axis::<0>)` goes by rows";
        tolist() to_vec1() to_vec2() to_array();
    CalledClamp: "limits of elements are called `clamp` here", "`x.clamp(low, high)?`";
        clip(low high);
    CalledSelect: "a choice by a mask is called `select` here, and the mask comes first",
        "`x.greater(0.0)?.select(&x, 0.0)?`; a part is `x.slice((0, ..))?`";
        where_(yes no) where_cond(yes no) select(yes no);
    CalledConcat: "joining tensors along an axis is called `concat` here",
        "`Tensor::concat([x.view(), y.view()], Axis::<0>)?`";;
    CalledIndexScatter: "adding at indices is called `index_scatter` here",
        "`x.index_scatter(ops::Add, Axis::<0>, &index, &values)?`";
        index_add(axis index values);
    CalledScatter: "adding at indices is called `scatter` here",
        "`x.scatter(ops::Add, Axis::<0>, &index, &values)?`";
        scatter_add(axis index values);
    CalledLoss: "losses are elementwise here; their mean is a reduction",
        "`x.mse_loss(&y)?.mean(All)?`; over classes, `x.cross_entropy_mean(…)`";
        mse_loss_mean(target) l1_loss_mean(target) huber_loss_mean(target);
    CalledLn: "the natural logarithm is called `ln` here", "`x.ln()?`; others are `log2`, `log10`, `ln_1p`";
        log() log1p();
    CalledExpM1: "e^x − 1 is called `exp_m1` here", "`x.exp_m1()?`";
        expm1();
    CalledPowf: "powers are called `powf` for floats and `pow` for integers here",
        "`x.powf(3.0)?`, `n.pow(3)?`; a square is `x.square()?`";
        powi(exponent);
    CalledLess: "a comparison of elements has a whole word for its name here",
        "`less`, `less_equal`, `greater`, `greater_equal`: `x.less(&y)?` is a tensor of booleans";
        lt(other) le(other) gt(other) ge(other);
    CalledMap: "a function of one element is made by `elementwise!`, and applied by `map` here",
        "`x.map(f)?`, in place `x.map_in_place(f)?`; from another element, `x.cast::<f32>()?`";
        mapv(function) mapv_into(function) mapv_inplace(function) map_inplace(function);
    CalledCast: "other elements are called `cast` here", "`x.cast::<f32>()?`";
        astype(dtype) to_dtype(dtype) as_type(dtype);
    CalledTo: "another device is called `to` here", "`x.to(&device)?`, to the host `x.to(&Cpu)?`";
        cpu() cuda() to_device(device);
    CalledRandomNormal: "normal random numbers are called `random_normal` here",
        "`Tensor::random_normal([2, 3], mean, deviation, seed, &Cpu)?`";;
    CalledRandomUniform: "uniform random numbers are called `random_uniform` here",
        "`Tensor::random_uniform([2, 3], 0.0..1.0, seed, &Cpu)?`";;
    CalledRandomIntegers: "random whole numbers are called `random_integers` here",
        "`Tensor::<i64, 2>::random_integers([2, 3], 0..10, seed, &Cpu)?`";;
    CalledRandomBernoulli: "random booleans are called `random_bernoulli` here",
        "`Tensor::random_bernoulli([2, 3], 0.5, seed, &Cpu)?`";;
    CalledRandomPermutation: "random orders are called `random_permutation` here",
        "`Tensor::random_permutation(n, seed, &Cpu)?`; of a tensor's rows, `shuffle`";;
    CalledRepeatEach: "elements repeated one by one are called `repeat_each` here",
        "`x.repeat_each(Axis::<0>, &counts)?`; all as often, `x.repeat(Axis::<0>, 2)?`";
        repeat_interleave(counts axis);
    CalledSplitEqual: "equal parts are called `split_equal` here",
        "`let [a, b] = x.split_equal(Axis::<0>)?`; of a length, `x.chunks(Axis::<0>, 2)?`";
        chunk(n axis);
    CalledGradient: "a tensor keeps no gradient here",
        "with the feature `autograd`, `value_and_grad(&w, |w, tape| …)?` returns the loss and its gradients; \
            see `rankform::autograd`";
        backward() grad() requires_grad() requires_grad_();
    InLinalg: "inverses, determinants and solvers are functions here",
        "with the feature `linalg`, `rankform::linalg::inv(&x)?`, `solve(&a, &b)?`, `svd(&x, factors)?`";
        inv() inverse() try_inverse() det() determinant() solve(other) cholesky() lu() qr() svd() eig()
        eigh();
}}

names! { /// Methods of tensors that expressions lack; without these the compiler proposes a similar name.
NamesOfTensors {
    NoViewOfAnExpression: "an expression is computed element by element and has no views",
        "take the view first: `x.transposed().lazy()`; of a result, `.eval()?` first";
        slice(part) transposed() permuted(order) reshape(size) broadcast_to(size) reversed(axis);
    NoNewAxisOfAnExpression: "an expression is computed element by element and gets no axes",
        "take the view first: `x.insert_axis(Axis::<1>).lazy()`; of a result, `.eval()?` first";
        insert_axis(axis);
    NothingComputedYet: "an expression has computed nothing yet", "`.eval()?` gives a tensor";
        to_vec() item() size() numel() matmul(other) copy();
}}

names! { /// Methods for reading that views for writing lack.
NamesOfReading {
    ReadByAsView: "a view for writing is read by `as_view`", "`.as_view().sum(All)?`, `.as_view().lazy()`";
        lazy() sum(axes) mean(axes) max(axes) min(axes) to_vec() item() copy() matmul(other)
        broadcast_to(size);
}}

/// Functions that have other names here. None of them can be called.
pub trait OtherFunctions: Sized {
    fn randn<SIZE, DEVICE>(_: SIZE, _: DEVICE) -> Result<Self>
    where
        Self: CalledRandomNormal,
    {
        not_here("randn")
    }
    fn rand<SIZE, DEVICE>(_: SIZE, _: DEVICE) -> Result<Self>
    where
        Self: CalledRandomUniform,
    {
        not_here("rand")
    }
    fn randint<LOW, HIGH, SIZE>(_: LOW, _: HIGH, _: SIZE) -> Result<Self>
    where
        Self: CalledRandomIntegers,
    {
        not_here("randint")
    }
    fn bernoulli<P, SIZE>(_: P, _: SIZE) -> Result<Self>
    where
        Self: CalledRandomBernoulli,
    {
        not_here("bernoulli")
    }
    fn randperm<N>(_: N) -> Result<Self>
    where
        Self: CalledRandomPermutation,
    {
        not_here("randperm")
    }
    fn cat<PARTS, AXIS>(_: PARTS, _: AXIS) -> Result<Self>
    where
        Self: CalledConcat,
    {
        not_here("cat")
    }
    fn concatenate<PARTS, AXIS>(_: PARTS, _: AXIS) -> Result<Self>
    where
        Self: CalledConcat,
    {
        not_here("concatenate")
    }
}

/// The body of the methods above, which can never run.
fn not_here<X>(op: &'static str) -> Result<X> {
    Err(Error::Value { op, what: String::new() })
}

impl<T, const RANK: usize, D: Device> OtherFunctions for Tensor<T, RANK, D> {}
impl<T, const RANK: usize, D: Device> OtherNames for Tensor<T, RANK, D> {}
impl<T, const RANK: usize, D: Device> OtherNames for TensorView<'_, T, RANK, D> {}
impl<T, const RANK: usize, D: Device> OtherNames for TensorViewMut<'_, T, RANK, D> {}
impl<T, const RANK: usize, D: Device> NamesOfReading for TensorViewMut<'_, T, RANK, D> {}
