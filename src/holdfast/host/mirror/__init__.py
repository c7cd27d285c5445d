"""A ledger's state in another process: loaded and folded there from what the leader streams, by the same `evolve`.

    leader:  a snapshot's chunks ──▶ every batch after it, as it becomes durable ──▶ beats while there is none
                                                    │ one stream, resumed from a token
    mirror:  restore ──▶ fold ──▶ the very same state, and which objects each batch touched

- `wire`      what is sent: `Begin`, `Piece`, `Step`, `Beat`
- `serving`   the leader's side: one stream for each mirror
- `loading`   a state on its way
- `shown`     the state that is shown, compared with the digests in the log
- `mirror`    the other side: the state, how old it is, and what changed
"""
