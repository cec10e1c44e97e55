"""Tables of DuckDB and PostgreSQL: the database sums what it can, and the rest is read in batches."""

from tamis.engines.sql.database import Column, SQLTable
from tamis.engines.sql.duckdb_table import DuckDBTable
from tamis.engines.sql.postgresql_table import PostgreSQLTable
from tamis.engines.sql.shards import SQLShards, open_shards

__all__ = ["Column", "DuckDBTable", "PostgreSQLTable", "SQLShards", "SQLTable", "open_shards"]
