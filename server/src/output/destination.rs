//! Where output goes: standard output, or a file that appears under its name only once it is whole.

use std::fs::{File, Permissions};
use std::io::{BufWriter, ErrorKind, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tempfile::NamedTempFile;

use super::Out;
use crate::exit::{Failure, Outcome};

const BUFFER_BYTES: usize = 256 << 10;

/// The unfinished file of this process, where there is one.
static PARTIAL: Mutex<Option<PathBuf>> = Mutex::new(None);

/// Removes an unfinished file whose thread may be too busy to drop it before the process ends.
pub fn remove_partial() {
    if let Some(path) = PARTIAL
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .take()
    {
        // It may have been removed, or been given its name, in the meantime.
        let _ = std::fs::remove_file(path);
    }
}

/// An open place for output. Dropped without [`Destination::commit`] it leaves nothing behind.
pub struct Destination {
    name: String,
    /// The file under its first name and the one it will have.
    replaces: Option<(NamedTempFile, PathBuf)>,
    reader_gone: Arc<AtomicBool>,
}

impl Destination {
    /// Opens a file, or standard output where there is none or it is called `-`.
    pub fn open(path: Option<&Path>) -> Outcome<(Self, Out)> {
        let reader_gone = Arc::new(AtomicBool::new(false));
        let (name, file, replaces) = match path.filter(|path| *path != Path::new("-")) {
            None => {
                let name = "standard output".to_owned();
                let stdout = std::io::stdout().as_fd().try_clone_to_owned();
                (
                    name.clone(),
                    File::from(stdout.map_err(|error| Failure::io(&name, error))?),
                    None,
                )
            }
            Some(path) => {
                let (file, replaces) = open_file(path).map_err(|error| {
                    Failure::io(format!("{} cannot be written", path.display()), error)
                })?;
                (path.display().to_string(), file, replaces)
            }
        };
        let watched = Watched {
            file,
            reader_gone: Arc::clone(&reader_gone),
        };
        let out = BufWriter::with_capacity(BUFFER_BYTES, watched);
        Ok((
            Self {
                name,
                replaces,
                reader_gone,
            },
            Box::new(out),
        ))
    }

    /// Whether whoever reads the output has closed it: nothing is left to do then.
    pub fn is_reader_gone(&self) -> bool {
        self.reader_gone.load(Ordering::Relaxed)
    }

    /// The destination's name in messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Gives the file its name, once all was written.
    pub fn commit(self) -> Outcome {
        let Some((temporary, target)) = self.replaces else {
            return Ok(());
        };
        let cannot = |error| Failure::io(format!("{} cannot be written", self.name), error);
        temporary.as_file().sync_all().map_err(cannot)?;
        temporary
            .persist(target)
            .map_err(|error| cannot(error.error))?;
        Ok(())
    }
}

type Replacement = Option<(NamedTempFile, PathBuf)>;

fn open_file(path: &Path) -> std::io::Result<(File, Replacement)> {
    // What a symbolic link points to is replaced, not the link.
    let target = match path.canonicalize() {
        Ok(existing) => existing,
        Err(error) if error.kind() == ErrorKind::NotFound => path.to_owned(),
        Err(error) => return Err(error),
    };
    let existing = std::fs::metadata(&target).ok();
    if existing.as_ref().is_some_and(std::fs::Metadata::is_dir) {
        return Err(ErrorKind::IsADirectory.into());
    }
    if existing
        .as_ref()
        .is_some_and(|existing| !existing.is_file())
    {
        // A device or a pipe cannot be replaced.
        return Ok((File::options().write(true).open(&target)?, None));
    }
    let folder = target
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let permissions = existing.as_ref().map_or_else(
        || Permissions::from_mode(0o666),
        std::fs::Metadata::permissions,
    );
    let temporary = tempfile::Builder::new()
        .prefix(".lightstream-")
        .suffix(".partial")
        .permissions(permissions)
        .tempfile_in(folder)
        // The error of the library names the temporary file, which means nothing to the user.
        .map_err(|error| std::io::Error::from(error.kind()))?;
    *PARTIAL.lock().unwrap_or_else(PoisonError::into_inner) = Some(temporary.path().to_owned());
    Ok((temporary.as_file().try_clone()?, Some((temporary, target))))
}

/// Notes when the reader of a pipe has gone, whichever library wraps the error.
struct Watched {
    file: File,
    reader_gone: Arc<AtomicBool>,
}

impl Watched {
    fn note<T>(&self, done: std::io::Result<T>) -> std::io::Result<T> {
        if done
            .as_ref()
            .is_err_and(|error| error.kind() == ErrorKind::BrokenPipe)
        {
            self.reader_gone.store(true, Ordering::Relaxed);
        }
        done
    }
}

impl Write for Watched {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let done = self.file.write(bytes);
        self.note(done)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        let done = self.file.flush();
        self.note(done)
    }
}
