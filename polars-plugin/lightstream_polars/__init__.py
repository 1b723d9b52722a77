"""Tables of Lightstream servers in Polars.

>>> from lightstream_polars import scan_lightstream                                           # doctest: +SKIP
>>> flights = scan_lightstream("lightstream://127.0.0.1:7654/flights")                        # doctest: +SKIP
>>> flights.filter(pl.col("month") == 7).group_by("carrier").len().collect()                  # doctest: +SKIP
"""

from lightstream_polars._scan import read_lightstream, scan_lightstream

__all__ = ["read_lightstream", "scan_lightstream"]
