//! The rules of the house that a compiler does not check: import order, the files with `unsafe`, no
//! operator's name below `ops`, and others. Each rule is a function from source text to complaints, and each
//! is shown to complain. Then a promise about the project: the table of parity is true.

use crate::source::{Source, Token, paths, reads, sources, tokens};
use rankform::ops::built_in;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The modules in reading order: a file imports only from those before its own, and from its own.
pub(crate) const ORDER: &[&str] = &[
    "error",
    "fallible",
    "dim",
    "rank",
    "layout",
    "dtype",
    "scalar",
    "element",
    "kernel",
    "device",
    "allocation",
    "erased_memory",
    "tensor",
    "expr",
    "ops",
    "fft",
    "autograd",
    "linalg",
    "cuda",
    "quantized",
    "sparse",
    "symbolic",
    "dynamic",
    "torch_types",
    "dispatch",
    "testing",
    "io",
    "optim",
    "interop",
    "prelude",
];

/// The files with `unsafe`, and why each needs it.
const UNSAFE: &[(&str, &str)] = &[
    ("src/allocation.rs", "adopts external memory"),
    ("src/fallible/mod.rs", "boxes a value where memory may run out"),
    ("src/autograd/blocks.rs", "copies a block"),
    ("src/autograd/forward/contract.rs", "hands the addresses of operands to a device"),
    ("src/autograd/forward/device.rs", "implements the trait, by calls of another device"),
    ("src/autograd/forward/jvp.rs", "tensors in memory of another device"),
    ("src/autograd/forward/loads.rs", "hands the addresses of operands to a device"),
    ("src/autograd/forward/map.rs", "hands the addresses of operands to a device"),
    ("src/autograd/forward/moves.rs", "hands the addresses of operands to a device"),
    ("src/autograd/forward/outputs.rs", "copies tangents on the inner device"),
    ("src/autograd/forward/reduce.rs", "hands the addresses of operands to a device"),
    ("src/autograd/forward/rows.rs", "hands the addresses of operands to a device"),
    ("src/autograd/forward/scan.rs", "hands the addresses of operands to a device"),
    ("src/autograd/forward/state.rs", "hands the addresses of operands to a device"),
    ("src/autograd/backward.rs", "calls the inner device on gradients"),
    ("src/autograd/broadcast.rs", "sums blocks of gradients on the inner device"),
    ("src/autograd/cells.rs", "calls the kernels of scatters"),
    ("src/autograd/contract.rs", "calls contractions"),
    ("src/autograd/custom.rs", "makes tensors of memory of the inner device"),
    ("src/autograd/device.rs", "implements the trait, by calls of the inner device"),
    ("src/autograd/inner.rs", "calls the inner device without its type"),
    ("src/autograd/kernels.rs", "calls the derivatives of programs"),
    ("src/autograd/moves.rs", "moves gradients"),
    ("src/autograd/reduce.rs", "calls reductions and their derivatives"),
    ("src/autograd/row_blocks.rs", "delivers the gradients of blocks on the inner device"),
    ("src/autograd/rows.rs", "calls reductions of row constants; the value of a reducer, a type of no bytes"),
    ("src/autograd/ruled.rs", "hands operands to operators that state their backward pass"),
    ("src/autograd/scan.rs", "calls scans and their derivatives"),
    ("src/autograd/scatter.rs", "calls scatters and their derivatives"),
    ("src/autograd/sums.rs", "sums elements of 16 bits"),
    ("src/autograd/tape.rs", "makes tensors of memory of the inner device"),
    ("src/autograd/temporary.rs", "copies an operand on the inner device"),
    ("src/dynamic/gradients.rs", "makes tensors of memory whose device is known at run time"),
    ("src/device/cpu/cursor.rs", "reads and writes elements at addresses"),
    ("src/device/cpu/elementwise/equidistant.rs", "runs kernels over addresses"),
    ("src/device/cpu/elementwise/call.rs", "runs kernels over addresses"),
    ("src/device/cpu/elementwise/kernel.rs", "the loops of programs, which take addresses"),
    ("src/device/cpu/elementwise/mod.rs", "runs kernels over addresses"),
    ("src/device/cpu/elementwise/repeat.rs", "replicates short rows into memory on the stack"),
    ("src/device/cpu/elementwise/row_constants.rs", "keeps values of a row by address, their types erased"),
    ("src/device/cpu/elementwise/row_fused.rs", "runs kernels over addresses, row by row"),
    ("src/device/cpu/elementwise/non_temporal_target.rs", "stores chunks by non-temporal stores"),
    ("src/device/cpu/elementwise/non_temporal_chunks.rs", "runs kernels over addresses, chunk by chunk"),
    ("src/device/cpu/elementwise/tiles.rs", "packs operands, and runs kernels over them"),
    ("src/device/cpu/isa.rs", "calls loops that were compiled for instruction sets found at run time"),
    (
        "src/device/cpu/memory/block.rs",
        "takes memory from the pool, from vectors and from outside, and gives it back",
    ),
    ("src/device/cpu/memory/non_temporal.rs", "the processor's instructions; copies bytes"),
    ("src/device/cpu/memory/pool.rs", "allocates and frees"),
    ("src/device/cpu/memory/prefetch.rs", "the processor's instructions"),
    (
        "src/device/cpu/parallel/job_slot.rs",
        "shows workers a job on its caller's stack; the caller waits for them",
    ),
    ("src/device/cpu/strided/copy.rs", "copies between layouts"),
    ("src/device/cpu/strided/iteration.rs", "moves addresses to other threads"),
    ("src/device/cpu/strided/pack.rs", "copies between layouts"),
    ("src/device/cpu/strided/transpose.rs", "the processor's instructions; copies between layouts"),
    ("src/device/cpu/test_on_cuda.rs", "implements the trait, by calls of a GPU; for the suite alone"),
    ("src/device/cpu/matmul/batches.rs", "runs products over addresses"),
    ("src/device/cpu/matmul/blocked/call.rs", "packs operands by address"),
    ("src/device/cpu/matmul/blocked/mod.rs", "runs products over addresses"),
    ("src/device/cpu/matmul/blocked/output.rs", "stores sums through erased pointers"),
    ("src/device/cpu/matmul/blocked/row_block.rs", "runs products over addresses"),
    ("src/device/cpu/matmul/fallback.rs", "runs products over addresses"),
    ("src/device/cpu/matmul/gemv/loops.rs", "runs products over addresses"),
    ("src/device/cpu/matmul/gemv/mod.rs", "runs products over addresses"),
    ("src/device/cpu/matmul/gemv/packed_row.rs", "runs products over addresses"),
    ("src/device/cpu/matmul/gemv/task.rs", "runs products over addresses"),
    (
        "src/device/cpu/matmul/kernels/amx.rs",
        "the processor's instructions, which the standard library does not have",
    ),
    ("src/device/cpu/matmul/kernels/complex.rs", "a kernel, which takes addresses"),
    ("src/device/cpu/matmul/kernels/mod.rs", "the trait of kernels, which take addresses"),
    ("src/device/cpu/matmul/kernels/portable.rs", "runs products over addresses"),
    ("src/device/cpu/matmul/kernels/x86_64.rs", "the processor's instructions"),
    ("src/device/cpu/matmul/packing.rs", "copies operands into panels"),
    ("src/device/cpu/matmul/panels.rs", "the types of functions over addresses"),
    ("src/device/cpu/matmul/prepacked.rs", "packs operands, and runs products over them"),
    ("src/device/cpu/matmul/problem.rs", "moves addresses to other threads"),
    ("src/device/cpu/matmul/store.rs", "writes sums to the output by address"),
    ("src/device/cpu/matmul/tasks.rs", "moves addresses to other threads"),
    ("src/device/cpu/matmul/tiny.rs", "runs products over addresses"),
    ("src/device/cpu/gather_scatter.rs", "moves elements by index and mask"),
    (
        "src/device/cpu/interpret/device.rs",
        "implements the trait, by calls of the host and of interpreted programs",
    ),
    ("src/device/cpu/interpret/frame.rs", "runs instructions over addresses"),
    ("src/device/cpu/interpret/instructions.rs", "loops over addresses"),
    ("src/device/cpu/interpret/map.rs", "runs interpreted programs over addresses"),
    ("src/device/cpu/interpret/reduce/accumulate.rs", "runs interpreted reducers over addresses"),
    (
        "src/device/cpu/interpret/reduce/accumulators.rs",
        "combines accumulators of interpreted reducers by address",
    ),
    ("src/device/cpu/interpret/reduce/mod.rs", "runs interpreted reductions over addresses"),
    ("src/device/cpu/interpret/reduce/program.rs", "reads constants that a program wrote"),
    ("src/device/cpu/interpret/execute.rs", "runs programs over addresses, through scratch memory"),
    ("src/device/cpu/interpret/scan/columns.rs", "runs interpreted scans over addresses"),
    ("src/device/cpu/interpret/scan/machine.rs", "runs interpreted reducers over addresses"),
    ("src/device/cpu/interpret/scan/mod.rs", "runs interpreted scans over addresses"),
    ("src/device/cpu/interpret/scan/rows.rs", "runs interpreted scans over addresses"),
    ("src/device/cpu/interpret/scratch.rs", "writes values to scratch memory"),
    ("src/device/cpu/reduce/accumulate.rs", "keeps values in buffers that are not initialized"),
    ("src/device/cpu/reduce/accumulators.rs", "accumulators of reducers by address, their type erased"),
    ("src/device/cpu/reduce/columns.rs", "reduces columns over addresses"),
    ("src/device/cpu/reduce/call.rs", "moves addresses to other threads"),
    ("src/device/cpu/reduce/mod.rs", "runs reductions over addresses"),
    ("src/device/cpu/reduce/packed_columns.rs", "packs the values of columns by address"),
    ("src/device/cpu/reduce/pairwise.rs", "keeps accumulators in memory that is not initialized"),
    ("src/device/cpu/reduce/rows.rs", "reduces rows over addresses"),
    ("src/device/cpu/scan/call.rs", "copies between operands and scratch memory"),
    ("src/device/cpu/scan/loops.rs", "runs scans over addresses"),
    ("src/device/cpu/scan/mod.rs", "runs scans over addresses"),
    ("src/device/cpu/mod.rs", "implements the trait, whose kernels take addresses"),
    ("src/device/cpu/sort/bitonic.rs", "the processor's instructions; rows of a matrix by their address"),
    ("src/device/cpu/sort/items.rs", "hands out parts of a block of memory"),
    ("src/device/cpu/sort/lines.rs", "reads and writes lines by address"),
    ("src/device/cpu/sort/mod.rs", "hands the addresses of operands to the sort of their elements"),
    ("src/device/cpu/sort/partition.rs", "the processor's instructions; keys by their address"),
    ("src/device/cpu/sort/quick.rs", "runs partitions and a sorting network over keys by their address"),
    ("src/device/cpu/sort/radix.rs", "runs a sorting network over rows by their address"),
    ("src/device/cpu/sort/short.rs", "runs a sorting network over lines by their address"),
    ("src/device/any.rs", "implements the trait, by calls of another device"),
    ("src/cuda/transfer.rs", "page-locked memory as tensors; copies that are queued"),
    ("src/cuda/transfer.rs", "page-locked memory as tensors; queued copies"),
    ("src/cuda/user_kernel.rs", "queues a kernel that a program brings"),
    ("src/device/cuda/driver/context.rs", "calls the driver"),
    ("src/device/cuda/driver/kernel_cache.rs", "calls the driver"),
    ("src/device/cuda/driver/loading.rs", "opens NVIDIA's libraries"),
    ("src/device/cuda/driver/nvrtc.rs", "calls NVRTC"),
    ("src/device/cuda/driver/progress.rs", "reads a word that kernels write"),
    ("src/device/cuda/engine/copy.rs", "queues kernels over addresses"),
    ("src/device/cuda/engine/cublas.rs", "calls cuBLAS"),
    ("src/device/cuda/engine/gather_scatter.rs", "queues kernels over addresses"),
    ("src/device/cuda/engine/map.rs", "queues kernels over addresses"),
    ("src/device/cuda/engine/matmul.rs", "queues kernels over addresses"),
    ("src/device/cuda/engine/reduce.rs", "queues kernels over addresses"),
    ("src/device/cuda/engine/rows.rs", "queues kernels over addresses"),
    ("src/device/cuda/engine/scan.rs", "queues kernels over addresses"),
    ("src/device/cuda/engine/sort.rs", "queues kernels over addresses"),
    ("src/device/cuda/engine/transpose_map.rs", "queues kernels over addresses"),
    ("src/device/cuda/engine/user_kernel.rs", "queues a kernel that a program brings"),
    ("src/device/cuda/memory/block.rs", "memory of a GPU"),
    ("src/device/cuda/memory/byte_copies.rs", "copies between the memories of host and GPUs"),
    ("src/device/cuda/memory/pinned.rs", "page-locked memory of the host"),
    ("src/device/cuda/memory/staging.rs", "addresses of page-locked memory, for any thread"),
    ("src/device/cuda/mod.rs", "implements the trait, whose kernels take addresses"),
    ("src/device/cuda/stream/graph.rs", "calls the driver"),
    ("src/device/cuda/stream/ordering.rs", "calls the driver"),
    ("src/device/cuda/stream/queue.rs", "calls the driver"),
    ("src/device/delegate.rs", "the signatures of the trait, whose kernels take addresses"),
    ("src/device/meta.rs", "implements the trait, whose kernels take addresses"),
    ("src/device/mod.rs", "the trait: addresses that only the device may follow"),
    ("src/device/erased_rule.rs", "hands operands to operators that state their backward pass"),
    ("src/device/operator_rule.rs", "the invariants of operands with sizes and element type"),
    ("src/device/reference.rs", "plain loops over addresses of devices that the host can address"),
    ("src/kernel/reducer.rs", "the type of a function over addresses"),
    ("src/dynamic/create.rs", "memory from outside and from bytes"),
    ("src/erased_memory.rs", "handles on memory whose device is known at run time"),
    ("src/dynamic/gradients.rs", "memory under a tape; gradients in the layouts of their tensors"),
    ("src/dynamic/named.rs", "hands operands to kernels without their types"),
    ("src/dynamic/ffi.rs", "handles as pointers, for other languages"),
    ("src/dynamic/tensor.rs", "the invariants of a tensor whose types are known at run time"),
    ("src/dynamic/views.rs", "other axes over the same memory"),
    ("src/element/half/mod.rs", "which bytes are valid elements; the processor's instructions"),
    ("src/element/float8.rs", "which bytes are valid elements"),
    ("src/element/quantized_int.rs", "which bytes are valid elements"),
    ("src/element/mod.rs", "which bytes are valid elements"),
    ("src/expr/apply.rs", "hands the addresses of operands to a device"),
    ("src/expr/leaf_list.rs", "hands the addresses of operands to a device"),
    ("src/expr/eval.rs", "hands the addresses of operands to a device"),
    ("src/expr/reduce.rs", "hands the addresses of operands to a device"),
    ("src/expr/in_place.rs", "hands the addresses of operands to a device"),
    ("src/expr/named.rs", "hands operands to a kernel without their types"),
    ("src/expr/contiguous.rs", "hands operands to a device"),
    ("src/io/dynamic.rs", "reads the elements of a tensor that it borrows"),
    ("src/interop/dlpack/mod.rs", "memory and structs of other libraries"),
    ("src/interop/dlpack/abi.rs", "the type of a deleter"),
    ("src/interop/faer.rs", "memory of another library"),
    ("src/interop/nalgebra.rs", "memory of another library"),
    ("src/interop/ndarray.rs", "memory of another library"),
    ("src/interop/shared_memory.rs", "memory of several processes"),
    ("src/io/file.rs", "memory that is written before a reader sees it"),
    ("src/io/safetensors/mod.rs", "maps files"),
    ("src/scalar/compute_type.rs", "casts floats that are in range, as vectors"),
    ("src/fallible/arc.rs", "reference counting whose allocation can fail"),
    ("src/tensor/any_device.rs", "the same memory under another type of device"),
    ("src/tensor/external.rs", "vectors, foreign pointers and cells as memory"),
    ("src/linalg/batch.rs", "hands the matrices of a batch to tasks"),
    ("src/ops/shape/repeat.rs", "hands the addresses of operands to a device"),
    ("src/ops/linalg/matmul.rs", "hands the addresses of operands to a device"),
    ("src/ops/indexing/mask.rs", "hands the addresses of operands to a device"),
    ("src/ops/indexing/gather.rs", "hands the addresses of operands to a device"),
    ("src/ops/indexing/multi_index.rs", "hands the addresses of operands to a device"),
    ("src/ops/indexing/scatter.rs", "hands the addresses of operands to a device"),
    ("src/ops/linalg/prepacked.rs", "hands the addresses of operands to a device"),
    ("src/ops/sorting/sort.rs", "hands the addresses of operands to a device"),
    ("src/ops/nn/conv/mod.rs", "hands the addresses of operands to a device"),
    ("src/ops/nn/conv/products.rs", "hands the addresses of operands to a device"),
    ("src/ops/nn/conv/rule.rs", "calls products that hand addresses to a device"),
    ("src/tensor/bytes.rs", "elements as bytes, and bytes as elements"),
    ("src/tensor/display/mod.rs", "elements as bytes, to be printed"),
    ("src/tensor/create.rs", "fills fresh memory before it has elements"),
    ("src/tensor/rule_operands.rs", "tensors as operands of rules, and back"),
    ("src/tensor/tensor.rs", "the invariants of a tensor"),
    ("src/tensor/cpu_access.rs", "references to elements on the CPU"),
    ("src/tensor/iter/mod.rs", "references to elements on the CPU, in turn"),
    ("src/tensor/iter/parallel.rs", "references to elements on the CPU, on several threads"),
    ("src/tensor/complex.rs", "complex numbers as pairs of reals, and back"),
    ("src/tensor/views.rs", "other layouts over the same memory"),
    ("src/tensor/parts.rs", "parts of the same memory"),
    ("src/tensor/ffi.rs", "handles as pointers"),
    ("src/tensor/resize.rs", "changes memory under a layout"),
    ("src/tensor/ownership.rs", "handles on the same memory; copies"),
    ("src/tensor/view.rs", "the invariants of a view"),
    ("src/tensor/view_mut.rs", "the invariants of an exclusive view"),
];

