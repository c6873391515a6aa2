//! `primalloc advise`: which allocator, and which setting, suits a program.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use indicatif::ProgressBar;

use crate::allocators::{self, Candidate, PRIMALLOC};
use crate::child::Supervisor;
use crate::measure::{Plan, QUICK_RUNS, Run, far_behind};
use crate::output::Report;
use crate::output::advice::{Advice, Choice};
use crate::program::Program;
use crate::verbs::measured::{MeasuredArguments, carry_out, progress_bar, runs};
use crate::verbs::report_files::tell;

const EXAMPLES: &str = "\
Examples:
  primalloc advise -- python3 script.py
  primalloc advise --runs 10 --html advice.html -- sqlite3 :memory: '.read load.sql'
  primalloc advise --with primalloc,primalloc:purge_delay=0,primalloc:purge_delay=10s -- ./program
  primalloc advise --json -- ./program | jq -r .advice.both.command

Tried are glibc, which is the reference, primalloc, the other allocators that are installed, and
both glibc and primalloc with settings that give memory for time or time for memory. What is far
behind in time and memory after two runs does not run on.
A difference within the spread is no advice. Take care that the program does what it is to do, and
long enough: what suits a short run need not suit a long one.

Exit status: 0; 1 if the program did not end the same way under every candidate; 125 if primalloc
itself fails, 126 or 127 if the program cannot be started.";

/// What is tried beside the allocators unless --with names something else.
const SETTINGS: [&str; 6] = [
    "glibc:MALLOC_ARENA_MAX=2", // a program without threads has one anyway
    "primalloc:purge_delay=0",
    "primalloc:thp=always",
    "primalloc:thp=never",
    "primalloc:cache_thread=256K",
    "primalloc:cache_max=32K",
];

/// Advise which allocator and which setting suits a program
///
/// Runs the program under each candidate in turns and shows time, peak memory and page faults, the
/// best first; then says which is the fastest, which the smallest, what to take for both, and how
/// to set it.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct AdviseArguments {
    /// Try these instead of the usual candidates: allocators that may have settings, as in compare
    #[arg(long, value_name = "NAMES")]
    with: Vec<String>,

    /// Measured runs under each candidate
    #[arg(long, short = 'n', default_value_t = 5, value_parser = runs,
          allow_negative_numbers = true)]
    runs: usize,

    #[command(flatten)]
    measured: MeasuredArguments,
}

pub fn run(arguments: &AdviseArguments) -> Result<ExitCode> {
    let measured = &arguments.measured;
    measured.check_files()?;
    let program = Program::resolve(&measured.program.command)?;
    let library = measured.program.preload.library.as_deref();
    let candidates = match arguments.with.is_empty() {
        true => usual_candidates(library)?,
        false => allocators::select(&arguments.with, library)?,
    };
    let plan = measured.plan(&program, &candidates, arguments.runs);
    measured.check(&plan)?;

    let bar = progress_bar(&plan)?;
    let mut supervisor = Supervisor::of_work()?;
    let reports = measure(&plan, &mut supervisor, &bar).and_then(|runs| {
        let report = measured.report(&plan, &runs);
        let finals = run_finals(measured, &plan, &report, &mut supervisor, &bar)?;
        Ok((report, finals))
    });
    drop(supervisor);
    bar.finish_and_clear();
    let (mut report, finals) = reports?;
    finals.iter().for_each(|more| report.add_outcomes(more));
    measured.write(&Advice::on(&report, &finals, &plan.options))?;
    Ok(if report.outcomes_agree() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Of the installed ones those that load: nobody has asked for the others.
fn usual_candidates(library: Option<&Path>) -> Result<Vec<Candidate>> {
    let usual = ["glibc", PRIMALLOC, "all"].into_iter().chain(SETTINGS);
    let mut candidates =
        allocators::select(&usual.map(str::to_owned).collect::<Vec<_>>(), library)?;
    candidates.retain(|candidate| {
        let is_named = !candidate.settings.is_empty() || candidate.name == PRIMALLOC;
        match candidate.allocator.try_out().problem {
            Some(problem) if !is_named => {
                tell(format!("{} is not tried: {problem}", candidate.name));
                false
            }
            _ => true,
        }
    });
    Ok(candidates)
}

/// A quick round with all, the rest without those that are far behind by then.
fn measure(plan: &Plan, supervisor: &mut Supervisor, bar: &ProgressBar) -> Result<Vec<Vec<Run>>> {
    let quick = Plan { runs: plan.runs.min(QUICK_RUNS), ..plan.clone() };
    let mut runs = carry_out(&quick, supervisor, bar)?;
    let is_behind = far_behind(&runs);
    let kept: Vec<usize> = (0..runs.len()).filter(|index| !is_behind[*index]).collect();
    let candidates = candidates_at(plan, &kept);
    let more = plan.runs - quick.runs;
    let rest = Plan { candidates: &candidates, runs: more, warmup: 0, ..plan.clone() };
    bar.set_length(bar.position() + rest.runs_total() as u64);
    for (index, added) in kept.into_iter().zip(carry_out(&rest, supervisor, bar)?) {
        runs[index].extend(added);
    }
    Ok(runs)
}

/// As many runs once more of who is ahead, beside the reference, until nobody is who has not had
/// them.
fn run_finals(
    arguments: &MeasuredArguments,
    plan: &Plan,
    report: &Report,
    supervisor: &mut Supervisor,
    bar: &ProgressBar,
) -> Result<Vec<Report>> {
    let mut finals = Vec::new();
    loop {
        let finalists = Choice::from(report, &finals).finalists();
        if finalists.is_empty() {
            return Ok(finals);
        }
        let candidates = candidates_at(plan, &finalists);
        let more = Plan { candidates: &candidates, warmup: 0, ..plan.clone() };
        bar.set_length(bar.position() + more.runs_total() as u64);
        let runs = carry_out(&more, supervisor, bar)?;
        finals.push(arguments.report(&more, &runs));
    }
}

fn candidates_at(plan: &Plan, places: &[usize]) -> Vec<Candidate> {
    places.iter().map(|index| plan.candidates[*index].clone()).collect()
}
