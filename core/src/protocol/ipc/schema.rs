//! Schemas to and from their IPC form.
//!
//! Refuses what Arrow's own conversion would panic on: unknown types, units and widths, wrong child counts, union
//! type ids out of range, big-endian data.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow_buffer::Buffer;
use arrow_ipc as ipc;
use arrow_ipc::writer::StreamEncoder;
use arrow_schema::{
    DataType, Field, FieldRef, Fields, IntervalUnit, Schema, SchemaRef, TimeUnit, UnionFields,
    UnionMode,
};

use super::message::{self, Framing, Prefix};
use crate::protocol::limits::DecodeLimits;
use crate::{Error, Result};

/// The bytes of the marker that ends a stream.
const END_OF_STREAM_BYTES: usize = 8;

/// Encodes a schema as one encapsulated IPC message, padded to 64 bytes.
///
/// # Errors
/// `invalid_argument` for a schema that IPC cannot express: a dictionary whose values are a dictionary.
pub fn encode_schema(schema: &Schema) -> Result<Vec<u8>> {
    let stream = StreamEncoder::try_new(schema)
        .and_then(StreamEncoder::finish)
        .map_err(|error| Error::invalid_argument(error.to_string()).with_source(error))?;
    let mut bytes: Vec<u8> = stream.iter().flat_map(Buffer::as_slice).copied().collect();
    bytes.truncate(bytes.len().saturating_sub(END_OF_STREAM_BYTES));
    Ok(bytes)
}

/// Decodes a schema from one encapsulated IPC message, as [`encode_schema`] writes it.
///
/// # Errors
/// `data_loss` when the bytes are not one sound schema message, `resource_exhausted` when it exceeds the limits and
/// `unimplemented` for types or versions that are not supported.
pub fn decode_schema(bytes: &[u8], limits: &DecodeLimits) -> Result<SchemaRef> {
    if bytes.len() as u64 > limits.message_bytes {
        return Err(Error::resource_exhausted(format!(
            "a schema of {} bytes exceeds the limit of {}",
            bytes.len(),
            limits.message_bytes
        )));
    }
    let Prefix::Metadata(range) = message::read_prefix(bytes, 0, Framing::Current)? else {
        return Err(Error::data_loss(
            "an end of stream stands in place of a schema",
        ));
    };
    let end = range.end;
    let message = message::parse(message::slice(bytes, range)?, limits)?;
    if message::body_range(bytes, &message, end)?.end != bytes.len() {
        return Err(Error::data_loss("bytes follow the schema message"));
    }
    let schema = message
        .header_as_schema()
        .ok_or_else(|| Error::data_loss("an IPC message is not a schema"))?;
    Ok(convert(schema, limits)?.schema)
}

/// A schema, and what reading its dictionaries needs.
#[derive(Debug, Clone)]
pub(super) struct StreamSchema {
    /// The schema. Its dictionary fields carry the ids of their dictionaries.
    pub(super) schema: SchemaRef,
    /// The type of the values of each dictionary, by its id.
    pub(super) dictionaries: Arc<HashMap<i64, DataType>>,
}

impl StreamSchema {
    /// The ids of the dictionaries that the values of a dictionary refer to.
    pub(super) fn needed_by(&self, id: i64) -> Vec<i64> {
        let mut ids = Vec::new();
        if let Some(values) = self.dictionaries.get(&id) {
            type_dictionaries(values, &mut ids);
        }
        ids
    }
}

/// The ids of the dictionaries that a field needs; not of those that they need themselves.
pub(super) fn field_dictionaries(field: &Field, ids: &mut Vec<i64>) {
    #[allow(deprecated)] // Schemas off the wire keep the ids of their dictionaries there.
    match (field.data_type(), field.dict_id()) {
        (DataType::Dictionary(_, _), Some(id)) => ids.push(id),
        (data_type, _) => type_dictionaries(data_type, ids),
    }
}

fn type_dictionaries(data_type: &DataType, ids: &mut Vec<i64>) {
    match data_type {
        DataType::List(child)
        | DataType::LargeList(child)
        | DataType::ListView(child)
        | DataType::LargeListView(child)
        | DataType::FixedSizeList(child, _)
        | DataType::Map(child, _)
        | DataType::RunEndEncoded(_, child) => field_dictionaries(child, ids),
        DataType::Struct(fields) => {
            fields
                .iter()
                .for_each(|field| field_dictionaries(field, ids));
        }
        DataType::Union(fields, _) => {
            fields
                .iter()
                .for_each(|(_, field)| field_dictionaries(field, ids));
        }
        _ => {}
    }
}

