//! Sees panics in any thread, also those that somebody catches.

use std::panic;
use std::sync::{Mutex, Once};

static SEEN: Mutex<Vec<String>> = Mutex::new(Vec::new());
static INSTALL: Once = Once::new();

/// Notes the panics of the whole process from its making on.
pub struct PanicWatch {
    before: usize,
}

impl PanicWatch {
    /// Begins to watch.
    #[allow(clippy::new_without_default, reason = "it changes the process")]
    pub fn new() -> Self {
        INSTALL.call_once(|| {
            let next = panic::take_hook();
            panic::set_hook(Box::new(move |info| {
                SEEN.lock()
                    .unwrap_or_else(|poisoned| poisoned.into_inner())
                    .push(info.to_string());
                next(info);
            }));
        });
        Self {
            before: seen().len(),
        }
    }

    /// Panics if there were panics meanwhile.
    pub fn assert_none(&self, during: &str) {
        let panics = seen().split_off(self.before);
        assert!(panics.is_empty(), "panics during {during}: {panics:#?}");
    }
}

fn seen() -> Vec<String> {
    SEEN.lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
        .clone()
}
