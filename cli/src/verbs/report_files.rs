//! What verbs with reports share: where they go, how wide they are, how a command is shown.

use std::ffi::OsString;
use std::fmt::Display;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf, absolute};

use anyhow::{Context, Result, bail};
use nix::unistd::{AccessFlags, access};

use crate::closed_output;
pub use crate::output::shell_text;
use crate::output::{WIDTH_WITHOUT_TERMINAL, is_unseen};
use crate::program;
use crate::verbs::whole_file::{remove_new, target_of, write_whole};

pub const STANDARD_OUTPUT: &str = "-";

fn is_standard_output(path: &Path) -> bool {
    path == Path::new(STANDARD_OUTPUT)
}

/// Whether one of these files is standard output, which is then for it alone.
pub fn take_output<'a>(files: impl IntoIterator<Item = &'a Option<PathBuf>>) -> bool {
    files.into_iter().flatten().any(|path| is_standard_output(path))
}

/// Text with colours, which are left out where no terminal is.
pub fn print(text: &str) -> Result<()> {
    printed_to_output(anstream::stdout(), tamed(text))
}

/// The same where standard output is a program's.
pub fn print_beside(text: &str) -> Result<()> {
    let done = closed_output::check_error().and_then(|()| printed(anstream::stderr(), tamed(text)));
    done.context("standard error: cannot be written")
}

/// A message of the tool. Where it cannot be written there is nobody to tell.
pub fn tell(message: impl Display) {
    let _ = printed(anstream::stderr(), tamed(&format!("primalloc: {message}\n")));
}

/// The last guard, for whole texts; rows and lines are kept by `printable`. What of a text would
/// command the terminal, or the order of what is read, is replaced, but for the colours that the
/// tool itself sets.
pub fn tamed(text: &str) -> String {
    let is_colour = |rest: &str| {
        let codes = rest.strip_prefix('[').unwrap_or_default();
        codes.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';').starts_with('m')
    };
    let tamed = text.char_indices().map(|(at, c)| match c {
        '\n' | '\t' => c,
        '\x1b' if is_colour(&text[at + 1..]) => c,
        _ if c.is_control() || is_unseen(c) => char::REPLACEMENT_CHARACTER,
        _ => c,
    });
    tamed.collect()
}

/// What is for programs.
pub fn print_plain(text: impl AsRef<[u8]>) -> Result<()> {
    printed_to_output(io::stdout(), text)
}

fn printed_to_output(output: impl Write, text: impl AsRef<[u8]>) -> Result<()> {
    let done = closed_output::check().and_then(|()| printed(output, text));
    done.context("standard output: cannot be written")
}

fn printed(mut output: impl Write, text: impl AsRef<[u8]>) -> io::Result<()> {
    output.write_all(text.as_ref()).and_then(|()| output.flush())
}

pub fn write(path: &Path, text: impl AsRef<[u8]>) -> Result<()> {
    if is_standard_output(path) {
        return print_plain(text);
    }
    write_whole(path, |place| fs::write(place, &text))
}

/// What people read: a page.
pub fn write_page(path: &Path, text: &str) -> Result<()> {
    write(path, tamed(text))
}

/// With the rights that the source has.
pub fn copy(source: &Path, path: &Path) -> Result<()> {
    if is_standard_output(path) {
        let bytes = fs::read(source);
        return print_plain(bytes.with_context(|| source.display().to_string())?);
    }
    write_whole(path, |place| fs::copy(source, place).map(drop))
}

/// Of work that was all done, whatever became of its parts: the failure, if there was one. Where
/// there were several, all but the last are told here.
pub fn all_of(parts: impl IntoIterator<Item = Result<()>>) -> Result<()> {
    let mut failure: Option<anyhow::Error> = None;
    for error in parts.into_iter().filter_map(Result::err) {
        if let Some(earlier) = failure.replace(error) {
            tell(format!("{earlier:#}"));
        }
    }
    failure.map_or(Ok(()), Err)
}

/// None of the files that a verb is to write is the program that `command` would start, if there
/// is one: whoever starts it says so.
pub fn spare_program<'a>(
    files: impl IntoIterator<Item = &'a Option<PathBuf>>,
    command: &[OsString],
) -> Result<()> {
    let Some(program) = program::find(command) else { return Ok(()) };
    let mut others = files.into_iter().flatten().filter(|path| !is_standard_output(path));
    match others.find(|path| are_one_file(path, &program)) {
        Some(path) => bail!("{}: cannot be written: it is the program itself", path.display()),
        None => Ok(()),
    }
}

