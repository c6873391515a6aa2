//! `primalloc compare`: a program under several allocators, side by side.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;

use crate::allocators;
use crate::child::Supervisor;
use crate::program::Program;
use crate::verbs::measured::{MeasuredArguments, carry_out, progress_bar, runs};

const EXAMPLES: &str = "\
Examples:
  primalloc compare -- python3 script.py
  primalloc compare --with glibc,primalloc,jemalloc --runs 20 -- redis-benchmark -q
  primalloc compare --with all --html report.html -- sqlite3 :memory: '.read load.sql'
  primalloc compare --with glibc,mine=./libmine.so --markdown -- ./program
  primalloc compare --with primalloc,primalloc:purge_delay=0,glibc:MALLOC_ARENA_MAX=2 -- ./program
  primalloc compare --with 'glibc,jemalloc:MALLOC_CONF=\"narenas:2,dirty_decay_ms:0\"' -- ./program
  primalloc compare --input big.txt --output sorted.txt -- sort

The first allocator is the reference: ratios are to it, and below 1 means less. Half of the runs
are at most the spread (±) away from the median; what is best, beyond the spread, is highlighted.
Fewer than four runs cannot tell a difference from chance.
Times and faults include the processes that the program starts and waits for.

Exit status: 0; 1 if the program did not end the same way under every allocator; 125 if primalloc
itself fails, 126 or 127 if the program cannot be started.";

/// Compare allocators under a program: time, memory, page faults
///
/// Runs the program under each allocator in turns and shows the median of wall, user and system
/// time, peak resident memory, minor and major page faults and context switches, with their
/// spread and the ratio to the first allocator.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct CompareArguments {
    /// The allocators: glibc, primalloc, jemalloc, mimalloc, tcmalloc, ..., NAME=PATH, or all; each
    /// may have settings, options of primalloc in small letters, variables of the environment in
    /// capitals: NAME:SETTING=VALUE:SETTING="VALUE WITH : OR ,"
    #[arg(long, value_name = "NAMES", default_value = "glibc,primalloc")]
    with: Vec<String>,

    /// Measured runs under each allocator
    #[arg(long, short = 'n', default_value_t = 10, value_parser = runs,
          allow_negative_numbers = true)]
    runs: usize,

    #[command(flatten)]
    measured: MeasuredArguments,
}

pub fn run(arguments: &CompareArguments) -> Result<ExitCode> {
    let measured = &arguments.measured;
    measured.check_files()?;
    let program = Program::resolve(&measured.program.command)?;
    let library = measured.program.preload.library.as_deref();
    let candidates = allocators::select(&arguments.with, library)?;
    let plan = measured.plan(&program, &candidates, arguments.runs);
    measured.check(&plan)?;

    let bar = progress_bar(&plan)?;
    let runs = carry_out(&plan, &mut Supervisor::of_work()?, &bar);
    bar.finish_and_clear();
    let report = measured.report(&plan, &runs?);
    measured.write(&report)?;
    Ok(if report.outcomes_agree() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
