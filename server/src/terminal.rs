//! Text for people and scripts: standard output that may be closed, and names that may hold control characters.

use std::io::{ErrorKind, Write};

use crate::exit::{Failure, Outcome};

/// Prints text to standard output. A reader that has gone is no failure.
pub fn print(text: &str) -> Outcome {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::io("standard output", error))
        }
        _ => Ok(()),
    }
}

/// Prints a line to standard error, if there is one.
pub fn print_error(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{}", printable(text));
}

/// The text without what would steer a terminal: it may come from a server that is not trusted.
pub fn printable(text: &str) -> String {
    text.chars()
        .map(|c| {
            if c.is_control() && c != '\n' {
                '\u{fffd}'
            } else {
                c
            }
        })
        .collect()
}

/// The text on one line, as a name stands in a listing.
pub fn one_line(text: &str) -> String {
    printable(text).replace('\n', "\u{fffd}")
}

/// Lines of columns that stand below each other.
pub fn aligned(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let mut widths = vec![0; columns];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    let mut text = String::new();
    for row in rows {
        let line: String = row
            .iter()
            .zip(&widths)
            .map(|(cell, &width)| format!("{cell:width$}  "))
            .collect();
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}