/// Checks a verified flatbuffer schema and converts it.
pub(super) fn convert(schema: ipc::Schema<'_>, limits: &DecodeLimits) -> Result<StreamSchema> {
    if schema.endianness() != ipc::Endianness::Little {
        return Err(Error::unimplemented("big-endian IPC data is not supported"));
    }
    let mut converter = Converter {
        limits,
        fields: 0,
        dictionaries: HashMap::new(),
    };
    let fields = schema
        .fields()
        .ok_or_else(|| Error::data_loss("an IPC schema has no list of fields"))?
        .iter()
        .map(|field| converter.field(field, 1))
        .collect::<Result<Vec<_>>>()?;
    let metadata = message::custom_metadata(schema.custom_metadata());
    Ok(StreamSchema {
        schema: Arc::new(Schema::new_with_metadata(fields, metadata)),
        dictionaries: Arc::new(converter.dictionaries),
    })
}

struct Converter<'a> {
    limits: &'a DecodeLimits,
    fields: usize,
    dictionaries: HashMap<i64, DataType>,
}

fn malformed(field: ipc::Field<'_>, what: &str) -> Error {
    Error::data_loss(format!(
        "malformed IPC schema: {what} (field {:?})",
        field.name().unwrap_or_default()
    ))
}

impl Converter<'_> {
    fn field(&mut self, field: ipc::Field<'_>, depth: usize) -> Result<Field> {
        self.fields += 1;
        if self.fields > self.limits.fields {
            return Err(Error::resource_exhausted(format!(
                "an IPC schema has more than {} fields",
                self.limits.fields
            )));
        }
        if depth > self.limits.depth {
            return Err(Error::resource_exhausted(format!(
                "an IPC schema is nested deeper than {} levels",
                self.limits.depth
            )));
        }
        let data_type = self.data_type(field, depth)?;
        let name = field.name().unwrap_or_default();
        let converted = match field.dictionary() {
            None => Field::new(name, data_type, field.nullable()),
            Some(encoding) => self.dictionary(field, encoding, data_type)?,
        };
        Ok(converted.with_metadata(message::custom_metadata(field.custom_metadata())))
    }

    fn dictionary(
        &mut self,
        field: ipc::Field<'_>,
        encoding: ipc::DictionaryEncoding<'_>,
        values: DataType,
    ) -> Result<Field> {
        if encoding.dictionaryKind() != ipc::DictionaryKind::DenseArray {
            return Err(Error::unimplemented("unknown kind of IPC dictionary"));
        }
        let keys = match encoding.indexType() {
            // Without an index type the keys are of 32 bits, as the format has it.
            None => DataType::Int32,
            Some(int) => integer(int).ok_or_else(|| malformed(field, "dictionary key width"))?,
        };
        let id = encoding.id();
        let known = self
            .dictionaries
            .entry(id)
            .or_insert_with(|| values.clone());
        if *known != values {
            return Err(malformed(field, "fields of one dictionary differ in type"));
        }
        #[allow(deprecated)] // The one place where a field can keep the id of its dictionary.
        Ok(Field::new_dict(
            field.name().unwrap_or_default(),
            DataType::Dictionary(Box::new(keys), Box::new(values)),
            field.nullable(),
            id,
            encoding.isOrdered(),
        ))
    }

    fn children(&mut self, field: ipc::Field<'_>, depth: usize) -> Result<Vec<FieldRef>> {
        field
            .children()
            .into_iter()
            .flatten()
            .map(|child| Ok(Arc::new(self.field(child, depth + 1)?)))
            .collect()
    }

    fn only_child(&mut self, field: ipc::Field<'_>, depth: usize) -> Result<FieldRef> {
        <[FieldRef; 1]>::try_from(self.children(field, depth)?)
            .map(|[child]| child)
            .map_err(|_| malformed(field, "a list must have one child"))
    }

    fn data_type(&mut self, field: ipc::Field<'_>, depth: usize) -> Result<DataType> {
        let missing = || malformed(field, "a type without its parameters");
        Ok(match field.type_type() {
            ipc::Type::List => DataType::List(self.only_child(field, depth)?),
            ipc::Type::LargeList => DataType::LargeList(self.only_child(field, depth)?),
            ipc::Type::ListView => DataType::ListView(self.only_child(field, depth)?),
            ipc::Type::LargeListView => DataType::LargeListView(self.only_child(field, depth)?),
            ipc::Type::FixedSizeList => {
                let list = field.type_as_fixed_size_list().ok_or_else(missing)?;
                if list.listSize() < 0 {
                    return Err(malformed(field, "a fixed-size list of negative size"));
                }
                DataType::FixedSizeList(self.only_child(field, depth)?, list.listSize())
            }
            ipc::Type::Struct_ => DataType::Struct(Fields::from(self.children(field, depth)?)),
            ipc::Type::Map => {
                let map = field.type_as_map().ok_or_else(missing)?;
                let entries = self.only_child(field, depth)?;
                match entries.data_type() {
                    DataType::Struct(fields) if fields.len() == 2 => {}
                    _ => return Err(malformed(field, "the entries of a map must be pairs")),
                }
                DataType::Map(entries, map.keysSorted())
            }
            ipc::Type::RunEndEncoded => {
                let [ends, values] = <[FieldRef; 2]>::try_from(self.children(field, depth)?)
                    .map_err(|_| malformed(field, "run ends and values must be two children"))?;
                let sound = ends.data_type().is_run_ends_type() && !ends.is_nullable();
                if !sound {
                    return Err(malformed(field, "run ends must be signed, without nulls"));
                }
                DataType::RunEndEncoded(ends, values)
            }
            ipc::Type::Union => {
                let union = field.type_as_union().ok_or_else(missing)?;
                self.union(field, union, depth)?
            }
            _ => scalar(field)?,
        })
    }

    fn union(
        &mut self,
        field: ipc::Field<'_>,
        union: ipc::Union<'_>,
        depth: usize,
    ) -> Result<DataType> {
        let mode = match union.mode() {
            ipc::UnionMode::Dense => UnionMode::Dense,
            ipc::UnionMode::Sparse => UnionMode::Sparse,
            _ => return Err(malformed(field, "unknown mode of a union")),
        };
        let children = self.children(field, depth)?;
        let ids: Vec<i32> = match union.typeIds() {
            Some(ids) => ids.iter().take(256).collect(),
            None => (0..).take(children.len()).collect(),
        };
        let ids = ids
            .into_iter()
            .map(|id| i8::try_from(id).ok().filter(|id| *id >= 0))
            .collect::<Option<Vec<i8>>>()
            .ok_or_else(|| malformed(field, "a type id of a union is out of range"))?;
        let distinct: HashSet<i8> = ids.iter().copied().collect();
        if ids.len() != children.len() || distinct.len() != ids.len() {
            return Err(malformed(
                field,
                "type ids of a union do not match its children",
            ));
        }
        let fields = UnionFields::try_new(ids, children)
            .map_err(|error| malformed(field, &error.to_string()))?;
        Ok(DataType::Union(fields, mode))
    }
}

