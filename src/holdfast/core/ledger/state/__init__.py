"""Tables, the state that both ledgers extend, and snapshots. No command and no handler.

- `table`         sharded copy-on-write tables, and the overlay of a batch
- `sparse_rows`   rows that exist only with a content: counts, tuples, lists of ids
- `ledger_state`  `LedgerState`, `LedgerInfo`, sessions, idempotency records
- `invariants`    the shape of an invariant; full scans and batch scans
- `type_checks`   whether restored values have exactly their declared types
- `columns`       rows of a table as bytes, column by column
- `chunks`        a state as content-addressed chunks, and its digest
- `snapshot`      manifest, load, verify
"""
