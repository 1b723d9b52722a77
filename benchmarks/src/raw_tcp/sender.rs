//! Sends shares of some memory to whoever connects.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use arrow_array::{Array, ArrayRef};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{Hello, MIB, Offer, read_line, word_sum, write_line};
use crate::Result;

/// Memory that is sent again and again, larger than the caches.
const FLAT_BYTES: usize = 192 * MIB;

/// What one connection sends: a range of positions, each the byte at that position modulo the length of the memory.
#[derive(Clone)]
struct Share {
    flat: Arc<Vec<u8>>,
    start: usize,
    end: usize,
    chunk: usize,
}

impl Share {
    /// Shares start at whole chunks.
    fn new(flat: &Arc<Vec<u8>>, bytes: usize, hello: &Hello) -> Result<Self> {
        let Hello {
            index, of, variant, ..
        } = *hello;
        if index >= of || variant.chunk == 0 || variant.chunk % 8 != 0 {
            return Err(format!("there is no share {hello:?}").into());
        }
        let edge = |index: usize| match index {
            last if last == of => bytes,
            _ => bytes / of * index / variant.chunk * variant.chunk,
        };
        Ok(Self {
            flat: Arc::clone(flat),
            start: edge(index),
            end: edge(index + 1),
            chunk: variant.chunk,
        })
    }

    fn chunks(&self) -> impl Iterator<Item = (usize, usize)> + use<> {
        let (end, chunk) = (self.end, self.chunk);
        (self.start..end)
            .step_by(chunk)
            .map(move |from| (from, end.min(from + chunk)))
    }

    /// The memory from one position to another; in pieces where it ends in between.
    fn pieces(&self, from: usize, to: usize) -> impl Iterator<Item = &[u8]> {
        let mut at = from;
        std::iter::from_fn(move || {
            let start = at % self.flat.len();
            let end = self.flat.len().min(start + (to - at));
            at += end - start;
            self.flat.get(start..end).filter(|piece| !piece.is_empty())
        })
    }

    fn sum(&self, summed: usize) -> u64 {
        self.chunks()
            .flat_map(|(from, to)| self.pieces(from, to.min(from + summed)))
            .fold(0, |sum, piece| sum.wrapping_add(word_sum(piece)))
    }
}

/// The buffers of arrays one after the other, up to so many bytes and to a size beyond the caches.
///
/// # Errors
/// Where there are none.
pub fn flatten<'a>(
    arrays: impl IntoIterator<Item = &'a ArrayRef>,
    bytes: usize,
) -> Result<Vec<u8>> {
    let wanted = FLAT_BYTES.min(bytes);
    let mut flat = Vec::with_capacity(wanted);
    for array in arrays {
        for buffer in array.to_data().buffers() {
            let room = (wanted - flat.len()).min(buffer.len());
            flat.extend_from_slice(buffer.as_slice().get(..room).unwrap_or_default());
        }
    }
    flat.truncate(flat.len() / 8 * 8);
    if flat.is_empty() {
        return Err("there is nothing to send".into());
    }
    Ok(flat)
}

/// Offers so many bytes, which are `flat` again and again, to all who connect. Must be called within a tokio runtime.
/// Port 0 takes a free one; the one that was taken is returned.
///
/// # Errors
/// Where the address is taken, or is none.
pub fn listen(address: (&str, u16), flat: Vec<u8>, bytes: usize) -> Result<u16> {
    let listener = TcpListener::bind(address)?;
    let port = listener.local_addr()?.port();
    let flat = Arc::new(flat);
    let runtime = tokio::runtime::Handle::current();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (flat, runtime) = (Arc::clone(&flat), runtime.clone());
            std::thread::spawn(move || {
                let served = stream
                    .map_err(Into::into)
                    .and_then(|stream| serve(stream, &flat, bytes, &runtime));
                if let Err(error) = served {
                    eprintln!("raw TCP: {error}");
                }
            });
        }
    });
    Ok(port)
}

fn serve(
    stream: TcpStream,
    flat: &Arc<Vec<u8>>,
    bytes: usize,
    runtime: &tokio::runtime::Handle,
) -> Result<()> {
    stream.set_nodelay(true)?;
    let hello: Hello = read_line(&stream)?;
    let share = Share::new(flat, bytes, &hello)?;
    let offer = Offer {
        bytes: share.end - share.start,
        sum: share.sum(hello.summed),
    };
    write_line(&stream, &offer)?;
    if hello.variant.blocking {
        return send_blocking(&stream, &share);
    }
    stream.set_nonblocking(true)?;
    runtime.spawn(async move {
        if let Err(error) = send(stream, share).await {
            eprintln!("raw TCP: {error}");
        }
    });
    Ok(())
}

/// Sends the share each time a byte comes, until the other end closes.
fn send_blocking(mut stream: &TcpStream, share: &Share) -> Result<()> {
    while stream.read(&mut [0])? > 0 {
        for (from, to) in share.chunks() {
            for piece in share.pieces(from, to) {
                stream.write_all(piece)?;
            }
        }
    }
    Ok(())
}

async fn send(stream: TcpStream, share: Share) -> Result<()> {
    let mut stream = tokio::net::TcpStream::from_std(stream)?;
    while stream.read(&mut [0]).await? > 0 {
        for (from, to) in share.chunks() {
            for piece in share.pieces(from, to) {
                stream.write_all(piece).await?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raw_tcp::Variant;

    #[test]
    fn shares_cover_all_bytes_once_and_sum_alike() {
        let flat: Arc<Vec<u8>> = Arc::new((0..1000).map(|i| (i * 7 % 251) as u8).collect());
        let bytes = 4321;
        for (of, chunk) in [(1, 64), (3, 64), (8, 4096), (5, 8)] {
            let mut next = 0;
            for index in 0..of {
                let variant = Variant {
                    chunk,
                    blocking: false,
                };
                let hello = Hello {
                    index,
                    of,
                    variant,
                    summed: 24,
                };
                let share = Share::new(&flat, bytes, &hello).unwrap();
                assert_eq!(share.start, next);
                next = share.end;
                let mut received = Vec::new();
                let mut sum = 0_u64;
                for (from, to) in share.chunks() {
                    let chunk: Vec<u8> = share.pieces(from, to).flatten().copied().collect();
                    sum = sum.wrapping_add(word_sum(&chunk[..chunk.len().min(24)]));
                    received.extend(chunk);
                }
                let expected: Vec<u8> =
                    (share.start..share.end).map(|at| flat[at % 1000]).collect();
                assert!(received == expected && sum == share.sum(24));
            }
            assert_eq!(next, bytes);
        }
    }
}
