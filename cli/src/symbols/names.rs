//! Names as people write them.

use std::collections::HashMap;

/// C++ and Rust names are turned back from how they are linked, which begins with an underscore:
/// one without may be the code of a type, as `a` is that of `signed char`.
pub fn readable(name: &str) -> String {
    if !name.starts_with('_') {
        return name.to_owned();
    }
    match demangled(name) {
        plain if plain == name && name.starts_with("_Z") => without_its_type(name).unwrap_or(plain),
        readable => readable,
    }
}

fn demangled(name: &str) -> String {
    addr2line::demangle_auto(name.into(), None).into_owned()
}

/// The least beginning that is a name: what a template function returns and takes stands behind
/// that, and may be an expression that the demangler does not know, as of `std::make_shared`.
fn without_its_type(linked: &str) -> Option<String> {
    /// Names in names may have many ends; each is tried from the beginning.
    const ENDS_MAX: usize = 256;
    let ends = linked.match_indices('E').take(ENDS_MAX).map(|(at, _)| &linked[..=at]);
    ends.map(|begin| (begin, demangled(begin))).find(|(begin, name)| begin != name).map(|(_, n)| n)
}

/// Brackets and spaces that belong to an operator's name, and what stands for them where arguments
/// are looked for: in no name.
const VEILS: [(char, char); 7] = [
    ('(', '\u{1}'),
    (')', '\u{2}'),
    ('[', '\u{3}'),
    (']', '\u{4}'),
    ('<', '\u{5}'),
    ('>', '\u{6}'),
    (' ', '\u{7}'),
];

fn veil(c: char) -> char {
    VEILS.iter().find(|(plain, _)| *plain == c).map_or(c, |(_, veiled)| *veiled)
}

fn unveil(c: char) -> char {
    VEILS.iter().find(|(_, veiled)| *veiled == c).map_or(c, |(plain, _)| *plain)
}

/// The name with all operators veiled; None if one is a word, as `operator new` and
/// `operator bool`, which has no mark where it ends.
fn with_veiled_operators(name: &str) -> Option<String> {
    const WORD: &str = "operator";
    const BRACKETED: [&str; 13] =
        ["()", "[]", "<<=", ">>=", "<=>", "->*", "->", "<<", ">>", "<=", ">=", "<", ">"];
    let is_of_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut text = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(at) = rest.find(WORD) {
        text.push_str(&rest[..at]);
        let is_inside = text.ends_with(is_of_word);
        text.push_str(WORD);
        rest = &rest[at + WORD.len()..];
        if is_inside || rest.starts_with(is_of_word) {
            continue;
        }
        if rest.starts_with([' ', '"']) {
            return None;
        }
        let symbol = BRACKETED.iter().find(|symbol| rest.starts_with(**symbol));
        let after = symbol.map_or(rest, |symbol| &rest[symbol.len()..]);
        let after = after.trim_start_matches(|c| "=!+-*/%^&|~,".contains(c));
        text.extend(rest[..rest.len() - after.len()].chars().map(veil));
        let is_template = after.starts_with(" <");
        text.extend(is_template.then_some(veil(' ')));
        rest = &after[usize::from(is_template)..];
    }
    Some(text + rest)
}

/// The name without arguments: neither templates' nor calls'.
///
/// `std::vector<int, std::allocator<int> >::push_back(int const&)` is `std::vector<…>::push_back`.
pub fn short(name: &str) -> String {
    let Some(veiled) = with_veiled_operators(name) else { return name.to_owned() };
    let name = veiled.replace("(anonymous namespace)", "{anonymous}");
    let ends = ends_of_brackets(&name);
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
        let end = ends.get(&(name.len() - rest.len())).filter(|_| is_argument);
        let Some(&end) = end else {
            text.push(c);
            rest = &rest[c.len_utf8()..];
            continue;
        };
        rest = &name[end..];
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
    let shortened = if text[begin..].is_empty() { &name } else { &text[begin..] };
    shortened.chars().map(unveil).collect()
}

/// For each bracket that is closed, by its place, where the text behind begins. A name may have any
/// number of them.
fn ends_of_brackets(text: &str) -> HashMap<usize, usize> {
    let (mut ends, mut open) = (HashMap::new(), Vec::new());
    let mut before = ' ';
    for (at, c) in text.char_indices() {
        match c {
            '<' | '(' | '[' | '{' => open.push(at),
            // The arrow of a function's type closes nothing.
            '>' if before == '-' => {}
            '>' | ')' | ']' | '}' => ends.extend(open.pop().map(|begin| (begin, at + 1))),
            _ => {}
        }
        before = c;
    }
    ends
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
        let shared = "_ZSt11make_sharedI5OrderJRS0_EESt10shared_ptrINSt9enable_ifIXntsrSt8is_array\
                      IT_E5valueES5_E4typeEEDpOT0_";
        assert_eq!(readable(shared), "std::make_shared<Order, Order&>");
        let removed = "_ZNKSt14default_deleteIA_1XEclIS0_EENSt9enable_ifIXsrSt14is_convertibleIPA_\
                       T_PS1_E5valueEvE4typeEPS6_";
        assert!(readable(removed).starts_with("std::default_delete<X []>::operator()"));
        for plain in [
            "_ZSt11make_sharedI5OrderJ",
            "_ZEEE",
            "main",
            "a",
            "d",
            "Pc",
            "St",
            "_start",
            "_",
            "_d",
        ] {
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
            ("operator new[](unsigned long)", "operator new[](unsigned long)"),
            ("Cache::operator bool() const", "Cache::operator bool() const"),
            ("Cache::operator[](int)", "Cache::operator[]"),
            ("Order::operator=(Order const&)", "Order::operator="),
            ("std::map<int, Order, std::less<int> >::operator[](int&&)", "std::map<…>::operator[]"),
            (
                "std::ostream& std::operator<< <std::char_traits<char> >(std::ostream&, char)",
                "std::operator<< <…>",
            ),
            ("bool operator==<int>(A<int> const&, A<int> const&)", "operator==<…>"),
            ("bool operator< <int>(A<int> const&, A<int> const&)", "operator< <…>"),
            ("A<B>::operator->() const", "A<…>::operator->"),
            ("Cache::operator++(int)", "Cache::operator++"),
            ("run_operator(int)", "run_operator"),
            ("operators::run(int)", "operators::run"),
            ("broken<name", "broken<name"),
            ("broken(a)(b<c(d)", "broken"),
            ("broken)(a(b)", "broken)(a"),
            ("(in libgone.so)", "(in libgone.so)"),
            ("net/http.(*conn).serve", "net/http.(*conn).serve"),
        ] {
            assert_eq!(short(name), shortened);
        }
    }

    /// Who makes a profile chooses the names in it: looked for anew at each, the ends take minutes.
    #[test]
    fn a_name_of_brackets_alone_is_as_it_was() {
        let name = format!("a{}", "(<".repeat(200_000));
        assert_eq!(short(&name), name);
    }
}
