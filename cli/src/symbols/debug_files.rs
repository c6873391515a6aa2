//! Where the debug information of a stripped file lies: by build ID, or by the link in it.

use std::path::{Path, PathBuf};

use object::Object as _;

/// Where distributions put what they have stripped, by build ID.
const BY_BUILD_ID: &str = "/usr/lib/debug/.build-id";
/// Where they put it by the name of the file that it was taken from.
const BY_PATH: &str = "/usr/lib/debug";

/// In hexadecimal digits.
pub fn build_id(file: &object::File) -> Option<String> {
    let id = file.build_id().ok()??;
    Some(id.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The debug file of `file`, which lies at `path`.
pub fn of(file: &object::File, path: &Path) -> Option<PathBuf> {
    build_id(file).and_then(|id| by_build_id(&id)).or_else(|| by_link(file, path))
}

pub fn by_build_id(id: &str) -> Option<PathBuf> {
    let (directory, name) = id.split_at_checked(2)?;
    existing(Path::new(BY_BUILD_ID).join(directory).join(format!("{name}.debug")))
}

/// The name in the file, looked for beside it, below it, and in the system's directory.
fn by_link(file: &object::File, path: &Path) -> Option<PathBuf> {
    let (name, _) = file.gnu_debuglink().ok()??;
    let name = std::str::from_utf8(name).ok()?;
    let directory = path.parent()?;
    let system = Path::new(BY_PATH).join(directory.strip_prefix("/").unwrap_or(directory));
    [directory.join(name), directory.join(".debug").join(name), system.join(name)]
        .into_iter()
        .find_map(|candidate| existing(candidate).filter(|found| found != path))
}

/// What several debug files of a package have in common, which a tool has moved to a file of its
/// own.
pub fn common_part(debug: &object::File, debug_path: &Path) -> Option<PathBuf> {
    let (name, id) = debug.gnu_debugaltlink().ok()??;
    let by_name = std::str::from_utf8(name).ok().and_then(|name| {
        // A relative name is meant from where the debug file really lies.
        let directory = debug_path.canonicalize().ok()?.parent()?.to_owned();
        existing(directory.join(name))
    });
    let id: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    by_name.or_else(|| by_build_id(&id))
}

fn existing(path: PathBuf) -> Option<PathBuf> {
    path.is_file().then_some(path)
}
