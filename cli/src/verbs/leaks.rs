//! `primalloc leaks`: what a program has lost when it ends.

use std::fs::{self, Permissions};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};

use super::process_files::{
    ProcessFile, keep, none_written, of_another, tell_not_shown, tell_still_running,
};
use super::profile_options::{Heading, PageArguments, Shown, keep_output_free, rows};
use super::report_files::{
    all_of, check_files, limit_of, shell_text, spare_program, take_output, tell,
};
use super::run::{Ended, run_with};
use super::temporary::TemporaryDirectory;
use crate::arguments::{ProgramArguments, SymbolArguments};
use crate::input;
use crate::output::profile as output;
use crate::profile::{self, Kind, Profile, Stacks};

const EXAMPLES: &str = "\
Examples:
  primalloc leaks -- ./program input
  primalloc leaks --suppressions known-leaks.txt -- ./program
  primalloc leaks --html leaks.html -- ./program
  primalloc leaks --level strict --exit-status 1 -- ./program

Exit status: the program's own if it fails or nothing leaked; --exit-status (23) if memory leaked,
by the process whose report is shown: the program, or the one that lost most if it wrote none;
125 if primalloc itself fails, there is no report, or it is empty because a malloc is linked into
the program, 126 or 127 if the program cannot be started.";

const OWN_OPTIONS: [(&str, &str); 3] =
    [("leak_check", "--level"), ("leak_report", "--keep"), ("leak_exit", "--exit-status")];

/// Where who outlives the program may write to.
const ELSEWHERE: &str = "--option leak_check=normal --option leak_report=NAME.%p.pb.gz";

/// How much counts as lost.
#[derive(Clone, Copy, ValueEnum)]
enum Level {
    /// Not what was allocated by initialisers of libraries
    Minimal,
    /// What nothing points to
    Normal,
    /// Also what is only pointed to inside, not at its beginning
    Strict,
}

/// Run a program and show what it has lost: memory that nothing points to any more
///
/// Blocks are grouped by the stack that allocated them, with what only they lead to.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct LeaksArguments {
    /// How much counts as lost
    #[arg(long, value_enum, default_value_t = Level::Normal)]
    level: Level,

    /// Leaks to pass over: lines "leak:PATTERN"; - is standard input
    #[arg(long, value_name = "FILE")]
    suppressions: Option<PathBuf>,

    /// Exit status when memory leaked; 0 leaves the program's
    #[arg(long, value_name = "N", default_value_t = 23, allow_negative_numbers = true)]
    exit_status: u8,

    /// Groups that are shown
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = rows,
          allow_negative_numbers = true)]
    top: usize,

    /// Keep the report in this file (.pb.gz), for report and pprof; with %p in its name one of each
    /// process, by their numbers
    #[arg(long, value_name = "FILE")]
    keep: Option<PathBuf>,

    #[command(flatten)]
    page: PageArguments,

    #[command(flatten)]
    symbols: SymbolArguments,

    #[command(flatten)]
    program: ProgramArguments,
}

pub fn run(arguments: &LeaksArguments) -> Result<ExitCode> {
    let [html, json] = arguments.page.files();
    let written = [html, json, &arguments.keep];
    spare_program(written, &arguments.program.command)?;
    check_files(written, &[])?;
    arguments.program.preload.refuse_or_tell(&OWN_OPTIONS)?;
    if arguments.suppressions.is_some() {
        let own = [("leak_suppress", "--suppressions")];
        arguments.program.preload.refuse_or_tell(&own)?;
    }
    let suppressions = arguments.suppressions.as_deref().map(readable).transpose()?;
    let directory = TemporaryDirectory::new()?;
    let suppressions = suppressions.map(|rules| copied(&rules, directory.path())).transpose()?;
    // Each process has its own; which is the program's tells its number.
    let files = directory.path().join("%p.pb.gz");
    let level = arguments.level.to_possible_value().context("every level has a name")?;
    let is_quiet = take_output(written);
    let ProgramArguments { preload, command } = &arguments.program;
    let Ended { pid, outcome, has_other_malloc, supervisor } =
        run_with(preload, command, |command| {
            command.env("PRIMALLOC_LEAK_CHECK", level.get_name());
            command.env("PRIMALLOC_LEAK_REPORT", &files);
            // The status is ours to choose, once the report is read.
            command.env("PRIMALLOC_LEAK_EXIT", "0");
            if let Some(path) = &suppressions {
                command.env("PRIMALLOC_LEAK_SUPPRESS", path);
            }
            if is_quiet { keep_output_free(command) } else { Ok(()) }
        })?;
    tell_still_running("report", directory.path(), ELSEWHERE);
    let mut others = reports_in(directory.path())?;
    let own = others.iter().position(|file| file.pid == pid);
    let Some(file) = own.or_else(|| who_lost_most(&others)).map(|at| others.remove(at)) else {
        let instead = "let it end by exit";
        tell(none_written(outcome, "report of leaks", "leak checker", instead));
        drop(directory);
        return Ok(outcome.imitate_failure());
    };
    let kept = arguments.keep.as_ref();
    let kept = kept.map_or(Ok(()), |target| keep(target, &file, &others));
    let profile = profile::read(&file.path);
    // From here on a signal may end us: a reader that has seen enough, or the program's own.
    drop(directory);
    drop(supervisor);
    if has_other_malloc && file.pid == pid && profile.as_ref().is_ok_and(knows_nothing) {
        all_of([kept])?;
        tell("no blocks: the program's own malloc has served it");
        return Ok(outcome.imitate_failure());
    }
    let shown = profile.and_then(|profile| report(arguments, profile, &file.path, pid));
    let (lost, written) = shown.unwrap_or_else(|error| (0, Err(error)));
    tell_not_shown("report", &others, arguments.keep.as_deref());
    all_of([kept, written])?;
    match lost {
        1.. if arguments.exit_status != 0 && outcome.is_success() => {
            Ok(ExitCode::from(arguments.exit_status))
        }
        _ => Ok(outcome.imitate()),
    }
}

