//! Kernels from CUDA source that a program brings. The number, elements, ranks and mutability of the operands
//! are types.
//!
//! From these types this module declares the struct of the operands in C++. Source and call therefore agree.
// Imports: `error`, `element`, `device`, `tensor`.

use crate::device::{Cuda, UserKernel, same_device};
use crate::element::Element;
use crate::error::{Error, Result, text};
use crate::tensor::{Tensor, TensorView, TensorViewMut};
use std::fmt::Write;
use std::marker::PhantomData;

/// An operand that a kernel reads: a tensor of elements `T` with `RANK` axes.
#[derive(Debug)]
pub struct Input<T, const RANK: usize>(PhantomData<T>);
/// An operand that a kernel writes, and may read: a tensor of elements `T` with `RANK` axes, without other
/// handles.
#[derive(Debug)]
pub struct Output<T, const RANK: usize>(PhantomData<T>);
/// A number that a kernel takes by value.
#[derive(Debug)]
pub struct Scalar<T>(PhantomData<T>);

/// The address, sizes and strides of a tensor for a kernel: in C++ `{ T* data; i64 size[RANK], stride[RANK];
/// }`, strides in elements.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct StridedArg<const RANK: usize> {
    /// The address of the element with index `[0; RANK]` in the memory of the GPU.
    pub address: u64,
    /// The size of each axis, first axis first.
    pub size: [i64; RANK],
    /// The stride of each axis, in elements.
    pub stride: [i64; RANK],
}

/// The arguments of one launch, as they are collected.
#[derive(Debug)]
pub struct Launch<'a> {
    op: &'static str,
    gpu: Option<&'a Cuda>,
    words: Vec<i64>,
    writes: Vec<*mut u8>,
    reads: Vec<*mut u8>,
}

impl<'a> Launch<'a> {
    /// Checks that an operand is on the same GPU as those before it.
    fn on(&mut self, gpu: &'a Cuda) -> Result<()> {
        match self.gpu {
            Some(first) => same_device(self.op, first, gpu),
            None => {
                self.gpu = Some(gpu);
                Ok(())
            }
        }
    }

    /// Adds the words of a tensor, and returns its address.
    fn push_tensor<T, const RANK: usize>(&mut self, view: &TensorView<'a, T, RANK, Cuda>) -> Result<*mut u8> {
        view.ensure_allocated(self.op)?;
        self.on(view.device())?;
        let address = view.raw_ptr().cast_mut().cast::<u8>();
        let (size, stride) = (view.size().0.map(|size| size as i64), view.stride().0.map(|step| step as i64));
        let StridedArg { address: word, size, stride } =
            StridedArg { address: address.addr() as u64, size, stride };
        self.words.push(word as i64);
        self.words.extend(size);
        self.words.extend(stride);
        Ok(address)
    }
}

/// A kind of operand: [`Input`], [`Output`] or [`Scalar`].
pub trait KernelOperand: 'static {
    /// Its declaration in C++, as a field of this name.
    fn declaration(name: &str) -> String;
}

impl<T: Element, const RANK: usize> KernelOperand for Input<T, RANK> {
    fn declaration(name: &str) -> String {
        format!("Operand<const {}, {RANK}> {name};", crate::device::c_name(T::DTYPE))
    }
}
impl<T: Element, const RANK: usize> KernelOperand for Output<T, RANK> {
    fn declaration(name: &str) -> String {
        format!("Operand<{}, {RANK}> {name};", crate::device::c_name(T::DTYPE))
    }
}
impl<T: Element> KernelOperand for Scalar<T> {
    fn declaration(name: &str) -> String {
        format!("alignas(8) {} {name};", crate::device::c_name(T::DTYPE))
    }
}

/// An argument of a launch, for an operand `O` of the kernel.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the operand `{O}` of this kernel",
    label = "expected an argument for `{O}`",
    note = "`Input<T, RANK>` is a `&Tensor<T, RANK, Cuda>` or a view of one; \
            `Output<T, RANK>` is a `&mut Tensor<T, RANK, Cuda>` or a mutable view; `Scalar<T>` is a `T`",
    note = "element, rank and device are those that the kernel was declared with: `.cast()`, \
            `.lift()` and `.to(&gpu)` change them"
)]
pub trait KernelArgument<'a, O: KernelOperand> {
    /// Adds it to a launch.
    ///
    /// # Errors
    /// [`Error::Device`] if it is on another GPU than the arguments before it; [`Error::Unallocated`],
    /// [`Error::Shared`], [`Error::Overlap`].
    fn give(self, call: &mut Launch<'a>) -> Result<()>;
}

