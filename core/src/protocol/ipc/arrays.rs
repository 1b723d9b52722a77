//! Builds the arrays of a record batch message, in place where alignment allows.
//!
//! Refuses whatever is unsound before Arrow sees it: Arrow's own reader panics on much of it. What remains (offsets,
//! UTF-8, dictionary keys, null counts) is proven sound here where that is quick, and else left to the validation of
//! [`ArrayData`].

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, make_array, new_empty_array};
use arrow_buffer::Buffer;
use arrow_data::{ArrayData, ArrayDataBuilder};
use arrow_ipc as ipc;
use arrow_schema::{ArrowError, DataType, Field, FieldRef, SchemaRef, UnionMode};

use super::body::{Body, Node};
use super::soundness;
use crate::protocol::limits::{DecodeLimits, Validation};
use crate::{Error, Result};

/// The dictionaries that stand for a batch, by their id.
pub(super) type Dictionaries = HashMap<i64, ArrayRef>;

pub(super) fn malformed(error: ArrowError) -> Error {
    Error::data_loss(format!("malformed IPC data: {error}")).with_source(error)
}

/// Reads a record batch, or those of its columns that `projection` names, in the order in which it names them.
pub(super) fn read_batch(
    batch: ipc::RecordBatch<'_>,
    body: &Buffer,
    version: ipc::MetadataVersion,
    schema: &SchemaRef,
    projection: Option<&[usize]>,
    dictionaries: &Dictionaries,
    limits: &DecodeLimits,
) -> Result<RecordBatch> {
    let rows = row_count(batch.length(), limits.rows)?;
    let mut reader = ArrayReader::try_new(batch, body, version, dictionaries, limits)?;
    let mut columns: Vec<Option<ArrayRef>> = Vec::with_capacity(schema.fields().len());
    for (index, field) in schema.fields().iter().enumerate() {
        columns.push(if projection.is_none_or(|kept| kept.contains(&index)) {
            Some(make_array(reader.array(field)?))
        } else {
            reader.skip(field.data_type())?;
            None
        });
    }
    reader.body.finish()?;
    let (schema, columns) = match projection {
        None => (Arc::clone(schema), columns.into_iter().flatten().collect()),
        Some(kept) => {
            let projected = schema
                .project(kept)
                .map_err(|error| Error::invalid_argument(error.to_string()))?;
            let columns = kept
                .iter()
                .filter_map(|index| columns.get(*index)?.clone())
                .collect();
            (Arc::new(projected), columns)
        }
    };
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(schema, columns, &options).map_err(malformed)
}

/// Reads the values of a dictionary.
pub(super) fn read_dictionary(
    batch: ipc::RecordBatch<'_>,
    body: &Buffer,
    version: ipc::MetadataVersion,
    values: &DataType,
    dictionaries: &Dictionaries,
    limits: &DecodeLimits,
) -> Result<ArrayRef> {
    let entries = row_count(batch.length(), limits.dictionary_entries)?;
    let mut reader = ArrayReader::try_new(batch, body, version, dictionaries, limits)?;
    let data = reader.array(&Field::new("", values.clone(), true))?;
    reader.body.finish()?;
    if data.len() != entries {
        return Err(Error::data_loss(format!(
            "an IPC dictionary announces {entries} entries and holds {}",
            data.len()
        )));
    }
    Ok(make_array(data))
}

/// A row count off the wire, checked against its limit.
pub(super) fn row_count(length: i64, most: u64) -> Result<usize> {
    let rows = usize::try_from(length)
        .map_err(|_| Error::data_loss(format!("an IPC record batch of {length} rows")))?;
    if rows as u64 > most {
        return Err(Error::resource_exhausted(format!(
            "{rows} rows or entries in one IPC batch exceed the limit of {most}"
        )));
    }
    Ok(rows)
}

struct ArrayReader<'a> {
    body: Body<'a>,
    version: ipc::MetadataVersion,
    dictionaries: &'a Dictionaries,
    limits: &'a DecodeLimits,
    viewed_bytes_left: u64,
    referred_entries_left: u64,
}

