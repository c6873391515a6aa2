//! Asks the dynamic loader what it would load, without running the program.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::environment;
use crate::program::{Image, Program};

/// Set, this makes glibc's loader print what it loads and exit: it is what `ldd` sets.
const TRACE: &str = "LD_TRACE_LOADED_OBJECTS";

/// An error says why `library` is not loaded into `program`.
pub fn check_loads(program: &Program, library: &Path) -> Result<()> {
    // Without a loader nothing heeds the variable, and the program would run in earnest.
    if !Image::read(&program.image).is_ok_and(|image| image.loader.is_some()) {
        return Ok(());
    }
    // Not as it is started, for a text without #! is handed to a shell by execvp only.
    let mut command = Command::new(&program.image);
    environment::preload(&mut command, library, &environment::preloads_without_allocators())?;
    command.env(TRACE, "1").stdin(Stdio::null());
    let output = command.output().with_context(|| program.name.to_string_lossy().into_owned())?;

    let loaded = String::from_utf8_lossy(&output.stdout);
    let library_text = library.display().to_string();
    if loaded.lines().any(|line| line.split_whitespace().any(|word| word == library_text)) {
        return Ok(());
    }
    let complaint = String::from_utf8_lossy(&output.stderr);
    bail!(
        "{library_text} does not get into {}: {}",
        program.name.to_string_lossy(),
        complaint.lines().next().unwrap_or("the loader leaves it out")
    );
}
