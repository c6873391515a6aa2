//! `primalloc report`: what a profile says.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;

use super::profile_options::{Heading, ShownArguments, WrittenArguments};
use super::report_files::check_files;
use crate::input;

const EXAMPLES: &str = "\
Examples:
  primalloc report heap.pb.gz
  primalloc report --view peak --top 50 heap.pb.gz
  primalloc report --html heap.html heap.pb.gz
  ssh server cat heap.pb.gz | primalloc report -
  primalloc report --thread worker --collapsed stacks.txt heap.pb.gz

Reads what this library writes, pprof's profiles of other libraries and languages (Go, tcmalloc,
...), the older text of gperftools and jemalloc, and collapsed stacks.

Exit status: 0; 125 if the file is no profile of memory, or something cannot be read or
written.";

/// Show a profile: who holds memory, who held it at the peak, who allocates most
///
/// Functions that only hand on to malloc, as xmalloc or a container of the C++ library, are
/// passed over: a row is the function that called them.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct ReportArguments {
    #[command(flatten)]
    shown: ShownArguments,

    #[command(flatten)]
    written: WrittenArguments,

    /// The profile; - is standard input
    #[arg(value_name = "PROFILE")]
    file: PathBuf,
}

pub fn run(arguments: &ReportArguments) -> Result<ExitCode> {
    check_files(arguments.written.files(), &[&arguments.file])?;
    let shown = arguments.shown.open(&arguments.file)?;
    let title = input::name_of(&arguments.file);
    let heading = Heading { verb: "report", title: &title, to_output: true };
    arguments.written.report(&heading, &shown, &arguments.shown)?;
    Ok(ExitCode::SUCCESS)
}
