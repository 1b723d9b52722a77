//! Rules from kind to kind, and what they make of a type. Looks at no values.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_schema::{
    DECIMAL128_MAX_PRECISION, DECIMAL256_MAX_PRECISION, DataType, Field, FieldRef, TimeUnit,
    UnionFields,
};
use lightstream_core::{Error, Result};

use super::kinds::{ALL, NEGATIVE_SCALE, decimal, kind, targets};

const REFUSE: &str = "refuse";

/// What to make of each kind of type that is named. The others stay as they are.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Rules(BTreeMap<String, String>);

impl Rules {
    /// Reads rules.
    ///
    /// # Errors
    /// `invalid_argument` for a kind that does not exist, or a target that does not hold every value of it.
    pub(crate) fn try_new(rules: BTreeMap<String, String>) -> Result<Self> {
        for (from, to) in &rules {
            if !ALL.contains(&from.as_str()) {
                return Err(Error::invalid_argument(format!(
                    "types: there is no kind {from:?}; the kinds are {}",
                    ALL.join(", ")
                )));
            }
            let targets = targets(from);
            if to != REFUSE && to != from && !targets.contains(&to.as_str()) {
                let mut possible: Vec<&str> = targets.to_vec();
                possible.push(REFUSE);
                return Err(Error::invalid_argument(format!(
                    "types: {from:?} cannot become {to:?} without the risk of losing a value; it can become {}",
                    possible.join(", ")
                )));
            }
        }
        Ok(Self(rules))
    }

    /// The rules as they were given.
    pub(crate) fn as_map(&self) -> &BTreeMap<String, String> {
        &self.0
    }

    /// What becomes of a field. `path` names it in errors.
    ///
    /// # Errors
    /// `unimplemented` where its type, or one within it, is refused.
    pub(super) fn field(&self, field: &FieldRef, path: &str) -> Result<FieldRef> {
        let data_type = self.data_type(field.data_type(), path)?;
        if data_type == *field.data_type() {
            return Ok(Arc::clone(field));
        }
        let made = Field::new(field.name(), data_type, field.is_nullable());
        Ok(Arc::new(made.with_metadata(field.metadata().clone())))
    }

    fn child(&self, field: &FieldRef, path: &str) -> Result<FieldRef> {
        self.field(field, &format!("{path}.{}", field.name()))
    }

    /// The rule for a type: for one of negative scale that of its width counts only where it has none of its own.
    fn rule(&self, data_type: &DataType) -> Option<(&'static str, &str)> {
        let is_negative = decimal(data_type).is_some_and(|(_, scale)| scale < 0);
        let own = is_negative.then_some(NEGATIVE_SCALE);
        let mut kinds = own.into_iter().chain([kind(data_type)]);
        kinds.find_map(|kind| self.0.get(kind).map(|rule| (kind, rule.as_str())))
    }

    fn data_type(&self, data_type: &DataType, path: &str) -> Result<DataType> {
        match self.rule(data_type) {
            Some((kind, REFUSE)) => Err(refused(data_type, path, kind)),
            Some((kind, target)) if target != kind => self.target(data_type, kind, target, path),
            _ => self.within(data_type, path),
        }
    }

