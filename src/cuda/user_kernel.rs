//! A kernel that a program brings as CUDA source, with operands whose number, elements, ranks and mutability are types.
//!
//! The struct in which the kernel finds its operands is declared here, from those types, so that source and call agree.
// Imports: `error`, `element`, `device`, `tensor`.

use crate::device::{Cuda, SourceKernel, same_device};
use crate::element::Element;
use crate::error::{Error, Result, text};
use crate::tensor::{Tensor, TensorView, TensorViewMut};
use std::fmt::Write;
use std::marker::PhantomData;

/// An operand that a kernel reads: a tensor of elements `T` with `RANK` axes.
#[derive(Debug)]
pub struct In<T, const RANK: usize>(PhantomData<T>);
/// An operand that a kernel writes, and may read: a tensor of elements `T` with `RANK` axes, which nobody else has.
#[derive(Debug)]
pub struct Out<T, const RANK: usize>(PhantomData<T>);
/// A number that a kernel is given.
#[derive(Debug)]
pub struct Value<T>(PhantomData<T>);

/// Where a tensor stands, as a kernel sees it: in C++ `{ T* data; i64 size[RANK], stride[RANK]; }`, strides in elements.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Placed<const RANK: usize> {
    /// The address of the element with index `[0; RANK]`, on the card.
    pub address: u64,
    /// Sizes, first axis first.
    pub size: [i64; RANK],
    /// Steps along each axis, in elements.
    pub stride: [i64; RANK],
}

/// What one launch hands to the kernel.
#[derive(Debug)]
pub struct Launching<'a> {
    op: &'static str,
    card: Option<&'a Cuda>,
    words: Vec<i64>,
    writes: Vec<*mut u8>,
    reads: Vec<*mut u8>,
}

impl<'a> Launching<'a> {
    fn on(&mut self, card: &'a Cuda) -> Result<()> {
        match self.card {
            Some(first) => same_device(self.op, first, card),
            None => {
                self.card = Some(card);
                Ok(())
            }
        }
    }

    fn place<T, const RANK: usize>(&mut self, view: &TensorView<'a, T, RANK, Cuda>) -> Result<*mut u8> {
        view.ready(self.op)?;
        self.on(view.device())?;
        let address = view.raw_ptr().cast_mut().cast::<u8>();
        let (size, stride) = (view.size().0.map(|size| size as i64), view.stride().0.map(|step| step as i64));
        let Placed { address: word, size, stride } = Placed { address: address.addr() as u64, size, stride };
        self.words.push(word as i64);
        self.words.extend(size);
        self.words.extend(stride);
        Ok(address)
    }
}

/// A kind of operand: [`In`], [`Out`] or [`Value`].
pub trait Operand: 'static {
    /// Its declaration in C++, as a field of this name.
    fn declaration(name: &str) -> String;
}

impl<T: Element, const RANK: usize> Operand for In<T, RANK> {
    fn declaration(name: &str) -> String {
        format!("Operand<const {}, {RANK}> {name};", crate::device::c_name(T::DTYPE))
    }
}
impl<T: Element, const RANK: usize> Operand for Out<T, RANK> {
    fn declaration(name: &str) -> String {
        format!("Operand<{}, {RANK}> {name};", crate::device::c_name(T::DTYPE))
    }
}
impl<T: Element> Operand for Value<T> {
    fn declaration(name: &str) -> String {
        format!("alignas(8) {} {name};", crate::device::c_name(T::DTYPE))
    }
}

/// What stands for an operand in a call.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the operand `{O}` of this kernel",
    label = "expected what `{O}` stands for",
    note = "`In<T, RANK>` is a `&Tensor<T, RANK, Cuda>` or a view of one; `Out<T, RANK>` is a `&mut Tensor<T, RANK, Cuda>` or a mutable view; `Value<T>` is a `T`",
    note = "element, rank and device are those that the kernel was declared with: `.cast()`, `.lift()` and `.to(&card)` change them"
)]
pub trait Given<'a, O: Operand> {
    /// Adds it to a call.
    ///
    /// # Errors
    /// [`Error::Device`] for another card than that of the operands before; [`Error::Unallocated`], [`Error::Shared`],
    /// [`Error::Overlap`].
    fn give(self, call: &mut Launching<'a>) -> Result<()>;
}

