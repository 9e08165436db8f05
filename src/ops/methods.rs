//! Methods of tensors and views in pairs: one allocates its result, one writes into existing memory.
// Imports: nothing.

/// Methods of tensors and views, each with one that writes into an existing tensor or exclusive view: one
/// call with an operator's name, a view and a destination. The header has the generics of the receiver, its
/// element and rank, and the element of the results; a row has the rank of its result.
macro_rules! methods_with_into {
    ($header:tt $($rows:tt)*) => {
        crate::ops::methods::methods_of_tensors! { $header $($rows)* }
        crate::ops::methods::methods_of_views! { $header $($rows)* }
    };
}

/// The methods of tensors, which forward to those of views.
macro_rules! methods_of_tensors {
    ([[$($generic:tt)*] $t:ty, $of:tt -> $out:ty] $(
        $(#[$doc:meta])*
        fn $name:ident, $(#[$into_doc:meta])* $into:ident [$($generics:tt)*]
            ($($arg:ident: $type:ty),*) -> $rank:tt
        where [$($bound:tt)*] = |$op:ident, $x:ident, $place:ident| $body:expr;
    )*) => {
        impl<$($generic)* D: Device> Tensor<$t, $of, D> { $(
            $(#[$doc])*
            pub fn $name<$($generics)*>(
                &self, $($arg: $type),*
            ) -> Result<Tensor<$out, $rank, D>> where $($bound)* {
                self.view().$name($($arg),*)
            }

            #[doc = concat!(
                "As [`", stringify!($name), "`](Tensor::", stringify!($name),
                "), into an existing tensor or exclusive view. No allocation of a result."
            )]
            ///
            /// # Errors
            /// As the method that allocates; [`Error::Output`](crate::Error::Output) when `out` has other
            /// sizes, [`Error::Shared`](crate::Error::Shared) when it has other handles.
            $(#[$into_doc])*
            pub fn $into<'o, $($generics)*>(
                &self, $($arg: $type,)* out: impl IntoViewMut<'o, $out, $rank, D>
            ) -> Result<()> where D: 'o, $($bound)* {
                self.view().$into($($arg,)* out)
            }
        )* }
    };
}

/// The methods of views.
macro_rules! methods_of_views {
    ([[$($generic:tt)*] $t:ty, $of:tt -> $out:ty] $(
        $(#[$doc:meta])*
        fn $name:ident, $(#[$into_doc:meta])* $into:ident [$($generics:tt)*]
            ($($arg:ident: $type:ty),*) -> $rank:tt
        where [$($bound:tt)*] = |$op:ident, $x:ident, $place:ident| $body:expr;
    )*) => {
        impl<$($generic)* D: Device> TensorView<'_, $t, $of, D> { $(
            #[doc = concat!("See [`Tensor::", stringify!($name), "`].")]
            ///
            /// # Errors
            /// As the method of [`Tensor`].
            pub fn $name<$($generics)*>(self, $($arg: $type),*) -> Result<Tensor<$out, $rank, D>>
            where $($bound)* {
                let ($op, $x, $place) = (stringify!($name), self, Allocate);
                $body
            }

            #[doc = concat!("See [`Tensor::", stringify!($into), "`].")]
            ///
            /// # Errors
            /// As the method of [`Tensor`].
            pub fn $into<'o, $($generics)*>(
                self, $($arg: $type,)* out: impl IntoViewMut<'o, $out, $rank, D>
            ) -> Result<()> where D: 'o, $($bound)* {
                let ($op, $x, $place) = (stringify!($into), self, Existing(out));
                $body
            }
        )* }
    };
}
pub(super) use {methods_of_tensors, methods_of_views, methods_with_into};
