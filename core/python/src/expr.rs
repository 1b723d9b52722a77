//! Conditions of a filter, node by node as the core has them.

use std::collections::BTreeSet;

use arrow_array::ArrayRef;
use arrow_schema::SchemaRef;
use lightstream_core::protocol::filter::{
    ArithmeticOp, CompareOp, Expr, FloatRule, StringMatchOp, Support, sql, support,
};
use lightstream_core::{Error, Result};
use pyo3::prelude::*;

use crate::capsule;
use crate::errors::IntoPython;

/// The rule for floating-point values where none is named: that of the command line.
pub(crate) const DEFAULT_RULE: &str = "total_order_zero_equal";

/// A rule for floating-point values by its name.
///
/// # Errors
/// `invalid_argument` for another name.
pub(crate) fn float_rule(name: Option<&str>) -> Result<FloatRule> {
    match name.unwrap_or(DEFAULT_RULE) {
        "total_order" => Ok(FloatRule::TotalOrder),
        "total_order_zero_equal" => Ok(FloatRule::TotalOrderZeroEqual),
        "nan_largest" => Ok(FloatRule::NanLargest),
        "ieee" => Ok(FloatRule::Ieee),
        other => Err(Error::invalid_argument(format!(
            "there is no float rule {other:?}; the rules are total_order, total_order_zero_equal, nan_largest and ieee"
        ))),
    }
}

/// The word for how far a conjunct is applied.
pub(crate) fn support_name(support: Support) -> &'static str {
    match support {
        Support::Exact => "exact",
        Support::Inexact => "inexact",
        Support::Unsupported => "unsupported",
    }
}

fn operator<T: Copy>(name: &str, all: &[T], as_str: fn(T) -> &'static str) -> Result<T> {
    let found = all
        .iter()
        .find(|op| as_str(**op).eq_ignore_ascii_case(name));
    found.copied().ok_or_else(|| {
        let known: Vec<&str> = all.iter().map(|op| as_str(*op)).collect();
        Error::invalid_argument(format!(
            "there is no operator {name:?}; there are {}",
            known.join(", ")
        ))
    })
}

/// A condition, or a value within one: what a filter is made of, whatever engine it comes from.
#[pyclass(name = "Expr", module = "lightstream_core", frozen, eq, from_py_object)]
#[derive(Clone, PartialEq)]
pub(crate) struct PyExpr(pub(crate) Expr);

impl PyExpr {
    fn boxed(expr: &Self) -> Box<Expr> {
        Box::new(expr.0.clone())
    }
}

#[pymethods]
impl PyExpr {
    /// A column; further names are fields of structs within it.
    #[staticmethod]
    #[pyo3(signature = (name, *struct_path))]
    fn column(name: String, struct_path: Vec<String>) -> Self {
        let path = std::iter::once(name).chain(struct_path).collect();
        Self(Expr::Column(path))
    }

