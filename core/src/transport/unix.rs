//! Unix sockets.

use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use tokio::net::{UnixListener, UnixStream};

use super::ByteStream;
use crate::error::{Error, Result};

/// What a connection has on its way: the system's own 208 KiB make the peers wait for each other.
const SEND_BUFFER_BYTES: usize = 512 << 10;

/// The socket's file, removed when the listener goes.
#[derive(Debug)]
pub(super) struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_file(&self.0) {
            tracing::debug!(path = %self.0.display(), %error, "a socket's file could not be removed");
        }
    }
}

pub(super) async fn connect(path: &Path) -> Result<ByteStream> {
    let stream = UnixStream::connect(path).await.map_err(|error| {
        Error::unavailable(format!("no connection to {}: {error}", path.display()))
            .with_source(error)
    })?;
    Ok(open(stream, path.display().to_string()))
}

pub(super) fn bind(path: &Path) -> Result<(UnixListener, SocketFile)> {
    let cannot =
        |why: String| Error::unavailable(format!("cannot listen at {}: {why}", path.display()));
    // A socket that nobody listens at any more is left by a process that was killed.
    if let Ok(metadata) = std::fs::symlink_metadata(path) {
        if !metadata.file_type().is_socket() {
            return Err(cannot("there is a file of another kind".to_owned()));
        }
        if std::os::unix::net::UnixStream::connect(path).is_ok() {
            return Err(cannot("another process listens there".to_owned()));
        }
        std::fs::remove_file(path).map_err(|error| cannot(error.to_string()))?;
    }
    let listener = UnixListener::bind(path).map_err(|error| cannot(error.to_string()))?;
    Ok((listener, SocketFile(path.to_owned())))
}

pub(super) async fn accept(listener: &UnixListener) -> Result<ByteStream> {
    let (stream, _) = listener.accept().await.map_err(|error| {
        Error::unavailable("a connection could not be accepted").with_source(error)
    })?;
    super::set_send_buffer(socket2::SockRef::from(&stream), SEND_BUFFER_BYTES);
    Ok(open(stream, "unix socket".to_owned()))
}

fn open(stream: UnixStream, peer: String) -> ByteStream {
    let (read, write) = stream.into_split();
    ByteStream {
        read: Box::new(read),
        write: Box::new(write),
        peer,
        subject: None,
    }
}