/// The files that take an address from a reference: of one whole value, never of an element for its
/// neighbors.
const ADDRESSES: &[(&str, &str, &str)] = &[
    ("src/device/cpu/parallel/job_slot.rs", "from_ref", "the job, read as one value"),
    ("src/device/cpu/elementwise/mod.rs", "from_ref", "the program, read as one value"),
    ("src/device/cpu/elementwise/row_constants.rs", "from_ref", "the bytes of a value in the memo"),
    ("src/device/cpu/elementwise/row_constants.rs", "from_mut", "the bytes of a value in the memo"),
    ("src/device/cuda/engine/cublas.rs", "from_ref", "a scale factor, as one value"),
    ("src/device/cpu/interpret/map.rs", "from_ref", "the program, read as one value"),
    ("src/device/cpu/interpret/reduce/mod.rs", "from_ref", "the reduction, read as one value"),
    ("src/device/cpu/interpret/scan/mod.rs", "from_ref", "the scan, read as one value"),
    ("src/device/cpu/interpret/reduce/accumulators.rs", "from_ref", "the reducer, read as one value"),
    ("src/device/cpu/reduce/mod.rs", "from_ref", "the body, read as one value"),
    ("src/device/cpu/scan/mod.rs", "from_ref", "the body, read as one value"),
    ("src/fallible/arc.rs", "raw", "the value beside its counter, dropped or moved as one value"),
];

