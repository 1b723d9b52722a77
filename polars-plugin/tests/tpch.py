"""The 22 queries of TPC-H over LazyFrames."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date
from decimal import Decimal

import polars as pl
from polars import col

Tables = Mapping[str, pl.LazyFrame]

def revenue() -> pl.Expr:
    return col("l_extendedprice") * (1 - col("l_discount"))


def q01(t: Tables) -> pl.LazyFrame:
    price = revenue()
    return (
        t["lineitem"]
        .filter(col("l_shipdate") <= date(1998, 9, 2))
        .group_by("l_returnflag", "l_linestatus")
        .agg(
            col("l_quantity").sum().alias("sum_qty"),
            col("l_extendedprice").sum().alias("sum_base_price"),
            price.sum().alias("sum_disc_price"),
            (price * (1 + col("l_tax"))).sum().alias("sum_charge"),
            col("l_quantity").mean().alias("avg_qty"),
            col("l_discount").mean().alias("avg_disc"),
            pl.len().alias("count_order"),
        )
        .sort("l_returnflag", "l_linestatus")
    )


def q02(t: Tables) -> pl.LazyFrame:
    offers = (
        t["part"]
        .filter(col("p_size") == 15, col("p_type").str.ends_with("BRASS"))
        .join(t["partsupp"], left_on="p_partkey", right_on="ps_partkey")
        .join(t["supplier"], left_on="ps_suppkey", right_on="s_suppkey")
        .join(t["nation"], left_on="s_nationkey", right_on="n_nationkey")
        .join(t["region"].filter(col("r_name") == "EUROPE"), left_on="n_regionkey", right_on="r_regionkey")
    )
    cheapest = offers.group_by("p_partkey").agg(col("ps_supplycost").min())
    return (
        offers.join(cheapest, on=["p_partkey", "ps_supplycost"])
        .select("s_acctbal", "s_name", "n_name", "p_partkey", "p_mfgr", "s_address", "s_phone", "s_comment")
        .sort("s_acctbal", "n_name", "s_name", "p_partkey", descending=[True, False, False, False])
        .head(100)
    )


def q03(t: Tables) -> pl.LazyFrame:
    return (
        t["customer"]
        .filter(col("c_mktsegment") == "BUILDING")
        .join(t["orders"].filter(col("o_orderdate") < date(1995, 3, 15)), left_on="c_custkey", right_on="o_custkey")
        .join(t["lineitem"].filter(col("l_shipdate") > date(1995, 3, 15)), left_on="o_orderkey", right_on="l_orderkey")
        .group_by("o_orderkey", "o_orderdate", "o_shippriority")
        .agg(revenue().sum().alias("revenue"))
        .sort("revenue", "o_orderdate", "o_orderkey", descending=[True, False, False])
        .head(10)
    )


def q04(t: Tables) -> pl.LazyFrame:
    late = t["lineitem"].filter(col("l_commitdate") < col("l_receiptdate"))
    return (
        t["orders"]
        .filter(col("o_orderdate").is_between(date(1993, 7, 1), date(1993, 10, 1), closed="left"))
        .join(late, left_on="o_orderkey", right_on="l_orderkey", how="semi")
        .group_by("o_orderpriority")
        .agg(pl.len().alias("order_count"))
        .sort("o_orderpriority")
    )


def q05(t: Tables) -> pl.LazyFrame:
    return (
        t["region"]
        .filter(col("r_name") == "ASIA")
        .join(t["nation"], left_on="r_regionkey", right_on="n_regionkey")
        .join(t["customer"], left_on="n_nationkey", right_on="c_nationkey")
        .join(
            t["orders"].filter(col("o_orderdate") >= date(1994, 1, 1), col("o_orderdate") < date(1995, 1, 1)),
            left_on="c_custkey",
            right_on="o_custkey",
        )
        .join(t["lineitem"], left_on="o_orderkey", right_on="l_orderkey")
        .join(t["supplier"], left_on=["l_suppkey", "n_nationkey"], right_on=["s_suppkey", "s_nationkey"])
        .group_by("n_name")
        .agg(revenue().sum().alias("revenue"))
        .sort("revenue", descending=True)
    )


def q06(t: Tables) -> pl.LazyFrame:
    return (
        t["lineitem"]
        .filter(
            col("l_shipdate") >= date(1994, 1, 1),
            col("l_shipdate") < date(1995, 1, 1),
            col("l_discount").is_between(Decimal("0.05"), Decimal("0.07")),
            col("l_quantity") < 24,
        )
        .select((col("l_extendedprice") * col("l_discount")).sum().alias("revenue"))
    )


def q07(t: Tables) -> pl.LazyFrame:
    nation = t["nation"].select("n_nationkey", "n_name")
    pair = (col("supp_nation") == "FRANCE") & (col("cust_nation") == "GERMANY")
    other = (col("supp_nation") == "GERMANY") & (col("cust_nation") == "FRANCE")
    return (
        t["lineitem"]
        .filter(col("l_shipdate").is_between(date(1995, 1, 1), date(1996, 12, 31)))
        .join(t["supplier"], left_on="l_suppkey", right_on="s_suppkey")
        .join(t["orders"], left_on="l_orderkey", right_on="o_orderkey")
        .join(t["customer"], left_on="o_custkey", right_on="c_custkey")
        .join(nation.rename({"n_name": "supp_nation"}), left_on="s_nationkey", right_on="n_nationkey")
        .join(nation.rename({"n_name": "cust_nation"}), left_on="c_nationkey", right_on="n_nationkey")
        .filter(pair | other)
        .with_columns(col("l_shipdate").dt.year().alias("l_year"))
        .group_by("supp_nation", "cust_nation", "l_year")
        .agg(revenue().sum().alias("revenue"))
        .sort("supp_nation", "cust_nation", "l_year")
    )


def q08(t: Tables) -> pl.LazyFrame:
    nation = t["nation"]
    is_brazil = col("n_name_supp") == "BRAZIL"
    return (
        t["part"]
        .filter(col("p_type") == "ECONOMY ANODIZED STEEL")
        .join(t["lineitem"], left_on="p_partkey", right_on="l_partkey")
        .join(t["supplier"], left_on="l_suppkey", right_on="s_suppkey")
        .join(
            t["orders"].filter(col("o_orderdate").is_between(date(1995, 1, 1), date(1996, 12, 31))),
            left_on="l_orderkey",
            right_on="o_orderkey",
        )
        .join(t["customer"], left_on="o_custkey", right_on="c_custkey")
        .join(nation, left_on="c_nationkey", right_on="n_nationkey")
        .join(t["region"].filter(col("r_name") == "AMERICA"), left_on="n_regionkey", right_on="r_regionkey")
        .join(nation, left_on="s_nationkey", right_on="n_nationkey", suffix="_supp")
        .with_columns(col("o_orderdate").dt.year().alias("o_year"), revenue().alias("volume"))
        .group_by("o_year")
        .agg((pl.when(is_brazil).then(col("volume")).otherwise(0).sum() / col("volume").sum()).alias("mkt_share"))
        .sort("o_year")
    )


def q09(t: Tables) -> pl.LazyFrame:
    profit = revenue() - col("ps_supplycost") * col("l_quantity")
    return (
        t["part"]
        .filter(col("p_name").str.contains("green", literal=True))
        .join(t["lineitem"], left_on="p_partkey", right_on="l_partkey")
        .join(t["supplier"], left_on="l_suppkey", right_on="s_suppkey")
        .join(t["partsupp"], left_on=["l_suppkey", "p_partkey"], right_on=["ps_suppkey", "ps_partkey"])
        .join(t["orders"], left_on="l_orderkey", right_on="o_orderkey")
        .join(t["nation"], left_on="s_nationkey", right_on="n_nationkey")
        .with_columns(col("o_orderdate").dt.year().alias("o_year"))
        .group_by("n_name", "o_year")
        .agg(profit.sum().alias("sum_profit"))
        .sort("n_name", "o_year", descending=[False, True])
    )


def q10(t: Tables) -> pl.LazyFrame:
    return (
        t["customer"]
        .join(
            t["orders"].filter(col("o_orderdate").is_between(date(1993, 10, 1), date(1994, 1, 1), closed="left")),
            left_on="c_custkey",
            right_on="o_custkey",
        )
        .join(t["lineitem"].filter(col("l_returnflag") == "R"), left_on="o_orderkey", right_on="l_orderkey")
        .join(t["nation"], left_on="c_nationkey", right_on="n_nationkey")
        .group_by("c_custkey", "c_name", "c_acctbal", "c_phone", "n_name", "c_address", "c_comment")
        .agg(revenue().sum().alias("revenue"))
        .sort("revenue", "c_custkey", descending=[True, False])
        .head(20)
    )


def q11(t: Tables) -> pl.LazyFrame:
    stock = (
        t["partsupp"]
        .join(t["supplier"], left_on="ps_suppkey", right_on="s_suppkey")
        .join(t["nation"].filter(col("n_name") == "GERMANY"), left_on="s_nationkey", right_on="n_nationkey")
        .with_columns((col("ps_supplycost").cast(pl.Float64) * col("ps_availqty")).alias("value"))
    )
    least = stock.select((col("value").sum() * 0.0001).alias("least"))
    return (
        stock.group_by("ps_partkey")
        .agg(col("value").sum())
        .join(least, how="cross")
        .filter(col("value") > col("least"))
        .select("ps_partkey", col("value").round(2))
        .sort("value", "ps_partkey", descending=[True, False])
    )


def q12(t: Tables) -> pl.LazyFrame:
    is_high = col("o_orderpriority").is_in(["1-URGENT", "2-HIGH"])
    return (
        t["lineitem"]
        .filter(
            col("l_shipmode").is_in(["MAIL", "SHIP"]),
            col("l_commitdate") < col("l_receiptdate"),
            col("l_shipdate") < col("l_commitdate"),
            col("l_receiptdate") >= date(1994, 1, 1),
            col("l_receiptdate") < date(1995, 1, 1),
        )
        .join(t["orders"], left_on="l_orderkey", right_on="o_orderkey")
        .group_by("l_shipmode")
        .agg(is_high.sum().alias("high_line_count"), (~is_high).sum().alias("low_line_count"))
        .sort("l_shipmode")
    )


def q13(t: Tables) -> pl.LazyFrame:
    orders = t["orders"].filter(~col("o_comment").str.contains("special.*requests"))
    return (
        t["customer"]
        .join(orders, left_on="c_custkey", right_on="o_custkey", how="left")
        .group_by("c_custkey")
        .agg(col("o_orderkey").count().alias("c_count"))
        .group_by("c_count")
        .agg(pl.len().alias("custdist"))
        .sort("custdist", "c_count", descending=True)
    )


def q14(t: Tables) -> pl.LazyFrame:
    is_promoted = col("p_type").str.starts_with("PROMO")
    return (
        t["lineitem"]
        .filter(col("l_shipdate").is_between(date(1995, 9, 1), date(1995, 10, 1), closed="left"))
        .join(t["part"], left_on="l_partkey", right_on="p_partkey")
        .with_columns(revenue().cast(pl.Float64).alias("price"))
        .select((100 * col("price").filter(is_promoted).sum() / col("price").sum()).alias("promo_revenue"))
    )


def q15(t: Tables) -> pl.LazyFrame:
    by_supplier = (
        t["lineitem"]
        .filter(col("l_shipdate") >= date(1996, 1, 1), col("l_shipdate") < date(1996, 4, 1))
        .group_by("l_suppkey")
        .agg(revenue().sum().alias("total_revenue"))
    )
    return (
        t["supplier"]
        .join(by_supplier, left_on="s_suppkey", right_on="l_suppkey")
        .filter(col("total_revenue") == col("total_revenue").max())
        .select("s_suppkey", "s_name", "s_address", "s_phone", "total_revenue")
        .sort("s_suppkey")
    )


def q16(t: Tables) -> pl.LazyFrame:
    complained = t["supplier"].filter(col("s_comment").str.contains("Customer.*Complaints"))
    return (
        t["part"]
        .filter(
            col("p_brand") != "Brand#45",
            ~col("p_type").str.starts_with("MEDIUM POLISHED"),
            col("p_size").is_in([49, 14, 23, 45, 19, 3, 36, 9]),
        )
        .join(t["partsupp"], left_on="p_partkey", right_on="ps_partkey")
        .join(complained, left_on="ps_suppkey", right_on="s_suppkey", how="anti")
        .group_by("p_brand", "p_type", "p_size")
        .agg(col("ps_suppkey").n_unique().alias("supplier_cnt"))
        .sort("supplier_cnt", "p_brand", "p_type", "p_size", descending=[True, False, False, False])
    )


def q17(t: Tables) -> pl.LazyFrame:
    ordered = (
        t["part"]
        .filter(col("p_brand") == "Brand#23", col("p_container") == "MED BOX")
        .join(t["lineitem"], left_on="p_partkey", right_on="l_partkey")
    )
    usual = ordered.group_by("p_partkey").agg((0.2 * col("l_quantity").cast(pl.Float64).mean()).alias("few"))
    return (
        ordered.join(usual, on="p_partkey")
        .filter(col("l_quantity").cast(pl.Float64) < col("few"))
        .select((col("l_extendedprice").cast(pl.Float64).sum() / 7.0).alias("avg_yearly"))
    )


def q18(t: Tables) -> pl.LazyFrame:
    large = t["lineitem"].group_by("l_orderkey").agg(col("l_quantity").sum().alias("ordered")).filter(col("ordered") > 250)
    return (
        t["orders"]
        .join(large, left_on="o_orderkey", right_on="l_orderkey")
        .join(t["customer"], left_on="o_custkey", right_on="c_custkey")
        .select("c_name", "o_custkey", "o_orderkey", "o_orderdate", "o_totalprice", "ordered")
        .sort("o_totalprice", "o_orderdate", "o_orderkey", descending=[True, False, False])
        .head(100)
    )


def q19(t: Tables) -> pl.LazyFrame:
    def wanted(brand: str, containers: list[str], least: int, size: int) -> pl.Expr:
        return (
            (col("p_brand") == brand)
            & col("p_container").is_in(containers)
            & col("l_quantity").is_between(least, least + 10)
            & col("p_size").is_between(1, size)
        )

    return (
        t["part"]
        .join(t["lineitem"], left_on="p_partkey", right_on="l_partkey")
        .filter(col("l_shipmode").is_in(["AIR", "AIR REG"]), col("l_shipinstruct") == "DELIVER IN PERSON")
        .filter(
            wanted("Brand#12", ["SM CASE", "SM BOX", "SM PACK", "SM PKG"], 1, 5)
            | wanted("Brand#23", ["MED BAG", "MED BOX", "MED PKG", "MED PACK"], 10, 10)
            | wanted("Brand#34", ["LG CASE", "LG BOX", "LG PACK", "LG PKG"], 20, 15)
        )
        .select(revenue().sum().alias("revenue"))
    )


def q20(t: Tables) -> pl.LazyFrame:
    shipped = (
        t["lineitem"]
        .filter(col("l_shipdate").is_between(date(1994, 1, 1), date(1995, 1, 1), closed="left"))
        .group_by("l_partkey", "l_suppkey")
        .agg((0.5 * col("l_quantity").cast(pl.Float64).sum()).alias("half"))
    )
    stocked = (
        t["partsupp"]
        .join(t["part"].filter(col("p_name").str.starts_with("forest")), left_on="ps_partkey", right_on="p_partkey", how="semi")
        .join(shipped, left_on=["ps_partkey", "ps_suppkey"], right_on=["l_partkey", "l_suppkey"])
        .filter(col("ps_availqty") > col("half"))
    )
    return (
        t["supplier"]
        .join(t["nation"].filter(col("n_name") == "CANADA"), left_on="s_nationkey", right_on="n_nationkey")
        .join(stocked, left_on="s_suppkey", right_on="ps_suppkey", how="semi")
        .select("s_name", "s_address")
        .sort("s_name")
    )


def q21(t: Tables) -> pl.LazyFrame:
    line = t["lineitem"]
    late = line.filter(col("l_receiptdate") > col("l_commitdate"))
    shared = line.group_by("l_orderkey").agg(col("l_suppkey").n_unique().alias("suppliers"))
    to_blame = late.group_by("l_orderkey").agg(col("l_suppkey").n_unique().alias("late_suppliers"))
    return (
        t["supplier"]
        .join(t["nation"].filter(col("n_name") == "SAUDI ARABIA"), left_on="s_nationkey", right_on="n_nationkey")
        .join(late, left_on="s_suppkey", right_on="l_suppkey")
        .join(t["orders"].filter(col("o_orderstatus") == "F"), left_on="l_orderkey", right_on="o_orderkey")
        .join(shared.filter(col("suppliers") > 1), on="l_orderkey")
        .join(to_blame.filter(col("late_suppliers") == 1), on="l_orderkey")
        .group_by("s_name")
        .agg(pl.len().alias("numwait"))
        .sort("numwait", "s_name", descending=[True, False])
        .head(100)
    )


def q22(t: Tables) -> pl.LazyFrame:
    customers = t["customer"].with_columns(col("c_phone").str.slice(0, 2).alias("cntrycode")).filter(
        col("cntrycode").is_in(["13", "31", "23", "29", "30", "18", "17"])
    )
    usual = customers.filter(col("c_acctbal").cast(pl.Float64) > 0.0).select(col("c_acctbal").cast(pl.Float64).mean().alias("usual"))
    return (
        customers.join(t["orders"], left_on="c_custkey", right_on="o_custkey", how="anti")
        .join(usual, how="cross")
        .filter(col("c_acctbal").cast(pl.Float64) > col("usual"))
        .group_by("cntrycode")
        .agg(pl.len().alias("numcust"), col("c_acctbal").sum().alias("totacctbal"))
        .sort("cntrycode")
    )


QUERIES: dict[str, Callable[[Tables], pl.LazyFrame]] = {
    query.__name__: query
    for query in (
        q01, q02, q03, q04, q05, q06, q07, q08, q09, q10, q11, q12, q13, q14, q15, q16, q17, q18, q19, q20, q21, q22,
    )  # fmt: skip
}
