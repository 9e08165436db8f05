//! Macros that define operators from their bodies: `elementwise!` for users, the others for built-in
//! operators.
// Imports: `dim`, `scalar`, `element`, `kernel`, `device`, `tensor`, `expr`, `ops`.

/// Defines elementwise operators from their bodies.
///
/// A body is Rust over [`Lane`](crate::Lane)s: `+ - * /` with numbers on either side, methods (`exp`, `max`,
/// `lt`, …), and `mask.select(yes, no)` in place of `if`. Arguments may be numbers too: `x.max(0.0)`. A
/// number that is not an operand or argument of a method is written `Lane::real(2.0)` or `Lane::int(2)`. The
/// name becomes a value for `x.map(name)`, `x.zip(name, &y)` and [`apply`](crate::expr::apply), on every
/// device, with [`derivative`](crate::ops::derivative).
///
/// * The class of elements is [`Float`](crate::Float) by default. Another class follows the operands:
///   `fn f(x, y) where Number { … }`.
/// * The result has the element type of the operands by default. Another one follows an arrow:
///   `fn f(x, y) -> bool { … }`. `T` is the element type of the operands. A tuple, `-> (T, bool)`, makes an
///   operator with several outputs for [`apply_many`](crate::expr::apply_many).
/// * Numbers known at run time are operands: `x.zip(scaled, 0.1)`.
/// * A derivative that is a function of the result can be stated after the body:
///   `{ x.exp() } slope of y { y }`. Only of one operand, and with a result of its element type. A tape then
///   keeps the result in place of the operand. With `unless rounded` at the end, it keeps the operand of
///   elements of 16 bits: their results are rounded, and the slope may depend on the digits that are lost.
/// * Backward passes alone use a stated slope. [`derivative`](crate::ops::derivative), forward mode and
///   programs in which another operator follows differentiate the body. You are responsible for the agreement
///   of the two; the [example](#a-stated-slope-and-its-test) has a test of it.
/// * A body can call functions over lanes, `fn f<L: Lanes, P: Real>(x: Lane<L, P>) -> Lane<L, P>`, and other
///   operators. Some operators are methods of lanes (`relu`, `square`, `softplus`), others are not (`mish`,
///   `softsign`) and are called as `<Sigmoid as Op<(T,)>>::call::<L>((x,))`, where `L` is the interpretation.
///
/// # Examples
/// ```
/// use rankform::prelude::*;
/// elementwise! {
///     /// Keeps what is positive, scales the rest.
///     pub fn leaky(x, slope) { x.gt(0.0).select(x, x * slope) }
///     /// Whether `x` is a multiple of `n`.
///     pub fn divides(x, n) -> bool where Integer { (x % n).eq(0) }
/// }
/// let x = Tensor::from([-2.0, 3.0]);
/// assert_eq!(x.zip(leaky, 0.1)?.to_vec()?, [-0.2, 3.0]);
/// assert_eq!(Tensor::from([4, 5]).zip(divides, 2)?.to_vec()?, [true, false]);
/// # Ok::<(), rankform::Error>(())
/// ```
/// Parts of a body as functions:
/// ```
/// use rankform::prelude::*;
/// use rankform::{kernel::Op, ops::Sigmoid, scalar::Real};
/// fn cubed<L: Lanes, P: Real>(x: Lane<L, P>) -> Lane<L, P> { x * x * x }
/// elementwise! {
///     fn gated(x, beta) { cubed(x) * <Sigmoid as Op<(T,)>>::call::<L>((x * beta,)) }
/// }
/// assert_eq!(Tensor::from([2.0]).zip(gated, 0.0)?.to_vec()?, [4.0]);
/// # Ok::<(), rankform::Error>(())
/// ```
/// ## A stated slope and its test
///
/// With the feature `autograd`, `autograd::gradient_error` compares the slope with
/// differences of the body's values. Choose operands on every branch of the body.
/// ```
/// use rankform::prelude::*;
/// elementwise! {
///     /// e^(−x).
///     fn decay(x) { (-x).exp() } slope of y { -y }
/// }
/// # #[cfg(feature = "autograd")]
/// fn the_slope_of_decay_is_that_of_its_body() -> Result<()> {
///     let x = Tensor::from([-1.0, 0.5, 3.0]);
///     assert!(rankform::autograd::gradient_error(&x, 1e-6, |x, _| x.map(decay)?.sum(All))? < 1e-8);
///     Ok(())
/// }
/// # #[cfg(feature = "autograd")]
/// # the_slope_of_decay_is_that_of_its_body()?;
/// # Ok::<(), rankform::Error>(())
/// ```
#[macro_export]
macro_rules! elementwise {
    (
        $(
            $(#[$meta:meta])* $(pub $(($($scope:tt)+))?)? fn $name:ident($($x:ident),+ $(,)?) $(-> $out:tt)?
            $(where $class:ident)? $body:block $(slope of $y:ident $slope:block $(unless $rounded:ident)?)?
        )*
    ) => { $(
        $crate::__operator!(
            @define [$(#[$meta])*] $(pub $(($($scope)+))?)? struct $name, ($($x),+), [$($out)?], [$($class)?],
            $body $(, $y $slope $($rounded)?)?
        );
    )* };
    // A visibility that another macro passes on, as `$vis`, is no `pub`. Such a table is read row by row.
    (
        $(#[$meta:meta])* $vis:vis fn $name:ident($($x:ident),+ $(,)?) $(-> $out:tt)? $(where $class:ident)?
        $body:block slope of $y:ident $slope:block $(unless $rounded:ident)? $($rest:tt)*
    ) => {
        $crate::__operator!(
            @define [$(#[$meta])*] $vis struct $name, ($($x),+), [$($out)?], [$($class)?], $body,
            $y $slope $($rounded)?
        );
        $crate::elementwise! { $($rest)* }
    };
    (
        $(#[$meta:meta])* $vis:vis fn $name:ident($($x:ident),+ $(,)?) $(-> $out:tt)? $(where $class:ident)?
        $body:block $($rest:tt)*
    ) => {
        $crate::__operator!(
            @define [$(#[$meta])*] $vis struct $name, ($($x),+), [$($out)?], [$($class)?], $body
        );
        $crate::elementwise! { $($rest)* }
    };
}

/// An operator's type and its body: the common part of `elementwise!` and of this crate's own tables. The class
/// of elements and the element of the result have defaults.
#[doc(hidden)]
#[macro_export]
macro_rules! __operator {
    (@define [$($attributes:tt)*] $vis:vis struct $F:ident, $($row:tt)*) => {
        $($attributes)*
        #[allow(non_camel_case_types)]
        #[derive(Clone, Copy, Debug)]
        $vis struct $F;
        $crate::__operator!(@op $F, stringify!($F), $($row)*);
    };
    (@op $F:ident, $name:expr, $x:tt, $out:tt, [], $($body:tt)+) => {
        $crate::__operator!(@op $F, $name, $x, $out, [Float], $($body)+);
    };
    (@op $F:ident, $name:expr, $x:tt, [], [$class:ident], $($body:tt)+) => {
        $crate::__op!($F, $name, $x, T, $class, $($body)+);
    };
    (@op $F:ident, $name:expr, $x:tt, [($($out:tt),+ $(,)?)], [$class:ident], $($body:tt)+) => {
        $crate::__op_many!($F, $name, $x, ($($out),+), $class, $($body)+);
    };
    (@op $F:ident, $name:expr, $x:tt, [$out:tt], [$class:ident], $($body:tt)+) => {
        $crate::__op!($F, $name, $x, $out, $class, $($body)+);
    };
    (@element $x:ident) => { T };
    (@lane $x:ident) => { $crate::scalar::Lane<L, $crate::element::Compute<T>> };
}

/// Implements `Op` for a body with one result.
#[doc(hidden)]
#[macro_export]
macro_rules! __op {
    (
        $F:ident, $name:expr, ($($x:ident),+), $out:tt, $class:ident,
        $body:block $(, $y:ident $slope:block $($rounded:ident)?)?
    ) => {
        impl<T: $crate::element::$class> $crate::kernel::Op<($($crate::__operator!(@element $x),)+)> for $F {
            const NAME: &'static str = $name;
            const CHEAP: bool = $crate::kernel::is_cheap(stringify!($body));
            const IS_SUM: bool = $crate::kernel::is_sum(stringify!($body), &[$(stringify!($x)),+]);
            type Out = $out;
            #[inline(always)]
            fn call<L: $crate::scalar::Lanes>(
                ($($x,)+): ($($crate::__operator!(@lane $x),)+)
            ) -> $crate::scalar::Lane<L, $crate::element::Compute<$out>> {
                #[allow(unused_imports)]
                use $crate::scalar::Lane;
                $body
            }
            $crate::__stated_slope!($F ($($x),+) [$out] $($y $slope $($rounded)?)?);
        }
    };
}

/// Implements `OpMany` for a body with several results.
#[doc(hidden)]
#[macro_export]
macro_rules! __op_many {
    (
        $F:ident, $name:expr, ($($x:ident),+), ($($out:tt),+), $class:ident,
        $body:block $(, $y:ident $slope:block $($rounded:ident)?)?
    ) => {
        $crate::__stated_slope!($F ($($x),+) [($($out),+)] $($y $slope $($rounded)?)?);
        impl<T: $crate::element::$class> $crate::kernel::OpMany<($($crate::__operator!(@element $x),)+)>
            for $F
        {
            const NAME: &'static str = $name;
            const CHEAP: bool = $crate::kernel::is_cheap(stringify!($body));
            type Out = ($($out,)+);
            #[inline(always)]
            fn call<L: $crate::scalar::Lanes>(
                ($($x,)+): ($($crate::__operator!(@lane $x),)+)
            ) -> <Self::Out as $crate::kernel::ElementTuple>::Lanes<L> {
                #[allow(unused_imports)]
                use $crate::scalar::Lane;
                $body
            }
        }
    };
}

/// The derivative of an operator by its result, as a part of its `impl`.
#[doc(hidden)]
#[macro_export]
macro_rules! __stated_slope {
    ($F:ident $x:tt $out:tt) => {};
    ($F:ident ($x:ident) [T] $y:ident $slope:block $($rounded:ident)?) => {
        const BY_RESULT: bool = $crate::__stated_slope!(@unless $($rounded)?);
        #[inline(always)]
        fn call_by_result<L: $crate::scalar::Lanes>(
            (x,): ($crate::scalar::Lane<$crate::scalar::Dual<L>, $crate::element::Compute<T>>,),
            $y: $crate::scalar::Lane<L, $crate::element::Compute<T>>,
        ) -> $crate::scalar::Lane<$crate::scalar::Dual<L>, $crate::element::Compute<T>> {
            #[allow(unused_imports)]
            use $crate::scalar::Lane;
            x.with_slope($y, $slope)
        }
    };
    ($F:ident $x:tt $out:tt $y:ident $($slope:tt)*) => {
        compile_error!(concat!(
            "`", stringify!($F), "` cannot have `slope of ", stringify!($y), "`: only an operator with one ",
            "operand, and with one result of the operand's element type, states its derivative; leave ",
            "`slope of ", stringify!($y), " { … }` out, and gradients differentiate the body by each operand"
        ));
    };
    (@unless) => { true };
    (@unless rounded) => { size_of::<T>() == size_of::<$crate::element::Compute<T>>() };
}

/// Tables of operators. Each row becomes a type with a body, a method of every receiver, and a row of the
/// registry.
macro_rules! operators {
    (
        $(#[$trait_meta:meta])* pub trait $trait:ident;
        $(
            $(#[$meta:meta])* fn $name:ident = $F:ident($($x:ident),+) $(-> $out:tt)? where $class:ident
            $body:block $(slope of $y:ident $slope:block $(unless $rounded:ident)?)?
        )*
    ) => {
        $(
            #[doc = concat!("The operator of [`", stringify!($trait), "::", stringify!($name), "`].")]
            #[derive(Clone, Copy, Debug)]
            pub struct $F;
            crate::__operator!(
                @op $F, stringify!($name), ($($x),+), [$($out)?], [$class], $body $(, $y $slope $($rounded)?)?
            );
        )*
        $(#[$trait_meta])*
        #[allow(clippy::wrong_self_convention)] // receivers are small and `Copy`: references and views
        pub trait $trait<T, const RANK: usize, D: crate::device::Device>:
            crate::expr::Elementwise<T, RANK, D>
        {
            $(crate::ops::define::operator_method!([$(#[$meta])*] $name $F ($($x),+) $class);)*
        }
        impl<X: crate::expr::Elementwise<T, RANK, D>, T, const RANK: usize, D: crate::device::Device>
            $trait<T, RANK, D> for X {}

        /// Passes every operator of this file to `visit`, with every element of its class.
        pub(in crate::ops) fn visit(visit: &mut impl crate::ops::registry::Visit) {
            $(crate::ops::define::operator_visits!(visit $F ($($x),+) $class);)*
        }
        /// The rows of the registry.
        pub(in crate::ops) const ROWS: &[crate::ops::registry::OperatorRow] = &[
            $(crate::ops::define::operator_row!($name $F ($($x),+) [$($out)?] $class)),*
        ];
    };
}

/// The method of an operator with one or two operands.
macro_rules! operator_method {
    ([$(#[$meta:meta])*] $name:ident $F:ident ($x:ident) $class:ident) => {
        $(#[$meta])*
        fn $name(self) -> Self::Mapped<$F> where T: crate::element::$class {
            self.map($F)
        }
    };
    ([$(#[$meta:meta])*] $name:ident $F:ident ($x:ident, $y:ident) $class:ident) => {
        $(#[$meta])*
        fn $name<OTHER>(self, other: OTHER) -> <Self as crate::expr::Zip<T, T, RANK, D, OTHER>>::Zipped<$F>
        where
            T: crate::element::$class,
            Self: crate::expr::Zip<T, T, RANK, D, OTHER>,
        {
            self.zip($F, other)
        }
    };
}

/// Visits an operator with every element of its class.
macro_rules! operator_visits {
    (@show $visit:ident $F:ident $x:tt $($t:ident)+) => {
        $(crate::ops::define::operator_visits!(@shown $visit $F $x $t);)+
    };
    (@shown $visit:ident $F:ident ($x:ident) $t:ident) => {
        $visit.unary::<$F, crate::ops::registry::names::$t>($F);
    };
    (@shown $visit:ident $F:ident ($x:ident, $y:ident) $t:ident) => {
        $visit.binary::<$F, crate::ops::registry::names::$t>($F);
    };
    ($visit:ident $F:ident $x:tt Float) => {
        crate::ops::define::operator_visits!(@show $visit $F $x f16 bf16 f32 f64);
    };
    ($visit:ident $F:ident $x:tt Integer) => {
        crate::ops::define::operator_visits!(@show $visit $F $x i8 i16 i32 i64 u8 u16 u32 u64);
    };
    ($visit:ident $F:ident $x:tt Bitwise) => {
        crate::ops::define::operator_visits!(@show $visit $F $x bool i8 i16 i32 i64 u8 u16 u32 u64);
    };
    ($visit:ident $F:ident $x:tt RealNumber) => {
        crate::ops::define::operator_visits!(
            @show $visit $F $x i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64
        );
    };
    ($visit:ident $F:ident $x:tt Comparable) => {
        crate::ops::define::operator_visits!(
            @show $visit $F $x bool i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64
        );
    };
    ($visit:ident $F:ident $x:tt Number) => {
        crate::ops::define::operator_visits!(
            @show $visit $F $x i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64 c32 c64
        );
    };
    ($visit:ident $F:ident $x:tt Element) => {
        crate::ops::define::operator_visits!(
            @show $visit $F $x bool i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64 c32 c64
        );
    };
}

/// The row of an operator in the registry; without functions unless it maps f32 and f64 to themselves.
macro_rules! operator_row {
    ($name:ident $F:ident $x:tt [] Integer) => {
        crate::ops::registry::OperatorRow::named(stringify!($name))
    };
    ($name:ident $F:ident $x:tt [] Bitwise) => {
        crate::ops::registry::OperatorRow::named(stringify!($name))
    };
    ($name:ident $F:ident $x:tt [] ComplexElement) => {
        crate::ops::registry::OperatorRow::named(stringify!($name))
    };
    ($name:ident $F:ident ($x:ident) [] $class:ident) => {
        crate::ops::registry::OperatorRow::unary::<$F>()
    };
    ($name:ident $F:ident ($x:ident, $y:ident) [] $class:ident) => {
        crate::ops::registry::OperatorRow::binary::<$F>()
    };
    ($name:ident $F:ident $x:tt [$out:tt] $class:ident) => {
        crate::ops::registry::OperatorRow::named(stringify!($name))
    };
}
pub(super) use {operator_method, operator_row, operator_visits, operators};

/// Operators along axes that keep the sizes, each defined as an expression of an expression and axes: methods
/// of lazy expressions, views and tensors. `by` names the rule of its backward pass; without one it is
/// differentiated step by step.
macro_rules! along_axes {
    ($($rows:tt)*) => {
        crate::ops::define::along_axes_of_lazy! { $($rows)* }
        crate::ops::define::along_axes_of_views! { $($rows)* }
        crate::ops::define::along_axes_of_tensors! { $($rows)* }
        crate::ops::define::along_axes_at_run_time! { $($rows)* }
        crate::ops::define::along_axes_of_rules! { $($rows)* }
    };
}

/// The methods of lazy expressions.
macro_rules! along_axes_of_lazy {
    ($(
        $(#[$doc:meta])*
        fn $name:ident, $of_axis:ident, $into:ident($($arg:ident: $type:ty)?)
            $(by $rule:ident)? = |$x:ident, $axes:ident| $body:block
    )*) => {
        impl<'a, T: Float, const RANK: usize, D: Device, E: Expr<RANK, D, Body: Body<Out = T>>>
            Lazy<'a, T, RANK, D, E>
        { $(
            #[doc = concat!(
                "As [`Tensor::", stringify!($name),
                "`], of an expression, in the same pass. Operators applied to the result are fused as well."
            )]
            pub fn $name<AXES: Copy>(
                self, axes: AXES $(, $arg: $type)?
            ) -> Lazy<'a, T, RANK, D, impl Expr<RANK, D, Body: Body<Out = T>>>
            where
                Dim<RANK>: HasAxes<AXES>,
            {
                let ($x, $axes) = (self.cached(), axes); // the body uses it several times
                $body
            }

            #[doc = concat!(
                "As [`", stringify!($name), "`](Lazy::", stringify!($name),
                "), along an axis known at run time."
            )]
            pub fn $of_axis(
                self, axis: usize $(, $arg: $type)?
            ) -> Lazy<'a, T, RANK, D, impl Expr<RANK, D, Body: Body<Out = T>>> {
                self.$name(AxisAt(axis) $(, $arg)?)
            }
        )* }
    };
}

/// The methods of views.
macro_rules! along_axes_of_views {
    ($(
        $(#[$doc:meta])*
        fn $name:ident, $of_axis:ident, $into:ident($($arg:ident: $type:ty)?)
            $(by $rule:ident)? = |$x:ident, $axes:ident| $body:block
    )*) => {
        impl<T: Float, const RANK: usize, D: Device> TensorView<'_, T, RANK, D> { $(
            #[doc = concat!("See [`Tensor::", stringify!($name), "`].")]
            ///
            /// # Errors
            /// As the method of [`Tensor`].
            pub fn $name<AXES: Copy>(
                self, axes: AXES $(, $arg: $type)?
            ) -> Result<Tensor<T, RANK, D>> where Dim<RANK>: HasAxes<AXES> {
                crate::ops::define::by_rule! {
                    [$($rule)?] [$($arg)?] D, stringify!($name), self, axes, crate::tensor::Allocate
                }
                let ($x, $axes) = (self.lazy(), axes);
                $body.eval().map_err(|error| error.with_op(stringify!($name)))
            }

            #[doc = concat!("See [`Tensor::", stringify!($into), "`].")]
            ///
            /// # Errors
            /// As the method of [`Tensor`].
            pub fn $into<'o, AXES: Copy>(
                self, axes: AXES $(, $arg: $type)?, out: impl IntoViewMut<'o, T, RANK, D>
            ) -> Result<()> where Dim<RANK>: HasAxes<AXES>, D: 'o {
                crate::ops::define::by_rule! {
                    [$($rule)?] [$($arg)?] D, stringify!($into), self, axes, Existing(out)
                }
                let ($x, $axes) = (self.lazy(), axes);
                $body.eval_at(stringify!($into), Existing(out))
            }
        )* }
    };
}

/// The methods of views and tensors along an axis known at run time.
macro_rules! along_axes_at_run_time {
    ($(
        $(#[$doc:meta])*
        fn $name:ident, $of_axis:ident, $into:ident($($arg:ident: $type:ty)?)
            $(by $rule:ident)? = |$x:ident, $axes:ident| $body:block
    )*) => {
        impl<T: Float, const RANK: usize, D: Device> TensorView<'_, T, RANK, D> { $(
            #[doc = concat!("See [`Tensor::", stringify!($of_axis), "`].")]
            ///
            /// # Errors
            /// As the method of [`Tensor`].
            pub fn $of_axis(self, axis: usize $(, $arg: $type)?) -> Result<Tensor<T, RANK, D>> {
                self.$name(AxisAt(axis) $(, $arg)?).map_err(|error| error.with_op(stringify!($of_axis)))
            }
        )* }

        impl<T: Float, const RANK: usize, D: Device> Tensor<T, RANK, D> { $(
            #[doc = concat!(
                "As [`", stringify!($name), "`](Tensor::", stringify!($name),
                "), along an axis known at run time."
            )]
            ///
            /// # Errors
            /// As the method with axes as a type; [`Error::Axis`](crate::Error::Axis) when the axis does not
            /// exist.
            pub fn $of_axis(&self, axis: usize $(, $arg: $type)?) -> Result<Self> {
                self.view().$of_axis(axis $(, $arg)?)
            }
        )* }
    };
}

/// Computes an operator along axes by its rule on a device that records, if it has one.
macro_rules! by_rule {
    ([] [$($arg:ident)?] $D:ident, $op:expr, $x:expr, $axes:expr, $destination:expr) => {};
    ([$rule:ident] [$($arg:ident)?] $D:ident, $op:expr, $x:expr, $axes:expr, $destination:expr) => {
        if const { $D::RECORDS } {
            let along = crate::ops::nn::rules::along_by_rule::<$rule, _, _, _, _, _>;
            return along($op, ($($arg,)?), $x, $axes, $destination);
        }
    };
}

/// The forward passes of rules.
macro_rules! along_axes_of_rules {
    ($(
        $(#[$doc:meta])*
        fn $name:ident, $of_axis:ident, $into:ident($($arg:ident: $type:ty)?)
            $(by $rule:ident)? = |$x:ident, $axes:ident| $body:block
    )*) => { $(
        crate::ops::define::forward_along! { [$($rule)?] [$($arg: $type)?] $name $into }
    )* };
}

/// The forward pass of a rule, if there is one.
macro_rules! forward_along {
    ([] [$($arg:ident: $type:ty)?] $name:ident $into:ident) => {};
    ([$rule:ident] [$($arg:ident: $type:ty)?] $name:ident $into:ident) => {
        impl<T: Float> crate::ops::nn::rules::ForwardAlong<T> for $rule {
            const NAME: &'static str = stringify!($name);
            type Arguments = ($($type,)?);
            fn forward<const RANK: usize, D: Device>(
                ($($arg,)?): Self::Arguments,
                axes: crate::dim::MarkedAxes<RANK>,
                x: TensorView<'_, T, RANK, D>,
                out: crate::tensor::TensorViewMut<'_, T, RANK, D>,
            ) -> Result<()> {
                x.$into(axes $(, $arg)?, out)
            }
        }
    };
}

/// The methods of tensors.
macro_rules! along_axes_of_tensors {
    ($(
        $(#[$doc:meta])*
        fn $name:ident, $of_axis:ident, $into:ident($($arg:ident: $type:ty)?)
            $(by $rule:ident)? = |$x:ident, $axes:ident| $body:block
    )*) => {
        crate::ops::methods::methods_of_tensors! { [[T: Float, const RANK: usize,] T, RANK -> T] $(
            $(#[$doc])*
            ///
            /// # Errors
            /// [`Error::Unallocated`](crate::Error::Unallocated),
            /// [`Error::OutOfMemory`](crate::Error::OutOfMemory); [`Error::Axis`](crate::Error::Axis) for
            /// [`Last`](crate::Last) of rank 0.
            fn $name, $into [AXES: Copy](axes: AXES $(, $arg: $type)?) -> RANK
            where [Dim<RANK>: HasAxes<AXES>] = |_op, $x, _place| $body;
        )* }
    };
}
pub(super) use {
    along_axes, along_axes_at_run_time, along_axes_of_lazy, along_axes_of_rules, along_axes_of_tensors,
    along_axes_of_views, by_rule, forward_along,
};

/// As `methods_with_into!`, of numbers.
macro_rules! of_numbers {
    ($($rows:tt)*) => {
        crate::ops::methods::methods_with_into! { [[T: Number, const RANK: usize,] T, RANK -> T] $($rows)* }
    };
}
pub(super) use of_numbers;