/// Words of mechanisms that are also names of operators, in the folders that know no operators.
const MECHANISMS: &[(&str, &str)] = &[
    ("add", "advances an address"),
    ("not", "is a word of `cfg`"),
    ("Add", "is a step of `scalar::Arith`, of which products are made"),
    ("Mul", "is a step of `scalar::Arith`, of which products are made"),
    ("Sub", "is a step of `scalar::Arith`, of which complex products are made"),
    ("Div", "is a step of `scalar::Arith`, which knows signs where the others do not"),
    ("Equal", "is a step of `scalar::Node`"),
];

/// The panics, by file and text, and why each cannot happen or should.
const PANICS: &[(&str, &str, &str, &str)] = &[
    ("src/autograd/rows.rs", "assert", "a reducer has no state", "checked by the compiler"),
    (
        "src/device/cpu/matmul/kernels/mod.rs",
        "assert",
        "",
        "checked by the compiler: the sums of each tile fit the buffer for them",
    ),
    ("src/device/cpu/matmul/packing.rs", "panic", "no panels of such units", "checked by the compiler"),
    (
        "src/device/cpu/matmul/packing.rs",
        "assert",
        "a unit of a panel fits the buffer",
        "units would be written outside the buffer",
    ),
    (
        "src/device/cpu/interpret/frame.rs",
        "assert",
        "a block fits into the registers",
        "a larger one would write outside",
    ),
    (
        "src/device/cpu/interpret/scratch.rs",
        "assert",
        "",
        "checked by the compiler: lists in scratch memory are aligned",
    ),
    (
        "src/device/cpu/sort/items.rs",
        "assert",
        "the buffers of a sort are counted before it",
        "a wrong count would write outside",
    ),
    (
        "src/device/cpu/reduce/accumulate.rs",
        "assert",
        "",
        "checked by the compiler: the widths of the tree of accumulators",
    ),
    (
        "src/device/cpu/reduce/packed_columns.rs",
        "assert",
        "",
        "checked by the compiler: scratch has room behind each operand",
    ),
    (
        "src/device/cpu/memory/scratch.rs",
        "assert",
        "scratch: blocks are counted before they are taken",
        "a wrong count would write outside",
    ),
    (
        "src/device/cpu/elementwise/kernel.rs",
        "assert",
        "",
        "checked by the compiler: every element fits the room that is kept for it",
    ),
    (
        "src/device/cpu/elementwise/row_constants.rs",
        "assert",
        "",
        "checked by the compiler: every element fits the room that is kept for it",
    ),
    (
        "src/device/cpu/elementwise/kernel.rs",
        "assert",
        "without outputs a program is one in place",
        "checked by the compiler",
    ),
    (
        "src/device/cpu/elementwise/non_temporal_target.rs",
        "assert",
        "",
        "checked by the compiler: chunks of any width are whole pairs of cache lines",
    ),
    (
        "src/device/cpu/memory/pool.rs",
        "panic",
        "steady state: {allocations} new blocks of memory; see `Cpu::steady_state`",
        "a guard of tests, which is made to panic",
    ),
    (
        "src/device/cpu/isa.rs",
        "unreachable",
        "a loop that is called by AVX2 at most",
        "a result would be left unwritten",
    ),
    (
        "src/device/cpu/reduce/accumulators.rs",
        "assert",
        "the alignment of accumulators is at most that of scratch memory",
        "checked by the compiler",
    ),
    (
        "src/device/cpu/strided/iteration.rs",
        "assert",
        "the axes of a row fit one space",
        "a second space would be lost",
    ),
    ("src/dynamic/axes.rs", "assert", "a layout of few axes", "checked by the compiler"),
    ("src/dynamic/tensor.rs", "assert", "", "checked by the compiler"),
    ("src/interop/dlpack/abi.rs", "assert", "", "checked by the compiler: sizes and places in C's structs"),
    (
        "src/kernel/in_place.rs",
        "assert",
        "a program in place loads each of its outputs",
        "checked by the compiler",
    ),
    (
        "src/layout/views.rs",
        "expect",
        "the type says that axis A exists",
        "the bound of the function says so",
    ),
    (
        "src/ops/shape/meshgrid.rs",
        "expect",
        "a line stands along any axis, and the sizes can be counted",
        "axes of size 1 are a view, and the count is checked",
    ),
    (
        "src/ops/linalg/einsum.rs",
        "panic",
        "{}",
        "in a constant, where it is an error of the compiler with the text of the parser",
    ),
    (
        "src/ops/std_ops.rs",
        "panic",
        "{error}",
        "std operators have no Result: they panic with the error's text",
    ),
    (
        "src/scalar/trace.rs",
        "expect",
        "lanes of `Trace` exist inside `trace` only",
        "the type has no constructor outside",
    ),
    ("src/tensor/create.rs", "panic", "{error}", "`From` has no Result; `from_array` and `from_slice` have"),
    ("src/tensor/tensor.rs", "assert", "", "checked by the compiler: sizes of the struct"),
    ("src/tensor/cpu_access.rs", "panic", "index", "`Index` has no Result; `get` has"),
    ("src/tensor/cpu_access.rs", "panic", "{error}", "`IndexMut` has no Result; `view_mut` has"),
    (
        "src/tensor/iter/mod.rs",
        "expect",
        "one axis of a layout with elements is a layout",
        "its positions are some of the layout's",
    ),
    ("src/tensor/iter/mod.rs", "panic", "{error}", "iterators have no Result; documented under Panics"),
    ("src/tensor/parts.rs", "expect", "a chunk lies inside its axis", "both ends are cut to the axis"),
    ("src/tensor/parts.rs", "expect", "chunks of 1", "only chunks of 0 are refused"),
    ("src/tensor/ownership.rs", "assert", "the caller has compared", "private callers, which compare"),
];

