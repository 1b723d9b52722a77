//! Names that nothing else has.

use crate::error::{Error, Result};

/// A name of 16 hexadecimal digits that no other has.
pub(crate) fn id() -> Result<String> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes)
        .map_err(|error| Error::internal(format!("no random bytes for an id: {error}")))?;
    Ok(format!("{:016x}", u64::from_le_bytes(bytes)))
}
