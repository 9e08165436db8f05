//! Matrices along the last axes of a view, numbered in row-major order of the leading axes.
// Imports: `error`, `dim`, `layout`, `element`, `device`, `tensor`.

use crate::device::{Cpu, Device};
use crate::dim::Dim;
use crate::element::Element;
use crate::error::{Error, Result, text};
use crate::layout::Layout;
use crate::tensor::{Tensor, TensorView};
use faer::dyn_stack::{MemBuffer, MemStack, StackReq};
use faer::{MatMut, MatRef};
use std::fmt;
use std::marker::PhantomData;

/// The largest number of leading axes: a tensor has at most 8.
pub(super) const MAX_LEADING: usize = 6;

/// One task has at least this many multiplications, if there are enough matrices.
const TASK_MULTIPLICATIONS: usize = 1 << 17;

/// The leading axes of a batch. Axes that are not used have size 1.
#[derive(Clone, Copy)]
struct Leading {
    axes: usize,
    size: [usize; MAX_LEADING],
    stride: [isize; MAX_LEADING],
}

impl Leading {
    fn of(size: &[usize], stride: &[isize]) -> Self {
        let axes = size.len();
        let mut leading = Leading { axes, size: [1; MAX_LEADING], stride: [0; MAX_LEADING] };
        leading.size[..axes].copy_from_slice(size);
        leading.stride[..axes].copy_from_slice(stride);
        leading
    }

    fn size(&self) -> &[usize] {
        &self.size[..self.axes]
    }

    /// The index of a matrix along the leading axes; always inside, if there is a matrix.
    fn index(&self, number: usize) -> [usize; MAX_LEADING] {
        let (mut index, mut rest) = ([0; MAX_LEADING], number);
        for axis in (0..self.axes).rev() {
            index[axis] = rest % self.size[axis].max(1);
            rest /= self.size[axis].max(1);
        }
        index
    }

    /// The distance of a matrix from the first one, in elements.
    fn offset(&self, number: usize) -> isize {
        let index = self.index(number);
        (0..self.axes).map(|axis| index[axis] as isize * self.stride[axis]).sum()
    }
}

/// Matrices of an allocated view, for reading.
#[derive(Clone, Copy)]
pub struct Batch<'a, T> {
    first: *const T,
    leading: Leading,
    size: [usize; 2],
    stride: [isize; 2],
    _elements: PhantomData<&'a T>,
}

// SAFETY: a batch is a shared borrow of the elements.
unsafe impl<T: Sync> Sync for Batch<'_, T> {}

impl<'a, T> Batch<'a, T> {
    /// The matrices along the last two axes of a view of at least two.
    pub(super) fn matrices<const RANK: usize>(
        op: &'static str,
        view: TensorView<'a, T, RANK, Cpu>,
    ) -> Result<Self> {
        view.ensure_allocated(op)?;
        let (size, stride, [row, column]) = (view.size().0, view.stride().0, [RANK - 2, RANK - 1]);
        Ok(Batch {
            first: view.raw_ptr(),
            leading: Leading::of(&size[..row], &stride[..row]),
            size: [size[row], size[column]],
            stride: [stride[row], stride[column]],
            _elements: PhantomData,
        })
    }

    /// The vectors along the last axis of a view of at least one, as matrices of one column.
    pub(super) fn columns<const RANK: usize>(
        op: &'static str,
        view: TensorView<'a, T, RANK, Cpu>,
    ) -> Result<Self> {
        view.ensure_allocated(op)?;
        let (size, stride, last) = (view.size().0, view.stride().0, RANK - 1);
        Ok(Batch {
            first: view.raw_ptr(),
            leading: Leading::of(&size[..last], &stride[..last]),
            size: [size[last], 1],
            stride: [stride[last], 0],
            _elements: PhantomData,
        })
    }

    /// The sizes of the leading axes.
    pub(super) fn leading(&self) -> &[usize] {
        self.leading.size()
    }

    /// The number of matrices.
    pub(super) fn count(&self) -> usize {
        self.leading().iter().product()
    }

    /// Rows and columns of each matrix.
    pub(super) fn size(&self) -> [usize; 2] {
        self.size
    }

    /// The same matrices with leading axes of size 1 broadcast to `size`.
    pub(super) fn broadcast(mut self, size: &[usize]) -> Self {
        for (axis, &size) in size.iter().enumerate() {
            if self.leading.size[axis] != size {
                (self.leading.size[axis], self.leading.stride[axis]) = (size, 0);
            }
        }
        self
    }

    /// The matrix of this number.
    pub(super) fn at(&self, number: usize) -> MatRef<'a, T> {
        let ([rows, columns], [down, right]) = (self.size, self.stride);
        let first = self.first.wrapping_offset(self.leading.offset(number));
        // SAFETY: the index is inside the leading axes, so that the matrix is a part of the view, whose
        // elements are borrowed as long. Without elements nothing is read.
        unsafe { MatRef::from_raw_parts(first, rows, columns, down, right) }
    }

    /// An error about one matrix.
    #[cold]
    pub(super) fn error(&self, op: &'static str, number: usize, found: fmt::Arguments<'_>) -> Error {
        let (index, [rows, columns]) = (self.leading.index(number), self.size);
        let what = match &index[..self.leading.axes] {
            [] => text(format_args!("the matrix of sizes [{rows}, {columns}] {found}")),
            index => text(format_args!("matrix {index:?} of sizes [{rows}, {columns}] {found}")),
        };
        Error::Value { op, what }
    }
}

