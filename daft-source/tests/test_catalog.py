"""A server as a catalog: names, SQL, and what it refuses."""

from __future__ import annotations

from collections.abc import Iterator

import lightstream_core as core
import pyarrow as pa
import pytest
from daft import Session
from daft.catalog import Identifier, NotFoundError
from serving import served, traffic

from lightstream_daft import LightstreamCatalog

FLIGHTS = pa.table({"carrier": ["AA", "UA", "AA", "DL"], "delay": [12, -3, 40, None]})
AIRLINES = pa.table({"carrier": ["AA", "DL", "UA"], "name": ["American", "Delta", "United"]})


@pytest.fixture(scope="module")
def server() -> Iterator[core.Server]:
    with served({"flights": FLIGHTS, "airlines": AIRLINES, "old.flights": FLIGHTS.slice(0, 1), "Odd name": FLIGHTS}) as server:
        yield server


@pytest.fixture
def catalog(server: core.Server) -> LightstreamCatalog:
    return LightstreamCatalog(server.url)


def test_it_lists_what_the_server_has(catalog: LightstreamCatalog) -> None:
    assert {str(name) for name in catalog.list_tables()} == {"flights", "airlines", "old.flights", "Odd name"}
    assert [str(name) for name in catalog.list_tables("fli%")] == ["flights"]
    assert [str(name) for name in catalog.list_namespaces()] == ["old"]
    assert catalog.has_table("old.flights") and catalog.has_namespace("old")
    assert not catalog.has_table("absent") and not catalog.has_namespace("flights")


def test_tables_are_read_by_name(catalog: LightstreamCatalog) -> None:
    assert catalog.read_table("flights").to_arrow().to_pydict() == FLIGHTS.to_pydict()
    assert catalog.read_table("old.flights").count_rows() == 1
    assert catalog.get_table(Identifier("Odd name")).schema().column_names() == ["carrier", "delay"]
    with pytest.raises(NotFoundError, match="absent"):
        catalog.get_table("absent")


def test_sql_over_an_attached_catalog(server: core.Server, catalog: LightstreamCatalog) -> None:
    session = Session()
    session.attach_catalog(catalog, alias="far")
    query = """
        SELECT name, count(*) AS flights, max(delay) AS most
        FROM far.flights JOIN far.airlines ON flights.carrier = airlines.carrier
        WHERE delay > 0 GROUP BY name ORDER BY name
    """
    assert session.sql(query).to_pydict() == {"name": ["American"], "flights": [2], "most": [40]}
    session.set_catalog("far")
    with traffic(server) as sent:
        assert session.sql("SELECT delay FROM flights WHERE delay > 20").to_pydict() == {"delay": [40]}
    assert sent.rows == 1
    assert session.sql("SELECT count(*) AS n FROM old.flights").to_pydict() == {"n": [1]}


def test_two_servers_in_one_query(catalog: LightstreamCatalog) -> None:
    with served({"names": AIRLINES}) as other:
        session = Session()
        session.attach_catalog(catalog, alias="one")
        session.attach_catalog(LightstreamCatalog(other.url), alias="two")
        query = "SELECT name FROM one.flights JOIN two.names ON flights.carrier = names.carrier WHERE delay IS NULL"
        assert session.sql(query).to_pydict() == {"name": ["Delta"]}


def test_a_snapshot_may_be_named(catalog: LightstreamCatalog, server: core.Server) -> None:
    snapshot = core.connect(server.url).table("flights").snapshot
    assert catalog.get_table("flights").read(snapshot=snapshot).count_rows() == 4
    with pytest.raises(core.LightstreamError, match="snapshot"):
        catalog.get_table("flights").read(snapshot="another").collect()
    with pytest.raises(ValueError, match="Unsupported option"):
        catalog.get_table("flights").read(snapshto="x")


def test_it_cannot_be_changed(catalog: LightstreamCatalog) -> None:
    frame = catalog.read_table("flights")
    for change in (
        lambda: catalog.create_table("new", frame.schema()),
        lambda: catalog.drop_table("flights"),
        lambda: catalog.create_namespace("new"),
        lambda: catalog.drop_namespace("old"),
        lambda: catalog.get_table("flights").append(frame),
        lambda: catalog.get_table("flights").overwrite(frame),
    ):
        with pytest.raises(NotImplementedError, match="cannot"):
            change()


def test_a_url_with_a_table_is_no_catalog(server: core.Server) -> None:
    with pytest.raises(core.InvalidArgumentError, match="names a table"):
        LightstreamCatalog(f"{server.url}/flights")