/// The dependencies, and why.
const DEPENDENCIES: &[(&str, &str)] = &[
    ("approx", "comparisons within a tolerance, in generic code"),
    ("bytemuck", "elements as bytes"),
    ("cudarc", "CUDA's driver and compiler; a feature"),
    ("libloading", "opens NVIDIA's libraries where `cudarc` would panic; a feature"),
    ("faer", "its matrices, and its factorizations; features"),
    ("flate2", "deflates and inflates, in Rust; a feature"),
    ("libc", "memory of several processes, on Linux; a feature"),
    ("half", "its 16-bit floats; a feature"),
    ("image", "its pictures; a feature"),
    ("memmap2", "maps files; a feature"),
    ("nalgebra", "its matrices; a feature"),
    ("ndarray", "its arrays; a feature"),
    ("num-complex", "complex numbers"),
    ("num-traits", "generic numeric code meets the crate"),
    ("rayon", "parallel iterators; a feature"),
    ("realfft", "Fourier transforms of real numbers; a feature"),
    ("rustfft", "Fourier transforms; a feature"),
    ("rayon-core", "threads; a feature"),
    ("serde", "serialized tensors; a feature"),
    ("typenum", "arithmetic of ranks in types"),
    ("zip", "archives of tensors; a feature"),
];

/// Crates that call a compiler or a library of the system when they are built.
const NEEDS_A_C_COMPILER: &[&str] =
    &["cc", "cmake", "bindgen", "pkg-config", "vcpkg", "autotools", "nasm-rs", "clang-sys"];

const LONGEST: usize = 600;

// ------------------------------------------------------------ rules

/// Which module a name at the crate's root belongs to: the re-exports of `lib.rs`, and exported macros.
fn roots(files: &[Source]) -> BTreeMap<String, String> {
    let mut roots = BTreeMap::new();
    for file in files {
        let module = file.module()[0].clone();
        for (i, token) in file.tokens.iter().enumerate() {
            if file.path == "src/lib.rs"
                && token.text == "use"
                && ORDER.contains(&file.tokens[i + 1].text.as_str())
            {
                let module = file.tokens[i + 1].text.clone();
                let names = file.tokens[i + 2..].iter().take_while(|token| token.text != ";");
                roots.extend(
                    names
                        .filter(|token| token.text.chars().all(char::is_alphanumeric))
                        .map(|name| (name.text.clone(), module.clone())),
                );
            }
            if reads(&file.tokens, i, &["macro_export", "]", "macro_rules", "!"]) {
                roots.insert(file.tokens[i + 4].text.clone(), module.clone());
            }
        }
    }
    roots
}

