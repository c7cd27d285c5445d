"""Rows of a ledger's state as the objects that callers read, and documents as the objects that they write.

Nothing here does I/O or checks permissions: `server.visibility` and `server.redaction` do.

- `tables`           which rows of which table are objects of a kind, their names, labels and tenants
- `lookup`           one row by its name
- `platform_types`   objects of both ledgers without a document of the model: assignments, grants, policies, overrides
- `region_types`     objects of a region: nodes, replicas, endpoints, scheduling requests, reservations
- `reported_types`   workloads and regions with what regions reported
- `decision`         one scheduling decision as an object
- `rendering`        a row as an object, and as plain JSON values
- `validation`       checks of an object without a server, by the ledger's own code
- `schemas`          documents of the kinds that users write, their commands by tag, and JSON Schema of both
"""
