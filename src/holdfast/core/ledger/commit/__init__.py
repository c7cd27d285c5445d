"""The path of one command, from envelope to batch. No table specs and no specific command.

    rules --> authorization, dedup, size_limits --> handler --> draft --> batch

- `rules`          `CommandRule`: owners, lane, side effect, undo; `CommandContext`; the coalescer protocol
- `size_limits`    the longest text and list in a command, by type
- `dedup`          session windows and idempotency keys: a retry gets the first answer
- `authorization`  the command exists, its sender may send it, its session is open, its object has the expected revision
- `watch`          watch keys: types, and the kinds that both ledgers share
- `definition`     `LedgerDefinition`; `decide`
- `draft`          `BatchDraft`: commands are decided, sealed, committed; `fold`
"""
