//! The macro that defines structs of parameters.
// Imports: `error`, `device`, `autograd`.

/// Defines structs of parameters, generic over their device.
///
/// `struct Net<D> { … }` is a struct `Net<D: Device = Cpu>`, with the fields as they are written. The macro
/// implements [`ParameterTree`](crate::autograd::ParameterTree) for it, so that `Net<Tape<D>>` is the net on
/// a tape: the function of a model is written once and serves training and inference on every device. `D` may
/// have its bound, `struct Net<D: Device>`.
///
/// Fields are tensors on `D`, other structs of this macro, `Vec`s, arrays, tuples and `Option`s of them;
/// [`Buffer`](crate::autograd::Buffer)s, which are not trained; and numbers, `bool` and `String`, which are
/// settings. A struct may have one more parameter, the element, before the device:
/// `struct Net<T: Float, D> { … }`.
///
/// # Examples
/// ```
/// use rankform::autograd::value_and_grad;
/// use rankform::optim::Adam;
/// use rankform::prelude::*;
/// parameters! {
///     /// A line through points.
///     pub struct Line<D: Device> {
///         /// Its slope.
///         pub slope: Tensor<f64, 1, D>,
///         /// Its value at 0.
///         pub offset: Tensor<f64, 1, D>,
///     }
/// }
/// impl<D: Device> Line<D> {
///     fn at(&self, x: &Tensor<f64, 1, D>) -> Result<Tensor<f64, 1, D>> {
///         (x.lazy() * &self.slope + &self.offset).eval()
///     }
/// }
/// let mut line = Line { slope: Tensor::from([0.0]), offset: Tensor::from([0.0]) };
/// let (x, y) = (Tensor::from([0.0, 1.0, 2.0]), Tensor::from([1.0, 3.0, 5.0]));
/// let mut optimizer = Adam::new(0.1);
/// for _ in 0..300 {
///     let (_, gradients) = value_and_grad(&line, |line, tape| {
///         let (x, y) = (tape.constant(&x)?, tape.constant(&y)?);
///         (line.at(&x)?.lazy() - &y).square().mean(All)
///     })?;
///     optimizer.step(&mut line, &gradients)?;
/// }
/// assert!((line.at(&Tensor::from([10.0]))?.item()? - 21.0).abs() < 1e-2);
/// # Ok::<(), rankform::Error>(())
/// ```
#[macro_export]
macro_rules! parameters {
    () => {};
    (
        $(#[$meta:meta])* $vis:vis struct $Name:ident<$D:ident $(: Device)?> { $($fields:tt)* }
        $($more:tt)*
    ) => {
        $crate::__parameters! { [$(#[$meta])*] [$vis] $Name [] [] $D { $($fields)* } }
        $crate::parameters! { $($more)* }
    };
    (
        $(#[$meta:meta])* $vis:vis struct $Name:ident<$T:ident: $Class:path, $D:ident $(: Device)?> { $($fields:tt)* }
        $($more:tt)*
    ) => {
        $crate::__parameters! { [$(#[$meta])*] [$vis] $Name [$T: $Class,] [$T,] $D { $($fields)* } }
        $crate::parameters! { $($more)* }
    };
    ($(#[$meta:meta])* $vis:vis struct $Name:ident { $($fields:tt)* } $($more:tt)*) => {
        compile_error!(concat!(
            "a struct of parameters is generic over its device: `struct ", stringify!($Name),
            "<D> { weight: Tensor<f32, 2, D> }`"
        ));
    };
}

/// One struct of `parameters!`: generics with bounds, generics without, the device.
#[doc(hidden)]
#[macro_export]
macro_rules! __parameters {
    (
        [$(#[$meta:meta])*] [$vis:vis] $Name:ident [$($T:ident: $Class:path,)?] [$($E:ident,)?] $D:ident
        { $($(#[$about:meta])* $access:vis $field:ident: $Type:ty),* $(,)? }
    ) => {
        $(#[$meta])*
        $vis struct $Name<$($T: $Class,)? $D: $crate::Device = $crate::Cpu> {
            $($(#[$about])* $access $field: $Type,)*
        }
        impl<$($T: $Class + $crate::autograd::Differentiable,)? $D: $crate::Device>
            $crate::autograd::ParameterTree<$D> for $Name<$($T,)? $D>
        {
            type On<__Other: $crate::Device> = $Name<$($E,)? __Other>;
            fn map_tensors<__Other: $crate::Device>(
                &self, name: $crate::autograd::Name<'_>,
                map: &mut impl $crate::autograd::TensorMap<$D, __Other>,
            ) -> $crate::Result<Self::On<__Other>> {
                $(let $field = <$Type as $crate::autograd::ParameterTree<$D>>::map_tensors(
                    &self.$field, name.field(stringify!($field)), map,
                )?;)*
                Ok($Name { $($field),* })
            }
            fn walk<const WRITTEN: usize, const READ: usize>(
                mut updated: [&mut Self; WRITTEN],
                read: [&Self; READ],
                name: $crate::autograd::Name<'_>,
                visitor: &mut impl $crate::autograd::ParameterVisitor<$D, WRITTEN, READ>,
            ) -> $crate::Result<()> {
                $(<$Type as $crate::autograd::ParameterTree<$D>>::walk(
                    updated.each_mut().map(|x| &mut x.$field), read.map(|x| &x.$field),
                    name.field(stringify!($field)), visitor,
                )?;)*
                Ok(())
            }
            fn device_of_tensors(&self) -> Option<&$D> {
                None$(.or(<$Type as $crate::autograd::ParameterTree<$D>>::device_of_tensors(&self.$field)))*
            }
        }
    };
}
