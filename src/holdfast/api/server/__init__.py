"""A server's API: every endpoint is one function from a request to an answer or a stream, whoever carries it.

- `api`        routes, identity, deadlines; what becomes of a request
- `desk`       what every endpoint works with, and the headers that say where an answer is from
- `call`       one request with its caller, its parameters and its body
- `identity`   who asks: bearer tokens and certificates; `rights` what they may see
- `limits`     sizes, rates, how many at a time
- `reading`    one object, or many in `pages`; `selectors` of labels
- `watching`   streams of changes; `filters` who is told what of them; `lines` are what they send
- `writing`    objects, commands by name; `batches` of many; `commands` which command it is
- `machines`   envelopes, renewals, shipments, the log
- `forwarding` to the leader, to a region
- `status`     what a server says of itself and of who asks; `audit` what people did; `repairs` what hangs, and why
- `queue`      what waits in a region, in which order and why; `decisions` what its schedulers decided
- `lists`      how those begin that are told from the state of one moment
"""

from holdfast.api.server.app import Api
from holdfast.api.server.limits import Limits

__all__ = ["Api", "Limits"]
