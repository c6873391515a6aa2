//! Names that others have chosen: of programs, files, functions, threads.

/// A name as it may stand in a line or a row: what would end that, colour it, command the terminal
/// or turn the order of what is read is replaced.
pub fn printable(name: &str) -> String {
    let is_harmless = |c: char| !c.is_control() && !is_unseen(c);
    name.chars().map(|c| if is_harmless(c) { c } else { char::REPLACEMENT_CHARACTER }).collect()
}

/// Turns the direction of writing, or is nothing to see. The joiners, which scripts and pictures
/// are made with, are not among it.
pub fn is_unseen(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}'
        | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
        | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stays_in_its_row_and_has_no_colours() {
        assert_eq!(printable("two\nlines\tand \x1b[31mred"), "two�lines�and �[31mred");
        assert_eq!(printable("ser\u{202e}ver µ"), "ser�ver µ");
    }
}
