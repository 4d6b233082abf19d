//! Tables of a few columns, aligned by characters.

use super::safe;
use super::style::Style;

/// A cell and its style.
type Cell = (String, Style);

/// A table that is filled row by row. Texts are made safe as they come in.
#[derive(Debug, Clone, Default)]
pub(crate) struct Table {
    head: Vec<&'static str>,
    rows: Vec<Vec<Cell>>,
    indent: usize,
}

impl Table {
    /// A table with these headings.
    pub(crate) fn new(head: &[&'static str]) -> Self {
        Self { head: head.to_vec(), ..Self::default() }
    }

    /// Columns without headings, set in by some spaces.
    pub(crate) fn bare(indent: usize) -> Self {
        Self { indent, ..Self::default() }
    }

    /// A row of plain cells.
    pub(crate) fn row<T: AsRef<str>>(&mut self, cells: impl IntoIterator<Item = T>) {
        self.styled(cells.into_iter().map(|cell| (cell, Style::Plain)));
    }

    /// A row of cells with styles.
    pub(crate) fn styled<T: AsRef<str>>(&mut self, cells: impl IntoIterator<Item = (T, Style)>) {
        self.rows
            .push(cells.into_iter().map(|(text, style)| (safe::cell(text.as_ref()).into_owned(), style)).collect());
    }

    /// Whether it has no row.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The text; a column without any content is left out with its heading.
    pub(crate) fn render(&self, colour: bool) -> String {
        let head: Vec<Cell> = self.head.iter().map(|text| ((*text).to_owned(), Style::Dim)).collect();
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0).max(head.len());
        let width = |at: usize| {
            self.rows.iter().filter_map(|row| row.get(at)).map(|(text, _)| text.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns)
            .map(|at| match width(at) {
                0 => 0,
                width => width.max(head.get(at).map_or(0, |(text, _)| text.chars().count())),
            })
            .collect();
        let mut out = String::new();
        for row in head.iter().map(|_| &head).take(1).chain(&self.rows) {
            let shown: Vec<(usize, &Cell)> = row.iter().enumerate().filter(|(at, _)| widths[*at] > 0).collect();
            let last = shown.iter().rposition(|(_, (text, _))| !text.is_empty());
            out.push_str(&" ".repeat(if last.is_some() { self.indent } else { 0 }));
            for (position, (at, (text, style))) in shown.into_iter().enumerate() {
                if last.is_none_or(|last| position > last) {
                    break;
                }
                out.push_str(&style.paint(colour, text));
                if last != Some(position) {
                    out.push_str(&" ".repeat(widths[at] - text.chars().count() + 2));
                }
            }
            out.push('\n');
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_align_and_nothing_trails() {
        let mut table = Table::new(&["NAME", "EMPTY", "STATE", "ADDRESS"]);
        table.row(["müller", "", "up", ""]);
        table.row(["b", "", "running 6/6", "127.0.0.1:20001"]);
        table.row(["c\u{1b}[2J", "", "x\ny", "z"]);
        assert_eq!(
            table.render(false),
            "NAME    STATE        ADDRESS\n\
             müller  up\n\
             b       running 6/6  127.0.0.1:20001\n\
             c␛[2J   x␊y          z\n"
        );
    }

    #[test]
    fn colours_take_no_width() {
        let mut table = Table::bare(2);
        table.styled([("a", Style::Good), ("b", Style::Plain)]);
        table.row(["long", "b"]);
        assert_eq!(table.render(true), "  \u{1b}[32ma\u{1b}[0m     b\n  long  b\n");
        assert_eq!(Table::bare(0).render(true), "");
    }
}
