//! The numbered examples run, and their assertions hold.

#[path = "../../examples/05_compute.rs"]
mod compute;
#[path = "../../examples/01_create.rs"]
mod create;
#[path = "../../examples/06_fuse.rs"]
mod fuse;
#[path = "../../examples/13_gradients.rs"]
mod gradients;
#[path = "../../examples/11_move.rs"]
mod moving;
#[path = "../../examples/08_new_device.rs"]
pub mod new_device;
#[path = "../../examples/09_new_meaning.rs"]
mod new_meaning;
#[path = "../../examples/07_new_operator.rs"]
mod new_operator;
#[path = "../../examples/03_ownership.rs"]
mod ownership;
#[path = "../../examples/04_resize.rs"]
mod resize;
#[path = "../../examples/10_rows.rs"]
mod rows;
#[path = "../../examples/02_views.rs"]
mod views;

macro_rules! runs {
    ($($test:ident: $example:ident;)*) => { $(
        #[test]
        fn $test() -> rankform::Result<()> {
            $example::main()
        }
    )* };
}
runs! {
    example_01_create_runs: create;
    example_02_views_runs: views;
    example_03_ownership_runs: ownership;
    example_04_resize_runs: resize;
    example_05_compute_runs: compute;
    example_06_fuse_runs: fuse;
    example_07_new_operator_runs: new_operator;
    example_08_new_device_runs: new_device;
    example_09_new_meaning_runs: new_meaning;
    example_10_rows_runs: rows;
    example_11_move_runs: moving;
    example_13_gradients_runs: gradients;
}
