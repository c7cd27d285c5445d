"""The link between the platform and a region is log shipping (RULES 14).

    platform: watch ──▶ what of it this region has a copy of ──▶ shipments, and beats while nothing changes
                                                                     │ one stream, resumed from the logged cursor
    region:   Ship, with the cursor, in one batch of its own log ◀───┘
              its position and its cursor, in the session in which it has joined ──▶ platform

- `wire`       what is sent: `Shipment`, `Beat`
- `content`    which objects of the platform a region has a copy of, and what a change means for it
- `gathered`   what a stream has heard of and not told yet
- `parts`      a full list, cut
- `shipping`   the platform's side: one stream for each region
- `speaker`    the region's voice at the platform: a session, numbered commands, heartbeats, whoever leads
- `offset`     how far two ledger times are apart, and what ends when in ours
- `following`  the region's end of the stream: each step into its own log
- `link`       the region's side put together, beside its leader

What a region reports by itself (summaries, settled grants, releases, offers back) will be further work in a session of
`link`, beside the acknowledgement.
"""
