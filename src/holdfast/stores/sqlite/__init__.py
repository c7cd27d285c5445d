"""The embedded engine: one folder, one process, SQLite.

- `store`       `SqliteStore`: the whole port
- `log_writer`  what its one thread does, and what it makes of errors
- `reopening`   a database that is reopened after any error
- `database`    head and batches in SQL
"""
