"""The platform's side of the link: one stream for each region. It must not import `host.link.region`.

- `request`          where a stream resumes; signed positions, and whether one shows that the store went backwards
- `content`          objects that a region has copies of, and the effect of changes on them
- `batching`         cuts unsent changes into steps and full lists into parts
- `server`           the stream: full list or steps, then heartbeats
"""
