//! ELF files as they lie on the disk: functions, lines, and the sections that unwinding needs.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use memmap2::Mmap;
use object::{Object as _, ObjectSection, ObjectSegment, ObjectSymbol, SymbolKind};

use super::debug_files::{DebugFiles, build_id};
use super::lines::{CodeFrame, Lines};
use super::names::readable;
use super::roles::{Role, role_of_name};
use crate::allocators::is_allocator_library;

#[derive(Clone, Debug, PartialEq)]
struct Function {
    start: u64,
    end: u64,
    name: String,
}

struct Segment {
    offset: u64,
    size: u64,
    address: u64,
}

/// The smallest that a mapping begins at.
const PAGE: u64 = 4096;

/// A section's place in the file's own addresses, and its bytes.
pub type Section = (std::ops::Range<u64>, &'static [u8]);

pub struct Object {
    pub path: PathBuf,
    is_allocator: bool,
    is_libc: bool,
    /// Those with code.
    segments: Vec<Segment>,
    /// Sorted by start.
    functions: Vec<Function>,
    pub base: u64,
    pub text: Option<Section>,
    pub eh_frame: Option<Section>,
    pub eh_frame_hdr: Option<Section>,
    /// In hexadecimal digits.
    pub build_id: Option<String>,
    debug_files: DebugFiles,
    lines: OnceCell<Option<Lines>>,
    exported: OnceCell<HashMap<String, Option<u64>>>,
}

/// The files that have been looked at.
#[derive(Default)]
pub struct Objects {
    debug_files: DebugFiles,
    known: HashMap<Rc<str>, Option<Rc<Object>>>,
}

/// The executable pages of a file, as a process had them mapped.
pub struct MappedCode {
    pub offset: u64,
    pub size: u64,
}

impl Objects {
    /// Debug files are looked for below this directory, too.
    pub fn with_debug_directory(directory: Option<&Path>) -> Objects {
        Objects { debug_files: DebugFiles::with(directory), known: HashMap::new() }
    }

    pub fn get(&mut self, path: &Rc<str>) -> Option<Rc<Object>> {
        let debug_files = &self.debug_files;
        let read = || Object::read(path, debug_files).map(Rc::new);
        self.known.entry(path.clone()).or_insert_with(read).clone()
    }

    /// What is called `name` and lies at `place`, which a process that has it open keeps.
    pub fn get_at(&self, name: &str, place: &Path) -> Option<Rc<Object>> {
        Object::read_at(Path::new(name), place, &self.debug_files).map(Rc::new)
    }

    /// The debug file of a file that is gone. It has the addresses of what was in that, but not the
    /// places in the file, so that only code can be found that was mapped as a whole.
    pub fn get_by_build_id(&self, path: &str, id: &str, code: &MappedCode) -> Option<Rc<Object>> {
        let debug_path = self.debug_files.by_build_id(id)?;
        let file = object::File::parse(bytes_of(&debug_path)?).ok()?;
        let address = file.segments().find_map(|segment| {
            let begin = segment.address() & !(PAGE - 1);
            let end = (segment.address() + segment.size()).next_multiple_of(PAGE);
            (segment.permissions().executable() && end - begin == code.size).then_some(begin)
        })?;
        let segments = vec![Segment { offset: code.offset, size: code.size, address }];
        let object = Object::new(Path::new(path), debug_path, &file, segments, &self.debug_files)?;
        (object.build_id.as_deref() == Some(id)).then(|| Rc::new(object))
    }
}

impl Object {
    fn read(path: &str, debug_files: &DebugFiles) -> Option<Object> {
        Object::read_at(Path::new(path), Path::new(path), debug_files)
    }

    fn read_at(name: &Path, place: &Path, debug_files: &DebugFiles) -> Option<Object> {
        let file = object::File::parse(bytes_of(place)?).ok()?;
        let code = file.segments().filter(|segment| segment.permissions().executable());
        let segments = code.map(|segment| {
            let (offset, size) = segment.file_range();
            Segment { offset, size, address: segment.address() }
        });
        Object::new(name, place.to_owned(), &file, segments.collect(), debug_files)
    }

    /// What is called `name`, from the file that lies at `path`.
    fn new(
        name: &Path,
        path: PathBuf,
        file: &object::File<'static>,
        segments: Vec<Segment>,
        debug_files: &DebugFiles,
    ) -> Option<Object> {
        let mut functions = functions_of(file);
        if file.symbols().next().is_none() {
            if let Some(debug) = debug_files.of(file, &path).and_then(|p| bytes_of(&p)) {
                functions.extend(object::File::parse(debug).iter().flat_map(functions_of));
            }
        }
        functions.sort_by(|a, b| (a.start, &a.name).cmp(&(b.start, &b.name)));
        functions.dedup_by_key(|function| function.start);
        let is_allocator = is_allocator_library(name);
        let name = name.file_name()?.to_string_lossy();
        Some(Object {
            path,
            is_allocator,
            is_libc: name.starts_with("libc.so") || name.starts_with("libc-2"),
            base: file.segments().map(|segment| segment.address()).min().unwrap_or(0),
            segments,
            functions,
            text: section(file, ".text"),
            eh_frame: section(file, ".eh_frame"),
            eh_frame_hdr: section(file, ".eh_frame_hdr"),
            build_id: build_id(file),
            debug_files: debug_files.clone(),
            lines: OnceCell::new(),
            exported: OnceCell::new(),
        })
    }

    /// The file's own address of the code that lies at this offset of it.
    pub fn address_of_offset(&self, offset: u64) -> Option<u64> {
        // A mapping begins at a page, which may be before the segment itself.
        let segment = self.segments.iter().find(|segment| {
            let first = segment.offset & !(PAGE - 1);
            (first..segment.offset + segment.size).contains(&offset)
        })?;
        Some((segment.address + offset).wrapping_sub(segment.offset))
    }

    #[cfg(test)]
    pub fn offset_of_function(&self, name: &str) -> Option<u64> {
        let address = self.functions.iter().find(|function| function.name == name)?.start;
        let is_in = |s: &&Segment| (s.address..s.address + s.size).contains(&address);
        let segment = self.segments.iter().find(is_in)?;
        Some(address - segment.address + segment.offset)
    }

    pub fn role(&self, address: u64) -> Role {
        if self.is_allocator {
            return Role::Allocator;
        }
        match self.function(address) {
            Some(function) => role_of_name(&function.name),
            None if self.is_next_to_malloc(address) => Role::Allocator,
            // The many versions of memset have no names in a stripped C library.
            None if self.is_libc => Role::Helper,
            None => Role::Plain,
        }
    }

    pub fn function_name(&self, address: u64) -> Option<&str> {
        self.function(address).map(|function| function.name.as_str())
    }

    fn function(&self, address: u64) -> Option<&Function> {
        let next = self.functions.partition_point(|function| function.start <= address);
        let function = self.functions[..next].last()?;
        (address < function.end).then_some(function)
    }

    /// Whether this is nameless code beside malloc's: an object file is linked as a whole, so
    /// that its internal functions lie among the exported ones.
    fn is_next_to_malloc(&self, address: u64) -> bool {
        let next = self.functions.partition_point(|function| function.start <= address);
        let neighbours = [next.checked_sub(1), Some(next)];
        let is_mallocs = |function: &Function| role_of_name(&function.name) == Role::Allocator;
        neighbours.into_iter().flatten().filter_map(|i| self.functions.get(i)).any(is_mallocs)
    }

    /// "file.c:12", where the file has debug information.
    pub fn line(&self, address: u64) -> Option<String> {
        let frame = self.lines()?.frames(address).into_iter().next()?;
        let file = Path::new(&frame.file?).file_name()?.to_string_lossy().into_owned();
        Some(format!("{file}:{}", frame.line?))
    }

    /// The function there and those that it was inlined into, innermost first; at least one.
    pub fn frames(&self, address: u64) -> Vec<CodeFrame> {
        let mut frames = self.lines().map_or_else(Vec::new, |lines| lines.frames(address));
        if frames.is_empty() {
            frames.push(CodeFrame::default());
        }
        if let Some(outermost) = frames.last_mut() {
            let linked = self.function_name(address).map(readable);
            let is_fuller = |name: &String| match &outermost.function {
                Some(known) => is_whole_name_of(name, known),
                None => true,
            };
            if let Some(name) = linked.filter(is_fuller) {
                outermost.function = Some(name);
            }
        }
        frames
    }

    /// Where what others may call by this name lies, if that is one place: with versions of symbols
    /// it may be several.
    pub fn address_of_exported(&self, name: &str) -> Option<u64> {
        let read = || bytes_of(&self.path).map(exported_of).unwrap_or_default();
        *self.exported.get_or_init(read).get(name)?
    }

    fn lines(&self) -> Option<&Lines> {
        self.lines.get_or_init(|| Lines::open(&self.path, &self.debug_files)).as_ref()
    }
}

/// Whether `linked`, from the symbol table, says where `known` lies: of what no other file can see,
/// as lambdas and all in anonymous namespaces, gcc's debug information has the last word alone.
fn is_whole_name_of(linked: &str, known: &str) -> bool {
    let word = known.split('<').next().unwrap_or(known);
    let is_word_alone =
        !known.contains("::") && word.split_once('(').is_none_or(|(_, rest)| rest == ")");
    is_word_alone && linked.contains(&format!("::{word}"))
}

/// Mapped for the rest of the tool's life, which ends with the report.
pub fn bytes_of(path: &Path) -> Option<&'static [u8]> {
    // A device that happens to be mapped must not be opened, and a pipe of this name has no end.
    let file = path.is_file().then(|| File::open(path)).and_then(Result::ok)?;
    // SAFETY: the map is only read; a file that shrinks meanwhile is nothing one can guard
    // against, and programs and libraries are replaced by new files, not shortened.
    let map = unsafe { Mmap::map(&file) }.ok()?;
    Some(Box::leak(Box::new(map)))
}

