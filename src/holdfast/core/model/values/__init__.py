"""Value types without identity: no uid, no owner. This folder imports nothing else of Holdfast.

- `structs`         `Document` and `Row`, the two struct bases; `Revision`, `Instant`, `Duration`; canonical defaults
- `limits`          the longest text and the longest list that any sender may send
- `quantities`      parse and format `500m`, `4Gi`, `1h30m`
- `resources`       resource vectors and their arithmetic
- `ranges`          sets of ordinals as half-open ranges
- `bitsets`         sets of ordinals as bits, for sets with many gaps
- `sorted_list`     an immutable sorted list that shares its chunks with its successor
- `addresses`       addresses of servers: loopback, URL checks, where credentials may be sent
- `metadata`        `Meta`, owner, finalizer, deletion, labels
- `conditions`      condition status and the closed list of reasons; `with_condition`
- `settings`        every number that a ledger decides by: its default, its limits, and which sets are unsafe
- `reserved_names`  names in the tables that no component sends yet; the list only becomes shorter
"""
