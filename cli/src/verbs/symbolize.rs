//! `primalloc symbolize`: a filter that puts functions and lines to `object(+0xoffset)`.

use std::io::{self, BufRead, Read, Write};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;

use crate::arguments::SymbolArguments;
use crate::closed_output;
use crate::profile::base_name;
use crate::symbols::Objects;

const EXAMPLES: &str = "\
Examples:
  ./program 2>&1 | primalloc symbolize
  primalloc symbolize <report.txt

Lines are passed on as they are but for places in code: \"/usr/bin/program(+0x1234) [0x5581...]\"
becomes \"function file.c:12 (program)\", inlined functions in lines of their own. That is how
MALLOC_CHECK_ reports write them, and backtrace_symbols of the C library, which has two more forms:
\"program(function+0x12)[0x5581...]\", and of programs at a fixed address
\"program() [0x401136]\" or \"program[0x401136]\". So does
\"0x5581... function (/usr/bin/program+0x1233)\" of reports of leaks, and
\"#1 0x5581... /lib/libx.so+0x1234\" of those of guarded sampling, which name the
program without its directory: it is looked for in the current one.";

/// Put functions and lines to the addresses in reports that come on standard input
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct SymbolizeArguments {
    #[command(flatten)]
    symbols: SymbolArguments,
}

pub fn run(arguments: &SymbolizeArguments) -> Result<ExitCode> {
    let mut objects = Objects::with_debug_directory(arguments.symbols.debug_directory.as_deref());
    let mut input = io::stdin().lock();
    let mut output = io::stdout().lock();
    let mut line = Vec::new();
    let mut is_fault = false;
    loop {
        line.clear();
        let read = input.by_ref().take(LINE_MAX).read_until(b'\n', &mut line);
        if read.context("cannot read standard input")? == 0 {
            return Ok(ExitCode::SUCCESS);
        }
        let text = std::str::from_utf8(&line).ok();
        let translated = text.and_then(|line| translate(line, is_fault, &mut objects));
        is_fault = line == FAULT_TITLE;
        let text = translated.as_ref().map_or(&line[..], |text| text.as_bytes());
        let written = closed_output::check()
            .and_then(|()| output.write_all(text))
            .and_then(|()| output.flush());
        written.context("standard output: cannot be written")?;
    }
}

/// An object's path and an offset of code in it, and where in the line they stand.
struct Place<'a> {
    before: &'a str,
    path: &'a str,
    /// From where the offset counts; empty if that is the object's beginning.
    function: &'a str,
    /// In the instruction itself; just before the function if that is where a call returns to.
    offset: u64,
    after: &'a str,
}

/// Stands in reports of guarded sampling above the instruction that faulted, which is no call.
const FAULT_TITLE: &[u8] = b"  here:\n";
/// Lines of reports are no longer; of what has no line's end so much at a time is passed on.
const LINE_MAX: u64 = 1 << 20;
/// Paths are no longer than this.
const PATH_MAX: usize = 4096;

/// What the line may name, the likeliest first: a path may have spaces in it.
fn places(line: &str, is_fault: bool) -> impl Iterator<Item = Place<'_>> {
    let calls = line.match_indices('(').filter_map(|(open, _)| place_of_call(line, open));
    calls
        .chain(place_of_address(line))
        .flat_map(places_of_call)
        .chain(place_of_leak(line))
        .chain(place_of_frame(line, is_fault))
}

/// Where a path that goes up to the end may begin.
fn starts_of_path(head: &str) -> impl Iterator<Item = usize> {
    let spaces = head.rmatch_indices(char::is_whitespace).map(|(at, space)| at + space.len());
    let starts = spaces.chain([0]).take_while(|at| head.len() - at <= PATH_MAX).enumerate();
    let may_begin = |start: usize| head[start..].starts_with(['/', '.']);
    starts.filter(move |&(nth, start)| nth == 0 || may_begin(start)).map(|(_, start)| start)
}