    /// The type of a kind that holds every value of this one.
    fn target(
        &self,
        data_type: &DataType,
        kind: &str,
        target: &str,
        path: &str,
    ) -> Result<DataType> {
        let widened = |(precision, scale)| match kind {
            NEGATIVE_SCALE => {
                whole(precision, scale, target).ok_or_else(|| refused(data_type, path, kind))
            }
            _ => Ok(sized(target, precision, scale)),
        };
        if let Some(decimal) = decimal(data_type) {
            return widened(decimal);
        }
        if let Some(items) = self.items(data_type, path)? {
            return Ok(match target {
                "large_list" => DataType::LargeList(items),
                _ => DataType::List(items),
            });
        }
        Ok(match (data_type, target) {
            (DataType::Dictionary(_, values), "values") => self.data_type(values, path)?,
            (DataType::RunEndEncoded(_, values), "values") => {
                self.data_type(values.data_type(), path)?
            }
            (_, "utf8") => DataType::Utf8,
            (_, "large_utf8") => DataType::LargeUtf8,
            (_, "utf8_view") => DataType::Utf8View,
            (_, "binary") => DataType::Binary,
            (_, "large_binary") => DataType::LargeBinary,
            (_, "binary_view") => DataType::BinaryView,
            (_, "time64") => DataType::Time64(TimeUnit::Microsecond),
            (_, "timestamp") => DataType::Timestamp(TimeUnit::Millisecond, None),
            (_, "float32") => DataType::Float32,
            (_, "float64") => DataType::Float64,
            (_, "int16") => DataType::Int16,
            (_, "int32") => DataType::Int32,
            (_, "int64") => DataType::Int64,
            (_, "uint16") => DataType::UInt16,
            (_, "uint32") => DataType::UInt32,
            (_, "uint64") => DataType::UInt64,
            _ => return Err(refused(data_type, path, kind)),
        })
    }

    /// The items of any kind of list.
    fn items(&self, data_type: &DataType, path: &str) -> Result<Option<FieldRef>> {
        match data_type {
            DataType::List(items)
            | DataType::LargeList(items)
            | DataType::ListView(items)
            | DataType::LargeListView(items)
            | DataType::FixedSizeList(items, _)
            | DataType::Map(items, _) => self.child(items, path).map(Some),
            _ => Ok(None),
        }
    }

    /// The same type with what is within it converted.
    fn within(&self, data_type: &DataType, path: &str) -> Result<DataType> {
        Ok(match data_type {
            DataType::List(items) => DataType::List(self.child(items, path)?),
            DataType::LargeList(items) => DataType::LargeList(self.child(items, path)?),
            DataType::ListView(items) => DataType::ListView(self.child(items, path)?),
            DataType::LargeListView(items) => DataType::LargeListView(self.child(items, path)?),
            DataType::FixedSizeList(items, size) => {
                DataType::FixedSizeList(self.child(items, path)?, *size)
            }
            DataType::Map(entries, sorted) => DataType::Map(self.child(entries, path)?, *sorted),
            DataType::RunEndEncoded(ends, values) => {
                DataType::RunEndEncoded(Arc::clone(ends), self.child(values, path)?)
            }
            DataType::Dictionary(keys, values) => {
                DataType::Dictionary(keys.clone(), Box::new(self.data_type(values, path)?))
            }
            DataType::Struct(fields) => {
                let fields = fields.iter().map(|field| self.child(field, path));
                DataType::Struct(fields.collect::<Result<_>>()?)
            }
            DataType::Union(fields, mode) => {
                let fields = fields
                    .iter()
                    .map(|(id, field)| Ok((id, self.child(field, path)?)))
                    .collect::<Result<Vec<_>>>()?;
                DataType::Union(fields.into_iter().collect::<UnionFields>(), *mode)
            }
            other => other.clone(),
        })
    }
}

fn refused(data_type: &DataType, path: &str, kind: &str) -> Error {
    Error::unimplemented(format!(
        "column {path:?} has the type {data_type} ({kind}), which this engine does not take: leave the column out, or \
         cast it at the source"
    ))
}

fn sized(target: &str, precision: u8, scale: i8) -> DataType {
    match target {
        "decimal64" => DataType::Decimal64(precision, scale),
        "decimal128" => DataType::Decimal128(precision, scale),
        _ => DataType::Decimal256(precision, scale),
    }
}

/// The decimal with all digits before the point; None where there are too many.
fn whole(precision: u8, scale: i8, target: &str) -> Option<DataType> {
    let most = if target == "decimal128" {
        DECIMAL128_MAX_PRECISION
    } else {
        DECIMAL256_MAX_PRECISION
    };
    let precision = precision.checked_add(scale.unsigned_abs())?;
    (precision <= most).then(|| sized(target, precision, 0))
}
