//! Traces that go on at the server: the context of the caller's span travels with each request, as W3C Trace Context has
//! it.
//!
//! Client and server open [`tracing`] spans either way. What a request carries of the caller's trace is asked from a
//! [`Propagator`], of which a program that uses OpenTelemetry sets one; without it, the option `traceparent` is sent where it
//! is given, and nothing otherwise.
//!
//! | span | where | fields |
//! |---|---|---|
//! | `lightstream.plan` | client | `table`, `peer`, `partitions` |
//! | `lightstream.read` | client | `table`, `peer`, `partition`, `rows`, `bytes`, `retries` |
//! | `lightstream.request` | client | `request`, `peer` |
//! | `lightstream.request` | server | `request`, `peer`, `subject`, `table`, `partition`, `trace_id`, `parent_id`, `outcome` |

use std::fmt;
use std::str::FromStr;
use std::sync::OnceLock;

use crate::error::{Error, Result};

/// The version of the format that is written here.
const VERSION: u8 = 0;

/// Where a span stands in a trace: the `traceparent` of W3C Trace Context.
///
/// ```
/// use lightstream_core::trace::TraceContext;
/// let text = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
/// let context: TraceContext = text.parse()?;
/// assert_eq!(context.to_string(), text);
/// # Ok::<(), lightstream_core::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceContext {
    /// The whole trace; never all zeros.
    pub trace_id: [u8; 16],
    /// The span that a request is made in; never all zeros.
    pub parent_id: [u8; 8],
    /// The lowest bit says that the caller may have recorded the span.
    pub flags: u8,
}

fn hexadecimal<const N: usize>(text: &str) -> Option<[u8; N]> {
    let is_plain = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    if text.len() != 2 * N || !text.bytes().all(is_plain) {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, digits) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    }
    Some(bytes)
}

/// Identifiers are as good as none where they are all zeros.
fn identifier<const N: usize>(text: &str) -> Option<[u8; N]> {
    hexadecimal(text).filter(|bytes| *bytes != [0; N])
}

fn parse(text: &str) -> Option<TraceContext> {
    let mut parts = text.split('-');
    let [version] = hexadecimal(parts.next()?)?;
    let context = TraceContext {
        trace_id: identifier(parts.next()?)?,
        parent_id: identifier(parts.next()?)?,
        flags: hexadecimal::<1>(parts.next()?)?[0],
    };
    // Later versions may say more behind this.
    let is_known = version == VERSION && parts.next().is_none();
    Some(context).filter(|_| is_known || (version > VERSION && version < u8::MAX))
}

impl FromStr for TraceContext {
    type Err = Error;

    /// # Errors
    /// `invalid_argument` where the text is no `traceparent`.
    fn from_str(text: &str) -> Result<Self> {
        parse(text).ok_or_else(|| {
            Error::invalid_argument(format!(
                "{text:?} is not a traceparent such as 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
            ))
        })
    }
}

struct Hexadecimal<'a>(&'a [u8]);

impl fmt::Display for Hexadecimal<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (trace, parent) = (Hexadecimal(&self.trace_id), Hexadecimal(&self.parent_id));
        write!(f, "{VERSION:02x}-{trace}-{parent}-{:02x}", self.flags)
    }
}

/// What knows the trace that this process records, as a bridge from `tracing` to OpenTelemetry does.
pub trait Propagator: Send + Sync + 'static {
    /// The context of the current span, for a request to carry; `None` where it is in no trace.
    fn current(&self) -> Option<TraceContext>;

    /// Makes the span of a request, which has just been opened, a child of the caller's.
    fn adopt(&self, span: &tracing::Span, caller: &TraceContext);
}

static PROPAGATOR: OnceLock<Box<dyn Propagator>> = OnceLock::new();

/// Says who knows the traces of this process, once for all its clients and servers.
///
/// # Errors
/// `invalid_argument` where that has been said before.
pub fn set_propagator(propagator: impl Propagator) -> Result<()> {
    PROPAGATOR
        .set(Box::new(propagator))
        .map_err(|_| Error::invalid_argument("this process has a propagator of traces already"))
}

/// What a request that is sent in the current span carries.
pub(crate) fn outgoing(given: Option<&TraceContext>) -> Option<TraceContext> {
    let current = PROPAGATOR.get().and_then(|propagator| propagator.current());
    current.or(given.copied())
}

/// Puts the span of a request where its caller says. What is no `traceparent` counts as none.
pub(crate) fn adopt(span: &tracing::Span, traceparent: &str) {
    let Some(caller) = parse(traceparent) else {
        return;
    };
    if let Some(propagator) = PROPAGATOR.get() {
        propagator.adopt(span, &caller);
    }
    span.record(
        "trace_id",
        tracing::field::display(Hexadecimal(&caller.trace_id)),
    );
    span.record(
        "parent_id",
        tracing::field::display(Hexadecimal(&caller.parent_id)),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_standard_allows_is_read() {
        let good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        assert_eq!(
            good.parse::<TraceContext>().unwrap().to_string(),
            good.to_owned()
        );
        let later = "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more";
        assert_eq!(later.parse::<TraceContext>().unwrap().to_string(), good);
        for bad in [
            "",
            "00",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4bf92f3577b34da6a3ce929d0e0e473-00f067aa0ba902b77-01",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "+0-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e47é6-00f067aa0ba902b7-01",
        ] {
            assert!(bad.parse::<TraceContext>().is_err(), "{bad}");
        }
    }
}
