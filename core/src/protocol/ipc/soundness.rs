//! Fast proofs that the values of an array are sound: offsets, UTF-8, dictionary keys.
//!
//! A proof that fails says nothing; whoever asked then leaves the question to Arrow's own validation, which is slower,
//! more lenient in corners, and has an error to show.

use arrow_buffer::ArrowNativeType;
use arrow_data::ArrayData;
use arrow_schema::DataType;

/// Whether the values of an array are certainly sound. Its structure must have been validated, its buffers aligned.
pub(super) fn is_proven(data: &ArrayData) -> bool {
    match data.data_type() {
        DataType::Utf8 => strings::<i32>(data, is_text),
        DataType::LargeUtf8 => strings::<i64>(data, is_text),
        DataType::Binary => strings::<i32>(data, |_, _| true),
        DataType::LargeBinary => strings::<i64>(data, |_, _| true),
        DataType::Dictionary(keys, _) => match **keys {
            DataType::Int8 => keys_within::<i8>(data),
            DataType::Int16 => keys_within::<i16>(data),
            DataType::Int32 => keys_within::<i32>(data),
            DataType::Int64 => keys_within::<i64>(data),
            DataType::UInt8 => keys_within::<u8>(data),
            DataType::UInt16 => keys_within::<u16>(data),
            DataType::UInt32 => keys_within::<u32>(data),
            DataType::UInt64 => keys_within::<u64>(data),
            _ => false,
        },
        _ => false,
    }
}

fn strings<O: ArrowNativeType>(data: &ArrayData, is_right: fn(&[O], &[u8]) -> bool) -> bool {
    let [offsets, values] = data.buffers() else {
        return false;
    };
    let offsets = offsets.typed_data::<O>();
    let Some(offsets) = offsets.get(data.offset()..=data.offset() + data.len()) else {
        return false;
    };
    are_ordered(offsets, values.len()) && is_right(offsets, values)
}

/// Whether offsets start at 0 or above, never fall, and end within so many bytes. Without branches, for speed.
fn are_ordered<O: ArrowNativeType>(offsets: &[O], bytes: usize) -> bool {
    let (Some(first), Some(last)) = (offsets.first(), offsets.last()) else {
        return false;
    };
    let next = offsets.get(1..).unwrap_or_default();
    let never_fall = offsets
        .iter()
        .zip(next)
        .fold(true, |so_far, (a, b)| so_far & (a <= b));
    *first >= O::default() && last.to_usize().is_some_and(|last| last <= bytes) && never_fall
}

/// Whether all bytes are UTF-8 and each offset lies between two characters.
fn is_text<O: ArrowNativeType>(offsets: &[O], bytes: &[u8]) -> bool {
    if bytes.is_ascii() {
        return true;
    }
    // A byte that goes on with a character is 0b10xxxxxx; the end of the bytes is a boundary too.
    let is_boundary = |offset: &O| {
        bytes
            .get(offset.as_usize())
            .is_none_or(|byte| byte & 0xc0 != 0x80)
    };
    simdutf8::basic::from_utf8(bytes).is_ok()
        && offsets
            .iter()
            .fold(true, |so_far, offset| so_far & is_boundary(offset))
}

/// Whether all keys, those of nulls too, point into the dictionary.
fn keys_within<K: ArrowNativeType>(data: &ArrayData) -> bool {
    let ([keys], [values]) = (data.buffers(), data.child_data()) else {
        return false;
    };
    let keys = keys.typed_data::<K>();
    let Some(keys) = keys.get(data.offset()..data.offset() + data.len()) else {
        return false;
    };
    let entries = values.len();
    // A negative key becomes a number far above any length.
    keys.iter()
        .fold(true, |so_far, key| so_far & (key.as_usize() < entries))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::types::{Int8Type, UInt64Type};
    use arrow_array::{Array, BinaryArray, DictionaryArray, LargeStringArray, StringArray};
    use arrow_buffer::Buffer;
    use proptest::prelude::*;

    #[test]
    fn sound_arrays_are_proven() {
        let texts = ["", "a", "füße", "日本語", "🦀"];
        let (narrow, wide) = (
            StringArray::from_iter_values(texts),
            LargeStringArray::from_iter_values(texts),
        );
        assert!(is_proven(&narrow.to_data()) && is_proven(&wide.to_data()));
        assert!(is_proven(&narrow.slice(1, 3).to_data()));
        assert!(is_proven(
            &BinaryArray::from_iter_values([b"\xff\x80"]).to_data()
        ));
        let keys: DictionaryArray<Int8Type> = texts.into_iter().collect();
        let wide: DictionaryArray<UInt64Type> = texts.into_iter().collect();
        assert!(is_proven(&keys.to_data()) && is_proven(&wide.to_data()));
    }

    /// An array that nobody has checked.
    fn unchecked(
        data_type: DataType,
        len: usize,
        buffers: Vec<Buffer>,
        values: Vec<ArrayData>,
    ) -> ArrayData {
        let builder = ArrayData::builder(data_type)
            .len(len)
            .buffers(buffers)
            .child_data(values);
        // SAFETY: nothing reads its values but what is tested here and Arrow's validation.
        unsafe { builder.build_unchecked() }
    }

    proptest! {
        /// Whatever is proven here, Arrow accepts too.
        #[test]
        fn no_more_is_proven_than_arrow_accepts(
            offsets in prop::collection::vec(-2..14_i32, 2..8),
            bytes in prop_oneof!["[aé🦀]{0,4}".prop_map(String::into_bytes), prop::collection::vec(any::<u8>(), 0..12)],
            keys in prop::collection::vec(-2..5_i8, 1..8),
        ) {
            for data_type in [DataType::Utf8, DataType::Binary] {
                let buffers = vec![Buffer::from_slice_ref(&offsets), Buffer::from_slice_ref(&bytes)];
                let data = unchecked(data_type, offsets.len() - 1, buffers, vec![]);
                prop_assert!(data.validate_data().is_ok() || data.validate().is_err() || !is_proven(&data));
            }
            let dictionary = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8));
            let values = StringArray::from(vec!["x", "y", "z"]).to_data();
            let data = unchecked(dictionary, keys.len(), vec![Buffer::from_slice_ref(&keys)], vec![values]);
            prop_assert!(data.validate_data().is_ok() || !is_proven(&data));
        }
    }
}
