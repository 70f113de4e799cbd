// Finds libfa for the linker. In this order: not at all (load-dynamic, or documentation on docs.rs), built from the sources in
// this crate (vendored), in FA_LIB_DIR, by pkg-config.
use std::env;
use std::path::Path;
#[cfg(any(feature = "bindgen", feature = "vendored"))]
use std::path::PathBuf;

#[cfg(feature = "bindgen")]
#[path = "generate.rs"]
mod generate;

/// The crate's own copy of libfa's sources.
#[cfg(any(feature = "bindgen", feature = "vendored"))]
fn native() -> PathBuf {
    Path::new(&env::var_os("CARGO_MANIFEST_DIR").unwrap()).join("native")
}

/// The libraries that libfa.a needs.
const STATIC_NEEDS: [&str; 4] = ["stdc++", "m", "pthread", "dl"];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    for name in ["FA_LIB_DIR", "FA_INCLUDE_DIR", "FA_CMAKE_ARGS", "DOCS_RS"] {
        println!("cargo::rerun-if-env-changed={name}");
    }
    #[cfg(feature = "bindgen")]
    generate_bindings();

    let feature = |name: &str| env::var_os(format!("CARGO_FEATURE_{name}")).is_some();
    if env::var_os("DOCS_RS").is_some() || feature("LOAD_DYNAMIC") {
        return;
    }
    #[cfg(feature = "vendored")]
    return build();
    #[cfg(not(feature = "vendored"))]
    find();
}

#[cfg(feature = "bindgen")]
fn generate_bindings() {
    let folder = env::var_os("FA_INCLUDE_DIR").map_or_else(|| native().join("include"), PathBuf::from);
    let header = folder.join("fa.h");
    println!("cargo::rerun-if-changed={}", header.display());
    println!("cargo::rerun-if-changed=generate.rs");
    let out = Path::new(&env::var_os("OUT_DIR").unwrap()).join("bindings.rs");
    std::fs::write(out, generate::bindings(header.to_str().expect("fa.h is in a folder whose name is not UTF-8")))
        .unwrap();
}

/// CPU only, but for the feature cuda. FA_CMAKE_ARGS goes to CMake after these options: "-DFA_ARCHS=89", for instance.
#[cfg(feature = "vendored")]
fn build() {
    let mut config = cmake::Config::new(native());
    config.profile("Release").build_target("fa").pic(true);
    for (name, value) in [
        ("BUILD_SHARED_LIBS", "OFF"),
        ("FA_INSTALL", "OFF"),
        ("FA_BUILD_TESTS", "OFF"),
        ("FA_BUILD_TOOL", "OFF"),
        ("FA_BUILD_BENCH", "OFF"),
        ("FA_BUILD_EXAMPLES", "OFF"),
        ("FA_BUILD_EMULATOR", "OFF"),
        ("FA_KERNELS", if cfg!(feature = "cuda") { "embed" } else { "off" }),
    ] {
        config.define(name, value);
    }
    for argument in env::var("FA_CMAKE_ARGS").unwrap_or_default().split_whitespace() {
        config.configure_arg(argument);
    }
    println!("cargo::rerun-if-changed=native");
    let folder = config.build().join("build").join("src");
    link(&folder, "static=fa");
    for library in STATIC_NEEDS {
        println!("cargo::rustc-link-lib={library}");
    }
    println!("cargo::metadata=include={}", native().join("include").display());
}

fn link(folder: &Path, library: &str) {
    println!("cargo::rustc-link-search=native={}", folder.display());
    println!("cargo::rustc-link-lib={library}");
    println!("cargo::metadata=lib_dir={}", folder.display());
}

#[cfg(not(feature = "vendored"))]
fn find() {
    if let Some(folder) = env::var_os("FA_LIB_DIR") {
        return find_in(Path::new(&folder));
    }
    match pkg_config::Config::new().atleast_version("0.1").probe("fa") {
        Ok(found) => {
            for folder in &found.link_paths {
                println!("cargo::metadata=lib_dir={}", folder.display());
            }
        }
        Err(error) => fail(&format!(
            "libfa was not found: FA_LIB_DIR is not set, and pkg-config says: {error}\n\
             Set FA_LIB_DIR=<the folder of libfa.so>, or PKG_CONFIG_PATH=<the folder of fa.pc>,\n\
             or use the feature vendored (builds libfa with CMake), or the feature load-dynamic (looks for it at run time)."
        )),
    }
}

/// Takes libfa.so, else libfa.a, from a folder or from the folder libfa in it, which is where an installation keeps them.
#[cfg(not(feature = "vendored"))]
fn find_in(folder: &Path) {
    for (file, kind) in [("libfa.so", "dylib=fa"), ("libfa.a", "static=fa")] {
        for place in [folder.join("libfa"), folder.to_path_buf()] {
            let path = place.join(file);
            let Ok(bytes) = std::fs::read(&path) else { continue };
            if !bytes.windows(10).any(|word| word == b"fa_forward") {
                continue; // Augeas' library of the same name
            }
            println!("cargo::rerun-if-changed={}", path.display());
            link(&place, kind);
            if kind == "static=fa" {
                for library in STATIC_NEEDS {
                    println!("cargo::rustc-link-lib={library}");
                }
            }
            return;
        }
    }
    fail(&format!(
        "FA_LIB_DIR is {}; expected a folder that holds libfa.so or libfa.a with fa_forward in it\n\
         (of an installation: PREFIX/lib, which has libfa/libfa.so; of a build: BUILD/src)",
        folder.display()
    ));
}

#[cfg(not(feature = "vendored"))]
fn fail(text: &str) -> ! {
    eprintln!("\nfa-sys: {text}\n");
    std::process::exit(1);
}
