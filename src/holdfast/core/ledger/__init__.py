"""The contract that both ledgers share.

    envelope --> judge (repeat? right? session?) --> handler --> Accepted(events) | Refused | Repeated
                                                       events --> evolve --> state

- `revision`    log positions packed into one integer; tokens that people and watches resume from
- `answers`     Accepted, Refused, Repeated, and the closed list of refusal codes
- `envelope`    what carries a command: who, in which session, why, since when, on what evidence
- `table`       sharded tables that fork by reference, and the layer on which a batch is decided
- `state`       what both ledgers' states have in common
- `registry`    one rule per command: who may send it, its lane, its side effect and what undoes it
- `judge`       the checks that come before any handler
- `repeats`     why a repeat gets the first answer back
- `house`       commands and events of every ledger: log, terms, sessions, settings
- `overrides`   human decisions with an end, in both ledgers
- `keys`        what an event touches, told from the event alone: what watches are filtered by
- `lists`       rows of derived tables that list something
- `levels`      what each level of the format adds, and how it is left out below it
- `typed`       whether values are of their declared types, to the letter
- `codec`       canonical bytes, the strict decoder, the hash chain
- `columns`     rows of one table as bytes, column by column
- `chunks`      a state as chunks of bytes, each named by its content
- `digest`      the digest of a whole state
- `snapshot`    the manifest that makes chunks count, and how a state is restored from them
- `draft`       a batch being decided on an overlay
- `invariants`  the shape of an invariant and how a list of them is checked
"""