/// What the file says, if it can be meant.
fn readable(path: &Path) -> Result<Vec<u8>> {
    let name = input::name_of(path);
    let mut bytes = Vec::new();
    let read = input::open(path).and_then(|mut file| file.read_to_end(&mut bytes));
    read.with_context(|| format!("{name}: cannot be read"))?;
    if let Some((number, line)) = not_understood(&String::from_utf8_lossy(&bytes)) {
        bail!("{name}:{number}: is no line \"leak:PATTERN\": {line}");
    }
    Ok(bytes)
}

/// For the program, wherever it goes and whoever it becomes: a pipe can be read only once.
fn copied(rules: &[u8], directory: &Path) -> Result<PathBuf> {
    let path = directory.join("suppressions");
    let everybody = Permissions::from_mode(0o644);
    let written = fs::write(&path, rules).and_then(|()| fs::set_permissions(&path, everybody));
    written.with_context(|| format!("{}: cannot be written", path.display()))?;
    Ok(path)
}

/// The first line that suppresses nothing, and was meant to.
fn not_understood(text: &str) -> Option<(usize, &str)> {
    let is_right = |line: &str| {
        let has_pattern = line.strip_prefix("leak:").is_some_and(|pattern| !pattern.is_empty());
        has_pattern || line.trim().is_empty() || line.trim_start().starts_with('#')
    };
    (1..).zip(text.lines()).find(|(_, line)| !is_right(line))
}

/// The reports that processes left, the oldest first.
fn reports_in(directory: &Path) -> Result<Vec<ProcessFile>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.strip_suffix(".pb.gz")?.parse().ok());
        let about = entry.metadata()?;
        if let Some(pid) = pid.filter(|_| about.is_file()) {
            found.push((about.modified()?, pid, entry.path()));
        }
    }
    found.sort();
    Ok(found.into_iter().map(|(_, pid, path)| ProcessFile { pid, path }).collect())
}

/// The last one of these, where several have lost the same.
fn who_lost_most(files: &[ProcessFile]) -> Option<usize> {
    (0..files.len()).max_by_key(|&at| lost_in(&files[at].path))
}

/// Bytes; none where that is no report, which whoever shows it says.
fn lost_in(file: &Path) -> i64 {
    let lost = |profile: Profile| Some(profile.total(profile.value_index("leaked_space")?));
    profile::read(file).ok().and_then(lost).unwrap_or(0)
}

/// Whether there was not a single block, lost or not.
fn knows_nothing(profile: &Profile) -> bool {
    profile.sample_count() == 0 && profile.facts.reachable.is_none_or(|(objects, _)| objects == 0)
}

/// Shows what has leaked; says how many blocks, and whether all was written.
fn report(
    arguments: &LeaksArguments,
    mut profile: Profile,
    file: &Path,
    pid: u64,
) -> Result<(i64, Result<()>)> {
    if let Some((other, name)) = profile.facts.program.as_ref().filter(|(other, _)| *other != pid) {
        tell(of_another("report", name, *other));
    }
    let debug_directory = arguments.symbols.debug_directory.as_deref();
    let remarks = profile::symbolise(&mut profile, debug_directory);
    let series = profile::series(&profile);
    let shown = Shown { profile, series, remarks };
    let stacks = Stacks::new(&shown.profile);
    let title = shell_text(&arguments.program.command);
    let heading = Heading { verb: "leaks", title: &title, to_output: false };
    let found = output::leaks(&title, &stacks, limit_of(heading.is_terminal()), arguments.top);
    let Some((mut text, lost)) = found.filter(|_| shown.profile.facts.kind == Some(Kind::Leaks))
    else {
        bail!("{}: is no report of leaks", file.display());
    };
    for remark in &shown.remarks {
        text += &format!("{remark}\n");
    }
    let print = || if take_output(arguments.page.files()) { Ok(()) } else { heading.print(&text) };
    let write = || arguments.page.write(&heading.source(&shown, &stacks));
    Ok((lost, heading.beside(print, write)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_suppresses_nothing_is_found() {
        let right = "# known\n\n  # more\nleak:make_list\nleak:^lib*$\r\n\r\n";
        assert_eq!(not_understood(right), None);
        assert_eq!(not_understood(""), None);
        for wrong in ["garbage", "leak:", "leak:\r", " leak:x", "race:x"] {
            let text = format!("{right}{wrong}\n");
            assert_eq!(not_understood(&text).map(|(number, _)| number), Some(7), "{wrong}");
        }
    }
}
