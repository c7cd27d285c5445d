"""Handlers that read, write and watch objects. They compute no report.

- `label_selectors`  `a=b,c!=d,e,!f`
- `pagination`       list snapshots that are stored for their next pages; rows of a large table in parts
- `reads`            get one object, list many
- `ledger_commands`  the command that stores or deletes an object, or that has a tag
- `writes`           put, delete, and commands by tag
- `batch`            many documents in one request
- `watch_scope`      what one watcher may see, and which deletions it receives
- `watch_events`     which objects an event affects, as lines that watchers share who see the same
- `watch`            the stream of one watch
"""
