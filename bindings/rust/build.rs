//! Compiles the C source of primalloc as its CMake does: one object whose internal names are local,
//! so that a program takes all of it, constructors included, and no name of it can clash; the C++
//! operators in it are weak.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

mod tables;

const FLAGS: &[&str] = &[
    "-std=gnu11",
    "-fvisibility=hidden",
    "-ftls-model=initial-exec",
    "-fexceptions",
    "-fno-builtin-malloc",
    "-fno-builtin-calloc",
    "-fno-builtin-realloc",
    "-fno-builtin-free",
];
const NAMES: &[&str] =
    &["--wildcard", "--weaken-symbol=_Zn[wa]*", "--weaken-symbol=_Zd[la]*", "--localize-hidden"];
const FLAGS_WHERE_KNOWN: &[&str] = &["-fcf-protection=none"];

fn main() {
    let crate_root = PathBuf::from(variable("CARGO_MANIFEST_DIR"));
    let root = crate_root.join("../..");
    assert!(
        root.join("src/LAYERS").exists(),
        "{} holds no source of primalloc: this crate is used by path, from a checkout",
        root.display()
    );
    println!("cargo::rerun-if-changed={}", root.join("src").display());
    println!("cargo::rerun-if-changed={}", root.join("include").display());

    write_tables(&root);

    let mut build = cc::Build::new();
    build.define("_GNU_SOURCE", None).opt_level(2).pic(true).warnings(false);
    build.include(root.join("src")).include(root.join("include"));
    for flag in FLAGS {
        build.flag(flag);
    }
    for flag in FLAGS_WHERE_KNOWN {
        build.flag_if_supported(flag);
    }

    // Machine code, whatever CFLAGS want.
    let merged = PathBuf::from(variable("OUT_DIR")).join("primalloc-merged.o");
    let mut compiler = build.get_compiler().to_command();
    compiler.args(["-fno-lto", "-r", "-nostdlib", "-o"]);
    run(compiler.arg(&merged).args(sources(&root)));
    println!("cargo::rerun-if-env-changed=OBJCOPY");
    let objcopy = env::var("OBJCOPY").unwrap_or_else(|_| "objcopy".into());
    run(Command::new(objcopy).args(NAMES).arg(&merged));
    cc::Build::new().object(&merged).compile("primalloc");
    println!("cargo::rustc-link-lib=pthread");
    println!("cargo::rustc-link-lib=dl");
}

/// The Rust that follows from the tables of options and statistics.
fn write_tables(root: &Path) {
    let table = |path: &str| {
        fs::read_to_string(root.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
    };
    let folder = PathBuf::from(variable("OUT_DIR"));
    let figures = table("src/watch/figures.def");
    let statistics = tables::figures(&figures, "FIGURE", "Stats", "Where the memory is.")
        + &tables::figures(&figures, "CLASS_FIGURE", "ClassStats", "One size class.");
    fs::write(folder.join("stats.rs"), statistics).expect("stats.rs");
    let options = tables::options(&table("src/settings/options.def"));
    fs::write(folder.join("options.rs"), options).expect("options.rs");
}

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| panic!("cargo sets {name}"))
}

/// The files of an archive: for the feature `override` those of the standard names, which define the
/// others, too; of those that belong to a program's start the one that is not for shared libraries,
/// and nothing of the minimal one.
fn sources(root: &Path) -> Vec<PathBuf> {
    let layers = fs::read_to_string(root.join("src/LAYERS")).expect("src/LAYERS");
    let replaces = env::var_os("CARGO_FEATURE_OVERRIDE").is_some();
    let mut found = Vec::new();
    for layer in layers.split_whitespace() {
        let folder = root.join("src").join(layer);
        for entry in fs::read_dir(&folder).expect("a layer's folder") {
            let path = entry.expect("an entry of it").path();
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            let is_wanted = name.ends_with(".c")
                && (name == "start_constructor.c" || !name.starts_with("start_"))
                && name != "unwatched.c"
                && !name.starts_with(if replaces { "prim." } else { "standard_" });
            if is_wanted {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

fn run(command: &mut Command) {
    let status = command.status().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(status.success(), "{command:?}: {status}");
}
