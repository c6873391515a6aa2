//! A program as the kernel will see it: found in PATH, followed through #! lines, looked at.
//!
//!   resolve.rs  the name as typed -> the file, and the ELF image that runs in the end
//!   elf.rs      what an ELF header says of machine, class and loader
//!   inspect.rs  whether a preloaded library can take effect in that image

mod elf;
mod inspect;
mod resolve;

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::Command;

pub use elf::{Image, LinkedMalloc};
pub use inspect::check_preloadable;
pub use resolve::find;
use thiserror::Error;

use crate::OWN_FAILURE;

/// What to start, and what will then be running.
#[derive(Debug)]
pub struct Program {
    /// The name as typed, which becomes argv[0].
    pub name: OsString,
    pub arguments: Vec<OsString>,
    pub path: PathBuf,
    /// The ELF file that runs: `path` itself, or the interpreter of a script.
    pub image: PathBuf,
    /// What `env` finds for a script that is started through it; `env` itself loads first.
    pub found_by_env: Option<PathBuf>,
}

impl Program {
    pub fn command(&self) -> Command {
        use std::os::unix::process::CommandExt;
        let mut command = Command::new(&self.path);
        command.arg0(&self.name).args(&self.arguments);
        command
    }

    /// The malloc that is linked into it, which what is preloaded does not take the place of.
    pub fn own_malloc(&self) -> Option<LinkedMalloc> {
        Image::read(&self.image).ok()?.malloc
    }

    /// What is to be said of one that has a malloc of its own: it may not be reached.
    pub fn own_malloc_remark(&self) -> String {
        let title = self.title();
        if self.own_malloc() == Some(LinkedMalloc::Primalloc) {
            return format!(
                "{title} has primalloc linked in: what it allocates from that stays there, \
                 whatever is preloaded"
            );
        }
        format!(
            "{title} has a malloc linked in, which is found before any that is preloaded: what it \
             allocates is that one's, unless it passes calls on"
        )
    }

    /// How messages call it: the name as typed, and the image where that is another file.
    pub fn title(&self) -> String {
        let name = self.name.to_string_lossy();
        if self.image == self.path {
            name.into_owned()
        } else {
            format!("{name} (a script, run by {})", self.image.display())
        }
    }
}

/// Why a program cannot be started, or not with a preloaded library.
#[derive(Debug, Error)]
pub enum CannotStart {
    #[error("{program}: no such program in PATH")]
    NotInPath { program: String },
    #[error("{program}: no such file")]
    NoSuchFile { program: String },
    #[error("{program}: is a directory, not a program")]
    Directory { program: String },
    #[error("{program}: is not executable; if it is meant to be, chmod +x {program} makes it so")]
    NotExecutable { program: String },
    #[error("{program}: is neither an ELF program nor a script, so Linux cannot start it")]
    NotAProgram { program: String },
    #[error("{program}: its interpreter {interpreter} does not exist")]
    NoInterpreter { program: String, interpreter: String },
    #[error("{program}: its interpreters lead from one script to the next without an end")]
    TooManyInterpreters { program: String },
    #[error(
        "{program} is linked statically, so no dynamic loader is there to bring an allocator \
         in. Link it dynamically, or link it anew with libprimalloc.a"
    )]
    Static { program: String },
    #[error(
        "{program} is linked statically, and primalloc with it: nothing else can be brought in. \
         Start it as it is; options are given in PRIMALLOC_OPTIONS"
    )]
    StaticWithUs { program: String },
    #[error(
        "{program} is a static Go program: Go's runtime has an allocator of its own and calls \
         no malloc. Only the C parts of a Go program built with cgo can use primalloc"
    )]
    StaticGo { program: String },
    #[error(
        "{program} is built for {program_machine}, but {library} is for {library_machine}. \
         Build the library for {program_machine}, and name it with --library PATH"
    )]
    OtherMachine {
        program: String,
        program_machine: String,
        library: String,
        library_machine: String,
    },
    #[error(
        "{program} runs on musl's loader ({loader}), but {library} needs glibc. Run the \
         program's glibc build, or build primalloc.c into it, which make amalgamation writes"
    )]
    Musl { program: String, loader: String, library: String },
    #[error(
        "{program} {privilege}, so the kernel starts it in secure mode, in which the loader \
         ignores LD_PRELOAD. Run it as the user whose rights it takes, or run a copy of it \
         without them"
    )]
    Privileged { program: String, privilege: &'static str },
    #[error(
        "{program} is built with a sanitizer ({runtime}), which replaces malloc itself and must \
         be the first library. Use a build without the sanitizer"
    )]
    Sanitizer { program: String, runtime: String },
    #[error("{program}: cannot be read: {reason}")]
    Unreadable { program: String, reason: String },
    #[error("{library}: not a library that can be loaded: {reason}")]
    BadLibrary { library: String, reason: String },
    #[error("{program}: cannot be started")]
    Refused { program: String, source: io::Error },
}

impl CannotStart {
    /// The status that a shell gives: 127 for what is not there, 126 for what will not start.
    pub fn exit_status(&self) -> u8 {
        match self {
            CannotStart::BadLibrary { .. } => OWN_FAILURE,
            CannotStart::NotInPath { .. } | CannotStart::NoSuchFile { .. } => 127,
            _ => 126,
        }
    }

    /// The name, as it was typed, of what is no program at all.
    pub fn not_startable(&self) -> Option<&str> {
        use CannotStart::*;
        match self {
            NotInPath { program }
            | NoSuchFile { program }
            | Directory { program }
            | NotExecutable { program }
            | NotAProgram { program } => Some(program),
            _ => None,
        }
    }

    /// Whether the program itself would run, so that --force makes sense.
    pub fn is_only_about_preloading(&self) -> bool {
        use CannotStart::*;
        matches!(
            self,
            Static { .. }
                | StaticWithUs { .. }
                | StaticGo { .. }
                | OtherMachine { .. }
                | Musl { .. }
                | Privileged { .. }
                | Sanitizer { .. }
        )
    }
}
