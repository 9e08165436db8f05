//! Sets `rankform_unoptimized` in builds without optimization. Loops are then compiled once and not for every
//! instruction set: they would not be vectorized, and they are most of the code of an unoptimized build, in
//! this crate and in its users'.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(rankform_unoptimized)");
    if std::env::var("OPT_LEVEL").is_ok_and(|level| level == "0") {
        println!("cargo::rustc-cfg=rankform_unoptimized");
    }
}
