//! Which process is meant: who has the number of `primalloc run -- PROGRAM` asks for the program,
//! and who has a thread's, as top and ps show them, for the process.

use super::tell;
use crate::processes::{process_of_thread, program_of_tool};

/// That process; the one whose thread it is; or the program that it has started if it is the tool
/// itself. If it is another one, that is told.
pub fn meant(pid: i32) -> i32 {
    if let Some(process) = process_of_thread(pid) {
        tell(format!("{pid} is a thread of process {process}; this is about the whole process"));
        return meant(process);
    }
    let Some(program) = program_of_tool(pid) else { return pid };
    tell(format!("{pid} is primalloc itself; this is about its program, {program}"));
    meant(program)
}

/// The number of a process that is asked for on the command line.
pub fn process_number(text: &str) -> Result<i32, String> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    match text.parse() {
        Ok(pid) if pid >= 1 => Ok(pid),
        _ if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            Err("no process has this number".to_owned())
        }
        _ => Err("a process is named by its number: pidof tells it".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_have_numbers() {
        assert_eq!(process_number("4711"), Ok(4711));
        for text in ["0", "-1", "99999999999999"] {
            assert_eq!(process_number(text).unwrap_err(), "no process has this number");
        }
        for text in ["", "-", "python3", "1e3", "1 2", "/proc/1"] {
            assert!(process_number(text).unwrap_err().contains("pidof tells it"), "{text}");
        }
    }
}
