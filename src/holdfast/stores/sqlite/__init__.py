"""The embedded engine: one folder, one process, SQLite.

- `store`       `SqliteStore`: the complete port
- `log_writer`  jobs of its one thread, and outcomes of errors
- `reopening`   a database that is reopened after any error
- `database`    head and batches in SQL

An append goes from `store` to `log_writer` to `database`.
"""
