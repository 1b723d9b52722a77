//! What is translated, what is weakened, and what is left to DataFusion.

use std::sync::Arc;

use datafusion::arrow::datatypes::{Field, Fields, TimeUnit};
use datafusion::functions::core::expr_fn::get_field;
use datafusion::functions::string::expr_fn::{contains, ends_with, starts_with, upper};
use datafusion::logical_expr::{
    Volatility, cast, col, create_udf, exists, in_list, lit, not, out_ref_col,
};
use datafusion::prelude::SessionContext;

use super::*;

fn schema() -> Schema {
    let pair = Fields::from(vec![Field::new("x", DataType::Int64, true)]);
    Schema::new(vec![
        Field::new("a", DataType::Int64, true),
        Field::new("b", DataType::Int32, true),
        Field::new("f", DataType::Float64, true),
        Field::new("s", DataType::Utf8, true),
        Field::new("flag", DataType::Boolean, true),
        Field::new("t", DataType::Timestamp(TimeUnit::Microsecond, None), true),
        Field::new("pair", DataType::Struct(pair.clone()), false),
        Field::new("maybe", DataType::Struct(pair), true),
    ])
}

/// The filter as the core writes it; ` …` follows where it lets more through than the original.
fn translated(filter: Expr) -> Option<String> {
    let made = conjunct(&filter, &schema(), true)?;
    Some(format!(
        "{}{}",
        made.expr,
        if made.is_exact { "" } else { " …" }
    ))
}

fn exact(filter: Expr, expected: &str) {
    assert_eq!(
        translated(filter.clone()).as_deref(),
        Some(expected),
        "{filter}"
    );
}

fn unsupported(filter: Expr) {
    assert_eq!(translated(filter.clone()), None, "{filter}");
}

/// A condition that only DataFusion knows.
fn foreign() -> Expr {
    upper(col("s")).eq(lit("X"))
}

#[test]
fn comparisons_and_their_kin_are_exact() {
    exact(col("a").gt(lit(5_i64)), "a > 5");
    exact(col("a").not_eq(lit(5_i64)), "a <> 5");
    exact(lit(5_i64).lt_eq(col("a")), "5 <= a");
    exact(
        col("a").between(lit(1_i64), lit(3_i64)),
        "a BETWEEN 1 AND 3",
    );
    exact(
        col("a").not_between(lit(1_i64), lit(3_i64)),
        "a NOT BETWEEN 1 AND 3",
    );
    exact(col("a").is_null(), "a IS NULL");
    exact(col("s").is_not_null(), "s IS NOT NULL");
    exact(col("flag"), "flag");
    exact(not(col("flag")), "NOT flag");
    exact(col("a").gt(lit(5_i64)).is_unknown(), "(a > 5) IS NULL");
    exact(col("flag").is_true(), "flag IS NOT DISTINCT FROM true");
    exact(col("flag").is_not_false(), "flag IS DISTINCT FROM false");
    exact(
        in_list(col("a"), vec![lit(1_i64), lit(2_i64)], false),
        "a IN (1, 2)",
    );
    exact(
        in_list(col("s"), vec![lit("x"), lit("y")], true),
        "s NOT IN ('x', 'y')",
    );
    exact(col("s").like(lit("x%")), "s LIKE 'x%'");
    exact(col("s").not_ilike(lit("x_")), "s NOT ILIKE 'x_'");
    exact(
        cast(col("b"), DataType::Int64).eq(col("a")),
        "CAST(b AS Int64) = a",
    );
    exact(col("f").lt(lit(0.5)), "f < 0.5");
    exact(col("a").alias("other").eq(lit(1_i64)), "a = 1");
}

#[test]
fn functions_are_known_by_what_they_are() {
    exact(starts_with(col("s"), lit("x")), "starts_with(s, 'x')");
    exact(ends_with(col("s"), lit("x")), "ends_with(s, 'x')");
    exact(contains(col("s"), lit("x")), "contains(s, 'x')");
    let arguments = vec![DataType::Utf8, DataType::Utf8];
    for volatility in [Volatility::Immutable, Volatility::Volatile] {
        let same_name = create_udf(
            "contains",
            arguments.clone(),
            DataType::Boolean,
            volatility,
            Arc::new(|args| Ok(args[0].clone())),
        );
        unsupported(same_name.call(vec![col("s"), lit("x")]));
    }
}

#[test]
fn fields_of_structs_are_reached_unless_the_struct_may_be_null() {
    exact(get_field(col("pair"), "x").eq(lit(1_i64)), "pair.x = 1");
    unsupported(get_field(col("maybe"), "x").eq(lit(1_i64)));
    unsupported(get_field(col("pair"), "gone").eq(lit(1_i64)));
}

