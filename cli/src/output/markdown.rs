//! The report as a Markdown table.

use super::Report;
use super::quantity::{ratio_text, spread_text};
use super::report::Row;

pub fn markdown(report: &Report) -> String {
    let mut text = format!("{}: {}\n\n", code(&report.command), report.caption());
    text += &header(report);
    for row in report.rows() {
        text += &line(&row);
    }
    text.push('\n');
    for sentence in report.failures().iter().chain(&report.conclusions()) {
        text += &format!("- {}\n", words(sentence));
    }
    text
}

/// What is read, in a table as well: nothing that others have chosen in it is a mark, or ends the
/// row. Within a word an underscore is none.
pub fn words(text: &str) -> String {
    let mut words = String::new();
    let mut previous = ' ';
    for c in text.chars() {
        let is_mark = match c {
            '_' => !previous.is_alphanumeric(),
            _ => r"\`*[]<>&|~".contains(c),
        };
        if is_mark {
            words.push('\\');
        }
        words.push(if ENDS_OF_LINES.contains(&c) { ' ' } else { c });
        previous = c;
    }
    words
}

const ENDS_OF_LINES: [char; 2] = ['\n', '\r'];

/// What is typed. No marks in it are as long as those around it; and an empty line, or one that
/// begins as a heading does, would end the paragraph, while a line's end is shown as a blank
/// anyway.
pub fn code(text: &str) -> String {
    let text = text.replace(ENDS_OF_LINES, " ");
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let (marks, blank) = ("`".repeat(longest + 1), if longest > 0 { " " } else { "" });
    format!("{marks}{blank}{text}{blank}{marks}")
}

fn header(report: &Report) -> String {
    let mut names = String::from("| |");
    let mut alignments = String::from("|---|");
    for (index, entry) in report.entries.iter().enumerate() {
        let ratio = if index == 0 { "" } else { " | ratio" };
        names += &format!(" {} | spread{ratio} |", words(&entry.title()));
        alignments += if index == 0 { "--:|--:|" } else { "--:|--:|--:|" };
    }
    format!("{names}\n{alignments}\n")
}

fn line(row: &Row) -> String {
    let mut line = format!("| {} |", row.metric.label);
    for (index, cell) in row.cells.iter().enumerate() {
        let median = row.scale.format(cell.summary.median);
        let median = if cell.is_best { format!("**{median}**") } else { median };
        let spread = spread_text(cell.summary);
        line += &format!(" {median} | {spread} |");
        if index > 0 {
            line += &format!(" {} |", ratio_text(cell.ratio));
        }
    }
    line + "\n"
}

#[cfg(test)]
mod tests {
    use super::super::sample;

    #[test]
    fn the_whole_document() {
        let mut report = sample::report();
        report.entries.truncate(2);
        insta::assert_snapshot!(super::markdown(&report), @r"
        `sort -n 'big file'`: median of 5 runs after one to warm up, in turns

        | | glibc 2.36 | spread | primalloc 0.1.0 | spread | ratio |
        |---|--:|--:|--:|--:|--:|
        | wall time | 1.25 s | ±1.0 % | **1.00 s** | ±1.0 % | 0.80× |
        | user time | 1.000 s | ±1.0 % | **0.800 s** | ±1.0 % | 0.80× |
        | system time | 250 ms | ±1.0 % | **200 ms** | ±1.0 % | 0.80× |
        | peak memory | 180 MiB | ±0 % | **150 MiB** | ±0 % | 0.84× |
        | minor faults | 45,210 | ±0 % | **1,204** | ±0 % | 0.03× |
        | major faults | 0 |  | 0 |  | – |
        | voluntary switches | 3 | ±0 % | 3 | ±0 % | 1.00× |
        | involuntary switches | 12 | ±0 % | 12 | ±0 % | 1.00× |

        - primalloc: 20 % less time, 16 % less memory, 97 % fewer page faults than glibc.
        ");
    }

    #[test]
    fn settings_are_a_part_of_the_names() {
        let text = super::markdown(&sample::report_of_settings());
        let head = "| | glibc 2.36 | spread | primalloc 0.1.0 purge_delay=0 thp=never | spread | \
                    ratio | jemalloc 0.1.0 MALLOC_CONF=a\\|b | spread | ratio |";
        assert_eq!(text.lines().nth(2), Some(head));
    }

    #[test]
    fn a_command_with_code_marks_stays_one_piece() {
        assert_eq!(super::code("echo `date`"), "`` echo `date` ``");
        assert_eq!(super::code("a ``b`` c"), "``` a ``b`` c ```");
        assert_eq!(super::code("sh -c 'a\n\n# b'"), "`sh -c 'a  # b'`");
    }

    #[test]
    fn what_others_have_chosen_is_no_mark() {
        let text = "A=*a* _b_ `c` <d>\n\r| ~e~ [f](g) h\\ &amp; thp=x_y";
        let expected = r"A=\*a\* \_b_ \`c\` \<d\>  \| \~e\~ \[f\](g) h\\ \&amp; thp=x_y";
        assert_eq!(super::words(text), expected);
        let names = [("glibc", 1.0, 1.0), ("glibc:A=<b>\n|*x*", 0.9, 0.9)];
        let text = super::markdown(&sample::report_of(0.01, &names));
        let head = r"| | glibc 1.0 | spread | glibc 1.0 A=\<b\> \|\*x\* | spread | ratio |";
        assert_eq!(text.lines().nth(2), Some(head));
        assert!(text.contains(r"- glibc:A=\<b\> \|\*x\*: 10 % less time"), "{text}");
    }
}
