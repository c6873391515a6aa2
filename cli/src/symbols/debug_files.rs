//! Where debug information lies apart from its file: by build ID, or by the link in the file.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use object::Object as _;

/// Where distributions put what they have stripped: by the name of the file it was taken from,
const SYSTEM: &str = "/usr/lib/debug";
/// or below this by build ID.
const BY_BUILD_ID: &str = ".build-id";

/// In hexadecimal digits.
pub fn build_id(file: &object::File) -> Option<String> {
    let id = file.build_id().ok()??;
    Some(id.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The directories with debug files, all laid out as the system's.
#[derive(Clone)]
pub struct DebugFiles {
    directories: Rc<[PathBuf]>,
}

impl Default for DebugFiles {
    fn default() -> DebugFiles {
        DebugFiles::with(None)
    }
}

impl DebugFiles {
    /// The system's, behind the user's own.
    pub fn with(own: Option<&Path>) -> DebugFiles {
        let system = Path::new(SYSTEM);
        let directories = own.into_iter().chain([system]).map(Path::to_owned).collect();
        DebugFiles { directories }
    }

    /// The debug file of `file`, which lies at `path`.
    pub fn of(&self, file: &object::File, path: &Path) -> Option<PathBuf> {
        build_id(file).and_then(|id| self.by_build_id(&id)).or_else(|| self.by_link(file, path))
    }

    pub fn by_build_id(&self, id: &str) -> Option<PathBuf> {
        let (first, rest) = id.split_at_checked(2)?;
        let name = Path::new(BY_BUILD_ID).join(first).join(format!("{rest}.debug"));
        self.directories.iter().find_map(|directory| existing(directory.join(&name)))
    }

    /// The name in the file, looked for beside it, below it, and in the directories.
    fn by_link(&self, file: &object::File, path: &Path) -> Option<PathBuf> {
        let (name, _) = file.gnu_debuglink().ok()??;
        let name = std::str::from_utf8(name).ok()?;
        let folder = path.parent()?;
        let below = folder.strip_prefix("/").unwrap_or(folder);
        [folder.to_owned(), folder.join(".debug")]
            .into_iter()
            .chain(self.directories.iter().map(|directory| directory.join(below)))
            .find_map(|candidate| existing(candidate.join(name)).filter(|found| found != path))
    }

    /// What several debug files of a package have in common, which a tool has moved to a file of
    /// its own.
    pub fn common_part(&self, debug: &object::File, debug_path: &Path) -> Option<PathBuf> {
        let (name, id) = debug.gnu_debugaltlink().ok()??;
        let by_name = std::str::from_utf8(name).ok().and_then(|name| {
            // A relative name is meant from where the debug file really lies.
            let directory = debug_path.canonicalize().ok()?.parent()?.to_owned();
            existing(directory.join(name))
        });
        let id: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
        by_name.or_else(|| self.by_build_id(&id))
    }
}

fn existing(path: PathBuf) -> Option<PathBuf> {
    path.is_file().then_some(path)
}