fn functions_of(file: &object::File<'static>) -> Vec<Function> {
    file.symbols()
        .chain(file.dynamic_symbols())
        .filter(|symbol| symbol.is_definition() && symbol.size() > 0)
        .filter(|symbol| symbol.kind() == SymbolKind::Text)
        .filter_map(|symbol| {
            let end = symbol.address() + symbol.size();
            Some(Function { start: symbol.address(), end, name: symbol.name().ok()?.to_owned() })
        })
        .collect()
}

/// By name; none where a name has several places.
fn exported_of(bytes: &'static [u8]) -> HashMap<String, Option<u64>> {
    let mut places = HashMap::new();
    let Ok(file) = object::File::parse(bytes) else { return places };
    for symbol in file.dynamic_symbols().filter(|symbol| symbol.is_definition()) {
        let Ok(name) = symbol.name() else { continue };
        let address = Some(symbol.address());
        let place = places.entry(name.to_owned()).or_insert(address);
        *place = place.filter(|_| *place == address);
    }
    places
}

fn section(file: &object::File<'static>, name: &str) -> Option<Section> {
    let section = file.section_by_name(name)?;
    let range = section.address()..section.address() + section.size();
    Some((range, section.data().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tools_own_file_can_be_read() {
        let path: Rc<str> = std::env::current_exe().unwrap().to_str().unwrap().into();
        let object = Objects::default().get(&path).unwrap();
        assert!(object.eh_frame.is_some() && object.text.is_some());
        let (text, _) = object.text.clone().unwrap();
        let segment = object.segments.iter().find(|s| s.address <= text.start).unwrap();
        assert_eq!(object.address_of_offset(segment.offset), Some(segment.address));
        assert!(Objects::default().get(&"/etc/passwd".into()).is_none());
    }

    #[test]
    fn a_word_alone_has_its_place_by_the_symbol_table() {
        for (linked, known) in [
            ("(anonymous namespace)::Cache::put(int)", "put"),
            ("void (anonymous namespace)::put<int>(int)", "put<int>"),
            ("main::{lambda(int)#1}::operator()(int) const", "operator()"),
            ("auto main::{lambda(auto:1)#1}::operator()<long>(long) const", "operator()<long int>"),
        ] {
            assert!(is_whole_name_of(linked, known), "{linked}");
        }
        for (linked, known) in [
            ("put", "put"),
            ("Cache::put(int)", "Cache::put(int)"),
            ("put(int) [clone .cold]", "put(int)"),
            ("Cache::other(int)", "folded"),
        ] {
            assert!(!is_whole_name_of(linked, known), "{linked}");
        }
    }

    #[test]
    fn code_without_a_name_beside_malloc_is_mallocs() {
        let path: Rc<str> = std::env::current_exe().unwrap().to_str().unwrap().into();
        let mut object = Object::read(&path, &DebugFiles::default()).unwrap();
        let function = |start, end, name: &str| Function { start, end, name: name.into() };
        object.functions =
            vec![function(10, 20, "strtol"), function(30, 40, "malloc"), function(50, 60, "a64l")];
        let next_to = |address| object.is_next_to_malloc(address);
        assert!(next_to(25) && next_to(45) && !next_to(5) && !next_to(65));
        assert_eq!(object.function_name(35), Some("malloc"));
        assert_eq!(object.function_name(45), None);
    }
}