/// The modules that a file names: those at the root, each with a line, and the names inside its own.
fn named(file: &Source, roots: &BTreeMap<String, String>) -> (BTreeMap<String, usize>, BTreeSet<String>) {
    let own = file.module()[0].clone();
    let (mut modules, mut inside) = (BTreeMap::new(), BTreeSet::new());
    for (path, line) in paths(file) {
        let Some(first) = path.first() else { continue };
        let module = roots.get(first).filter(|_| !ORDER.contains(&first.as_str())).unwrap_or(first);
        if *module == own {
            inside.extend(path);
        } else {
            modules.entry(module.clone()).or_insert(line);
        }
    }
    (modules, inside)
}

/// Imports from modules that come later in the reading order.
fn upward(file: &Source, roots: &BTreeMap<String, String>) -> Vec<String> {
    let place = |module: &str| ORDER.iter().position(|&name| name == module);
    let own = place(&file.module()[0]);
    let (modules, _) = named(file, roots);
    let wrong = modules
        .into_iter()
        .filter(|(module, _)| place(module).is_none_or(|at| own.is_none_or(|own| at > own)));
    wrong
        .map(|(module, line)| format!("{}:{line}: names `{module}`, which it comes before", file.path))
        .collect()
}

/// A header that does not name exactly the modules that the file imports. Of its own module it may name the
/// parts that it uses.
fn header(file: &Source, roots: &BTreeMap<String, String>) -> Option<String> {
    let (modules, inside) = named(file, roots);
    let module = file.module();
    let wanted = ORDER
        .iter()
        .filter(|&&name| modules.contains_key(name))
        .map(|name| format!("`{name}`"))
        .collect::<Vec<_>>()
        .join(", ");
    let wanted = if wanted.is_empty() { "nothing".into() } else { wanted };
    // A plain comment behind the header: users read the header.
    let mut top = file.text.lines().skip_while(|line| line.starts_with("//!"));
    let Some(first) = top.next().and_then(|line| line.strip_prefix("// Imports: ")) else {
        return Some(format!("{}: no line `// Imports: {wanted}.` behind the header", file.path));
    };
    let more: String = top.take_while(|line| line.starts_with("// `")).collect();
    let line = [first, &more].concat();
    let line = line.split("Laws:").next().unwrap_or("");
    let said: BTreeSet<&str> = line.split('`').skip(1).step_by(2).collect();
    let is_own = |name: &str| module.iter().any(|own| own == name) || inside.contains(name);
    let true_ = said.iter().all(|name| modules.contains_key(*name) || is_own(name))
        && modules.keys().all(|name| said.contains(name.as_str()));
    (!true_).then(|| format!("{}: says `Imports: {}`, imports {wanted}", file.path, line.trim()))
}

/// `unsafe` outside the listed files; blocks and implementations of it without a reason above them.
fn unsafe_rules(file: &Source) -> Vec<String> {
    let mut complaints = Vec::new();
    let lines: Vec<&str> = file.text.lines().collect();
    for (i, token) in file.tokens.iter().enumerate().filter(|(_, token)| token.text == "unsafe") {
        if !UNSAFE.iter().any(|(path, _)| *path == file.path) {
            complaints.push(format!("{}:{}: `unsafe` outside the listed files", file.path, token.line));
        }
        let block = reads(&file.tokens, i + 1, &["{"]) || reads(&file.tokens, i + 1, &["impl"]);
        let above = &lines[token.line.saturating_sub(8)..token.line];
        if block && !above.iter().any(|line| line.contains("SAFETY:") || line.contains("# Safety")) {
            complaints.push(format!("{}:{}: no `SAFETY:` above", file.path, token.line));
        }
    }
    complaints
}

/// Casts to pointers, and addresses taken of references, outside the listed places: a pointer to one element
/// must not be used for its neighbors; addresses come from the memory and move by `cast` and `wrapping_add`.
fn address_rules(file: &Source) -> Vec<String> {
    let mut complaints = Vec::new();
    for (i, token) in file.tokens.iter().enumerate() {
        let cast =
            reads(&file.tokens, i, &["as", "*", "mut"]) || reads(&file.tokens, i, &["as", "*", "const"]);
        let taken = matches!(token.text.as_str(), "from_ref" | "from_mut" | "addr_of" | "addr_of_mut")
            || reads(&file.tokens, i, &["raw", "mut"])
            || reads(&file.tokens, i, &["raw", "const"]);
        let listed = ADDRESSES.iter().any(|(path, word, _)| *path == file.path && *word == token.text);
        if cast || taken && !listed {
            complaints.push(format!(
                "{}:{}: `{}` makes a pointer from a reference or a cast",
                file.path, token.line, token.text
            ));
        }
    }
    complaints
}

/// The names of operators, as methods and as types.
fn operator_names() -> BTreeSet<String> {
    let camel =
        |name: &str| name.split('_').map(|part| part[..1].to_uppercase() + &part[1..]).collect::<String>();
    built_in().iter().flat_map(|row| [row.name.to_string(), camel(row.name)]).collect()
}

/// Operators that a device or a kernel knows by name.
fn operators_below(file: &Source, names: &BTreeSet<String>) -> Vec<String> {
    let below = ["src/device/", "src/kernel/"].iter().any(|folder| file.path.starts_with(folder));
    let known = |token: &&Token| {
        below && names.contains(&token.text) && !MECHANISMS.iter().any(|(word, _)| *word == token.text)
    };
    file.tokens
        .iter()
        .filter(known)
        .map(|token| format!("{}:{}: the operator `{}`", file.path, token.line, token.text))
        .collect()
}

/// Files that are too long, and words of a draft.
fn drafts(file: &Source) -> Vec<String> {
    let mut complaints = Vec::new();
    let lines = file.text.lines().count();
    if lines > LONGEST {
        complaints.push(format!("{}: {lines} lines", file.path));
    }
    for (i, token) in file.tokens.iter().enumerate() {
        let draft = matches!(
            token.text.as_str(),
            "todo" | "unimplemented" | "dbg" | "print" | "println" | "eprint" | "eprintln"
        );
        if draft && reads(&file.tokens, i + 1, &["!"]) {
            complaints.push(format!("{}:{}: `{}!`", file.path, token.line, token.text));
        }
    }
    complaints
}

