"""The API of one server: every route is one function from a request to a reply or a stream.

    request ─▶ app: route, authenticate, limit, deadline ─▶ handler in objects/, reports/, machines ─▶ reply or stream
                                                              └─ forwarding: to the leader, or to a region

Only `app` and `routes` import handlers. A refusal is an `ApiError` with a problem of `api.problems`; `app` sends it.

- `app`             `ApiServer`: dispatch, deadline, errors to problems
- `routes`          the table: path and method to handler
- `request`         `ApiRequest`: caller, typed parameters, body; `ApiError`
- `delegation`      for which principals another server may act
- `authentication`  the caller of a request, a principal with its rights: by token, certificate or a server's signature
- `visibility`      which objects a caller may see
- `redaction`       an answer without the names of other tenants
- `limits`          sizes, rate limits, concurrency limits
- `streams`         how many streams a server serves, and when a stream must end
- `context`         `ServerContext`: what every handler gets, and the headers of every reply
- `forwarding`      one hop: to the leader, or to a region
- `machines`        envelopes, renewals (heartbeats), shipments, bindings, log
- `objects/`        read, write and watch objects
- `reports/`        computed, read-only replies
"""
