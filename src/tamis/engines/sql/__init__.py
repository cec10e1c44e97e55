"""Tables of DuckDB and PostgreSQL: the database computes statistics where it can; else rows are read."""

from tamis.engines.sql.database import Column, SQLTable
from tamis.engines.sql.duckdb_table import DuckDBTable
from tamis.engines.sql.postgresql_table import PostgreSQLTable
from tamis.engines.sql.shards import SQLShards, open_shards

__all__ = ["Column", "DuckDBTable", "PostgreSQLTable", "SQLShards", "SQLTable", "open_shards"]