impl<'a, T: Element, const RANK: usize> Given<'a, In<T, RANK>> for TensorView<'a, T, RANK, Cuda> {
    fn give(self, call: &mut Launching<'a>) -> Result<()> {
        let address = call.place(&self)?;
        call.reads.push(address);
        Ok(())
    }
}
impl<'a, T: Element, const RANK: usize> Given<'a, In<T, RANK>> for &'a Tensor<T, RANK, Cuda> {
    fn give(self, call: &mut Launching<'a>) -> Result<()> {
        Given::<In<T, RANK>>::give(self.view(), call)
    }
}
impl<'a, T: Element, const RANK: usize> Given<'a, Out<T, RANK>> for TensorViewMut<'a, T, RANK, Cuda> {
    fn give(self, call: &mut Launching<'a>) -> Result<()> {
        let address = call.place(&self.into_view())?;
        call.writes.push(address);
        Ok(())
    }
}
impl<'a, T: Element, const RANK: usize> Given<'a, Out<T, RANK>> for &'a mut Tensor<T, RANK, Cuda> {
    fn give(self, call: &mut Launching<'a>) -> Result<()> {
        Given::<Out<T, RANK>>::give(self.writable(call.op)?, call)
    }
}
impl<'a, T: Element> Given<'a, Value<T>> for T {
    fn give(self, call: &mut Launching<'a>) -> Result<()> {
        let mut bytes = [0u8; 16];
        bytes[..size_of::<T>()].copy_from_slice(bytemuck::bytes_of(&self));
        let words = bytes.chunks_exact(8).take(size_of::<T>().div_ceil(8));
        call.words.extend(words.map(|word| i64::from_ne_bytes(std::array::from_fn(|k| word[k]))));
        Ok(())
    }
}

/// The operands of a kernel: a tuple of [`In`], [`Out`] and [`Value`], one to eight of them.
pub trait Operands: 'static {
    /// A name for each.
    type Names: AsRef<[&'static str]>;
    /// The declarations of the fields with these names.
    fn declarations(names: &Self::Names) -> Vec<String>;
}

/// What stands for the operands `O` in a call: a tuple, as long as theirs.
#[diagnostic::on_unimplemented(
    message = "these are not as many operands as the kernel has: `{Self}` for `{O}`",
    label = "expected a tuple with something for each of `{O}`",
    note = "`In` is given as `&tensor` or a view, `Out` as `&mut tensor` or a mutable view, `Value` as a number, in the order of the declaration"
)]
pub trait AllGiven<'a, O: Operands> {
    /// Adds all of them to a call.
    ///
    /// # Errors
    /// Those of [`Given::give`].
    fn give_all(self, call: &mut Launching<'a>) -> Result<()>;
}

