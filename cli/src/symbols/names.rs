//! Names as people write them.

/// C++ and Rust names are turned back from how they are linked, which begins with an underscore:
/// one without may be the code of a type, as `a` is that of `signed char`.
pub fn readable(name: &str) -> String {
    if !name.starts_with('_') {
        return name.to_owned();
    }
    addr2line::demangle_auto(name.into(), None).into_owned()
}

/// Stands for `operator()` where brackets are looked for; in no name.
const CALL: char = '\u{1}';

/// The name without arguments: neither templates' nor calls'.
///
/// `std::vector<int, std::allocator<int> >::push_back(int const&)` is `std::vector<…>::push_back`.
pub fn short(name: &str) -> String {
    if let Some((before, after)) = name.split_once("operator()") {
        // A lambda's, or a function object's: the brackets are the name's own.
        if !before.contains("operator") && !after.contains("operator") {
            return short(&format!("{before}{CALL}{after}")).replace(CALL, "operator()");
        }
    }
    if name.contains("operator") {
        return name.to_owned();
    }
    let name = name.replace("(anonymous namespace)", "{anonymous}");
    let mut text = String::with_capacity(name.len());
    let mut is_call = false;
    let mut rest = name.as_str();
    while let Some(c) = rest.chars().next() {
        // In `<Type as Trait>::method` and `pkg.(*Type).method` the brackets are the name's own.
        let is_argument = match c {
            '(' => !text.is_empty() && !text.ends_with('.'),
            '<' => !text.is_empty() && !text.ends_with(' '),
            _ => false,
        };
        let Some(length) = is_argument.then(|| bracketed(rest)).flatten() else {
            text.push(c);
            rest = &rest[c.len_utf8()..];
            continue;
        };
        rest = &rest[length..];
        if c == '<' {
            text.push_str("<…>");
            continue;
        }
        is_call = true;
        // What is inside of a function, as a lambda, goes on; "const" and "[clone]" do not.
        if !rest.starts_with("::") && !rest.starts_with('#') {
            break;
        }
    }
    // What a template function returns stands before its name.
    let begin = if is_call { text.rfind(' ').map_or(0, |at| at + 1) } else { 0 };
    if text[begin..].is_empty() { name } else { text[begin..].to_owned() }
}

/// How long the text in brackets is that `text` begins with; None if they do not close.
fn bracketed(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    let mut before = ' ';
    for (at, c) in text.char_indices() {
        match c {
            '<' | '(' | '[' | '{' => depth += 1,
            // The arrow of a function's type closes nothing.
            '>' if before == '-' => {}
            '>' | ')' | ']' | '}' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(at + c.len_utf8());
                }
            }
            _ => {}
        }
        before = c;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linked_names_are_turned_back() {
        assert_eq!(
            readable("_ZNSt6vectorIiSaIiEE9push_backERKi"),
            "std::vector<int, std::allocator<int> >::push_back(int const&)"
        );
        assert_eq!(
            readable("_ZN5alloc5boxed12Box$LT$T$GT$3new17h0123456789abcdefE"),
            "alloc::boxed::Box<T>::new"
        );
        for plain in ["main", "a", "d", "Pc", "St", "_start", "_", "_d"] {
            assert_eq!(readable(plain), plain);
        }
    }

    #[test]
    fn arguments_are_left_out() {
        for (name, shortened) in [
            ("main", "main"),
            (
                "std::vector<int, std::allocator<int> >::push_back(int const&)",
                "std::vector<…>::push_back",
            ),
            ("void fill<std::map<int, long> >(std::map<int, long>&)", "fill<…>"),
            ("(anonymous namespace)::Cache::put(int) const", "{anonymous}::Cache::put"),
            ("run(int)::{lambda(int)#1}::go(int) const", "run::{lambda#1}::go"),
            (
                "<alloc::vec::Vec<T> as core::clone::Clone>::clone",
                "<alloc::vec::Vec<…> as core::clone::Clone>::clone",
            ),
            (
                "hashbrown::raw::RawTable<T,A>::reserve_rehash",
                "hashbrown::raw::RawTable<…>::reserve_rehash",
            ),
            ("operator new(unsigned long)", "operator new(unsigned long)"),
            ("operator()", "operator()"),
            ("operator()<long int>", "operator()<…>"),
            ("Cache::operator()(int) const", "Cache::operator()"),
            (
                "auto run(int)::{lambda(auto:1)#1}::operator()<long>(long) const",
                "run::{lambda#1}::operator()<…>",
            ),
            ("Cache::operator[](int)", "Cache::operator[](int)"),
            ("broken<name", "broken<name"),
            ("(in libgone.so)", "(in libgone.so)"),
            ("net/http.(*conn).serve", "net/http.(*conn).serve"),
        ] {
            assert_eq!(short(name), shortened);
        }
    }
}