/// The same with every path that may stand there.
fn places_of_call(place: Place<'_>) -> impl Iterator<Item = Place<'_>> {
    let head = place.path;
    starts_of_path(head).map(move |start| Place {
        before: &head[..start],
        path: &head[start..],
        ..place
    })
}

/// "PATH(+0xOFFSET) [0xADDRESS]", where calls return to; "PATH(FUNCTION+0xOFFSET)[0xADDRESS]" with
/// or without the blank; and "PATH() [0xADDRESS]" where no function is known in a program that lies
/// at its own addresses. The path is all that is before.
fn place_of_call(line: &str, open: usize) -> Option<Place<'_>> {
    let (inside, behind) = line[open + 1..].split_once(')')?;
    let bracket = behind.strip_prefix(' ').unwrap_or(behind).strip_prefix("[0x");
    let (address, after) = match bracket.and_then(|rest| rest.split_once(']')) {
        // The address in memory says nothing any more once the place has a name.
        Some((address, after)) => (address, after),
        None => ("", behind),
    };
    let (function, offset) =
        if inside.is_empty() { ("", address) } else { inside.split_once("+0x")? };
    if function.contains(|c: char| c.is_whitespace() || c == '/' || c == '(') {
        return None;
    }
    // Most are return addresses: the call is before them.
    let offset = u64::from_str_radix(offset, 16).ok()?;
    let offset = match function {
        "" => offset.checked_sub(1)?,
        _ => offset.wrapping_sub(1),
    };
    Some(Place { before: "", path: &line[..open], function, offset, after })
}

/// "PATH[0xADDRESS]", which is "PATH() [0xADDRESS]" as backtrace_symbols_fd writes it.
fn place_of_address(line: &str) -> Option<Place<'_>> {
    let (path, rest) = line.split_once("[0x")?;
    let (address, after) = rest.split_once(']')?;
    let offset = u64::from_str_radix(address, 16).ok()?.checked_sub(1)?;
    let is_behind_path = !path.is_empty() && !path.ends_with(char::is_whitespace);
    is_behind_path.then_some(Place { before: "", path, function: "", offset, after })
}

/// "0xADDRESS FUNCTION (PATH+0xOFFSET)", as reports of leaks have it, already of the call.
fn place_of_leak(line: &str) -> Option<Place<'_>> {
    let before = &line[..line.find("0x")?];
    let open = line.find(" (/")?;
    let (path, rest) = line[open + " (".len()..].rsplit_once("+0x")?;
    let (offset, after) = rest.split_once(')')?;
    let offset = u64::from_str_radix(offset, 16).ok()?;
    before.trim().is_empty().then_some(Place { before, path, function: "", offset, after })
}

/// "#NUMBER 0xADDRESS PATH+0xOFFSET", as reports of guarded sampling have it: where a call returns
/// to, but for the instruction that faulted.
fn place_of_frame(line: &str, is_fault: bool) -> Option<Place<'_>> {
    let (number, rest) = line.trim_start().strip_prefix('#')?.split_once(" 0x")?;
    number.parse::<u32>().ok()?;
    let (address, rest) = rest.split_once(' ')?;
    u64::from_str_radix(address, 16).ok()?;
    let (path, offset) = rest.trim_end().rsplit_once("+0x")?;
    let offset = u64::from_str_radix(offset, 16).ok()?.checked_sub(u64::from(!is_fault))?;
    let before = &line[..line.find("0x")?];
    let after = &line[line.trim_end().len()..];
    Some(Place { before, path, function: "", offset, after })
}

/// None where the line names no place, or its file has no name for it.
fn translate(line: &str, is_fault: bool, objects: &mut Objects) -> Option<String> {
    places(line, is_fault).find_map(|place| translate_place(&place, objects))
}