#[test]
fn half_of_an_and_may_be_pushed() {
    let known = || col("a").gt(lit(5_i64));
    exact(known().and(col("flag")), "a > 5 AND flag");
    assert_eq!(
        translated(known().and(foreign())).as_deref(),
        Some("a > 5 …")
    );
    assert_eq!(
        translated(foreign().and(known()).and(foreign())).as_deref(),
        Some("a > 5 …")
    );
    unsupported(foreign().and(foreign()));
    // Within an OR too: each side lets more rows through, and so do both.
    let either = known().and(foreign()).or(col("flag"));
    assert_eq!(translated(either).as_deref(), Some("a > 5 OR flag …"));
}

#[test]
fn half_of_an_or_is_never_pushed() {
    let known = || col("a").gt(lit(5_i64));
    exact(known().or(col("flag")), "a > 5 OR flag");
    unsupported(known().or(foreign()));
    unsupported(foreign().or(known()));
    unsupported(known().or(col("flag")).or(foreign()));
    assert_eq!(
        translated(known().or(foreign()).and(col("flag"))).as_deref(),
        Some("flag …")
    );
}

#[test]
fn what_was_weakened_is_not_negated() {
    let known = || col("a").gt(lit(5_i64));
    unsupported(not(known().and(foreign())));
    unsupported(known().and(foreign()).is_not_true());
    unsupported(known().and(foreign()).is_true());
    exact(not(known().and(col("flag"))), "NOT (a > 5 AND flag)");
}

#[test]
fn what_is_no_plain_condition_stays_with_datafusion() {
    unsupported(foreign());
    unsupported(exists(Arc::new(
        SessionContext::new()
            .read_empty()
            .unwrap()
            .into_unoptimized_plan(),
    )));
    unsupported(col("a").eq(out_ref_col(DataType::Int64, "outer.a")));
    unsupported(col("a").eq(Expr::Placeholder(
        datafusion::logical_expr::expr::Placeholder::new_with_field("$1".into(), None),
    )));
    unsupported(col("a").eq(datafusion::functions::expr_fn::nullif(col("a"), lit(1_i64))));
    unsupported(col("gone").eq(lit(1_i64)));
    // A cast that may lose something, and arithmetic that may overflow.
    unsupported(cast(col("a"), DataType::Int32).eq(lit(1_i32)));
    unsupported((col("a") + lit(1_i64)).gt(lit(5_i64)));
    unsupported((lit(1_i64) / col("a")).gt(lit(5_i64)));
    // A list with something else than constants.
    unsupported(in_list(
        col("a"),
        vec![lit(1_i64), col("a") + lit(1_i64)],
        false,
    ));
}

#[test]
fn floats_in_lists_are_checked_again_where_zero_is_among_them() {
    exact(
        in_list(col("f"), vec![lit(1.0), lit(2.0)], false),
        "f IN (1.0, 2.0)",
    );
    let zero = in_list(col("f"), vec![lit(0.0), lit(2.0)], false);
    assert!(translated(zero).is_none_or(|filter| filter.ends_with('…')));
}

#[test]
fn without_exact_filters_at_the_server_nothing_is_exact() {
    let filter = col("a").gt(lit(5_i64));
    let made = conjunct(&filter, &schema(), false);
    assert_eq!(
        pushdown(made.as_ref()),
        TableProviderFilterPushDown::Inexact
    );
    assert_eq!(pushdown(None), TableProviderFilterPushDown::Unsupported);
}

#[test]
fn a_list_longer_than_servers_take_stays_with_datafusion() {
    let list = |length: i64| in_list(col("a"), (0..length).map(lit).collect(), false);
    assert!(conjunct(&list(10_000), &schema(), true).unwrap().is_exact);
    assert!(conjunct(&list(1_000_001), &schema(), true).is_none());
    let half = conjunct(&list(600_000), &schema(), true).unwrap().size;
    assert!(Size::default().checked_add(half).is_some());
    assert!(half.checked_add(half).is_none());
}

#[test]
fn long_chains_are_walked_and_deep_trees_are_left_alone() {
    let many = (0..20_000).map(|value| col("a").eq(lit(i64::from(value))));
    let chain = many.reduce(|all, one| all.or(one)).unwrap();
    assert_eq!(super::chain(&chain, Operator::Or).len(), 20_000);
    // Servers take no filter of so many nodes.
    assert!(conjunct(&chain, &schema(), true).is_none());
    let fewer = (0..3_000)
        .map(|value| col("a").eq(lit(i64::from(value))))
        .reduce(|all, one| all.or(one));
    assert!(conjunct(&fewer.unwrap(), &schema(), true).unwrap().is_exact);
    let deep = (0..500).fold(col("flag"), |deep, _| not(deep));
    unsupported(deep);
    // Dropping so long a chain would overflow the stack: it is built of boxes, not of a list.
    std::mem::forget(chain);
}
