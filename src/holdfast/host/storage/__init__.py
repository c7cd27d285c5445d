"""One ledger's durable copy on this server. It does not decide, lead or serve.

- `load`           the newest intact snapshot, then the tail of the log
- `durable_state`  the state that readers see, waiting for a batch, and the check that the head moved forward
- `digests`        state digests, compared with those in the log
- `snapshots`      when a snapshot is due, how it is written in steps and verified by reading it back, and what holds
                   trimming back; the bytes are those of `core.ledger.state.snapshot`
- `space`          how full the store is, and which lanes close because of it
"""
