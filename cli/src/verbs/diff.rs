//! `primalloc diff`: what has changed from one profile to another.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Args;

use super::profile_options::{PageArguments, ShownArguments};
use super::report_files::{all_of, check_files, print, take_output, tell, write};
use crate::input;
use crate::output::profile as output;
use crate::profile::{Comparison, Series, Stacks};

const EXAMPLES: &str = "\
Examples:
  primalloc diff monday.pb.gz friday.pb.gz
  primalloc diff --view total old-version.pb.gz new-version.pb.gz
  primalloc diff --html diff.html monday.pb.gz friday.pb.gz

The profiles may be of different runs, versions and formats: functions are compared by their names,
also where the file of a program or library is called otherwise in the second.

Exit status: 0; 125 if a file is no profile of memory, or something cannot be read or written.";

/// Compare two profiles: who holds more in the second, and who less
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct DiffArguments {
    #[command(flatten)]
    shown: ShownArguments,

    /// Write stacks as lines with both figures, for tools that draw differential flame graphs
    #[arg(long, value_name = "FILE")]
    collapsed: Option<PathBuf>,

    #[command(flatten)]
    page: PageArguments,

    /// The earlier profile; - is standard input
    #[arg(value_name = "BEFORE")]
    before: PathBuf,

    /// The later one, likewise
    #[arg(value_name = "AFTER")]
    after: PathBuf,
}

pub fn run(arguments: &DiffArguments) -> Result<ExitCode> {
    let sources = [arguments.before.as_path(), &arguments.after];
    let [html, json] = arguments.page.files();
    let files = [html, json, &arguments.collapsed];
    check_files(files, &sources)?;
    let (before, after) = arguments.shown.open_both(&arguments.before, &arguments.after)?;
    let series = (&before.series[0], &after.series[0]);
    if series.0.key != series.1.key {
        bail!(
            "{} tells of {}, {} of {}: these cannot be compared",
            input::name_of(&arguments.before),
            series.0.label,
            input::name_of(&arguments.after),
            series.1.label
        );
    }
    let stacks = (Stacks::new(&before.profile), Stacks::new(&after.profile));
    let titles = [&arguments.before, &arguments.after].map(|path| input::name_of(path));
    let titles = [titles[0].as_str(), titles[1].as_str()];
    let both = [(&stacks.0, series.0), (&stacks.1, series.1)];
    let mut remarks = before.remarks.clone();
    remarks.extend(after.remarks.iter().filter(|remark| !before.remarks.contains(remark)).cloned());
    let collapsed = arguments.collapsed.as_ref();
    let collapsed =
        collapsed.map_or(Ok(()), |path| write(path, output::changes_collapsed(both[0], both[1])));
    let pages = arguments.page.write_changes(&output::Sources {
        titles,
        stacks: [&stacks.0, &stacks.1],
        series: &in_both(&before.series, &after.series),
        remarks: &remarks,
    });
    let printed = match take_output(files) {
        true => Ok(()),
        false => {
            let found = Comparison::new(both[0], both[1]);
            let layout = arguments.shown.layout(std::io::stdout().is_terminal(), false);
            print(&output::changes(titles, &series.0.label, &found, &layout))
        }
    };
    remarks.iter().for_each(tell);
    all_of([collapsed, pages, printed])?;
    Ok(ExitCode::SUCCESS)
}

/// In the order of the earlier one.
fn in_both(before: &[Series], after: &[Series]) -> Vec<[Series; 2]> {
    let twin = |series: &Series| after.iter().find(|other| other.key == series.key);
    before.iter().filter_map(|series| Some([series.clone(), twin(series)?.clone()])).collect()
}
