"""Every message between machines and a ledger, and the client side of a session. No server code.

Messages on streams are arrays: the order of fields and the tags are the format.

- `problem`             RFC 9457 bodies for machines
- `commands`            POST /v1/envelopes, /v1/envelopes/batch and /v1/renewals
- `shipments`           GET /v1/shipments, platform to region
- `bindings`            GET /v1/bindings, region to agent
- `log_stream`          GET /v1/log, region to mirror
- `request_signatures`  the signature that authenticates a server while it acts for a caller
- `time_offset`         the difference of two ledger times
- `session_client`      one session: numbered commands, heartbeats, retries at the server that leads
"""
