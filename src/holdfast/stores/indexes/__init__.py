"""Databases of indexes of a log: a SQLite file next to the store, or one in memory.

- `index_database`   opens, checks, sets aside and closes the database of any index
- `decision_rows`    tables of decisions: add, tidy; the decision store over them
- `decision_search`  decisions by workload, node, tenant and time
- `audit_store`      the port `AuditStore` of `host.ports.index_store`, with its tables
"""
