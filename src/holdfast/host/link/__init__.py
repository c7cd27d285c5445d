"""The link between the platform and a region is log shipping (RULES 14).

    platform: watch ──▶ what of it this region has a copy of ──▶ shipments, and beats while nothing changes
                                                                     │ one stream, resumed from the logged cursor
    region:   Ship, with the cursor, in one batch of its own log ◀───┘
              facts of its own log: settled grants, releases, offers back, reports, its position and cursor, in the
              session in which it has joined ──▶ platform

- `wire`       what is sent: `Known`, `Shipment`, `Beat`
- `content`    which objects of the platform a region has a copy of, and what a change means for it
- `gathered`   what a stream has heard of and not told yet
- `parts`      a full list, cut
- `evidence`   what the platform signs of its log, and a region shows again
- `asking`     who asks the platform for a stream, and from where it goes on
- `shipping`   the platform's side: one stream for each region
- `speaker`    the region's voice at the platform: a session, numbered commands, heartbeats, whoever leads
- `offset`     how far two ledger times are apart, and what ends when in ours
- `following`  the region's end of the stream: each step into its own log
- `facts`      what the region has to say, told from its durable state and from what was told before
- `noticed`    what of that may be other than it was told, since when
- `saying`     how it is said, and what becomes of it
- `reporting`  when: it listens to the region's own log, looks, and speaks
- `stopping`   what is left to do when the platform has retired the region
- `link`       the region's side put together, beside its leader
"""
