//! Says `rankform_unoptimized` where nothing is optimized: loops are then compiled once, not for every instruction set, since
//! no vectors come of them; that is most of what such a build compiles, in this crate and in its users'.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(rankform_unoptimized)");
    if std::env::var("OPT_LEVEL").is_ok_and(|level| level == "0") {
        println!("cargo::rustc-cfg=rankform_unoptimized");
    }
}
