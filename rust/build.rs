//! Finds `libtritonserver`: in `NESO_LIBRARY_DIR`, by `pkg-config`, or where `make capi` of
//! this checkout leaves it.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-env-changed=NESO_LIBRARY_DIR");
    println!("cargo:rerun-if-env-changed=PKG_CONFIG_PATH");
    println!("cargo:rerun-if-env-changed=DOCS_RS");
    println!("cargo:rustc-link-lib=dylib=tritonserver");
    if env::var_os("DOCS_RS").is_some() {
        return; // documentation is made without the library
    }
    match directory() {
        Some(dir) => {
            let dir = dir.canonicalize().unwrap_or(dir);
            println!("cargo:rustc-link-search=native={}", dir.display());
            // Programs of other packages read it as DEP_TRITONSERVER_LIBRARY_DIR.
            println!("cargo:library_dir={}", dir.display());
            if cfg!(unix) {
                // For the tests and examples of this package; see README.md for others.
                println!("cargo:rustc-link-arg=-Wl,-rpath,{}", dir.display());
            }
        }
        None => println!(
            "cargo:warning=libtritonserver was not found: `make capi` builds it, NESO_LIBRARY_DIR names its directory"
        ),
    }
}

/// The directory of the library; `None` leaves the search to the linker.
fn directory() -> Option<PathBuf> {
    if let Some(dir) = env::var_os("NESO_LIBRARY_DIR") {
        return Some(PathBuf::from(dir));
    }
    let pkg_config = Command::new("pkg-config")
        .args(["--variable=libdir", "tritonserver"])
        .output();
    if let Ok(done) = pkg_config {
        let dir = String::from_utf8_lossy(&done.stdout).trim().to_owned();
        if done.status.success() && !dir.is_empty() {
            return Some(PathBuf::from(dir));
        }
    }
    let manifest = env::var_os("CARGO_MANIFEST_DIR")?;
    let beside = Path::new(&manifest).join("../build/lib");
    println!("cargo:rerun-if-changed={}", beside.display());
    beside.join("libtritonserver.so").exists().then_some(beside)
}
