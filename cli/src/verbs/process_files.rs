//! Files that a program and the processes that it started leave, one each, and how they are kept.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::report_files::{all_of, copy, tell};
use crate::child::Outcome;
use crate::output::printable;
use crate::processes::running_with;

/// Stands for the process's number in names of files, as in the library's settings.
pub const NUMBER: &str = "%p";

/// The last file of a process.
pub struct ProcessFile {
    pub pid: u64,
    pub path: PathBuf,
}

fn has_number(target: &Path) -> bool {
    target.to_str().is_some_and(|text| text.contains(NUMBER))
}

/// Copies the one that is shown to `target`; if that has a place for their numbers, all of them.
pub fn keep(target: &Path, shown: &ProcessFile, others: &[ProcessFile]) -> Result<()> {
    match target.to_str().filter(|_| has_number(target)) {
        None => copy(&shown.path, target),
        Some(text) => {
            all_of(others.iter().chain([shown]).map(|file| {
                copy(&file.path, Path::new(&text.replace(NUMBER, &file.pid.to_string())))
            }))
        }
    }
}

/// What the program has not written, and why: its end tells, or nobody knows. `instead` is what
/// helps with one that signals end.
pub fn none_written(outcome: Outcome, what: &str, part: &str, instead: &str) -> String {
    let why = match outcome {
        Outcome::Killed(_) => {
            format!("it was {outcome}, and a program that a signal ends writes none; {instead}")
        }
        Outcome::Exited(_) => format!(
            "it ended by _exit, is another user or in another root directory now, or this library \
             has no {part}"
        ),
    };
    format!("the program has written no {what}: {why}")
}

/// Unless all were kept.
pub fn tell_not_shown(what: &str, others: &[ProcessFile], kept: Option<&Path>) {
    if let Some(sentence) = not_shown(what, others.len()).filter(|_| !kept.is_some_and(has_number))
    {
        tell(sentence);
    }
}

/// How many processes are not shown, and how to see them. None if there are none.
fn not_shown(what: &str, others: usize) -> Option<String> {
    let who = match others {
        0 => return None,
        1 => format!("1 more process that the program started has written a {what}, which is"),
        many => format!(
            "{many} more processes that the program started have written {what}s, which are"
        ),
    };
    Some(format!("{who} not shown; --keep NAME.{NUMBER}.pb.gz keeps one of each, for report"))
}

/// Of processes that outlive the program: what they write has no place once the tool ends.
/// `options` are what lets them write it somewhere else.
pub fn tell_still_running(what: &str, directory: &Path, options: &str) {
    if let Some(sentence) = still_running(what, &running_with(directory), options) {
        tell(sentence);
    }
}

fn still_running(what: &str, processes: &[(i32, String)], options: &str) -> Option<String> {
    let (pid, name) = processes.first()?;
    let first = format!("{} ({pid})", printable(name));
    let who = match processes.len() {
        1 => format!("{first}, which the program started, still runs, and its {what} is not kept"),
        many => format!(
            "{many} processes that the program started still run, {first} first, and their \
             {what}s are not kept"
        ),
    };
    Some(format!("{who}; primalloc run {options} has every process write one at its end"))
}

/// Said where the program itself has left nothing that could be shown.
pub fn of_another(what: &str, name: &str, pid: u64) -> String {
    let name = printable(name);
    format!(
        "this is the {what} of {name}, process {pid}, which the program started; it has written \
         none itself"
    )
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::verbs::temporary::TemporaryDirectory;

    #[test]
    fn all_are_kept_where_the_name_has_a_place_for_numbers() {
        let directory = TemporaryDirectory::new().unwrap();
        let file = |pid: u64| {
            let path = directory.path().join(pid.to_string());
            fs::write(&path, pid.to_string()).unwrap();
            ProcessFile { pid, path }
        };
        let (shown, others) = (file(7), [file(8), file(9)]);
        let kept = |name: &str| fs::read_to_string(directory.path().join(name)).ok();
        keep(&directory.path().join("one"), &shown, &others).unwrap();
        assert_eq!(kept("one").as_deref(), Some("7"));
        keep(&directory.path().join("each.%p"), &shown, &others).unwrap();
        let each = ["each.7", "each.8", "each.9"].map(|name| kept(name).unwrap());
        assert_eq!(each, ["7", "8", "9"]);
    }

    #[test]
    fn one_is_no_plural() {
        assert_eq!(not_shown("report", 0), None);
        let one = not_shown("report", 1).unwrap();
        assert!(one.starts_with("1 more process that the program started has written a report,"));
        let one = still_running("profile", &[(7, "cat".to_owned())], "-o x=y").unwrap();
        assert!(one.starts_with("cat (7), which the program started, still runs, and its profile"));
        let all = [(7, "cat".to_owned()), (8, "sh".to_owned())];
        let two = still_running("profile", &all, "-o x=y").unwrap();
        assert!(two.contains("2 processes that the program started still run, cat (7) first, and"));
        let two = not_shown("report", 2).unwrap();
        assert!(two.starts_with("2 more processes that the program started have written reports,"));
    }
}