impl<'a> ArrayReader<'a> {
    fn try_new(
        batch: ipc::RecordBatch<'a>,
        body: &'a Buffer,
        version: ipc::MetadataVersion,
        dictionaries: &'a Dictionaries,
        limits: &'a DecodeLimits,
    ) -> Result<Self> {
        Ok(Self {
            body: Body::try_new(batch, body, limits)?,
            version,
            dictionaries,
            limits,
            viewed_bytes_left: limits.decompressed_bytes,
            referred_entries_left: limits.dictionary_entries.saturating_mul(4),
        })
    }

    /// The builder of an array with its validity, which is the next buffer.
    fn with_validity(&mut self, data_type: &DataType, node: Node) -> Result<ArrayDataBuilder> {
        let builder = ArrayData::builder(data_type.clone()).len(node.length);
        if node.null_count == 0 {
            // What a writer leaves there is of no use.
            self.body.skip()?;
            return Ok(builder);
        }
        let validity = self.body.buffer_of(Some(node.length.div_ceil(8)))?;
        Ok(builder
            .null_bit_buffer(Some(validity))
            .null_count(node.null_count))
    }

    /// The next buffer, with room for `count` elements of `width` bytes.
    fn fixed(&mut self, count: usize, width: usize) -> Result<Buffer> {
        self.body.buffer_of(count.checked_mul(width))
    }

    /// The next buffer, with the offsets of `length` elements. Those of no elements may be missing.
    fn offsets(&mut self, length: usize, width: usize) -> Result<Buffer> {
        if length == 0 {
            let offsets = self.body.buffer()?;
            return Ok(offsets.slice_with_length(0, 0));
        }
        self.fixed(length.saturating_add(1), width)
    }

    /// A length that no buffer bounds.
    fn unbacked(&self, length: usize) -> Result<()> {
        row_count(i64::try_from(length).unwrap_or(i64::MAX), self.limits.rows).map(drop)
    }

    fn child(&mut self, field: &FieldRef, length: usize) -> Result<ArrayData> {
        let data = self.array(field)?;
        if data.len() < length {
            return Err(Error::data_loss(format!(
                "an IPC child array has {} elements, its parent needs {length}",
                data.len()
            )));
        }
        Ok(if data.len() > length {
            data.slice(0, length)
        } else {
            data
        })
    }