impl<'a, T: Element, const RANK: usize> KernelArgument<'a, Input<T, RANK>> for TensorView<'a, T, RANK, Cuda> {
    fn give(self, call: &mut Launch<'a>) -> Result<()> {
        let address = call.push_tensor(&self)?;
        call.reads.push(address);
        Ok(())
    }
}
impl<'a, T: Element, const RANK: usize> KernelArgument<'a, Input<T, RANK>> for &'a Tensor<T, RANK, Cuda> {
    fn give(self, call: &mut Launch<'a>) -> Result<()> {
        KernelArgument::<Input<T, RANK>>::give(self.view(), call)
    }
}
impl<'a, T: Element, const RANK: usize> KernelArgument<'a, Output<T, RANK>>
    for TensorViewMut<'a, T, RANK, Cuda>
{
    fn give(self, call: &mut Launch<'a>) -> Result<()> {
        let address = call.push_tensor(&self.into_view())?;
        call.writes.push(address);
        Ok(())
    }
}
impl<'a, T: Element, const RANK: usize> KernelArgument<'a, Output<T, RANK>>
    for &'a mut Tensor<T, RANK, Cuda>
{
    fn give(self, call: &mut Launch<'a>) -> Result<()> {
        KernelArgument::<Output<T, RANK>>::give(self.try_view_mut(call.op)?, call)
    }
}
impl<'a, T: Element> KernelArgument<'a, Scalar<T>> for T {
    fn give(self, call: &mut Launch<'a>) -> Result<()> {
        let mut bytes = [0u8; 16];
        bytes[..size_of::<T>()].copy_from_slice(bytemuck::bytes_of(&self));
        let words = bytes.chunks_exact(8).take(size_of::<T>().div_ceil(8));
        call.words.extend(words.map(|word| i64::from_ne_bytes(std::array::from_fn(|k| word[k]))));
        Ok(())
    }
}

/// The operands of a kernel: a tuple of [`Input`], [`Output`] and [`Scalar`], one to eight of them.
pub trait KernelOperands: 'static {
    /// A name for each operand.
    type Names: AsRef<[&'static str]>;
    /// The declarations of the operands in C++, as fields of these names.
    fn declarations(names: &Self::Names) -> Vec<String>;
}

/// The arguments of a launch, for the operands `O` of the kernel: a tuple of the same length.
#[diagnostic::on_unimplemented(
    message = "these are not as many operands as the kernel has: `{Self}` for `{O}`",
    label = "expected a tuple with an argument for each of `{O}`",
    note = "`Input` is given as `&tensor` or a view, `Output` as `&mut tensor` or a mutable view, \
            `Scalar` as a number, in the order of the declaration"
)]
pub trait KernelArguments<'a, O: KernelOperands> {
    /// Adds all of them to a launch.
    ///
    /// # Errors
    /// Those of [`KernelArgument::give`].
    fn give_all(self, call: &mut Launch<'a>) -> Result<()>;
}

macro_rules! tuples {
    ($($count:literal: $($O:ident $G:ident $at:tt),*;)*) => { $(
        impl<$($O: KernelOperand),*> KernelOperands for ($($O,)*) {
            type Names = [&'static str; $count];
            fn declarations(names: &Self::Names) -> Vec<String> {
                vec![$($O::declaration(names[$at])),*]
            }
        }
        impl<'a, $($O: KernelOperand, $G: KernelArgument<'a, $O>),*> KernelArguments<'a, ($($O,)*)>
            for ($($G,)*)
        {
            fn give_all(self, call: &mut Launch<'a>) -> Result<()> {
                $(self.$at.give(call)?;)*
                Ok(())
            }
        }
    )* };
}
tuples! {
    1: A GA 0;
    2: A GA 0, B GB 1;
    3: A GA 0, B GB 1, C GC 2;
    4: A GA 0, B GB 1, C GC 2, D GD 3;
    5: A GA 0, B GB 1, C GC 2, D GD 3, E GE 4;
    6: A GA 0, B GB 1, C GC 2, D GD 3, E GE 4, F GF 5;
    7: A GA 0, B GB 1, C GC 2, D GD 3, E GE 4, F GF 5, H GH 6;
    8: A GA 0, B GB 1, C GC 2, D GD 3, E GE 4, F GF 5, H GH 6, I GI 7;
}

/// The numbers of blocks and threads of a launch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LaunchConfig {
    /// Blocks along x, y and z.
    pub blocks: [u32; 3],
    /// Threads of a block along x, y and z: at most 1024 in all, and 64 along z.
    pub threads: [u32; 3],
    /// Bytes of dynamic shared memory, in addition to the memory that the source declares:
    /// `DYNAMIC_SHARED(name)` in the source.
    pub shared: u32,
}

impl LaunchConfig {
    /// Enough blocks of `threads` threads for `count` threads in one dimension. The source skips the threads
    /// beyond `count`.
    pub fn over(count: usize, threads: u32) -> LaunchConfig {
        let blocks = count.div_ceil(threads.max(1) as usize);
        LaunchConfig {
            blocks: [u32::try_from(blocks).unwrap_or(u32::MAX), 1, 1],
            threads: [threads, 1, 1],
            shared: 0,
        }
    }
}

