//! A list for people: a head, and a row for each thing, in columns.

/// Blanks between two columns.
const GAP: usize = 2;

/// Each row has as many cells as the head; lines below a row stand as they are.
pub(super) fn table<const COLUMNS: usize>(
    head: [&str; COLUMNS],
    rows: &[([String; COLUMNS], String)],
) -> String {
    let head = head.map(str::to_owned);
    let all = || rows.iter().map(|(row, _)| row).chain([&head]);
    let width = |at: usize| all().map(|row| row[at].chars().count()).max().unwrap_or_default();
    let widths: [usize; COLUMNS] = std::array::from_fn(width);
    let line = |row: &[String; COLUMNS]| {
        let cells = row.iter().zip(widths);
        let cells = cells.map(|(cell, width)| format!("{cell:width$}{:GAP$}", ""));
        format!("{}\n", cells.collect::<String>().trim_end())
    };
    let rows = rows.iter().map(|(row, below)| line(row) + below);
    line(&head) + &rows.collect::<String>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stand_under_their_heads() {
        let row = |a: &str, b: &str, below: &str| ([a.to_owned(), b.to_owned()], below.to_owned());
        for (rows, expected) in [
            (vec![], "ID  WHAT\n"),
            (
                vec![row("0a", "x", ""), row("0b0b", "", "  more\n")],
                "ID    WHAT\n0a    x\n0b0b\n  more\n",
            ),
            (vec![row("ää", "wörter und", "")], "ID  WHAT\nää  wörter und\n"),
        ] {
            assert_eq!(table(["ID", "WHAT"], &rows), expected);
        }
    }
}