    /// The only value of something with ``__arrow_c_array__`` or ``__arrow_c_stream__``.
    #[staticmethod]
    fn literal(py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<Self> {
        Expr::literal(capsule::values_of(value)?)
            .map(Self)
            .or_raise(py)
    }

    #[staticmethod]
    fn compare(py: Python<'_>, op: &str, left: &Self, right: &Self) -> PyResult<Self> {
        let op = operator(op, &CompareOp::ALL, CompareOp::as_str).or_raise(py)?;
        Ok(Self(Expr::compare(op, left.0.clone(), right.0.clone())))
    }

    #[staticmethod]
    fn and_(operands: Vec<Self>) -> Self {
        Self(Expr::And(
            operands.into_iter().map(|operand| operand.0).collect(),
        ))
    }

    #[staticmethod]
    fn or_(operands: Vec<Self>) -> Self {
        Self(Expr::Or(
            operands.into_iter().map(|operand| operand.0).collect(),
        ))
    }

    #[staticmethod]
    fn not_(operand: &Self) -> Self {
        Self(Expr::Not(Self::boxed(operand)))
    }

    #[staticmethod]
    fn is_null(operand: &Self) -> Self {
        Self(Expr::IsNull(Self::boxed(operand)))
    }

    #[staticmethod]
    fn is_not_null(operand: &Self) -> Self {
        Self(Expr::IsNotNull(Self::boxed(operand)))
    }

    #[staticmethod]
    fn is_nan(operand: &Self) -> Self {
        Self(Expr::IsNan(Self::boxed(operand)))
    }

    /// Whether the operand is among the values of something with ``__arrow_c_array__`` or ``__arrow_c_stream__``.
    #[staticmethod]
    #[pyo3(signature = (operand, values, negated=false))]
    fn is_in(operand: &Self, values: &Bound<'_, PyAny>, negated: bool) -> PyResult<Self> {
        let values: ArrayRef = capsule::values_of(values)?;
        Ok(Self(Expr::in_list(operand.0.clone(), values, negated)))
    }

    #[staticmethod]
    #[pyo3(signature = (operand, low, high, negated=false))]
    fn between(operand: &Self, low: &Self, high: &Self, negated: bool) -> Self {
        Self(Expr::Between {
            operand: Self::boxed(operand),
            low: Self::boxed(low),
            high: Self::boxed(high),
            negated,
        })
    }

    #[staticmethod]
    #[pyo3(signature = (operand, pattern, case_insensitive=false, negated=false))]
    fn like(operand: &Self, pattern: &Self, case_insensitive: bool, negated: bool) -> Self {
        Self(Expr::Like {
            operand: Self::boxed(operand),
            pattern: Self::boxed(pattern),
            case_insensitive,
            negated,
        })
    }

    #[staticmethod]
    fn starts_with(operand: &Self, text: &Self) -> Self {
        Self::string_match(StringMatchOp::StartsWith, operand, text)
    }

    #[staticmethod]
    fn ends_with(operand: &Self, text: &Self) -> Self {
        Self::string_match(StringMatchOp::EndsWith, operand, text)
    }

    #[staticmethod]
    fn contains(operand: &Self, text: &Self) -> Self {
        Self::string_match(StringMatchOp::Contains, operand, text)
    }

    /// A cast that cannot lose a value, to the type of something with ``__arrow_c_schema__``.
    #[staticmethod]
    fn cast(operand: &Self, to: &Bound<'_, PyAny>) -> PyResult<Self> {
        Ok(Self(Expr::Cast {
            operand: Self::boxed(operand),
            data_type: capsule::field_of(to)?.data_type().clone(),
        }))
    }

    #[staticmethod]
    fn arithmetic(py: Python<'_>, op: &str, left: &Self, right: &Self) -> PyResult<Self> {
        let op = operator(op, &ArithmeticOp::ALL, ArithmeticOp::as_str).or_raise(py)?;
        Ok(Self(Expr::arithmetic(op, left.0.clone(), right.0.clone())))
    }

    /// Reads a condition as it stands after WHERE, over columns of a schema, and splits it at AND.
    #[staticmethod]
    fn parse(py: Python<'_>, sql: &str, schema: &Bound<'_, PyAny>) -> PyResult<Vec<Self>> {
        let schema = capsule::schema_of(schema)?;
        // The rule has no part in reading.
        let filter = sql::parse(sql, &schema, FloatRule::TotalOrder).or_raise(py)?;
        Ok(filter.conjuncts.into_iter().map(Self).collect())
    }

    /// How far the condition can be applied away from an engine that compares floats by this rule.
    #[pyo3(signature = (schema, float_rule=None))]
    fn support(
        &self,
        py: Python<'_>,
        schema: &Bound<'_, PyAny>,
        float_rule: Option<&str>,
    ) -> PyResult<&'static str> {
        let rule = self::float_rule(float_rule).or_raise(py)?;
        let schema = capsule::schema_of(schema)?;
        Ok(support_name(support(&self.0, &schema, rule)))
    }

    /// The names of the top-level columns that are read.
    fn columns(&self) -> BTreeSet<String> {
        let paths = self.0.columns();
        paths.filter_map(|path| path.first().cloned()).collect()
    }

    fn __str__(&self) -> String {
        self.0.to_string()
    }

    fn __repr__(&self) -> String {
        format!("Expr({})", self.0)
    }
}

impl PyExpr {
    fn string_match(op: StringMatchOp, operand: &Self, text: &Self) -> Self {
        Self(Expr::StringMatch {
            op,
            operand: Self::boxed(operand),
            text: Self::boxed(text),
        })
    }
}

/// Which rows a scan gives.
pub(crate) enum Where {
    All,
    Sql(String),
    Conjuncts(Vec<Expr>),
}

impl Where {
    /// From SQL text, one condition (split at AND) or several, each a conjunct of its own.
    ///
    /// # Errors
    /// `TypeError` for anything else.
    pub(crate) fn from_python(condition: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let Some(condition) = condition else {
            return Ok(Where::All);
        };
        if let Ok(text) = condition.extract::<String>() {
            return Ok(Where::Sql(text));
        }
        if let Ok(expr) = condition.cast::<PyExpr>() {
            return Ok(Where::Conjuncts(expr.get().0.clone().into_conjuncts()));
        }
        let conjuncts: Vec<PyExpr> = condition.extract()?;
        Ok(Where::Conjuncts(
            conjuncts.into_iter().map(|expr| expr.0).collect(),
        ))
    }
}

/// A schema whose columns are looked up by name or position.
pub(crate) struct Columns<'a>(pub(crate) &'a SchemaRef);

impl Columns<'_> {
    /// The position of a column.
    ///
    /// # Errors
    /// `invalid_argument` where there is none of that name, or more than one.
    pub(crate) fn position(&self, name: &str) -> Result<usize> {
        let mut found = (0..)
            .zip(self.0.fields())
            .filter(|(_, field)| field.name() == name);
        match (found.next(), found.next()) {
            (Some((at, _)), None) => Ok(at),
            (Some(_), Some(_)) => Err(Error::invalid_argument(format!(
                "the table has more than one column {name:?}: name it by its position"
            ))),
            (None, _) => {
                let names: Vec<&str> = self
                    .0
                    .fields()
                    .iter()
                    .map(|field| field.name().as_str())
                    .collect();
                Err(Error::invalid_argument(format!(
                    "there is no column {name:?}; the columns are {}",
                    names.join(", ")
                )))
            }
        }
    }
}
