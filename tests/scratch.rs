#[path = "cuda/classes.rs"]
mod classes;
#[path = "cuda/shapes.rs"]
mod shapes;
use rankform::Cuda;
use std::sync::Mutex;
pub fn gpu(ordinal: usize) -> Option<Cuda> { Some(Cuda::new(ordinal).unwrap()) }
pub static FIRST_GPU: Mutex<()> = Mutex::new(());
#[macro_export]
macro_rules! on_gpu {
    ($name:ident, |$gpu:ident| $body:block) => {
        #[test]
        fn $name() -> Result<()> {
            let _mine = $crate::FIRST_GPU.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            let Some($gpu) = $crate::gpu(0) else { return Ok(()) };
            fn body($gpu: &Cuda) -> Result<()> {
                $body
                Ok(())
            }
            body(&$gpu)?;
            $gpu.synchronize()?;
            assert_eq!($gpu.memory().live, 0, "memory of the GPU that was not given back");
            Ok(())
        }
    };
}
pub fn numbers(n: usize) -> Vec<f32> {
    (0..n).map(|i| ((i * 2654435761 % 1000) as f32 - 500.0) / 37.0).collect()
}