fn integer(int: ipc::Int<'_>) -> Option<DataType> {
    Some(match (int.bitWidth(), int.is_signed()) {
        (8, true) => DataType::Int8,
        (16, true) => DataType::Int16,
        (32, true) => DataType::Int32,
        (64, true) => DataType::Int64,
        (8, false) => DataType::UInt8,
        (16, false) => DataType::UInt16,
        (32, false) => DataType::UInt32,
        (64, false) => DataType::UInt64,
        _ => return None,
    })
}

fn time_unit(unit: ipc::TimeUnit) -> Option<TimeUnit> {
    Some(match unit {
        ipc::TimeUnit::SECOND => TimeUnit::Second,
        ipc::TimeUnit::MILLISECOND => TimeUnit::Millisecond,
        ipc::TimeUnit::MICROSECOND => TimeUnit::Microsecond,
        ipc::TimeUnit::NANOSECOND => TimeUnit::Nanosecond,
        _ => return None,
    })
}

/// The types without children.
fn scalar(field: ipc::Field<'_>) -> Result<DataType> {
    let unknown = || {
        Error::unimplemented(format!(
            "unknown IPC type {:?} or an unknown parameter of it (field {:?})",
            field.type_type(),
            field.name().unwrap_or_default()
        ))
    };
    if let Some(children) = field.children()
        && !children.is_empty()
    {
        return Err(malformed(field, "a type without children has some"));
    }
    let data_type = match field.type_type() {
        ipc::Type::Null => Some(DataType::Null),
        ipc::Type::Bool => Some(DataType::Boolean),
        ipc::Type::Binary => Some(DataType::Binary),
        ipc::Type::LargeBinary => Some(DataType::LargeBinary),
        ipc::Type::BinaryView => Some(DataType::BinaryView),
        ipc::Type::Utf8 => Some(DataType::Utf8),
        ipc::Type::LargeUtf8 => Some(DataType::LargeUtf8),
        ipc::Type::Utf8View => Some(DataType::Utf8View),
        ipc::Type::Int => field.type_as_int().and_then(integer),
        ipc::Type::FixedSizeBinary => field
            .type_as_fixed_size_binary()
            .map(|binary| binary.byteWidth())
            .filter(|width| *width >= 0)
            .map(DataType::FixedSizeBinary),
        ipc::Type::FloatingPoint => match field.type_as_floating_point().map(|f| f.precision()) {
            Some(ipc::Precision::HALF) => Some(DataType::Float16),
            Some(ipc::Precision::SINGLE) => Some(DataType::Float32),
            Some(ipc::Precision::DOUBLE) => Some(DataType::Float64),
            _ => None,
        },
        ipc::Type::Decimal => field.type_as_decimal().and_then(decimal),
        ipc::Type::Date => match field.type_as_date().map(|date| date.unit()) {
            Some(ipc::DateUnit::DAY) => Some(DataType::Date32),
            Some(ipc::DateUnit::MILLISECOND) => Some(DataType::Date64),
            _ => None,
        },
        ipc::Type::Time => field.type_as_time().and_then(|time| {
            let unit = time_unit(time.unit())?;
            match (time.bitWidth(), unit) {
                (32, TimeUnit::Second | TimeUnit::Millisecond) => Some(DataType::Time32(unit)),
                (64, TimeUnit::Microsecond | TimeUnit::Nanosecond) => Some(DataType::Time64(unit)),
                _ => None,
            }
        }),
        ipc::Type::Timestamp => field.type_as_timestamp().and_then(|timestamp| {
            let unit = time_unit(timestamp.unit())?;
            let zone = timestamp.timezone();
            // Names of zones are short; what is not one is kept out of later parsers.
            let sound =
                zone.is_none_or(|zone| zone.len() < 256 && !zone.contains(char::is_control));
            sound.then(|| DataType::Timestamp(unit, zone.map(Arc::from)))
        }),
        ipc::Type::Interval => match field.type_as_interval().map(|interval| interval.unit()) {
            Some(ipc::IntervalUnit::YEAR_MONTH) => {
                Some(DataType::Interval(IntervalUnit::YearMonth))
            }
            Some(ipc::IntervalUnit::DAY_TIME) => Some(DataType::Interval(IntervalUnit::DayTime)),
            Some(ipc::IntervalUnit::MONTH_DAY_NANO) => {
                Some(DataType::Interval(IntervalUnit::MonthDayNano))
            }
            _ => None,
        },
        ipc::Type::Duration => field
            .type_as_duration()
            .and_then(|duration| time_unit(duration.unit()))
            .map(DataType::Duration),
        _ => None,
    };
    data_type.ok_or_else(unknown)
}

fn decimal(decimal: ipc::Decimal<'_>) -> Option<DataType> {
    let precision = u8::try_from(decimal.precision()).ok()?;
    let scale = i8::try_from(decimal.scale()).ok()?;
    let (most, data_type) = match decimal.bitWidth() {
        32 => (9, DataType::Decimal32(precision, scale)),
        64 => (18, DataType::Decimal64(precision, scale)),
        128 => (38, DataType::Decimal128(precision, scale)),
        256 => (76, DataType::Decimal256(precision, scale)),
        _ => return None,
    };
    ((1..=most).contains(&precision) && scale.unsigned_abs() <= most).then_some(data_type)
}
