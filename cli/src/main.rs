//! `primalloc`: runs programs on primalloc, compares allocators, finds what page faults cost.
//!
//! Read this first: `run` below parses the command line and hands it to one file in `verbs/`.
//! What was typed is described in `arguments.rs`, next to the verbs' own tables of options.

mod allocators;
mod arguments;
mod child;
mod closed_output;
mod environment;
mod explain;
mod faults;
mod handshake;
mod input;
mod inside;
mod library;
mod measure;
mod misplaced;
mod output;
mod proc_texts;
mod processes;
mod profile;
mod program;
mod symbols;
mod verbs;
mod watch;

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;

use crate::arguments::{Arguments, Verb};
use crate::child::{Interrupted, dispositions};
use crate::program::CannotStart;

/// The status that wrappers such as `env` and `timeout` use for a failure of their own.
const OWN_FAILURE: u8 = 125;

fn main() -> ExitCode {
    dispositions::take_own();
    environment::forget_empty_library();
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(help_or_error) => return show(&help_or_error),
    };
    run(arguments).unwrap_or_else(|error| fail(&error))
}

fn fail(error: &anyhow::Error) -> ExitCode {
    if let Some(interrupted) = error.downcast_ref::<Interrupted>() {
        return interrupted.imitate();
    }
    verbs::tell(format!("{error:#}"));
    match error.downcast_ref::<CannotStart>() {
        None => ExitCode::from(OWN_FAILURE),
        Some(reason) => {
            if reason.is_only_about_preloading() {
                let _ = writeln!(anstream::stderr(), "(--force starts it all the same)");
            }
            if let Some(remark) = misplaced::of_program(reason) {
                let _ = writeln!(anstream::stderr(), "{remark}");
            }
            ExitCode::from(reason.exit_status())
        }
    }
}

/// Help asked for is no failure, if it can be shown; a wrong command line is one of the tool's own.
fn show(help_or_error: &clap::Error) -> ExitCode {
    let can_show = if help_or_error.use_stderr() { Ok(()) } else { closed_output::check() };
    let shown = can_show.and_then(|()| help_or_error.print()).and_then(|()| io::stdout().flush());
    if let Some(remark) = misplaced::of_usage(help_or_error) {
        let _ = writeln!(anstream::stderr(), "{remark}");
    }
    match shown {
        Ok(()) if !help_or_error.use_stderr() => return ExitCode::SUCCESS,
        Err(error) if !help_or_error.use_stderr() => {
            verbs::tell(format!("standard output: cannot be written: {error}"));
        }
        _ => {}
    }
    ExitCode::from(OWN_FAILURE)
}

fn run(arguments: Arguments) -> Result<ExitCode> {
    match arguments.verb {
        Verb::Run(arguments) => verbs::run::run(&arguments),
        Verb::Compare(arguments) => verbs::compare::run(&arguments),
        Verb::Advise(arguments) => verbs::advise::run(&arguments),
        Verb::Explain(arguments) => verbs::explain::run(&arguments),
        Verb::Watch(arguments) => verbs::watch::run(&arguments),
        Verb::Faults(arguments) => verbs::faults::run(&arguments),
        Verb::Profile(arguments) => verbs::profile::run(&arguments),
        Verb::Trim(arguments) => verbs::trim::run(&arguments),
        Verb::Set(arguments) => verbs::set::run(&arguments),
        Verb::Report(arguments) => verbs::report::run(&arguments),
        Verb::Diff(arguments) => verbs::diff::run(&arguments),
        Verb::Leaks(arguments) => verbs::leaks::run(&arguments),
        Verb::Symbolize(arguments) => verbs::symbolize::run(&arguments),
        Verb::Allocators(arguments) => verbs::allocators::run(&arguments),
        Verb::Ps(arguments) => verbs::ps::run(&arguments),
        Verb::Completions(arguments) => verbs::completions::run(&arguments),
        Verb::Man(arguments) => verbs::man::run(&arguments),
        Verb::ProbeAllocator => verbs::probe_allocator::run(),
    }
}
