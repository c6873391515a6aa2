//! What a function is to somebody who looks for the cause: told by its name.

/// What a function is to somebody who looks for the cause of a fault or an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Plain,
    /// malloc and its family, and what they call.
    Allocator,
    /// memset and the like: the cause is their caller.
    Helper,
}

/// Without underscores, and without what glibc puts before names that its own code calls: they
/// are in its debug files, beside the others.
fn bare(name: &str) -> &str {
    let name = name.trim_start_matches('_');
    name.strip_prefix("GI_").unwrap_or(name).trim_start_matches('_')
}

/// By the name as it is linked.
pub fn role_of_name(name: &str) -> Role {
    const OPERATORS: [&str; 4] = ["_Znw", "_Zna", "_Zdl", "_Zda"];
    const ALLOCATOR: [&str; 12] = [
        "malloc",
        "calloc",
        "realloc",
        "free",
        "cfree",
        "memalign",
        "aligned_alloc",
        "valloc",
        "pvalloc",
        "posix_memalign",
        "reallocarray",
        "systrim",
    ];
    /// Of glibc's internal functions, which the compiler also splits and renames.
    const ALLOCATOR_PREFIXES: [&str; 9] = [
        "int_malloc",
        "int_free",
        "int_realloc",
        "int_memalign",
        "sysmalloc",
        "malloc_consolidate",
        "malloc_trim",
        "alloc_new_heap",
        "tcache_",
    ];
    const HELPERS: [&str; 14] = [
        "memset",
        "memcpy",
        "memmove",
        "mempcpy",
        "memccpy",
        "bzero",
        "explicit_bzero",
        "strcpy",
        "strncpy",
        "stpcpy",
        "strcat",
        "strdup",
        "strndup",
        "wmemset",
    ];
    if OPERATORS.iter().any(|operator| name.starts_with(operator)) {
        return Role::Allocator;
    }
    let name = name.split('.').next().unwrap_or(name);
    let bare = bare(name).trim_start_matches("libc_");
    let word = bare.split("_avx").next().unwrap_or(bare).split("_sse").next().unwrap_or(bare);
    let word = word.split("_evex").next().unwrap_or(word).split("_erms").next().unwrap_or(word);
    let word = word.trim_end_matches("_chk").trim_end_matches("_");
    let is_internal = ALLOCATOR_PREFIXES.iter().any(|prefix| bare.starts_with(prefix));
    if is_internal || ALLOCATOR.contains(&word) || name.starts_with("prim_") {
        return Role::Allocator;
    }
    if HELPERS.contains(&word) { Role::Helper } else { Role::Plain }
}

/// Whether a function only hands on to malloc what its caller asks for: a program's own
/// wrappers, and the containers of languages' libraries. The name is a readable one without
/// arguments.
///
/// Who asks "who holds this memory?" means the caller of these.
pub fn is_wrapper(name: &str) -> bool {
    const NAMES: [&str; 9] = [
        "wcsdup",
        "asprintf",
        "vasprintf",
        "vasprintf_internal",
        "getline",
        "getdelim",
        "realpath",
        "open_memstream",
        "reallocf",
    ];
    /// Containers and allocators of languages' libraries among them.
    const PREFIXES: [&str; 15] = [
        "operator new",
        "operator delete",
        "prim_",
        "std::",
        "__gnu_cxx::",
        "alloc::",
        "core::",
        "hashbrown::",
        "__rust",
        "__rdl_",
        "__rg_",
        "runtime.mallocgc",
        "runtime.newobject",
        "runtime.makeslice",
        "runtime.growslice",
    ];
    /// Of which languages' libraries are made, for any type, what allocates.
    const TRAITS: [&str; 2] = [" as core::alloc::global::GlobalAlloc>::", " as alloc::vec::"];
    /// What the last words of wrappers' names are: zmalloc, g_malloc0, sqlite3MemMalloc.
    const ENDS: [&str; 8] =
        ["malloc", "calloc", "zalloc", "realloc", "memalign", "reallocarray", "strdup", "strndup"];
    /// What may stand behind them, in this order from the end: ztrymalloc_usable_internal.
    const VARIANTS: [&str; 4] = ["_internal", "_usable", "_n", "0"];
    let bare = bare(name);
    let word = bare.split(['.', '(', '@']).next().unwrap_or(bare).to_ascii_lowercase();
    let word = word.rsplit("::").next().unwrap_or(&word);
    let word = VARIANTS.iter().fold(word, |word, end| word.strip_suffix(end).unwrap_or(word));
    let is_plain = word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    role_of_name(name) == Role::Allocator
        || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        || is_of_rusts_library(name)
        || TRAITS.iter().any(|of| name.contains(of))
        || NAMES.contains(&bare)
        || is_plain && ENDS.iter().any(|end| word.ends_with(end))
}

