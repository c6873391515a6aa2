//! Reads the `.def` tables of the C source, and writes the Rust that follows from them.

use std::fmt::Write;

/// The fields of every `MACRO(field, ...)` of a table: adjacent strings joined, quotes left out.
pub fn entries(text: &str, name: &str) -> Vec<Vec<String>> {
    let code = without_comments(text);
    let opening = format!("\n{name}(");
    let mut found = Vec::new();
    let mut rest = code.as_str();
    while let Some(start) = rest.find(&opening) {
        rest = &rest[start + opening.len()..];
        found.push(fields(rest));
    }
    found
}

fn without_comments(text: &str) -> String {
    let mut code = String::from("\n");
    let mut rest = text;
    while let Some(start) = rest.find("/*") {
        code.push_str(&rest[..start]);
        rest = rest[start..].split_once("*/").map_or("", |(_, after)| after);
    }
    code + rest
}

fn fields(text: &str) -> Vec<String> {
    let (mut found, mut field) = (Vec::new(), String::new());
    let (mut is_string, mut depth) = (false, 0);
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' if is_string => field.extend(characters.next()),
            '"' => is_string = !is_string,
            _ if is_string => field.push(character),
            ')' if depth == 0 => break,
            ',' if depth == 0 => found.push(std::mem::take(&mut field)),
            _ if character.is_whitespace() => {}
            _ => {
                depth += i32::from(character == '(') - i32::from(character == ')');
                field.push(character);
            }
        }
    }
    found.push(field);
    found
}

/// A struct with a number for each line of the table.
pub fn figures(table: &str, macro_name: &str, struct_name: &str, what: &str) -> String {
    let mut text = format!(
        "/// {what}\n#[repr(C)]\n#[non_exhaustive]\n\
         #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]\npub struct {struct_name} {{\n"
    );
    for entry in entries(table, macro_name) {
        let (name, sentence) = (&entry[0], escaped(&entry[3]));
        writeln!(text, "    /// {sentence}\n    pub {name}: u64,").unwrap();
    }
    text + "}\n"
}

/// A constant for each option, with its type; an enum for each that is a choice of words.
pub fn options(table: &str) -> String {
    let mut text = String::new();
    for entry in entries(table, "OPTION") {
        let [name, kind, when, _, _, _, unit, sentence] = entry.as_slice() else {
            panic!("options.def: {entry:?} has not eight fields");
        };
        let rust_type = match kind.as_str() {
            "BOOL" => "bool".into(),
            "SIZE" => "u64".into(),
            "AUTO_SIZE" => "Option<u64>".into(),
            "TIME_MS" => "core::time::Duration".into(),
            "TEXT" => "alloc::string::String".into(),
            "CHOICE" => {
                text += &choice(name, unit);
                camel(name)
            }
            _ => panic!("options.def: {name} has the unknown type {kind}"),
        };
        let change = if when == "START" { "AtStart" } else { "AnyTime" };
        let (constant, sentence) = (name.to_uppercase(), escaped(sentence));
        writeln!(
            text,
            "/// `{name}`: {sentence}\npub const {constant}: Setting<{rust_type}, {change}> =\n    \
             Setting::new(c\"{name}\");"
        )
        .unwrap();
    }
    text
}

fn choice(name: &str, words: &str) -> String {
    let type_name = camel(name);
    let mut text = format!(
        "/// What the option `{name}` may be.\n\
         #[derive(Clone, Copy, Debug, PartialEq, Eq)]\npub enum {type_name} {{\n"
    );
    let variants: Vec<String> = words.split('|').map(camel).collect();
    for (word, variant) in words.split('|').zip(&variants) {
        writeln!(text, "    /// `{word}`\n    {variant},").unwrap();
    }
    writeln!(text, "}}\nimpl Choice for {type_name} {{\n    const ALL: &'static [Self] = &[")
        .unwrap();
    for variant in variants {
        writeln!(text, "        {type_name}::{variant},").unwrap();
    }
    text + "    ];\n}\n"
}

fn camel(name: &str) -> String {
    let mut result = String::new();
    for word in name.split(|character: char| !character.is_alphanumeric()) {
        let mut characters = word.chars();
        result.extend(characters.next().map(|first| first.to_ascii_uppercase()));
        result.extend(characters);
    }
    if result.starts_with(|first: char| first.is_ascii_digit()) {
        result.insert(0, 'N');
    }
    result
}

/// Text in which brackets are only themselves to rustdoc.
fn escaped(sentence: &str) -> String {
    sentence.replace('[', "\\[").replace(']', "\\]")
}