/// A kernel from CUDA source, with typed operands. The compiler checks the arguments of each launch.
///
/// The source defines `__device__ void name(const Operands& a)`, which every thread runs. `a` has a field for
/// each operand, by its name: `a.x(i, j)` is an element, `a.x.size[0]` and `a.x.stride[0]` are size and
/// stride of an axis, `a.x.data` is the address of the first element. A [`Scalar`] is a field itself. Types
/// have the names of Rust (`i8` … `u64`, `f32`, `f64`, `c32`, `c64`, and `f16`, `bf16`, whose value is
/// `cast<f32>(x)`). No header can be included. Floating-point steps are not contracted.
///
/// The kernel is compiled for a GPU when it first runs there, and cached as all kernels are.
///
/// # Examples
/// ```
/// use rankform::cuda::{Input, KernelSource, LaunchConfig, Output, Scalar};
/// use rankform::prelude::*;
/// use rankform::Cuda;
/// // SAFETY: threads access only the sizes of `y`, and the launch below gives `x` the same sizes.
/// let axpy: KernelSource<(Scalar<f32>, Input<f32, 1>, Output<f32, 1>)> = unsafe {
///     KernelSource::new("axpy", ["alpha", "x", "y"], "__device__ void axpy(const Operands& a) {
///         const i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x;
///         if (i < a.y.size[0]) a.y(i) += a.alpha * a.x(i);
///     }")
/// };
/// let Ok(gpu) = Cuda::new(0) else { return Ok::<(), rankform::Error>(()) };
/// let (x, mut y) = (Tensor::full([3], 2.0f32, &gpu)?, Tensor::full([3], 1.0f32, &gpu)?);
/// axpy.launch(LaunchConfig::over(3, 128), (10.0, &x, &mut y))?;
/// assert_eq!(y.to_vec()?, [21.0, 21.0, 21.0]);
/// # Ok(())
/// ```
#[derive(Debug)]
pub struct KernelSource<O: KernelOperands> {
    name: &'static str,
    kernel: UserKernel,
    operands: PhantomData<fn(O)>,
}

/// The text before the source: access to the elements of a tensor.
const OPERAND: &str = "
template <class T, int RANK> struct Operand {
  T* data; i64 size[RANK], stride[RANK];
  template <class... I> __device__ T& operator()(I... index) const {
    static_assert(sizeof...(I) == RANK, \"an index for each axis\");
    const i64 at[] = {(i64)index...};
    i64 offset = 0;
    for (int axis = 0; axis < RANK; axis++) offset += at[axis] * stride[axis];
    return data[offset];
  }
};
template <class T> struct Operand<T, 0> {
  T* data;
  __device__ T& operator()() const { return *data; }
};
";

impl<O: KernelOperands> KernelSource<O> {
    /// A kernel of this name from its source, with a name for each operand. It is not compiled yet.
    ///
    /// # Safety
    /// For every configuration with which it is launched, the source: 1. reads and writes only elements that
    /// the sizes and strides of its operands reach;   2. writes no operand but [`Output`];   3. leaves valid
    /// elements in each.
    pub unsafe fn new(name: &'static str, names: O::Names, source: &str) -> KernelSource<O> {
        let mut code = String::from(OPERAND);
        // A write to a `String` does not fail.
        let _ = writeln!(code, "struct Operands {{");
        for declaration in O::declarations(&names) {
            let _ = writeln!(code, "  {declaration}");
        }
        let _ = writeln!(code, "}};\nstruct Args {{ i64 begun, operation; Operands operands; }};\n{source}");
        let _ =
            writeln!(code, "extern \"C\" __global__ void kernel(const Args a) {{\n  {name}(a.operands);\n}}");
        KernelSource { name, kernel: UserKernel::new(code), operands: PhantomData }
    }

    /// Queues the kernel on the GPU of its operands. The arguments are a tuple: `(&x, &mut y, 2.0)`.
    ///
    /// # Errors
    /// [`Error::Device`] for operands on two GPUs; [`Error::Shared`] for an `Output` with other handles;
    /// [`Error::Overlap`], [`Error::Unallocated`]; [`Error::Value`] for a configuration that no GPU takes, or
    /// without any tensor; [`Error::Fault`] with the report of the compiler or of the driver.
    pub fn launch<'a>(&self, config: LaunchConfig, operands: impl KernelArguments<'a, O>) -> Result<()> {
        let op = self.name;
        let mut call = Launch { op, gpu: None, words: Vec::new(), writes: Vec::new(), reads: Vec::new() };
        operands.give_all(&mut call)?;
        let Launch { gpu, words, writes, reads, .. } = call;
        let wrong = |what| Err(Error::Value { op, what });
        let Some(gpu) = gpu else {
            return wrong("no operand is a tensor, and therefore no GPU is known".into());
        };
        if config.blocks.contains(&0) {
            return Ok(());
        }
        let threads = config.threads.iter().fold(1u32, |all, &threads| all.saturating_mul(threads));
        let too_many =
            config.blocks[0] > i32::MAX as u32 || config.blocks[1] > 65535 || config.blocks[2] > 65535;
        if threads == 0 || threads > 1024 || config.threads[2] > 64 || too_many {
            return wrong(text(format_args!("no GPU takes {config:?}")));
        }
        // SAFETY: (1) the arguments are those of the declared operands; (2) was promised to `new`.
        unsafe {
            gpu.launch_source(
                op,
                &self.kernel,
                (config.blocks, config.threads, config.shared),
                &words,
                &writes,
                &reads,
            )
        }
    }
}
