//! What is read from files, and read again when they change.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use crate::error::Result;

/// How often files are looked at for changes, at most.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// What tells changed files from those before.
type Stamps = Vec<Option<(u64, SystemTime)>>;

struct State<T> {
    value: Arc<T>,
    version: u64,
    stamps: Stamps,
    looked: Instant,
}

/// What files say. Where they change to what cannot be used, what they said before stays in force.
pub(crate) struct Watched<T> {
    files: Vec<PathBuf>,
    load: Box<dyn Fn() -> Result<T> + Send + Sync>,
    state: Mutex<State<T>>,
}

impl<T> fmt::Debug for Watched<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Watched").field(&self.files).finish()
    }
}

impl<T> Watched<T> {
    /// Reads the files for the first time.
    pub(crate) fn try_new(
        files: Vec<PathBuf>,
        load: impl Fn() -> Result<T> + Send + Sync + 'static,
    ) -> Result<Self> {
        // Looked at first: a change while they are read is seen the next time.
        let stamps = stamps(&files);
        let state = State {
            value: Arc::new(load()?),
            version: 0,
            stamps,
            looked: Instant::now(),
        };
        Ok(Self {
            files,
            load: Box::new(load),
            state: Mutex::new(state),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        // Each field is sound after every statement.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the files say now, and a number that changes with it.
    pub(crate) fn current(&self) -> (Arc<T>, u64) {
        let is_changed = {
            let mut state = self.lock();
            let is_due = state.looked.elapsed() >= LOOK_INTERVAL;
            if is_due {
                state.looked = Instant::now();
            }
            is_due && state.stamps != stamps(&self.files)
        };
        if is_changed && let Err(error) = self.reload() {
            tracing::error!(%error, files = ?self.files, "a change is not taken up; what was in force stays so");
        }
        let state = self.lock();
        (Arc::clone(&state.value), state.version)
    }

    /// Reads the files again.
    pub(crate) fn reload(&self) -> Result<()> {
        let stamps = stamps(&self.files);
        let loaded = (self.load)();
        let mut state = self.lock();
        state.stamps = stamps;
        state.value = Arc::new(loaded?);
        state.version += 1;
        tracing::info!(files = ?self.files, "read again");
        Ok(())
    }
}

fn stamps(files: &[PathBuf]) -> Stamps {
    files
        .iter()
        .map(|path| {
            let metadata = std::fs::metadata(path).ok()?;
            Some((metadata.len(), metadata.modified().ok()?))
        })
        .collect()
}