/// Panics can start here: word, text, line.
fn panics(file: &Source) -> Vec<(String, String, usize)> {
    let mut found = Vec::new();
    for (i, token) in file.tokens.iter().enumerate() {
        let word = token.text.as_str();
        let method = matches!(word, "unwrap" | "expect" | "unwrap_err" | "expect_err")
            && i > 0
            && reads(&file.tokens, i - 1, &["."]);
        let named = matches!(word, "panic" | "unreachable" | "assert" | "assert_eq" | "assert_ne")
            && reads(&file.tokens, i + 1, &["!"]);
        if method || named {
            let mut depth = 0;
            let arguments = file.tokens[i + 1 + usize::from(named)..].iter().take_while(|token| {
                depth += i32::from(token.text == "(") - i32::from(token.text == ")");
                depth > 0
            });
            let text = arguments.filter_map(|token| token.text.strip_prefix('"')).last().unwrap_or("");
            found.push((word.to_string(), text.to_string(), token.line));
        }
    }
    found
}

/// Panics that are not listed.
fn panic_rules(file: &Source) -> Vec<String> {
    let listed =
        |word: &str, text: &str| PANICS.iter().any(|row| (row.0, row.1, row.2) == (&*file.path, word, text));
    let wrong = panics(file).into_iter().filter(|(word, text, _)| !listed(word, text));
    wrong.map(|(word, text, line)| format!("{}:{line}: `{word}` with the text {text:?}", file.path)).collect()
}

/// The names of `[dependencies]` in a manifest.
fn dependencies(manifest: &str) -> BTreeSet<String> {
    let is_section =
        |line: &str| line.starts_with('[') && (line.ends_with(".dependencies]") || line == "[dependencies]");
    let mut names = BTreeSet::new();
    let mut inside = false;
    for line in manifest.lines().map(str::trim) {
        if line.starts_with('[') {
            inside = is_section(line);
            names.extend(
                line.strip_prefix("[dependencies.").and_then(|rest| rest.strip_suffix(']')).map(String::from),
            );
            if line.starts_with("[build-dependencies") {
                names.insert(line.to_string());
            }
        } else if inside && let Some((name, _)) = line.split_once('=') {
            names.insert(name.trim().to_string());
        }
    }
    names
}

/// Everything that these crates need, by the lock file: for any target, with any feature, to build or to run.
fn closure(lock: &str, roots: &BTreeSet<String>) -> BTreeSet<String> {
    let quoted =
        |line: &str| line.split('"').nth(1).unwrap_or("").split(' ').next().unwrap_or("").to_string();
    let mut needs: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for package in lock.split("[[package]]").skip(1) {
        let name = package.lines().find(|line| line.starts_with("name = ")).map(quoted).unwrap_or_default();
        let list = package.lines().filter(|line| line.starts_with(" \"")).map(quoted);
        needs.entry(name).or_default().extend(list);
    }
    let (mut found, mut open) = (BTreeSet::new(), roots.iter().cloned().collect::<Vec<_>>());
    while let Some(name) = open.pop() {
        if found.insert(name.clone()) {
            open.extend(needs.get(&name).into_iter().flatten().cloned());
        }
    }
    found
}

// ------------------------------------------------------------ the crate keeps them

