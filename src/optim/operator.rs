//! The macro that defines the operators of update rules.
// Imports: `scalar`, `element`, `kernel`.

/// Defines operators that update a parameter and its state: `fn Name(p; states; g; numbers) { body }`. The
/// elements of the parameter and of its gradient are `P`; those of states and numbers are `S`, which computes
/// in the same type. The body returns the parameter and its state.
macro_rules! updates {
    ($(
        $(#[$meta:meta])*
        fn $Name:ident($p:ident; $($state:ident),*; $($g:ident)?; $($x:ident),*) $body:block
    )*) => { $(
        $(#[$meta])*
        #[derive(Clone, Copy, Debug)]
        pub(super) struct $Name;
        impl<P, S>
            crate::kernel::OpMany<(P, $(updates!(@S $state),)* $(updates!(@P $g),)? $(updates!(@S $x),)*)>
            for $Name
        where
            P: crate::element::Float,
            S: crate::element::Float<Compute = crate::element::Compute<P>>,
        {
            const NAME: &'static str = "step";
            const CHEAP: bool = crate::kernel::is_cheap(stringify!($body));
            type Out = (P, $(updates!(@S $state),)*);
            #[inline(always)]
            fn call<L: crate::scalar::Lanes>(
                ($p, $($state,)* $($g,)? $($x,)*): (
                    updates!(@lane $p),
                    $(updates!(@lane $state),)*
                    $(updates!(@lane $g),)?
                    $(updates!(@lane $x),)*
                ),
            ) -> (updates!(@lane $p), $(updates!(@lane $state),)*) {
                $body
            }
        }
    )* };
    (@S $x:ident) => { S };
    (@P $x:ident) => { P };
    (@lane $x:ident) => { crate::scalar::Lane<L, crate::element::Compute<P>> };
}
pub(super) use updates;

use crate::scalar::{Lane, Lanes, Real};

/// `from + weight · (to − from)`, from the end that is nearer: PyTorch's `lerp`.
#[inline(always)]
pub(super) fn lerp<L: Lanes, C: Real>(from: Lane<L, C>, to: Lane<L, C>, weight: Lane<L, C>) -> Lane<L, C> {
    let distance = to - from;
    weight.lt(0.5).select(from + weight * distance, to - distance * (1.0 - weight))
}
