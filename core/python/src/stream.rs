//! Streams of Arrow's C interface: arrays that another part of the program makes one after the other.

use std::ffi::CStr;

use arrow_array::ArrayRef;
use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_schema::{ArrowError, Field};

use crate::capsule::imported;

type Result<T> = std::result::Result<T, ArrowError>;

fn missing() -> ArrowError {
    ArrowError::CDataInterface("a stream without its functions".to_owned())
}

/// The arrays of a stream. Nothing follows an error.
pub(crate) struct ArrayStream {
    stream: FFI_ArrowArrayStream,
    field: Field,
    is_over: bool,
}

impl ArrayStream {
    /// Asks a stream for its type.
    ///
    /// # Errors
    /// What the stream says, and `CDataInterface` for one that is not whole.
    pub(crate) fn try_new(stream: FFI_ArrowArrayStream) -> Result<Self> {
        let mut stream = stream;
        let get_schema = stream.get_schema.ok_or_else(missing)?;
        let mut schema = FFI_ArrowSchema::empty();
        // SAFETY: the stream is valid and not released; the schema is written by it.
        let code = unsafe { get_schema(&raw mut stream, &raw mut schema) };
        if code != 0 {
            return Err(said(&mut stream, code));
        }
        let field = Field::try_from(&schema)?;
        Ok(Self {
            stream,
            field,
            is_over: false,
        })
    }

    /// The type of every array, with the name and metadata that the stream gave it.
    pub(crate) fn field(&self) -> &Field {
        &self.field
    }

    /// The next array; `None` after the last.
    ///
    /// # Errors
    /// What the stream says, and `CDataInterface` for an array that does not match the type.
    pub(crate) fn next(&mut self) -> Result<Option<ArrayRef>> {
        if self.is_over {
            return Ok(None);
        }
        let next = self.pull();
        self.is_over = !matches!(next, Ok(Some(_)));
        next
    }

    fn pull(&mut self) -> Result<Option<ArrayRef>> {
        let get_next = self.stream.get_next.ok_or_else(missing)?;
        let mut array = FFI_ArrowArray::empty();
        // SAFETY: the stream is valid and not released; the array is written by it.
        match unsafe { get_next(&raw mut self.stream, &raw mut array) } {
            0 if array.is_released() => Ok(None),
            0 => imported(array, self.field.data_type()).map(Some),
            code => Err(said(&mut self.stream, code)),
        }
    }
}

/// The error that a stream has given a code for.
fn said(stream: &mut FFI_ArrowArrayStream, code: i32) -> ArrowError {
    let message = stream.get_last_error.and_then(|get_last_error| {
        // SAFETY: the stream is valid, and what it points to is good until it is called again.
        let text = unsafe { get_last_error(stream) };
        // SAFETY: what is not null ends with a zero.
        (!text.is_null()).then(|| {
            unsafe { CStr::from_ptr(text) }
                .to_string_lossy()
                .into_owned()
        })
    });
    ArrowError::CDataInterface(
        message.unwrap_or_else(|| format!("the stream failed with code {code}")),
    )
}
