//! Macros that define reducers from their functions, and the methods of reductions.
// Imports: `dtype`, `scalar`, `element`, `kernel`, `device`.

/// Reducers, one block each: name, class of elements, result, state, and the functions of [`reducer!`].
macro_rules! reducers {
    ($(
        $(#[$doc:meta])*
        $R:ident: $name:literal $(needs $needs:ident)?, <$T:ident: $class:ident, $L:ident> -> $out:ty,
            state $state:ty { $($functions:tt)* }
    )*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default)]
        pub struct $R;
        impl<$T: $class> crate::kernel::Reducer<$T> for $R {
            const NEEDS_ELEMENTS: bool = crate::ops::reduction::define::reducers!(@needs $($needs)?);
            crate::ops::reduction::define::reducer! {
                $name, <$T, $L> -> $out, state $state;
                $($functions)*
            }
        }
    )* };
    (@needs) => { false }; (@needs elements) => { true };
}

/// The functions of one reducer, in its `impl`: name, elements, result and state; then each function. The
/// form over slices is optional, with its function in `slice_kernels`.
macro_rules! reducer {
    (
        $name:expr, <$T:ty, $L:ident> -> $out:ty, state $state:ty;
        identity $identity:expr;
        accumulate |$s:ident, $x:ident, $at:ident| $accumulate:expr;
        combine |$a:ident, $b:ident| $combine:expr;
        $(accumulate_slice |$values:ident, $from:ident| $accumulate_slice:expr, $slices:ident;)?
        finalize |$f:ident, $count:ident| $finalize:expr;
        slope $($slope:tt)*
    ) => {
        const NAME: &'static str = $name;
        const CHEAP: bool = crate::kernel::is_cheap(stringify!($accumulate));
        type Out = $out;
        type State<$L: Lanes> = $state;
        #[inline(always)]
        fn identity<$L: Lanes>() -> $state { $identity }
        #[inline(always)]
        fn accumulate<$L: Lanes>($s: $state, $x: Lane<$L, Compute<$T>>, $at: Lane<$L, i64>) -> $state {
            $accumulate
        }
        #[inline(always)]
        fn combine<$L: Lanes>($a: $state, $b: $state) -> $state { $combine }
        #[inline(always)]
        fn finalize<$L: Lanes>($f: $state, $count: Lane<$L, i64>) -> Lane<$L, Compute<$out>> { $finalize }
        $(crate::ops::reduction::define::by_slice! { <$T> |$values, $from| $accumulate_slice, $slices })?
        crate::ops::reduction::slopes::slope! { <$T> $($slope)* }
    };
}

/// The form of a reducer over slices, in its `impl`. Slices are of real numbers: complex ones are accumulated
/// one by one.
macro_rules! by_slice {
    (<$T:ty> |$values:ident, $from:ident| $accumulate_slice:expr, $slices:ident) => {
        const BY_SLICE: bool =
            !matches!(<$T as crate::element::Element>::DTYPE.kind(), crate::dtype::Kind::Complex);
        #[inline(always)]
        fn accumulate_slice($values: &[Compute<$T>], $from: usize) -> Self::State<crate::scalar::Eval> {
            $accumulate_slice
        }
        #[cfg(debug_assertions)]
        fn slice() -> Option<crate::kernel::SliceFn> {
            crate::ops::reduction::slice_kernels::$slices(<Compute<$T> as crate::scalar::Prim>::DTYPE)
        }
        #[cfg(all(not(debug_assertions), feature = "dynamic"))]
        fn slice() -> Option<crate::kernel::SliceFn> {
            match const { <Self as crate::kernel::Reducer<$T>>::BY_SLICE } {
                true => Some(crate::device::slice_of::<$T, Self>),
                false => None,
            }
        }
    };
}

/// A reduction over axes, and one that writes into existing memory: methods of a trait over `Reduce`.
macro_rules! reduce_methods {
    ($Trait:ident $(#[$doc:meta])* fn $name:ident, $name_into:ident = $R:ident where [$($bound:tt)*]) => {
        $(#[$doc])*
        fn $name<AXES, const M: usize>(self, axes: AXES) -> Result<Tensor<<$R as Reducer<T>>::Out, M, D>>
        where
            $($bound)*
            Dim<RANK>: RemoveAxes<AXES, Output = Dim<M>>,
        {
            self.reduce($R, axes)
        }
        #[doc = concat!(
            "As [`", stringify!($name), "`](", stringify!($Trait), "::", stringify!($name),
            "), into an existing tensor or exclusive view of the kept sizes; see \
             [`reduce_into`](Reduce::reduce_into)."
        )]
        fn $name_into<'o, AXES, const M: usize>(
            self, axes: AXES, out: impl IntoViewMut<'o, <$R as Reducer<T>>::Out, M, D>
        ) -> Result<()>
        where
            $($bound)*
            Dim<RANK>: RemoveAxes<AXES, Output = Dim<M>>,
            D: 'o,
        {
            self.reduce_into($R, axes, out).map_err(|error| error.with_op(stringify!($name_into)))
        }
    };
}

/// Further methods of `Reductions`: over an axis known at run time, and broadcast back along the reduced
/// axes.
macro_rules! axis_and_along_methods {
    (
        fn $name:ident, $name_axis:ident, $name_along:ident, $name_along_axis:ident = $R:ident
        where [$($bound:tt)*]
    ) => {
        #[doc = concat!(
            "As [`", stringify!($name), "`](Reductions::", stringify!($name),
            "), over an axis known at run time."
        )]
        fn $name_axis<const M: usize>(self, axis: usize) -> Result<Tensor<<$R as Reducer<T>>::Out, M, D>>
        where $($bound)* Dim<RANK>: RankMinusOne<Output = Dim<M>> {
            self.reduce_axis($R, axis)
        }
        #[doc = concat!(
            "As [`", stringify!($name), "`](Reductions::", stringify!($name),
            "), broadcast back along the reduced axes: an expression with the sizes of the operand."
        )]
        fn $name_along<AXES>(self, axes: AXES) -> Self::Broadcast<$R>
        where $($bound)* Dim<RANK>: HasAxes<AXES> {
            self.along($R, axes)
        }
        #[doc = concat!(
            "As [`", stringify!($name_along), "`](Reductions::", stringify!($name_along),
            "), over an axis known at run time; see [`along_axis`](Reduce::along_axis)."
        )]
        fn $name_along_axis(self, axis: usize) -> Self::Broadcast<$R>
        where $($bound)* {
            self.along_axis($R, axis)
        }
    };
}
pub(in crate::ops) use {axis_and_along_methods, by_slice, reduce_methods, reducer, reducers};
