//! A table about functions that fits the terminal: what matters least is left out, then names are
//! cut.

use owo_colors::OwoColorize;

use super::words::clipped;
use crate::output::printable;
use crate::output::table::listing;

/// So much of a name is worth more than another column.
const NAME_WIDTH_MIN: usize = 24;
const VIA_WIDTH_MAX: usize = 24;
const GAP: usize = 2;

/// Of a column that stays however narrow the terminal is.
pub const STAYS: u8 = u8::MAX;

pub struct Column {
    title: String,
    /// The lowest goes first.
    rank: u8,
    cells: Vec<String>,
}

impl Column {
    pub fn new(title: &str, rank: u8, cells: impl Iterator<Item = String>) -> Column {
        Column {
            title: title.to_uppercase(),
            rank,
            cells: cells.map(|cell| printable(&cell)).collect(),
        }
    }

    fn width(&self) -> usize {
        let widest = self.cells.iter().map(|cell| cell.chars().count()).max();
        widest.unwrap_or(0).max(self.title.chars().count())
    }
}

/// A function, and " > " and the wrapper that it called.
pub struct Name {
    own: String,
    via: String,
}

impl Name {
    pub fn new(own: &str, via: Option<&str>) -> Name {
        let via = via.map(|via| format!(" > {}", printable(via)));
        Name { own: printable(own), via: via.unwrap_or_default() }
    }

    fn width(&self) -> usize {
        self.own.chars().count() + self.via.chars().count()
    }

    fn text(&self, width: Option<usize>) -> String {
        let via = |via: &str| if via.is_empty() { String::new() } else { via.dimmed().to_string() };
        let Some(width) = width else { return self.own.clone() + &via(&self.via) };
        let rest = width.saturating_sub(self.own.chars().count());
        let called = clipped(&self.via, rest.clamp(VIA_WIDTH_MAX.min(width / 2), VIA_WIDTH_MAX));
        let own = clipped(&self.own, width.saturating_sub(called.chars().count()).max(1));
        own + &via(&called)
    }
}

pub struct Columns {
    /// Before the names, right-aligned.
    pub numbers: Vec<Column>,
    pub names: Vec<Name>,
    /// After them.
    pub places: Vec<Column>,
}

impl Columns {
    /// At most `width` wide, if there is one and the figures that stay leave room for names.
    pub fn table(mut self, width: Option<usize>) -> String {
        let name_width = width.map(|width| {
            self.leave_out(width);
            width.saturating_sub(self.width_beside_names()).max(NAME_WIDTH_MIN)
        });
        let columns = |columns: &[Column]| -> Vec<String> {
            columns.iter().map(|column| column.title.clone()).collect()
        };
        let header =
            [columns(&self.numbers), vec!["FUNCTION".into()], columns(&self.places)].concat();
        let record = |(row, name): (usize, &Name)| {
            let cells = |columns: &[Column]| -> Vec<String> {
                columns.iter().map(|column| column.cells[row].clone()).collect()
            };
            [cells(&self.numbers), vec![name.text(name_width)], cells(&self.places)].concat()
        };
        let records = self.names.iter().enumerate().map(record).collect();
        let header: Vec<&str> = header.iter().map(String::as_str).collect();
        let numbers: Vec<usize> = (0..self.numbers.len()).collect();
        listing(&header, &numbers, records)
    }

    fn leave_out(&mut self, width: usize) {
        let longest = self.names.iter().map(Name::width).max().unwrap_or(0);
        let needed = longest.min(NAME_WIDTH_MIN);
        while self.width_beside_names() + needed > width {
            let all = self.numbers.iter().chain(&self.places);
            let Some(least) = all.map(|column| column.rank).filter(|&rank| rank < STAYS).min()
            else {
                break;
            };
            self.numbers.retain(|column| column.rank != least);
            self.places.retain(|column| column.rank != least);
        }
    }

    fn width_beside_names(&self) -> usize {
        let all = self.numbers.iter().chain(&self.places);
        all.map(|column| column.width() + GAP).sum()
    }
}

#[cfg(test)]
mod tests {
    use anstream::adapter::strip_str;

    use super::*;

    fn table(width: Option<usize>) -> String {
        let column = |title: &str, rank: u8, cell: &str| {
            Column::new(title, rank, std::iter::once(cell.to_owned()))
        };
        let own = "a_function_with_a_name_that_is_long";
        let columns = Columns {
            numbers: vec![column("live", STAYS, "1.00 KiB"), column("total", 1, "2.00 KiB")],
            names: vec![Name::new(own, Some("xmalloc"))],
            places: vec![column("library", 2, "libsomething.so")],
        };
        strip_str(&columns.table(width)).to_string()
    }

    #[test]
    fn what_matters_least_goes_first_then_names_are_cut() {
        let whole = table(None);
        assert!(whole.contains("name_that_is_long > xmalloc  libsomething.so"), "{whole}");
        assert_eq!(table(Some(100)), whole);
        let seen = |width: usize| {
            let text = table(Some(width));
            assert!(text.lines().all(|line| line.chars().count() <= width), "{width}: {text}");
            assert!(text.contains("1.00 KiB") && text.contains("> xmalloc"), "{width}: {text}");
            (text.contains("TOTAL"), text.contains("LIBRARY"), text.contains('…'))
        };
        assert_eq!(seen(70), (true, true, true));
        assert_eq!(seen(60), (false, true, true));
        assert_eq!(seen(56), (false, true, true));
        assert_eq!(seen(50), (false, false, true));
        assert_eq!(seen(34), (false, false, true));
    }

    #[test]
    fn a_name_stays_in_its_row() {
        let place = Column::new("library", 2, std::iter::once("lib\nx\x1b[8m.so".to_owned()));
        let names = vec![Name::new("one\ntwo", Some("three\tfour"))];
        let table = Columns { numbers: Vec::new(), names, places: vec![place] }.table(None);
        let row = strip_str(&table).to_string().lines().nth(1).unwrap().to_owned();
        assert_eq!(row, "one\u{fffd}two > three\u{fffd}four  lib\u{fffd}x\u{fffd}[8m.so");
    }
}
