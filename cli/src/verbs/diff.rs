//! `primalloc diff`: what has changed from one profile to another.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Args;

use super::profile_options::ShownArguments;
use crate::output::profile as output;
use crate::profile::{Comparison, Stacks};

const EXAMPLES: &str = "\
Examples:
  primalloc diff monday.pb.gz friday.pb.gz
  primalloc diff --view total old-version.pb.gz new-version.pb.gz

The profiles may be of different runs, versions and formats: functions are compared by their names.

Exit status: 0; 125 if a file is no profile of memory or cannot be read.";

/// Compare two profiles: who holds more in the second, and who less
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct DiffArguments {
    #[command(flatten)]
    shown: ShownArguments,

    /// The earlier profile
    #[arg(value_name = "BEFORE")]
    before: PathBuf,

    /// The later one
    #[arg(value_name = "AFTER")]
    after: PathBuf,
}

pub fn run(arguments: &DiffArguments) -> Result<ExitCode> {
    let before = arguments.shown.open(&arguments.before)?;
    let after = arguments.shown.open(&arguments.after)?;
    let series = (&before.series[0], &after.series[0]);
    if series.0.key != series.1.key {
        bail!(
            "{} tells of {}, {} of {}: these cannot be compared",
            arguments.before.display(),
            series.0.label,
            arguments.after.display(),
            series.1.label
        );
    }
    let stacks = (Stacks::new(&before.profile), Stacks::new(&after.profile));
    let found = Comparison::new((&stacks.0, series.0), (&stacks.1, series.1));
    let layout = arguments.shown.layout(std::io::stdout().is_terminal(), false);
    let titles = [arguments.before.display().to_string(), arguments.after.display().to_string()];
    let titles = [titles[0].as_str(), titles[1].as_str()];
    anstream::print!("{}", output::changes(titles, &series.0.label, &found, &layout));
    for remark in before.remarks.iter().chain(&after.remarks) {
        anstream::eprintln!("primalloc: {remark}");
    }
    Ok(ExitCode::SUCCESS)
}
