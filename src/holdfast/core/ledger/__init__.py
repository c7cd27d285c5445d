"""The contract that both ledgers share. No platform or region concept appears here.

    envelope --> authorize --> handler --> Accepted(events) | Refused | Repeated
                                            events --> evolve --> state

- `revision`    log positions in one integer; revision tokens
- `envelope`    `Envelope` (actor, session, cause, evidence) and `Stamp`
- `answers`     `Accepted`, `Refused`, `Repeated`, refusal codes and refusal constructors
- `levels`      ledger levels: what each level adds, and how a record is written below it
- `codec`       bytes of records and batches, the digest chain, strict readers
- `partial`     answers of commands with many parts: which part was refused, and why
- `reconciler`  the `Reconciler` contract: `reconcile(state, key, now) -> ReconcileResult`
- `state`       tables, the state both ledgers extend, snapshots
- `commit`      the path of one command, from envelope to batch
- `builtin`     commands and events that every ledger has

The modules in this folder import none of the folders below it.
"""