    fn array(&mut self, field: &Field) -> Result<ArrayData> {
        let data_type = field.data_type();
        let builder = match data_type {
            DataType::Null => {
                let node = self.body.node()?;
                self.unbacked(node.length)?;
                ArrayData::builder(DataType::Null).len(node.length)
            }
            DataType::Boolean => {
                let node = self.body.node()?;
                let builder = self.with_validity(data_type, node)?;
                builder.add_buffer(self.fixed(node.length.div_ceil(8), 1)?)
            }
            DataType::Utf8 | DataType::Binary => self.bytes(data_type, size_of::<i32>())?,
            DataType::LargeUtf8 | DataType::LargeBinary => {
                self.bytes(data_type, size_of::<i64>())?
            }
            DataType::Utf8View | DataType::BinaryView => self.views(data_type)?,
            DataType::List(child) | DataType::Map(child, _) => {
                self.list(data_type, child, size_of::<i32>())?
            }
            DataType::LargeList(child) => self.list(data_type, child, size_of::<i64>())?,
            DataType::ListView(child) => self.list_view(data_type, child, size_of::<i32>())?,
            DataType::LargeListView(child) => self.list_view(data_type, child, size_of::<i64>())?,
            DataType::FixedSizeList(child, size) => {
                let node = self.body.node()?;
                self.unbacked(if *size == 0 { node.length } else { 0 })?;
                let builder = self.with_validity(data_type, node)?;
                let length = usize::try_from(*size)
                    .ok()
                    .and_then(|size| size.checked_mul(node.length))
                    .ok_or_else(|| Error::data_loss("a fixed-size list is too long"))?;
                builder.add_child_data(self.child(child, length)?)
            }
            DataType::Struct(fields) => {
                let node = self.body.node()?;
                self.unbacked(if fields.is_empty() { node.length } else { 0 })?;
                let mut builder = self.with_validity(data_type, node)?;
                for child in fields {
                    builder = builder.add_child_data(self.child(child, node.length)?);
                }
                builder
            }
            DataType::Union(fields, mode) => {
                let node = self.union_node()?;
                let mut builder = ArrayData::builder(data_type.clone())
                    .len(node.length)
                    .add_buffer(self.fixed(node.length, 1)?);
                if *mode == UnionMode::Dense {
                    builder = builder.add_buffer(self.fixed(node.length, size_of::<i32>())?);
                }
                for (_, child) in fields.iter() {
                    builder = builder.add_child_data(match mode {
                        UnionMode::Dense => self.array(child)?,
                        UnionMode::Sparse => self.child(child, node.length)?,
                    });
                }
                builder
            }
            DataType::RunEndEncoded(ends, values) => {
                let node = self.body.node()?;
                self.unbacked(node.length)?;
                let ends = self.array(ends)?;
                let values = self.array(values)?;
                ArrayData::builder(data_type.clone())
                    .len(node.length)
                    .add_child_data(ends)
                    .add_child_data(values)
            }
            DataType::Dictionary(keys, values) => self.dictionary(field, keys, values)?,
            DataType::FixedSizeBinary(width) => {
                let node = self.body.node()?;
                self.unbacked(if *width == 0 { node.length } else { 0 })?;
                let builder = self.with_validity(data_type, node)?;
                let width = usize::try_from(*width)
                    .map_err(|_| Error::data_loss("binary values of a negative width"))?;
                builder.add_buffer(self.fixed(node.length, width)?)
            }
            primitive => {
                let width = primitive.primitive_width().ok_or_else(|| {
                    Error::unimplemented(format!("IPC data of the type {primitive}"))
                })?;
                let node = self.body.node()?;
                let builder = self.with_validity(data_type, node)?;
                builder.add_buffer(self.fixed(node.length, width)?)
            }
        };
        self.checked(builder.align_buffers(true))
    }

    /// An array whose structure is sound, and its values too unless the peer is trusted.
    fn checked(&self, builder: ArrayDataBuilder) -> Result<ArrayData> {
        // SAFETY: all that `build` would check is checked below, before the array is given to anybody; only the values
        // of a trusted peer are not, which whoever chose `Validation::Trusted` answers for.
        let data = unsafe { builder.skip_validation(true) }
            .build()
            .map_err(malformed)?;
        data.validate().map_err(malformed)?;
        if self.limits.validation == Validation::Full {
            data.validate_nulls().map_err(malformed)?;
            if !soundness::is_proven(&data) {
                data.validate_values().map_err(malformed)?;
            }
        }
        Ok(data)
    }

    fn bytes(&mut self, data_type: &DataType, width: usize) -> Result<ArrayDataBuilder> {
        let node = self.body.node()?;
        let builder = self.with_validity(data_type, node)?;
        let offsets = self.offsets(node.length, width)?;
        Ok(builder.add_buffer(offsets).add_buffer(self.body.buffer()?))
    }

    fn views(&mut self, data_type: &DataType) -> Result<ArrayDataBuilder> {
        let count = self.body.variadic_count()?;
        let node = self.body.node()?;
        let builder = self.with_validity(data_type, node)?;
        let views = self.fixed(node.length, size_of::<u128>())?;
        // Many views may share one long string, and each is validated by itself.
        let viewed: u64 = views
            .chunks_exact(size_of::<u128>())
            .filter_map(|view| view.first_chunk().copied().map(u32::from_le_bytes))
            .map(u64::from)
            .sum();
        self.viewed_bytes_left = self.viewed_bytes_left.checked_sub(viewed).ok_or_else(|| {
            Error::resource_exhausted("the strings of an IPC view array exceed the limit")
        })?;
        let mut builder = builder.add_buffer(views);
        for _ in 0..count {
            builder = builder.add_buffer(self.body.buffer()?);
        }
        Ok(builder)
    }

    fn list(
        &mut self,
        data_type: &DataType,
        child: &FieldRef,
        width: usize,
    ) -> Result<ArrayDataBuilder> {
        let node = self.body.node()?;
        let builder = self.with_validity(data_type, node)?;
        let offsets = self.offsets(node.length, width)?;
        Ok(builder
            .add_buffer(offsets)
            .add_child_data(self.array(child)?))
    }

