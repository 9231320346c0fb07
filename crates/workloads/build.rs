//! Compiles the small programs of the UnixBench tests, which are embedded in the library. They are separate programs
//! because the cost of fork and exec grows with the size of the process; a worker would measure its own size.

use std::path::{Path, PathBuf};
use std::process::Command;

const PROGRAMS: &str = "src/kernels/unixbench/program";

/// Independent of the flags of the other crates, so that they do not change results. Each file is a separate codegen
/// unit without LTO, as Dhrystone requires, and functions are linked at their first call, as in C programs.
const FLAGS: [&str; 8] = [
    "--crate-type=bin",
    "--edition=2024",
    "-Copt-level=2",
    "-Cpanic=abort",
    "-Ccodegen-units=16",
    "-Clto=off",
    "-Crelro-level=partial",
    "-Cstrip=symbols",
];

fn main() {
    println!("cargo::rerun-if-changed={PROGRAMS}");
    println!("cargo::rerun-if-changed=build.rs");
    let out = PathBuf::from(variable("OUT_DIR"));
    compile("system", &["c"], &out);
    compile("arithmetic", &["c", "m"], &out);
}

fn compile(name: &str, libraries: &[&str], out: &Path) {
    let mut rustc = Command::new(variable("RUSTC"));
    rustc.args(FLAGS).args(["--target", &variable("TARGET"), "--crate-name", name]);
    rustc.args(libraries.iter().map(|library| format!("-l{library}")));
    if let Some(linker) = std::env::var_os("RUSTC_LINKER") {
        rustc.arg("-C").arg(format!("linker={}", linker.to_string_lossy()));
    }
    rustc.arg("-o").arg(out.join(name)).arg(format!("{PROGRAMS}/{name}.rs"));
    let status = rustc.status().expect("cargo started this with the same compiler");
    assert!(status.success(), "{name}.rs does not compile: {rustc:?}");
}

fn variable(name: &str) -> String {
    std::env::var(name).expect("cargo sets it for build scripts")
}
