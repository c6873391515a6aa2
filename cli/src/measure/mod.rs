//! Measuring a program under several allocators.
//!
//!   loader_check.rs  asks the loader whether a library takes its place in the program
//!   one_run.rs       one run: start, wait, what it used
//!   metric.rs        the table of what is measured
//!   statistics.rs    median, spread, and when a difference is one
//!   quick_round.rs   who is so far behind that it need not run on

mod loader_check;
mod metric;
mod one_run;
mod quick_round;
mod statistics;

use std::path::PathBuf;

use anyhow::Result;

use crate::allocators::Candidate;
use crate::child::Supervisor;
use crate::environment::Setting;
use crate::program::Program;

pub use loader_check::check_loads;
pub use metric::{FAULTS, MEMORY, METRICS, Metric, TIME, Unit};
pub use one_run::Run;
pub use quick_round::{QUICK_RUNS, far_behind};
pub use statistics::{RUNS_FOR_SPREAD, RUNS_TO_TELL, Summary, can_tell, is_beyond_spread};

/// Where the program's standard output goes.
#[derive(Clone, Debug, PartialEq)]
pub enum ProgramOutput {
    Inherit,
    Discard,
    File(PathBuf),
}

/// What to measure, and how often.
#[derive(Clone)]
pub struct Plan<'a> {
    pub program: &'a Program,
    pub candidates: &'a [Candidate],
    /// What is set for all of them.
    pub options: Vec<Setting>,
    pub input: Option<PathBuf>,
    pub output: ProgramOutput,
    pub runs: usize,
    pub warmup: usize,
}

impl Plan<'_> {
    pub fn runs_total(&self) -> usize {
        (self.warmup + self.runs) * self.candidates.len()
    }

    /// Runs the program `runs` times under each candidate; the result has one list for each.
    ///
    /// The candidates take turns, and each pass begins with another one, so that whatever
    /// changes on the machine meanwhile, and whatever a predecessor leaves behind, meets all.
    pub fn carry_out(
        &self,
        supervisor: &mut Supervisor,
        mut before_run: impl FnMut(&Candidate),
    ) -> Result<Vec<Vec<Run>>> {
        let mut runs = vec![Vec::new(); self.candidates.len()];
        for pass in 0..self.warmup + self.runs {
            for turn in 0..self.candidates.len() {
                let index = (pass + turn) % self.candidates.len();
                before_run(&self.candidates[index]);
                let run = one_run::run_once(self, &self.candidates[index], supervisor)?;
                if pass >= self.warmup {
                    runs[index].push(run);
                }
            }
        }
        Ok(runs)
    }
}