fn translate_place(place: &Place, objects: &mut Objects) -> Option<String> {
    let object = objects.get(&place.path.into())?;
    let address = match place.function {
        "" if place.offset < object.base => object.base + place.offset,
        "" => place.offset,
        name => object.address_of_exported(name)?.wrapping_add(place.offset),
    };
    let frames = object.frames(address);
    let library = base_name(place.path);
    let named = frames.iter().map(|frame| {
        let function = frame.function.as_ref()?;
        let line = frame.file.as_ref().map(|file| match frame.line {
            Some(line) => format!(" {}:{line}", base_name(file)),
            None => format!(" {}", base_name(file)),
        });
        Some(format!("{function}{} ({library})", line.unwrap_or_default()))
    });
    let named: Vec<String> = named.collect::<Option<_>>()?;
    Some(format!("{}{}{}", place.before, named.join(&format!("\n{}", place.before)), place.after))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verbs::temporary::TemporaryDirectory;

    fn place(line: &str) -> Option<Place<'_>> {
        places(line, false).next()
    }

    #[test]
    fn nobody_is_waited_for_at_a_pipe() {
        let directory = TemporaryDirectory::new().unwrap();
        let pipe = directory.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let line = format!("{}(+0x10)\n", pipe.display());
        assert_eq!(translate(&line, false, &mut Objects::default()), None);
    }

    #[test]
    fn paths_may_have_spaces() {
        let line = "    at /my own/lib x.so(+0x12) [0x7f]";
        let found: Vec<_> = places(line, false).map(|place| (place.before, place.path)).collect();
        let whole = ("    at ", "/my own/lib x.so");
        assert_eq!(found, [("    at /my own/lib ", "x.so"), whole]);
        let directory = TemporaryDirectory::new().unwrap();
        let own = std::env::current_exe().unwrap();
        let spaced = directory.path().join("a program");
        std::os::unix::fs::symlink(&own, &spaced).unwrap();
        let mut objects = Objects::default();
        let object = objects.get(&own.to_str().unwrap().into()).unwrap();
        let start = object.address_of_offset(object.offset_of_function("main").unwrap()).unwrap();
        let line = format!("    {}(+0x{:x}) [0x7f]\n", spaced.display(), start + 1);
        let text = translate(&line, false, &mut objects).unwrap();
        assert!(text.starts_with("    main") && text.ends_with("(a program)\n"), "{text}");
    }

    #[test]
    fn places_are_found_in_lines() {
        let found = place("    #3 /usr/lib/libx.so.1(+0x1a2b) [0x7f001a2b] freed\n").unwrap();
        assert_eq!(
            (found.before, found.path, found.offset),
            ("    #3 ", "/usr/lib/libx.so.1", 0x1a2a)
        );
        assert_eq!(found.after, " freed\n");
        let found = place("    0x55d0c0de1234 make (/a b/program+0x1233)\n").unwrap();
        assert_eq!((found.before, found.path, found.offset), ("    ", "/a b/program", 0x1233));
        assert_eq!(found.after, "\n");
        let found = place("    #12 0x55d0c0de1234 /a b/program+0x1234\n").unwrap();
        assert_eq!((found.before, found.path, found.offset), ("    #12 ", "/a b/program", 0x1233));
        let fault = place_of_frame("    #0 0x55d0c0de1234 /program+0x1234\n", true).unwrap();
        assert_eq!((fault.offset, fault.after), (0x1234, "\n"));
        let without_directory = place("    #1 0x55d0c0de1234 program+0x1234\n").unwrap();
        assert_eq!((without_directory.path, without_directory.offset), ("program", 0x1233));
        assert!(place("    #1 0x55d0c0de1234\n").is_none());
        let without_name = place("\t0x55 (/program+0x12)").unwrap();
        assert_eq!((without_name.path, without_name.after), ("/program", ""));
        for other in ["see 0x55 make (/program+0x12)", "0x55 (/x)", "0x55 (/x+0x", "(/x+0x12)"] {
            assert!(place(other).is_none(), "{other}");
        }
        for line in ["at a /b c/x(f_1+0x2a)[0x7f] freed\n", "at a /b c/x(f_1+0x2a) [0x7f] freed\n"]
        {
            let found: Vec<_> = places(line, false).collect();
            let [one, whole, ..] = &found[..] else { panic!("{line}") };
            assert_eq!((one.path, whole.before), ("c/x", "at a "));
            assert_eq!((one.function, one.offset, one.after), ("f_1", 0x29, " freed\n"));
        }
        let fixed = place("/x() [0x401136]\n").unwrap();
        assert_eq!((fixed.path, fixed.offset, fixed.after), ("/x", 0x401135, "\n"));
        let bare = place("/x[0x401136]\n").unwrap();
        assert_eq!((bare.path, bare.offset, bare.after), ("/x", 0x401135, "\n"));
        assert!(place("/x(a b+0x12)").is_none() && place("main() is here").is_none());
        assert!(place("nothing (+0x) here").is_none() && place("f(+0x12").is_none());
    }

    #[test]
    fn what_has_no_name_stays_as_it_is() {
        let mut objects = Objects::default();
        assert_eq!(translate("/no/such/file(+0x10)\n", false, &mut objects), None);
        let own = std::env::current_exe().unwrap();
        let object = objects.get(&own.to_str().unwrap().into()).unwrap();
        let main = object.offset_of_function("main").unwrap();
        let start = object.address_of_offset(main).unwrap();
        let line = format!("at {}(+0x{:x}) [0x7f]\n", own.display(), start + 1);
        let text = translate(&line, false, &mut objects).unwrap();
        assert!(text.starts_with("at main") && text.ends_with(")\n"), "{text}");
    }
}
