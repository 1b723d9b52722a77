//! A progress bar on standard error, for work that takes long.

use std::io::IsTerminal;

use arrow_array::{Array, RecordBatch};
use indicatif::{HumanBytes, ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Rows and bytes so far; it is cleared when dropped.
pub struct Progress {
    bar: ProgressBar,
    bytes: u64,
}

impl Progress {
    /// A bar where it is wanted and standard error is a terminal.
    pub fn new(wanted: bool, rows: Option<u64>) -> Self {
        let shown = wanted && std::io::stderr().is_terminal();
        let target = if shown {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        let bar = ProgressBar::with_draw_target(rows, target);
        let template = match rows {
            Some(_) => "[{bar:30}] {human_pos} of {human_len} rows, {msg}, {per_sec}, {eta} left",
            None => "{spinner} {human_pos} rows, {msg}, {per_sec}",
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        Self { bar, bytes: 0 }
    }

    /// Counts a batch that was written.
    pub fn add(&mut self, batch: &RecordBatch) {
        if self.bar.is_hidden() {
            return;
        }
        let bytes = batch
            .columns()
            .iter()
            .filter_map(|column| column.to_data().get_slice_memory_size().ok());
        self.bytes += bytes.sum::<usize>() as u64;
        self.bar.set_message(HumanBytes(self.bytes).to_string());
        self.bar.inc(batch.num_rows() as u64);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
