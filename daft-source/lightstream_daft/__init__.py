"""Remote Lightstream tables as Daft DataFrames.

Translation only: everything about transport, retries and filters is in ``lightstream_core``.
"""

from lightstream_daft._catalog import LightstreamCatalog
from lightstream_daft._read import read_lightstream
from lightstream_daft._source import LightstreamSource

__all__ = ["LightstreamCatalog", "LightstreamSource", "read_lightstream"]
