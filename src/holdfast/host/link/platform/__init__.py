"""The platform's side of the link: one stream for each region. It must not import `host.link.region`.

- `request`          who requests a stream, where it resumes, and whether that shows that the store went backwards
- `position_proofs`  signatures over positions of the platform's log, which a region presents again
- `content`          which objects a region has a copy of, and what a change means for that copy
- `batching`         changes not sent yet, and full lists, cut to the size of a step
- `server`           the stream: full list or steps, then heartbeats
"""