    fn list_view(
        &mut self,
        data_type: &DataType,
        child: &FieldRef,
        width: usize,
    ) -> Result<ArrayDataBuilder> {
        let node = self.body.node()?;
        let builder = self
            .with_validity(data_type, node)?
            .add_buffer(self.fixed(node.length, width)?)
            .add_buffer(self.fixed(node.length, width)?);
        Ok(builder.add_child_data(self.array(child)?))
    }

    /// Before V5 a union has a validity bitmap of its own, which Arrow no longer can express.
    fn union_node(&mut self) -> Result<Node> {
        let node = self.body.node()?;
        if self.version == ipc::MetadataVersion::V4 {
            self.body.skip()?;
            if node.null_count > 0 {
                return Err(Error::unimplemented(
                    "unions with nulls of their own, as written before Arrow 1.0, cannot be read",
                ));
            }
        }
        Ok(node)
    }

    fn dictionary(
        &mut self,
        field: &Field,
        keys: &DataType,
        values: &DataType,
    ) -> Result<ArrayDataBuilder> {
        let node = self.body.node()?;
        let builder = self.with_validity(field.data_type(), node)?;
        let width = keys
            .primitive_width()
            .ok_or_else(|| Error::data_loss("the keys of a dictionary are not integers"))?;
        let keys = self.fixed(node.length, width)?;
        #[allow(deprecated)] // Schemas off the wire keep the ids of their dictionaries there.
        let known = field.dict_id().and_then(|id| self.dictionaries.get(&id));
        // A writer may leave out a dictionary as long as all keys are null.
        let values = known.cloned().unwrap_or_else(|| new_empty_array(values));
        let values = values.to_data();
        self.referred_entries_left = self
            .referred_entries_left
            .checked_sub(revalidated_entries(&values))
            .ok_or_else(|| {
                Error::resource_exhausted("the dictionaries of an IPC batch exceed the limit")
            })?;
        Ok(builder.add_buffer(keys).add_child_data(values))
    }

    /// Passes over the nodes and buffers of an array.
    fn skip(&mut self, data_type: &DataType) -> Result<()> {
        let own_buffers = match data_type {
            DataType::Utf8View | DataType::BinaryView => 2 + self.body.variadic_count()?,
            DataType::Null | DataType::RunEndEncoded(_, _) => 0,
            DataType::FixedSizeList(_, _) | DataType::Struct(_) => 1,
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Binary | DataType::LargeBinary => 3,
            DataType::ListView(_) | DataType::LargeListView(_) => 3,
            DataType::Union(_, mode) => {
                let validity = usize::from(self.version == ipc::MetadataVersion::V4);
                validity + if *mode == UnionMode::Dense { 2 } else { 1 }
            }
            _ => 2,
        };
        self.body.node()?;
        for _ in 0..own_buffers {
            self.body.skip()?;
        }
        match data_type {
            DataType::List(child)
            | DataType::LargeList(child)
            | DataType::ListView(child)
            | DataType::LargeListView(child)
            | DataType::FixedSizeList(child, _)
            | DataType::Map(child, _) => self.skip(child.data_type()),
            DataType::Struct(fields) => fields
                .iter()
                .try_for_each(|child| self.skip(child.data_type())),
            DataType::Union(fields, _) => fields
                .iter()
                .try_for_each(|(_, child)| self.skip(child.data_type())),
            DataType::RunEndEncoded(ends, values) => {
                self.skip(ends.data_type())?;
                self.skip(values.data_type())
            }
            _ => Ok(()),
        }
    }
}

/// How many entries of a dictionary Arrow goes over anew with each array that refers to it: those of list views.
fn revalidated_entries(values: &ArrayData) -> u64 {
    let own = match values.data_type() {
        DataType::ListView(_) | DataType::LargeListView(_) => values.len() as u64,
        _ => 0,
    };
    let children = values.child_data().iter().map(revalidated_entries);
    children.fold(own, u64::saturating_add)
}