/// Whether the name is `<Type>::method` or `<Type as Trait>::method` of Rust's own library: a
/// program can give methods to types of others by traits of its own alone, and those of others to
/// types of its own.
fn is_of_rusts_library(name: &str) -> bool {
    const CRATES: [&str; 4] = ["std::", "core::", "alloc::", "hashbrown::"];
    let is_librarys = |path: &str| {
        let path = path.trim_start_matches('<'); // a trait in a method
        CRATES.iter().any(|prefix| path.starts_with(prefix))
    };
    let Some(inner) = name.strip_prefix('<') else { return false };
    let (mut depth, mut before) = (1, ' ');
    let end = inner.find(|c| {
        depth += i32::from(c == '<') - i32::from(c == '>' && before != '-');
        before = c;
        depth == 0
    });
    let Some(end) = end.filter(|&end| inner[end..].starts_with(">::")) else { return false };
    let inner = &inner[..end];
    let (of, by) = match inner.split_once(" as ") {
        Some((of, by)) => (of, Some(by)),
        None => (inner, None),
    };
    let of = of.trim_start_matches("&mut ").trim_start_matches('&');
    // Slices, tuples, functions and what has one word are the language's own.
    let is_others = of.starts_with(['[', '(', '<']) || !of.contains("::") || is_librarys(of);
    is_others && by.is_none_or(is_librarys)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_roles() {
        for name in ["malloc", "__libc_malloc", "_int_malloc", "_Znwm", "calloc", "prim_malloc"]
            .into_iter()
            .chain(["sysmalloc_mmap.constprop.0", "_int_free.part.0", "__GI___libc_malloc"])
        {
            assert_eq!(role_of_name(name), Role::Allocator, "{name}");
        }
        for name in ["memset", "__memset_avx512_unaligned_erms", "__memcpy_chk", "__bzero"] {
            assert_eq!(role_of_name(name), Role::Helper, "{name}");
        }
        for name in ["main", "memory_use", "xmalloc", "freeze", "_PyObject_Malloc"] {
            assert_eq!(role_of_name(name), Role::Plain, "{name}");
        }
    }

    #[test]
    fn wrappers_pass_on_what_their_caller_asks_for() {
        for name in [
            "malloc",
            "zmalloc",
            "xcalloc",
            "g_malloc0",
            "sqlite3MemMalloc",
            "operator new[]",
            "std::vector<…>::push_back",
            "alloc::raw_vec::finish_grow",
            "_PyObject_Malloc",
            "PyMem_Realloc",
            "strdup",
            "__GI___strdup",
            "__vasprintf_internal",
            "PyObject_Calloc",
            "zmalloc.constprop.0",
            "OPENSSL_malloc",
            "CRYPTO_zalloc",
            "zmalloc_usable",
            "ztrymalloc_usable_internal",
            "g_malloc0_n",
            "g_strdup",
            "os::malloc",
            "<primalloc::Primalloc as core::alloc::global::GlobalAlloc>::alloc",
            "<u8 as alloc::vec::spec_from_elem::SpecFromElem>::from_elem",
            "<a::B as alloc::vec::spec_from_elem::SpecFromElem>::from_elem",
            "<str>::repeat",
            "<[T]>::to_vec",
            "<[a::B]>::to_vec",
            "<u64 as core::fmt::Display>::fmt",
            "<&str as core::convert::Into<…>>::into",
            "<hashbrown::map::HashMap<…> as core::iter::traits::collect::Extend<…>>::extend",
            "<alloc::vec::Vec<…> as core::clone::Clone>::clone",
            "<alloc::string::String as <alloc::ffi::CString>::new::SpecNewImpl>::spec_new_impl",
            "<<…>::from as core::ops::function::FnOnce<…>>::call_once",
            "<fn(u8) -> u8 as core::ops::function::FnOnce<…>>::call_once",
        ] {
            assert!(is_wrapper(name), "{name}");
        }
        for name in [
            "main",
            "freeze",
            "mallocator_test",
            "list_resize",
            "serde_json::from_str",
            "malloc_info_reader::run",
            "malloc::info",
            "<a::B as core::clone::Clone>::clone",
            "<&a::B as core::fmt::Debug>::fmt",
            "<str as a::Words>::words",
            "<alloc::vec::Vec<…> as a::Words>::words",
            "<a::B>::new",
            "<script>alert",
        ] {
            assert!(!is_wrapper(name), "{name}");
        }
    }
}
