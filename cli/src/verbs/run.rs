//! `primalloc run`: a program on primalloc, proved by handshake.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode};

use anyhow::Result;
use clap::Args;
use nix::unistd::Pid;

use crate::arguments::{PreloadArguments, ProgramArguments};
use crate::child::{self, Outcome, Supervisor};
use crate::environment;
use crate::handshake::{Handshake, State};
use crate::library;
use crate::processes::{explain_missing_library, is_left_out};
use crate::program::{self, CannotStart, LinkedMalloc, Program};
use crate::verbs::report_files::tell;

const EXAMPLES: &str = "\
Examples:
  primalloc run -- redis-server --port 7000
  primalloc run --option purge_delay=0 --option verbose=1 -- python3 script.py
  primalloc run --only-exe -- make -j8      make itself, but not the compilers it starts
  primalloc run --library ./build/lib/libprimalloc.so -- ls

Exit status: the program's own; or 125 if primalloc itself fails, 126 if the program cannot be
started or cannot take a preloaded library, 127 if it is not there. If a signal ends the program,
the same signal ends primalloc.";

/// Run a program on primalloc
///
/// Finds the library, starts the program with it, and makes sure that it took effect. Signals
/// and the exit status pass through as if the program had been started directly.
///
/// Programs that a preloaded library can't reach (static, setuid, of another machine, on musl)
/// are refused with the reason.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct RunArguments {
    /// Only the program itself runs on primalloc, not the processes that it starts
    #[arg(long)]
    only_exe: bool,

    /// Say nothing when the library does not take effect
    #[arg(long, short)]
    quiet: bool,

    #[command(flatten)]
    program: ProgramArguments,
}

pub fn run(arguments: &RunArguments) -> Result<ExitCode> {
    let how =
        How { only_exe: arguments.only_exe, quiet: arguments.quiet, is_one_library_enough: false };
    let ProgramArguments { preload, command } = &arguments.program;
    if arguments.only_exe {
        preload.refuse(&[("only_exe", "--only-exe")])?;
    }
    Ok(start(preload, command, how, |_| Ok(()))?.wait()?.imitate())
}

/// The same for verbs that want more of the library. Of a program that has it linked in they want
/// it of that one: two would write the same files.
pub fn run_with(
    preload: &PreloadArguments,
    command: &[OsString],
    set_more: impl FnOnce(&mut Command) -> Result<()>,
) -> Result<Ended> {
    let mut started = start_with(preload, command, set_more)?;
    let outcome = started.wait()?;
    let (pid, has_other_malloc) = (started.pid() as u64, started.has_other_malloc);
    Ok(Ended { pid, outcome, has_other_malloc, supervisor: started.supervisor })
}

/// The same, and whoever calls waits for the end.
pub fn start_with(
    preload: &PreloadArguments,
    command: &[OsString],
    set_more: impl FnOnce(&mut Command) -> Result<()>,
) -> Result<Started> {
    let how = How { only_exe: false, quiet: false, is_one_library_enough: true };
    start(preload, command, how, set_more)
}

#[derive(Clone, Copy)]
struct How {
    only_exe: bool,
    quiet: bool,
    is_one_library_enough: bool,
}

/// A process that has ended.
pub struct Ended {
    pub pid: u64,
    pub outcome: Outcome,
    /// Whether a malloc of its own may have served it, which is not ours.
    pub has_other_malloc: bool,
    /// Goes once nothing is left that a signal would leave behind.
    pub supervisor: Supervisor,
}

/// A program that has been started, and is to be waited for.
pub struct Started {
    program: Program,
    library: PathBuf,
    how: How,
    has_other_malloc: bool,
    child: Child,
    handshake: Handshake,
    supervisor: Supervisor,
}

impl Started {
    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    fn wait(&mut self) -> Result<Outcome> {
        match self.wait_for_library()? {
            Some(outcome) => Ok(outcome),
            None => self.wait_for_end(),
        }
    }

    /// Until the library is in effect, or it is told that it is not; how the program ended if it
    /// did before.
    pub fn wait_for_library(&mut self) -> Result<Option<Outcome>> {
        let pid = Pid::from_raw(self.pid());
        let is_in_vain = || is_left_out(pid, &self.library);
        let (state, outcome) =
            self.supervisor.wait_for_handshake(&self.child, &mut self.handshake, is_in_vain)?;
        if !self.how.quiet {
            warn_unless_in_effect(&self.program, &self.library, pid, &state);
        }
        Ok(outcome)
    }

    pub fn wait_for_end(&mut self) -> Result<Outcome> {
        Ok(self.supervisor.wait_for_end(&self.child)?.outcome)
    }

    pub fn wait_for_end_unless(&mut self, is_over: impl Fn() -> bool) -> Result<Option<Outcome>> {
        self.supervisor.wait_for_end_unless(&self.child, is_over)
    }

    /// Once it has ended: signals are the tool's own now.
    pub fn leave_signals(&self) {
        self.supervisor.leave_signals();
    }
}

fn start(
    preload: &PreloadArguments,
    words: &[OsString],
    how: How,
    set_more: impl FnOnce(&mut Command) -> Result<()>,
) -> Result<Started> {
    let library = library::find(preload.library.as_deref())?;
    let program = Program::resolve(words)?;
    let own_malloc = program.own_malloc();
    let is_there = own_malloc == Some(LinkedMalloc::Primalloc) && how.is_one_library_enough;
    check(preload, how, &program, &library, is_there)?;

    let mut command = program.command();
    if is_there {
        tell(format!("{} has primalloc linked in; none is preloaded", program.title()));
    } else {
        if own_malloc.is_some() && !how.quiet {
            tell(program.own_malloc_remark());
        }
        environment::preload(&mut command, &library, &environment::preloads())?;
    }
    environment::apply(&mut command, &preload.options);
    if how.only_exe {
        environment::keep_from_children(&mut command);
    }
    set_more(&mut command)?;

    let mut handshake = Handshake::offer(&mut command)?;
    let supervisor = Supervisor::of_program()?;
    let child = child::start(&program, &mut command, supervisor.original_mask)?;
    handshake.program_started();
    let has_other_malloc = own_malloc == Some(LinkedMalloc::Other);
    Ok(Started { program, library, how, has_other_malloc, child, handshake, supervisor })
}

fn check(
    preload: &PreloadArguments,
    how: How,
    program: &Program,
    library: &Path,
    is_there: bool,
) -> Result<()> {
    match program::check_preloadable(program, library) {
        Err(CannotStart::StaticWithUs { .. }) if is_there => {}
        Err(reason) if reason.is_only_about_preloading() && preload.force => {}
        Err(reason) => return Err(reason.into()),
        Ok(()) => {}
    }
    match &program.found_by_env {
        Some(found) if how.only_exe && !how.quiet => tell(format!(
            "{}: its first line starts it through env, which --only-exe takes for the program; \
             name the interpreter yourself: primalloc run --only-exe -- {} {}",
            program.name.to_string_lossy(),
            found.display(),
            program.path.display()
        )),
        _ => {}
    }
    Ok(())
}

fn warn_unless_in_effect(program: &Program, library: &Path, pid: Pid, state: &State) {
    let name = program.name.to_string_lossy();
    match state {
        State::Answered(answer) if answer.pid == pid.as_raw() => {}
        State::Answered(answer) => tell(format!(
            "{name} itself does not run on primalloc, only a process that it started (pid {}) does",
            answer.pid
        )),
        State::Waiting | State::Closed => tell(format!(
            "{name} does not run on primalloc: {}",
            explain_missing_library(pid, library, &program.image)
        )),
    }
}