/// Said of all files that a verb is to write before the program runs for an hour, not after. None
/// of the `sources` that they are made from is written over, and none of the others.
pub fn check_files<'a>(
    files: impl IntoIterator<Item = &'a Option<PathBuf>>,
    sources: &[&Path],
) -> Result<()> {
    let (to_output, others): (Vec<&PathBuf>, Vec<_>) =
        files.into_iter().flatten().partition(|path| is_standard_output(path));
    if to_output.len() > 1 {
        bail!("standard output cannot take more than one: name files for the others");
    }
    for (index, path) in others.iter().enumerate() {
        if others[..index].iter().any(|earlier| are_one_file(earlier, path)) {
            bail!("{}: cannot take more than one: name files for the others", path.display());
        }
        check_apart(path, sources)?;
    }
    Ok(())
}

/// Whether both lead to the same place, which keeps what is written last, by whatever name. A
/// device keeps nothing.
fn are_one_file(one: &Path, other: &Path) -> bool {
    if let (Ok(one), Ok(other)) = (fs::metadata(one), fs::metadata(other)) {
        return one.is_file() && (one.dev(), one.ino()) == (other.dev(), other.ino());
    }
    let place = |path| target_of(path).canonicalize().or_else(|_| absolute(target_of(path)));
    matches!((place(one), place(other)), (Ok(one), Ok(other)) if one == other)
}

/// Leaves no file behind, for there may be nothing to write in the end.
fn check_writable(path: &Path) -> Result<()> {
    let cannot = || format!("{}: cannot be written", path.display());
    if fs::metadata(path).is_ok_and(|found| found.file_type().is_fifo()) {
        // Whoever reads it would take a writer that comes and goes for the end.
        return access(path, AccessFlags::W_OK).with_context(cannot);
    }
    let is_new = !path.exists();
    let opened = fs::OpenOptions::new().append(true).create(true).open(path);
    opened.with_context(cannot)?;
    if is_new {
        remove_new(path);
    }
    Ok(())
}

fn check_apart(path: &Path, sources: &[&Path]) -> Result<()> {
    if sources.iter().any(|source| are_one_file(path, source)) {
        bail!("{}: cannot be written: the report is made from it", path.display());
    }
    check_writable(path)
}

/// What a table must fit into; anything does in files and pipes, where whole names are looked for.
pub fn limit_of(is_terminal: bool) -> Option<usize> {
    is_terminal.then(|| width_of(is_terminal))
}

/// Of the terminal that `stream` is, if it is one.
pub fn width_of(is_terminal: bool) -> usize {
    if !is_terminal {
        return WIDTH_WITHOUT_TERMINAL;
    }
    terminal_size::terminal_size().map_or(WIDTH_WITHOUT_TERMINAL, |(width, _)| width.0.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verbs::temporary::TemporaryDirectory;

    #[test]
    fn links_are_written_through_and_leave_nothing() {
        let directory = TemporaryDirectory::new().unwrap();
        let [real, link] = ["real", "link"].map(|name| directory.path().join(name));
        std::os::unix::fs::symlink("real", &link).unwrap();
        check_writable(&link).unwrap();
        assert!(link.is_symlink() && !real.exists());
        write(&link, "text").unwrap();
        assert!(link.is_symlink() && fs::read_to_string(&real).unwrap() == "text");
        check_writable(&link).unwrap();
        assert_eq!(fs::read_to_string(&real).unwrap(), "text");
    }

    #[test]
    fn names_do_not_command_the_terminal() {
        let own = "\x1b[1;32mbest\x1b[0m\tis µ\n";
        assert_eq!(tamed(own), own);
        let title = "\x1b]0;title\x07 \x1b[2J\u{9b}3J\r\x7f \x1b[3";
        let ends = "\u{fffd}]0;title\u{fffd} \u{fffd}[2J\u{fffd}3J\u{fffd}\u{fffd} \u{fffd}[3";
        assert_eq!(tamed(title), ends);
        let turned = "a\u{202e}fdp.exe\u{2066} \u{feff}b\u{200b}\u{e0041} क्\u{200d}ष";
        assert_eq!(tamed(turned), "a\u{fffd}fdp.exe\u{fffd} \u{fffd}b\u{fffd}\u{fffd} क्\u{200d}ष");
    }

    #[test]
    fn failures_are_not_lost() {
        assert!(all_of([Ok(()), Ok(())]).is_ok());
        let error = all_of([Ok(()), Err(anyhow::anyhow!("one")), Ok(())]).unwrap_err();
        assert_eq!(error.to_string(), "one");
    }
}
