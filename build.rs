//! How a release build of the program is linked: a smaller file.

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=unwind.ld");
    let is = |name, value| env::var(name).is_ok_and(|is| is == value);
    if !is("PROFILE", "release") || !is("CARGO_CFG_TARGET_OS", "linux") || is_linker_chosen() {
        return;
    }
    // A panic aborts, so nothing reads the tables that unwind the stack: 2.7 MB.
    let directory = env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    println!("cargo::rustc-link-arg-bins=-T{directory}/unwind.ld");
}

/// Whether the builder has chosen a linker: gold and mold know no scripts.
fn is_linker_chosen() -> bool {
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    env::var_os("RUSTC_LINKER").is_some() || flags.contains("linker") || flags.contains("fuse-ld")
}
