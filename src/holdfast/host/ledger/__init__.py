"""One server's part in one ledger: load, follow, be a candidate, lead, step down, follow again.

- `ledger`            `Ledger`: the object that the API, controllers and streams use
- `follower`          reads the log as it grows; when it becomes a candidate
- `reads`             read levels: any, at least a revision, linearizable
- `health`            the Writable condition
- `server_token`      a server's own token: created, announced in the store, replaced before it expires
- `server_admission`  announced servers, admitted into the log by the leader
"""
