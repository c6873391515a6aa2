//! Which process is meant: who has the number of `primalloc run -- PROGRAM` asks for the program.

use super::tell;
use crate::processes::program_of_tool;

/// That process, or the program that it has started if it is the tool itself, which is told.
pub fn meant(pid: i32) -> i32 {
    let Some(program) = program_of_tool(pid) else { return pid };
    tell(format!("{pid} is primalloc itself; this is about its program, {program}"));
    meant(program)
}