macro_rules! tuples {
    ($($count:literal: $($O:ident $G:ident $at:tt),*;)*) => { $(
        impl<$($O: Operand),*> Operands for ($($O,)*) {
            type Names = [&'static str; $count];
            fn declarations(names: &Self::Names) -> Vec<String> {
                vec![$($O::declaration(names[$at])),*]
            }
        }
        impl<'a, $($O: Operand, $G: Given<'a, $O>),*> AllGiven<'a, ($($O,)*)> for ($($G,)*) {
            fn give_all(self, call: &mut Launching<'a>) -> Result<()> {
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

/// How many blocks and threads a kernel is started with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Grid {
    /// Blocks along x, y and z.
    pub blocks: [u32; 3],
    /// Threads of a block along x, y and z: 1024 at most in all.
    pub threads: [u32; 3],
    /// Bytes of shared memory beside what the source declares: `DYNAMIC_SHARED(name)` there.
    pub shared: u32,
}

impl Grid {
    /// Enough blocks of `threads` for a thread each of `count`; the source looks whether it is one of them.
    pub fn over(count: usize, threads: u32) -> Grid {
        let blocks = count.div_ceil(threads.max(1) as usize);
        Grid {
            blocks: [u32::try_from(blocks).unwrap_or(u32::MAX), 1, 1],
            threads: [threads, 1, 1],
            shared: 0,
        }
    }
}

/// A kernel from CUDA source, with typed operands: what a call hands over is checked by the compiler.
///
/// The source defines `__device__ void name(const Operands& a)`, which every thread runs. `a` has a field for each operand,
/// by its name: `a.x(i, j)` is an element, `a.x.size[0]` and `a.x.stride[0]` numbers of an axis, `a.x.data` the address of
/// the first element; a number is a field itself. Types have their names from Rust (`i8` … `u64`, `f32`, `f64`, `c32`,
/// `c64`, and `f16`, `bf16`, whose value is `cast<f32>(x)`). There are no headers. Steps of floats are not contracted.
///
/// It is compiled for a card when it first runs there, and kept as all kernels are.
///
/// # Examples
/// ```
/// use rankform::cuda::{Grid, In, Out, Source, Value};
/// use rankform::prelude::*;
/// use rankform::Cuda;
/// // SAFETY: threads keep to the sizes of `y`, and the call below gives `x` the same.
/// let axpy: Source<(Value<f32>, In<f32, 1>, Out<f32, 1>)> = unsafe {
///     Source::new("axpy", ["alpha", "x", "y"], "__device__ void axpy(const Operands& a) {
///         const i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x;
///         if (i < a.y.size[0]) a.y(i) += a.alpha * a.x(i);
///     }")
/// };
/// let Ok(card) = Cuda::new(0) else { return Ok::<(), rankform::Error>(()) };
/// let (x, mut y) = (Tensor::full([3], 2.0f32, &card)?, Tensor::full([3], 1.0f32, &card)?);
/// axpy.launch(Grid::over(3, 128), (10.0, &x, &mut y))?;
/// assert_eq!(y.to_vec()?, [21.0, 21.0, 21.0]);
/// # Ok(())
/// ```
#[derive(Debug)]
pub struct Source<O: Operands> {
    name: &'static str,
    kernel: SourceKernel,
    operands: PhantomData<fn(O)>,
}

/// What the source finds above itself: how a tensor is reached.
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

impl<O: Operands> Source<O> {
    /// A kernel of this name from its source, with a name for each operand.
    ///
    /// # Safety
    /// With every grid that it is launched with, the source reads and writes only elements that sizes and strides of its
    /// operands reach, writes no operand but [`Out`], and leaves valid elements there.
    pub unsafe fn new(name: &'static str, names: O::Names, source: &str) -> Source<O> {
        let mut code = String::from(OPERAND);
        // Writing to a `String` does not fail.
        let _ = writeln!(code, "struct Operands {{");
        for declaration in O::declarations(&names) {
            let _ = writeln!(code, "  {declaration}");
        }
        let _ = writeln!(code, "}};\nstruct Args {{ i64 begun, operation; Operands operands; }};\n{source}");
        let _ =
            writeln!(code, "extern \"C\" __global__ void kernel(const Args a) {{\n  {name}(a.operands);\n}}");
        Source { name, kernel: SourceKernel::new(code), operands: PhantomData }
    }

    /// Queues the kernel on the card of its operands, which are given as a tuple: `(&x, &mut y, 2.0)`.
    ///
    /// # Errors
    /// [`Error::Device`] for operands on two cards, [`Error::Shared`] for an `Out` with other handles,
    /// [`Error::Overlap`], [`Error::Unallocated`]; [`Error::Value`] for a grid that no card takes, or without any tensor;
    /// [`Error::Fault`] with the compiler's words, or what the driver reports.
    pub fn launch<'a>(&self, grid: Grid, operands: impl AllGiven<'a, O>) -> Result<()> {
        let op = self.name;
        let mut call = Launching { op, card: None, words: Vec::new(), writes: Vec::new(), reads: Vec::new() };
        operands.give_all(&mut call)?;
        let Launching { card, words, writes, reads, .. } = call;
        let wrong = |what| Err(Error::Value { op, what });
        let Some(card) = card else {
            return wrong("no operand is a tensor, so there is no card to run on".into());
        };
        if grid.blocks.contains(&0) {
            return Ok(());
        }
        let threads = grid.threads.iter().fold(1u32, |all, &threads| all.saturating_mul(threads));
        let too_many = grid.blocks[0] > i32::MAX as u32 || grid.blocks[1] > 65535 || grid.blocks[2] > 65535;
        if threads == 0 || threads > 1024 || grid.threads[2] > 64 || too_many {
            return wrong(text(format_args!("no card takes {grid:?}")));
        }
        // SAFETY: the operands that the source was declared with; whoever wrote it answers for what it does with them.
        unsafe {
            card.launch_source(
                op,
                &self.kernel,
                (grid.blocks, grid.threads, grid.shared),
                &words,
                &writes,
                &reads,
            )
        }
    }
}
