//! `primalloc compare`: a program under several allocators, side by side.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};

use crate::allocators::{self, Candidate};
use crate::arguments::ProgramArguments;
use crate::measure::{self, Plan, ProgramOutput, Run};
use crate::output::{self, Entry, Host, Report};
use crate::program::{self, Program};
use crate::verbs::report_files::{
    STANDARD_OUTPUT, all_of, check_files, print, print_beside, shell_text, take_output, tell,
    width_of, write,
};

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

    /// Runs under each allocator before that, which are not counted
    #[arg(long, default_value_t = 1, value_parser = warmup_runs, allow_negative_numbers = true)]
    warmup: usize,

    /// Give the program this file as standard input (else it is empty)
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,

    /// Where the program's standard output goes: inherit, discard, or a file
    #[arg(long, value_name = "WHERE", default_value = "discard", value_parser = program_output)]
    output: ProgramOutput,

    /// Write the report as JSON, to standard output or to a file
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true,
          default_missing_value = STANDARD_OUTPUT)]
    json: Option<PathBuf>,

    /// Write the report as Markdown, to standard output or to a file
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true,
          default_missing_value = STANDARD_OUTPUT)]
    markdown: Option<PathBuf>,

    /// Write the report with plots as one self-contained HTML page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    #[command(flatten)]
    program: ProgramArguments,
}

/// Nobody waits for more.
const RUNS_MAX: usize = 1_000_000;

fn runs(text: &str) -> Result<usize, String> {
    match warmup_runs(text) {
        Ok(0) => Err("at least one run is needed".to_owned()),
        runs => runs,
    }
}

fn warmup_runs(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(number) if number <= RUNS_MAX => Ok(number),
        _ => Err(format!("a whole number of at most {RUNS_MAX} is needed")),
    }
}

fn program_output(text: &str) -> Result<ProgramOutput, String> {
    Ok(match text {
        "inherit" | STANDARD_OUTPUT => ProgramOutput::Inherit,
        "discard" => ProgramOutput::Discard,
        path => ProgramOutput::File(PathBuf::from(path)),
    })
}

impl CompareArguments {
    fn files(&self) -> [&Option<PathBuf>; 3] {
        [&self.json, &self.markdown, &self.html]
    }
}

pub fn run(arguments: &CompareArguments) -> Result<ExitCode> {
    check_files(arguments.files(), &[])?;
    let program = Program::resolve(&arguments.program.command)?;
    let candidates =
        allocators::select(&arguments.with, arguments.program.preload.library.as_deref())?;
    check(arguments, &program, &candidates)?;
    let versions: Vec<Option<String>> =
        candidates.iter().map(|candidate| candidate.allocator.try_out().version).collect();

    let plan = Plan {
        program: &program,
        candidates: &candidates,
        options: &arguments.program.preload.options,
        input: arguments.input.clone(),
        output: arguments.output.clone(),
        runs: arguments.runs,
        warmup: arguments.warmup,
    };
    tell_of_options(&plan)?;
    let runs = measure_with_progress(&plan)?;

    let entry = |((candidate, version), runs): ((&Candidate, _), &Vec<Run>)| {
        Entry::new(candidate, version, runs)
    };
    let report = Report {
        command: shell_text(&arguments.program.command),
        host: Host::of_this_machine(),
        runs: arguments.runs,
        warmup: arguments.warmup,
        entries: candidates.iter().zip(versions).zip(&runs).map(entry).collect(),
    };
    write_report(arguments, &report)?;
    Ok(if report.outcomes_agree() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Makes sure, before the first run, that every library gets into the program.
fn check(arguments: &CompareArguments, program: &Program, candidates: &[Candidate]) -> Result<()> {
    if program.own_malloc().is_some() {
        tell(program.own_malloc_remark());
    }
    let mut checked: Vec<&Path> = Vec::new();
    for library in candidates.iter().filter_map(Candidate::library) {
        if checked.contains(&library) {
            continue;
        }
        checked.push(library);
        match program::check_preloadable(program, library) {
            Err(reason) if reason.is_only_about_preloading() && arguments.program.preload.force => {
            }
            answer => {
                answer?;
                measure::check_loads(program, library)?;
            }
        }
    }
    Ok(())
}

/// Passes on what a library says of options: what the program's runs say is not shown. What is said
/// of those that are set for all is said once.
fn tell_of_options(plan: &Plan) -> Result<()> {
    let mut told: Vec<String> = Vec::new();
    for candidate in plan.candidates {
        let Some(library) = candidate.library() else { continue };
        if plan.options.is_empty() && candidate.settings.is_empty() {
            continue;
        }
        let settings = plan.options.iter().chain(&candidate.settings);
        for complaint in allocators::option_complaints(library, settings)? {
            if !told.contains(&complaint) {
                print_beside(&format!("{complaint}\n"))?;
                told.push(complaint);
            }
        }
    }
    Ok(())
}

fn measure_with_progress(plan: &Plan) -> Result<Vec<Vec<Run>>> {
    let bar = match plan.output {
        ProgramOutput::Inherit => ProgressBar::hidden(),
        _ => ProgressBar::new(plan.runs_total() as u64),
    };
    let style = "{bar:40.cyan/dim} run {pos} of {len}, {msg}, {eta} left";
    bar.set_style(ProgressStyle::with_template(style)?.progress_chars("━╸─"));
    let runs = plan.carry_out(|candidate| {
        bar.inc(1);
        bar.set_message(candidate.name.clone());
    });
    bar.finish_and_clear();
    runs
}

fn write_report(arguments: &CompareArguments, report: &Report) -> Result<()> {
    if !take_output(arguments.files()) {
        let width = width_of(std::io::stdout().is_terminal());
        print(&output::table(report, width))?;
    }
    let json = |path: &PathBuf| write(path, output::json(report));
    let markdown = |path: &PathBuf| write(path, output::markdown(report));
    let html = |path: &PathBuf| write(path, output::html(report)?);
    all_of([
        arguments.json.as_ref().map_or(Ok(()), json),
        arguments.markdown.as_ref().map_or(Ok(()), markdown),
        arguments.html.as_ref().map_or(Ok(()), html),
    ])
}