/// Matrices of a tensor that nothing else refers to, for writing.
pub struct BatchMut<'a, T> {
    first: *mut T,
    count: usize,
    size: [usize; 2],
    _elements: PhantomData<&'a mut T>,
}

// SAFETY: distinct matrices have distinct elements, and each is given to one task.
unsafe impl<T: Send> Sync for BatchMut<'_, T> {}

/// A tensor for the results of a kernel, which writes every element.
pub(super) fn results<T: Element, const RANK: usize>(
    op: &'static str,
    leading: &[usize],
    last: &[usize],
) -> Result<Tensor<T, RANK>> {
    let size: [usize; RANK] =
        std::array::from_fn(
            |axis| if axis < leading.len() { leading[axis] } else { last[axis - leading.len()] },
        );
    Tensor::uninit(op, Layout::row_major_of(op, Dim(size), size_of::<T>())?, &Cpu)
}

impl<T> BatchMut<'_, T> {
    /// Rows and columns of each matrix.
    pub(super) fn size(&self) -> [usize; 2] {
        self.size
    }
}

impl<'a, T: Element> BatchMut<'a, T> {
    /// `count` matrices of `size` in a row-major tensor, one behind the other.
    pub(super) fn of<const RANK: usize>(
        tensor: &'a mut Tensor<T, RANK>,
        count: usize,
        size: [usize; 2],
    ) -> Result<Self> {
        let elements = tensor.data_mut()?;
        // Matrices without elements have any number.
        let count = elements.len().checked_div(size[0] * size[1]).unwrap_or(count);
        Ok(BatchMut { first: elements.as_mut_ptr(), count, size, _elements: PhantomData })
    }
}

/// Results of a kernel: one batch, or several of as many matrices.
///
/// # Safety
/// Matrices of different numbers below `count` exist and share no element.
pub unsafe trait Outputs: Sync {
    /// The matrices of one number.
    type Matrices;
    /// The number of matrices.
    fn count(&self) -> usize;
    /// The matrices of this number.
    ///
    /// # Safety
    /// 1. The number is below `count`.
    /// 2. No other reference to the matrices of this number exists.
    unsafe fn at(&self, number: usize) -> Self::Matrices;
}

// SAFETY: matrices stand one behind the other.
unsafe impl<'a, T: Send> Outputs for BatchMut<'a, T> {
    type Matrices = MatMut<'a, T>;
    fn count(&self) -> usize {
        self.count
    }
    unsafe fn at(&self, number: usize) -> MatMut<'a, T> {
        let [rows, columns] = self.size;
        let first = self.first.wrapping_add(number * rows * columns);
        // SAFETY: (1) the matrix lies in the tensor; (2) it is exclusive.
        unsafe { MatMut::from_raw_parts_mut(first, rows, columns, columns as isize, 1) }
    }
}

macro_rules! several_outputs {
    ($($name:ident: $index:tt),+) => {
        // SAFETY: that of each batch.
        unsafe impl<$($name: Outputs),+> Outputs for ($($name,)+) {
            type Matrices = ($($name::Matrices,)+);
            fn count(&self) -> usize {
                [$(self.$index.count()),+].into_iter().min().unwrap_or(0)
            }
            unsafe fn at(&self, number: usize) -> Self::Matrices {
                // SAFETY: the obligations are those of this function.
                unsafe { ($(self.$index.at(number),)+) }
            }
        }
    };
}
several_outputs!(A: 0, B: 1);
several_outputs!(A: 0, B: 1, C: 2);

/// Calls `kernel` for each matrix with its results and scratch memory, in tasks of the CPU. `work` is the
/// number of multiplications for one matrix. The results do not depend on the tasks.
pub(super) fn for_each<O: Outputs>(
    op: &'static str,
    work: usize,
    scratch: StackReq,
    outputs: O,
    kernel: impl Fn(usize, O::Matrices, &mut MemStack) -> Result<()> + Sync,
) -> Result<()> {
    let (count, in_task) = (outputs.count(), (TASK_MULTIPLICATIONS / work.max(1)).max(1));
    Cpu.for_each_task(count.div_ceil(in_task), &|task| {
        let mut memory = MemBuffer::try_new(scratch)
            .map_err(|_| Error::OutOfMemory { op, nbytes: scratch.unaligned_bytes_required() })?;
        for number in task * in_task..count.min((task + 1) * in_task) {
            // SAFETY: (1) below `count`; (2) each number is in one task, which is called once.
            let matrices = unsafe { outputs.at(number) };
            kernel(number, matrices, MemStack::new(&mut memory))?;
        }
        Ok(())
    })
}
