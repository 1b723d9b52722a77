//! One dictionary for each column of an IPC file, though batches come with dictionaries of their own.
//!
//! Values are only ever added at a dictionary's end, so what was written before stays right.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, UInt64Array, make_array};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_data::ArrayData;
use arrow_schema::{ArrowError, DataType, Schema};
use arrow_select::concat::concat;
use arrow_select::take::take;
use datafusion::arrow::row::{RowConverter, SortField};

/// The dictionaries so far, each at its path: the position of the column, then of the child within the child.
pub struct GrowingDictionaries(HashMap<Vec<usize>, Dictionary>);

impl GrowingDictionaries {
    /// No dictionaries yet; `None` where the schema will never have any.
    pub fn of(schema: &Schema) -> Option<Self> {
        let is_dictionary =
            |field: &&arrow_schema::Field| matches!(field.data_type(), DataType::Dictionary(..));
        schema
            .flattened_fields()
            .iter()
            .any(is_dictionary)
            .then(|| Self(HashMap::new()))
    }

    /// The same rows over the dictionaries so far, with what they lack added.
    pub fn apply(&mut self, batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
        let columns = batch
            .columns()
            .iter()
            .zip(batch.schema_ref().fields())
            .enumerate();
        let columns = columns
            .map(|(position, (column, field))| {
                let grown = self.array(&mut vec![position], column.to_data()).map_err(|error| {
                    ArrowError::InvalidArgumentError(format!(
                        "the dictionaries of column {:?} of type {} cannot be joined into the one that an Arrow IPC \
                         file has; a stream (.arrows) can hold them: {error}",
                        field.name(),
                        field.data_type()
                    ))
                })?;
                Ok(make_array(grown))
            })
            .collect::<Result<Vec<_>, ArrowError>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(batch.schema(), columns, &options)
    }

    fn array(&mut self, path: &mut Vec<usize>, data: ArrayData) -> Result<ArrayData, ArrowError> {
        if let DataType::Dictionary(key_type, _) = data.data_type() {
            let key_type = key_type.as_ref().clone();
            let [values] = data.child_data() else {
                return Err(ArrowError::InvalidArgumentError(
                    "a dictionary without values".to_owned(),
                ));
            };
            let values = make_array(values.clone());
            return match self.0.get_mut(path) {
                Some(dictionary) => dictionary.rewrite(&data, &key_type, &values),
                None => {
                    self.0.insert(path.clone(), Dictionary::new(values)?);
                    Ok(data)
                }
            };
        }
        if data.child_data().is_empty() {
            return Ok(data);
        }
        let mut children = Vec::with_capacity(data.child_data().len());
        for (position, child) in data.child_data().iter().enumerate() {
            path.push(position);
            children.push(self.array(path, child.clone())?);
            path.pop();
        }
        data.into_builder().child_data(children).build()
    }
}

struct Dictionary {
    converter: RowConverter,
    /// Where each value stands, by its bytes in row format.
    positions: HashMap<Box<[u8]>, u64>,
    values: ArrayRef,
    /// The dictionary seen last and where its values stand: batches of one stream often share theirs.
    last: Option<(ArrayData, ArrayRef)>,
}

impl Dictionary {
    fn new(values: ArrayRef) -> Result<Self, ArrowError> {
        let converter = RowConverter::new(vec![SortField::new(values.data_type().clone())])?;
        let mut dictionary = Self {
            converter,
            positions: HashMap::new(),
            values: values.slice(0, 0),
            last: None,
        };
        let rows = dictionary
            .converter
            .convert_columns(&[Arc::clone(&values)])?;
        for (position, row) in (0..).zip(rows.iter()) {
            dictionary
                .positions
                .entry(row.data().into())
                .or_insert(position);
        }
        dictionary.values = values;
        Ok(dictionary)
    }