pub(crate) fn root(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

pub(crate) fn read(path: &str) -> String {
    std::fs::read_to_string(root(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[track_caller]
fn none(complaints: impl IntoIterator<Item = String>) {
    let complaints: Vec<_> = complaints.into_iter().collect();
    assert!(complaints.is_empty(), "{} complaints:\n{}\n", complaints.len(), complaints.join("\n"));
}

#[test]
fn a_file_imports_only_modules_before_its_own() {
    let files = sources("src");
    let roots = roots(&files);
    assert_eq!(roots.get("Tensor").map(String::as_str), Some("tensor"));
    assert_eq!(roots.get("dim").map(String::as_str), Some("dim"));
    none(files.iter().filter(|file| file.path != "src/lib.rs").flat_map(|file| upward(file, &roots)));
    let declared = files.iter().find(|file| file.path == "src/lib.rs").unwrap();
    let modules = (0..declared.tokens.len())
        .filter(|&i| declared.tokens[i].text == "mod")
        .map(|i| declared.tokens[i + 1].text.as_str());
    assert_eq!(
        modules.collect::<BTreeSet<_>>(),
        ORDER.iter().copied().collect(),
        "every module has its place in the order"
    );
}

#[test]
fn the_header_of_each_file_lists_its_imports() {
    let files = sources("src");
    let roots = roots(&files);
    none(files.iter().filter(|file| file.path != "src/lib.rs").filter_map(|file| header(file, &roots)));
}

#[test]
fn unsafe_is_in_the_listed_files_only_each_block_with_its_reason() {
    let files = sources("src");
    none(files.iter().flat_map(unsafe_rules));
    let has = |path: &str| {
        files.iter().any(|file| file.path == path && file.tokens.iter().any(|token| token.text == "unsafe"))
    };
    none(
        UNSAFE
            .iter()
            .filter(|(path, _)| !has(path))
            .map(|(path, _)| format!("{path} is listed and has no `unsafe`")),
    );
    let manifest = read("Cargo.toml");
    for lint in ["unsafe_op_in_unsafe_fn", "undocumented_unsafe_blocks"] {
        assert!(manifest.contains(&format!("{lint} = \"deny\"")), "the compiler checks {lint}");
    }
}

#[test]
fn no_pointer_comes_from_a_reference_to_one_element() {
    let files = sources("src");
    none(files.iter().flat_map(address_rules));
    let used = |path: &str, word: &str| {
        files.iter().any(|file| file.path == path && file.tokens.iter().any(|token| token.text == word))
    };
    none(
        ADDRESSES
            .iter()
            .filter(|row| !used(row.0, row.1))
            .map(|row| format!("{row:?} is listed and not there")),
    );
}

#[test]
fn devices_and_kernels_know_no_operator_by_name() {
    let (files, names) = (sources("src"), operator_names());
    assert!(built_in().len() > 60 && names.contains("log_sigmoid") && names.contains("LogSigmoid"));
    none(files.iter().flat_map(|file| operators_below(file, &names)));
    for (word, reason) in MECHANISMS {
        let below =
            |file: &&Source| file.path.starts_with("src/device/") || file.path.starts_with("src/kernel/");
        let used = files.iter().filter(below).any(|file| file.tokens.iter().any(|token| token.text == *word));
        assert!(used && names.contains(*word), "`{word}`, which {reason}, needs no exception");
    }
}

#[test]
fn no_file_is_long_and_none_is_a_draft() {
    none(sources("src").iter().flat_map(drafts));
}

#[test]
fn a_panic_starts_only_where_it_is_listed_and_why() {
    let files = sources("src");
    none(files.iter().flat_map(panic_rules));
    let used = |row: &(&str, &str, &str, &str)| {
        files.iter().any(|file| {
            file.path == row.0
                && panics(file).iter().any(|(word, text, _)| (&**word, &**text) == (row.1, row.2))
        })
    };
    none(PANICS.iter().filter(|row| !used(row)).map(|row| format!("{row:?} is listed and not there")));
}

#[test]
fn the_dependencies_are_the_listed_ones_and_need_no_c_compiler() {
    let found = dependencies(&read("Cargo.toml"));
    assert_eq!(found, DEPENDENCIES.iter().map(|(name, _)| name.to_string()).collect());
    let all = closure(&read("Cargo.lock"), &found);
    assert!(all.contains("rayon-core"), "the lock file was understood");
    none(
        NEEDS_A_C_COMPILER
            .iter()
            .filter(|name| all.contains(**name))
            .map(|name| format!("`{name}` is needed")),
    );
}

// ------------------------------------------------------------ and each rule can be broken

fn file(path: &str, text: &str) -> Source {
    Source::new(path, text)
}

#[test]
fn words_in_comments_literals_and_tests_are_not_code() {
    let text = r####"
        // unsafe crate::ops
        /* unsafe /* nested */ unsafe */
        const A: &str = "unsafe \" crate::ops"; const B: &str = r#"unsafe " crate::ops"#;
        const C: (char, char, u8) = ('"', '\'', b'\\'); fn f<'a>(x: &'a str) -> &'a str { x }
        #[cfg(test)]
        mod tests { use crate::ops::Exp; fn f() { unsafe { } } }
        fn after() {}
    "####;
    let file = file("src/dim.rs", text);
    let words: Vec<_> = file.tokens.iter().map(|token| token.text.as_str()).collect();
    assert!(
        !words.contains(&"unsafe")
            && !words.contains(&"ops")
            && words.contains(&"after")
            && words.contains(&"'a")
    );
    assert_eq!((file.tokens.last().unwrap().line, tokens("1.5..2 r#type").len()), (8, 7));
    assert_eq!((paths(&file), panics(&file)), (vec![], vec![]));
}

#[test]
fn paths_are_followed_through_braces_parents_and_inline_modules() {
    let text = "use crate::{error::{Error, Result as R, *}, dim};
        use super::{walk::{self, Walk}, super::OperandRef};
        mod inner { use super::Here; mod deep { fn f() { super::super::here::<u8>() } } }
        fn f() -> crate::rank::Rank { $crate::tensor::Tensor::new() }
        pub(crate) fn g() {} pub(in crate::device) fn h() {}";
    let found: Vec<_> =
        paths(&file("src/device/cpu/map.rs", text)).into_iter().map(|(path, _)| path.join("::")).collect();
    let expected = "error::Error error::Result error::* dim device::cpu::walk device::cpu::walk::Walk \
        device::OperandRef device::cpu::map::Here device::cpu::map::here rank::Rank tensor::Tensor::new \
        device";
    assert_eq!(found.join(" "), expected);
}

#[test]
fn an_import_from_below_is_found() {
    let names = roots(&[
        file("src/lib.rs", "pub use tensor::{MetadataLock, Tensor};"),
        file("src/ops/mod.rs", "#[macro_export] macro_rules! elementwise { }"),
    ]);
    let complaints = |path, text| upward(&file(path, text), &names).len();
    assert_eq!(
        complaints("src/rank/mod.rs", "use crate::dim::Dim; use crate::rank::Rank; use crate::error;"),
        0
    );
    assert_eq!(complaints("src/rank/mod.rs", "use crate::layout::Layout;"), 1);
    assert_eq!(complaints("src/layout/views.rs", "fn f() { super::super::scalar::f() }"), 1);
    assert_eq!(complaints("src/device/cpu/map.rs", "fn f(x: crate::Tensor) {}"), 1);
    assert_eq!(complaints("src/kernel/mod.rs", "macro_rules! m { () => { $crate::elementwise! {} } }"), 1);
    assert_eq!(complaints("src/kernel/mod.rs", "use crate::Unknown;"), 1);
    assert_eq!(complaints("src/unlisted.rs", "use crate::error::Error;"), 1);
}

#[test]
fn a_header_that_is_missing_or_untrue_is_found() {
    let names = BTreeMap::new();
    let complaint = |text: &str| header(&file("src/layout/views.rs", text), &names).is_some();
    assert!(!complaint(
        "//! Views.\n// Imports: `dim`, `error`.   Laws: `position`.\nuse crate::{dim::Dim, error::Error};"
    ));
    assert!(!complaint("// Imports: `dim`, `layout`.\nuse crate::dim::Dim; use super::Layout;"));
    assert!(!complaint("// Imports: nothing."));
    assert!(complaint("//! Views.\nuse crate::dim::Dim;"));
    assert!(complaint("// Imports: `dim`.\nuse crate::{dim::Dim, error::Error};"));
    assert!(complaint("// Imports: `dim`, `rank`.\nuse crate::dim::Dim;"));
    assert!(complaint("// Imports: nothing.\nfn f() { crate::dim::f() }"));
}

#[test]
fn unsafe_code_elsewhere_or_without_a_reason_is_found() {
    let complaints = |path, text| unsafe_rules(&file(path, text)).len();
    assert_eq!(
        complaints(
            "src/fallible/arc.rs",
            "// SAFETY: fine.\nlet x =\n    unsafe { f() };\n/// # Safety\n/// 1.\nunsafe fn f() {}"
        ),
        0
    );
    assert_eq!(complaints("src/fallible/arc.rs", "let x = unsafe { f() };"), 1);
    assert_eq!(complaints("src/fallible/arc.rs", "unsafe impl Send for X {}"), 1);
    assert_eq!(complaints("src/layout/mod.rs", "// SAFETY: fine.\nunsafe { f() }"), 1);
    assert_eq!(complaints("src/layout/mod.rs", "unsafe fn f() {}"), 1);
}

#[test]
fn a_pointer_from_a_reference_is_found() {
    let complaints = |path, text| address_rules(&file(path, text)).len();
    assert_eq!(
        complaints(
            "src/tensor/cpu_access.rs",
            "let p = base.cast_mut().cast::<T>().wrapping_add(3); x as usize; 2 as *other"
        ),
        0
    );
    for text in [
        "&mut x[0] as *mut f32",
        "(&x[0]) as *const T",
        "ptr::from_mut(&mut x[0])",
        "addr_of!(x[0])",
        "&raw mut x[0]",
        "p as *mut u8",
    ] {
        assert_eq!(complaints("src/tensor/cpu_access.rs", text), 1, "{text}");
    }
    assert_eq!(complaints("src/device/cpu/elementwise/mod.rs", "ptr::from_ref(program)"), 0);
}

#[test]
fn an_operator_below_is_found() {
    let names = operator_names();
    let complaints = |path, text| operators_below(&file(path, text), &names).len();
    assert_eq!(complaints("src/device/cpu/map.rs", "/// exp\nfn expand(x: *mut u8) { x.add(1) }"), 0);
    assert_eq!(complaints("src/device/cpu/map.rs", "fn f() { x.exp() }"), 1);
    assert_eq!(complaints("src/kernel/mod.rs", "struct LogSigmoid; fn gelu_tanh() {}"), 2);
    assert_eq!(complaints("src/ops/elementwise/math.rs", "fn exp() {}"), 0);
}

#[test]
fn long_files_and_drafts_are_found() {
    assert_eq!(drafts(&file("src/dim.rs", &"\n".repeat(LONGEST))), Vec::<String>::new());
    assert_eq!(drafts(&file("src/dim.rs", &"\n".repeat(LONGEST + 1))).len(), 1);
    assert_eq!(
        drafts(&file(
            "src/dim.rs",
            "fn f() { todo!(); unimplemented!(\"\"); dbg!(1); println!(); eprintln!() }"
        ))
        .len(),
        5
    );
    assert_eq!(drafts(&file("src/dim.rs", "// todo!()\nfn print() { writeln!(f) }")).len(), 0);
}

#[test]
fn a_panic_that_is_not_listed_is_found() {
    let complaints = |text| panic_rules(&file("src/tensor/parts.rs", text)).len();
    assert_eq!(
        complaints(
            "x.expect(\"chunks of 1\"); x.unwrap_or(1); x.unwrap_or_else(f); debug_assert!(y); fn expect() {}"
        ),
        0
    );
    for text in [
        "x.unwrap()",
        "x.expect(\"chunks of 2\")",
        "panic!(\"{error}\")",
        "unreachable!()",
        "assert!(x)",
        "assert_eq!(f(\"a\"), 2)",
    ] {
        assert_eq!(complaints(text), 1, "{text}");
    }
}

#[test]
fn a_dependency_that_is_new_or_calls_a_c_compiler_is_found() {
    let manifest = "[package]\nname = \"x\"\n[dependencies]\na = \"1\"\nb = { version = \"1\" }\n\n\
                    [dependencies.c]\nversion = \"1\"\n[build-dependencies]\nd = \"1\"\n[dev-dependencies]\n\
                    e = \"1\"";
    let found = dependencies(manifest);
    assert_eq!(found.iter().map(String::as_str).collect::<Vec<_>>(), ["[build-dependencies]", "a", "b", "c"]);
    let lock = "[[package]]\nname = \"a\"\ndependencies = [\n \"f 1.0\",\n]\n[[package]]\nname = \"f\"\n\
                dependencies = [\n \"cc\",\n]\n[[package]]\nname = \"e\"\ndependencies = [\n \"cmake\",\n]";
    let all = closure(lock, &found);
    assert!(all.contains("cc") && !all.contains("cmake"));
}

// ------------------------------------------------------------ the table of parity

/// The rows of a table of parity: the words in backticks in the second and third column; none where it says
/// "not yet".
fn rows(table: &str) -> Vec<[Vec<String>; 2]> {
    let words = |cell: &str| cell.split('`').skip(1).step_by(2).map(String::from).collect::<Vec<_>>();
    let cells = table
        .lines()
        .filter(|line| line.starts_with('|'))
        .map(|line| line.split('|').map(str::trim).collect::<Vec<_>>());
    let rows =
        cells.filter(|cells| cells.len() == 5 && cells[1] != "ability" && !cells[1].starts_with("---"));
    rows.map(|cells| [words(cells[2]), words(cells[3])]).collect()
}

/// Whether an item of the crate exists: `name!`, `Name`, `Type::function`, `Type::Variant`.
fn exists(item: &str, files: &[Source]) -> bool {
    let any = |found: &dyn Fn(&Source, usize) -> bool| {
        files.iter().any(|file| (0..file.tokens.len()).any(|i| found(file, i)))
    };
    let is_type = |file: &Source, name: &str| {
        ["struct", "enum", "trait", "type"]
            .iter()
            .any(|kind| (0..file.tokens.len()).any(|i| reads(&file.tokens, i, &[kind, name])))
    };
    if let Some(name) = item.strip_suffix('!') {
        return any(&|file, i| reads(&file.tokens, i, &["macro_rules", "!", name]));
    }
    let Some((name, part)) = item.split_once("::") else {
        return files.iter().any(|file| is_type(file, item))
            || any(&|file, i| reads(&file.tokens, i, &["fn", item]));
    };
    let function = |file: &Source, i: usize| {
        // `fn slice, into_slice` of a table
        let second = reads(&file.tokens, i, &["fn"]) && reads(&file.tokens, i + 2, &[",", part]);
        second || reads(&file.tokens, i, &["fn", part])
    };
    let variant = |file: &Source| is_type(file, name) && file.tokens.iter().any(|token| token.text == part);
    let is_variant = part.starts_with(char::is_uppercase);
    files.iter().any(|file| is_type(file, name))
        && if is_variant { files.iter().any(variant) } else { any(&function) }
}

/// The tests of a file, by name.
fn tests_of(file: &Source) -> Vec<String> {
    let is_test = |i: &usize| reads(&file.tokens, *i, &["#", "[", "test", "]", "fn"]);
    (0..file.tokens.len()).filter(is_test).map(|i| file.tokens[i + 5].text.clone()).collect()
}

#[test]
fn the_table_of_parity_names_items_and_tests_that_exist_and_leaves_none_out() {
    let (files, table) = (sources("src"), rows(&read("docs/parity.md")));
    let known: BTreeSet<String> = ["paddle", "caffe2", "c10", "torch"]
        .iter()
        .flat_map(|from| {
            let path = format!("tests/tensors/parity_{from}.rs");
            tests_of(&file(&path, &read(&path))).into_iter().map(move |test| format!("parity_{from}::{test}"))
        })
        .collect();
    assert!(table.len() > 40 && known.len() > 40, "{} rows, {} tests", table.len(), known.len());
    let items = table.iter().flat_map(|[items, _]| items).filter(|item| !exists(item, &files));
    none(items.map(|item| format!("there is no `{item}`")));
    let named: BTreeSet<String> = table.iter().flat_map(|[_, tests]| tests.clone()).collect();
    let is_there = |test: &String| {
        known.contains(test) || test.starts_with("compile_fail/") && root("tests").join(test).exists()
    };
    none(named.iter().filter(|test| !is_there(test)).map(|test| format!("there is no test `{test}`")));
    none(known.difference(&named).map(|test| format!("`{test}` has no row")));
    none(
        table
            .iter()
            .filter(|[items, tests]| items.is_empty() != tests.is_empty())
            .map(|row| format!("half a row: {row:?}")),
    );
}

#[test]
fn an_item_or_a_row_that_does_not_exist_is_found() {
    let files = sources("src");
    for item in [
        "Tensor::resize",
        "Tensor::into_slice",
        "Tensor::is_channels_last_3d",
        "Error::Shared",
        "ResizePolicy",
        "dim!",
        "derivative",
    ] {
        assert!(exists(item, &files), "{item}");
    }
    for item in [
        "Tensor::no_such_thing",
        "Tenser::resize",
        "Error::NoSuchThing",
        "NoSuchThing",
        "no_such_thing!",
        "resized_not",
    ] {
        assert!(!exists(item, &files), "{item}");
    }
    let table = rows(
        "| ability | here | test |\n|---|---|---|\n| a | `b`, `c::d` | `e::f` |\n| g | not yet | not yet |\n\
         text `x`",
    );
    assert_eq!(table, [[vec!["b".to_string(), "c::d".into()], vec!["e::f".into()]], [vec![], vec![]]]);
    assert_eq!(tests_of(&file("x", "#[test] fn a() {} fn b() {} // #[test] fn c() {}")), ["a"]);
}
