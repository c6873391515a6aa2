//! Source lines and inlined calls, from an object itself or from its separate debug file.

use std::path::{Path, PathBuf};

use addr2line::Loader;
use object::{Object as _, ObjectSection as _};

use super::debug_files::DebugFiles;
use super::names::readable;
use super::objects::bytes_of;

/// A function that an address is in, or that was inlined there.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CodeFrame {
    pub function: Option<String>,
    /// With its directories, as the compiler was told.
    pub file: Option<String>,
    pub line: Option<u32>,
}

pub struct Lines {
    loader: Loader,
}

impl Lines {
    pub fn open(path: &Path, debug_files: &DebugFiles) -> Option<Lines> {
        let object = object::File::parse(bytes_of(path)?).ok()?;
        let source: PathBuf = match has_debug_information(&object) {
            true => path.to_owned(),
            false => debug_files.of(&object, path)?,
        };
        let debug = object::File::parse(bytes_of(&source)?).ok()?;
        let common = debug_files.common_part(&debug, &source);
        Loader::new_with_sup(&source, common).ok().map(|loader| Lines { loader })
    }

    /// Innermost first; none where the debug information says nothing.
    pub fn frames(&self, address: u64) -> Vec<CodeFrame> {
        let mut frames = Vec::new();
        let Ok(mut found) = self.loader.find_frames(address) else { return frames };
        while let Ok(Some(frame)) = found.next() {
            let name = frame.function.as_ref().and_then(|function| {
                let raw = function.raw_name().ok()?;
                Some(readable(&raw))
            });
            let location = frame.location.as_ref();
            frames.push(CodeFrame {
                function: name,
                file: location.and_then(|location| location.file).map(str::to_owned),
                line: location.and_then(|location| location.line).filter(|&line| line > 0),
            });
        }
        frames
    }
}

fn has_debug_information(object: &object::File) -> bool {
    object.section_by_name(".debug_info").is_some_and(|section| section.size() > 0)
}
