//! The state of this thread: the operation that it runs, and whether its kernels are only compiled.
// Imports: nothing.

use std::cell::Cell;

thread_local! {
    static OPERATION: Cell<&'static str> = const { Cell::new("") };
    static COMPILE_ONLY: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work` between `set` and `restore`. `restore` runs also where `work` panics.
pub(in crate::device::cuda) fn during<T>(
    set: impl FnOnce(),
    restore: impl FnMut(),
    work: impl FnOnce() -> T,
) -> T {
    struct Restore<F: FnMut()>(F);
    impl<F: FnMut()> Drop for Restore<F> {
        fn drop(&mut self) {
            (self.0)()
        }
    }
    set();
    let _restore = Restore(restore);
    work()
}

/// Runs `work` as the operation of this name, or as a part of the operation that already runs.
pub(in crate::device::cuda) fn in_operation<T>(name: &'static str, work: impl FnOnce() -> T) -> T {
    let before = OPERATION.get();
    if !before.is_empty() {
        return work();
    }
    during(|| OPERATION.set(name), || OPERATION.set(""), work)
}

/// The name of the operation that runs, or `otherwise` if none does.
pub(in crate::device::cuda) fn operation_or(otherwise: &'static str) -> &'static str {
    let name = OPERATION.get();
    if name.is_empty() { otherwise } else { name }
}

/// Runs `work` without running its kernels: they are compiled and loaded, and memory is neither read nor
/// written.
pub(in crate::device::cuda) fn compile_only<T>(work: impl FnOnce() -> T) -> T {
    let before = COMPILE_ONLY.get();
    during(|| COMPILE_ONLY.set(true), move || COMPILE_ONLY.set(before), work)
}

/// Whether kernels are compiled and not run.
pub(in crate::device::cuda) fn is_compile_only() -> bool {
    COMPILE_ONLY.get()
}