    /// Where the values of another dictionary stand in this one, once those it lacks are added; `None` where each
    /// stands where it stood.
    fn positions_of(&mut self, values: &ArrayRef) -> Result<Option<ArrayRef>, ArrowError> {
        let data = values.to_data();
        let own = self.values.to_data();
        if data.ptr_eq(&own) || data == own {
            return Ok(None);
        }
        if let Some((_, positions)) = self.last.as_ref().filter(|(last, _)| last.ptr_eq(&data)) {
            return Ok(Some(Arc::clone(positions)));
        }
        let rows = self.converter.convert_columns(&[Arc::clone(values)])?;
        let mut added = Vec::new();
        let mut positions = Vec::with_capacity(values.len());
        for (index, row) in (0_u64..).zip(rows.iter()) {
            let next = (self.values.len() + added.len()) as u64;
            let position = *self.positions.entry(row.data().into()).or_insert(next);
            if position == next {
                added.push(index);
            }
            positions.push(position);
        }
        if !added.is_empty() {
            let added = take(values, &UInt64Array::from(added), None)?;
            self.values = concat(&[self.values.as_ref(), added.as_ref()])?;
        }
        let positions: ArrayRef = Arc::new(UInt64Array::from(positions));
        self.last = Some((data, Arc::clone(&positions)));
        Ok(Some(positions))
    }

    fn rewrite(
        &mut self,
        data: &ArrayData,
        key_type: &DataType,
        values: &ArrayRef,
    ) -> Result<ArrayData, ArrowError> {
        let keys = ArrayData::builder(key_type.clone())
            .len(data.len())
            .offset(data.offset())
            .buffers(data.buffers().to_vec())
            .nulls(data.nulls().cloned())
            .build()?;
        let keys = match self.positions_of(values)? {
            None => keys,
            Some(positions) => {
                let strict = CastOptions {
                    safe: false,
                    ..CastOptions::default()
                };
                let positions = cast_with_options(&positions, key_type, &strict)?;
                take(&positions, &make_array(keys), None)?.to_data()
            }
        };
        ArrayData::builder(data.data_type().clone())
            .len(keys.len())
            .offset(keys.offset())
            .buffers(keys.buffers().to_vec())
            .nulls(keys.nulls().cloned())
            .add_child_data(self.values.to_data())
            .build()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::types::{Int8Type, Int32Type};
    use arrow_array::{DictionaryArray, ListArray};
    use arrow_buffer::OffsetBuffer;
    use arrow_schema::Field;

    fn batch(words: &[Option<&str>]) -> RecordBatch {
        let column: DictionaryArray<Int32Type> = words.iter().copied().collect();
        let inner: DictionaryArray<Int32Type> = words.iter().rev().copied().collect();
        let item = Arc::new(Field::new_list_field(inner.data_type().clone(), true));
        let offsets = OffsetBuffer::from_lengths(std::iter::repeat_n(1, words.len()));
        let list = ListArray::new(item, offsets, Arc::new(inner), None);
        RecordBatch::try_from_iter([("d", Arc::new(column) as ArrayRef), ("l", Arc::new(list))])
            .unwrap()
    }

    fn plain(batch: &RecordBatch) -> String {
        arrow_cast::pretty::pretty_format_batches(std::slice::from_ref(batch))
            .unwrap()
            .to_string()
    }

    #[test]
    fn dictionaries_grow_and_rows_stay() {
        let batches = [
            batch(&[Some("a"), Some("b"), None]),
            batch(&[Some("c"), None, Some("a")]),
            batch(&[Some("b"), Some("d")]).slice(1, 1),
            batch(&[]),
        ];
        let mut growing = GrowingDictionaries::of(batches[0].schema_ref()).unwrap();
        let mut lengths = Vec::new();
        for batch in &batches {
            let grown = growing.apply(batch).unwrap();
            assert_eq!(plain(&grown), plain(batch));
            lengths.push(grown.column(0).to_data().child_data()[0].len());
        }
        assert_eq!(lengths, [2, 3, 4, 4]);
    }

    #[test]
    fn keys_that_are_too_small_are_an_error() {
        let words = |from: usize| {
            (from..from + 100)
                .map(|i| i.to_string())
                .collect::<Vec<_>>()
        };
        let batch = |from| {
            let words = words(from);
            let column: DictionaryArray<Int8Type> = words.iter().map(String::as_str).collect();
            RecordBatch::try_from_iter([("d", Arc::new(column) as ArrayRef)]).unwrap()
        };
        let mut growing = GrowingDictionaries::of(batch(0).schema_ref()).unwrap();
        growing.apply(&batch(0)).unwrap();
        let error = growing.apply(&batch(100)).unwrap_err().to_string();
        assert!(
            error.contains("\"d\"") && error.contains(".arrows"),
            "{error}"
        );
    }
}
