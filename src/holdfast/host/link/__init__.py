"""The link between the platform and a region: log shipping (RULES 14).

    platform: watch -> content of this region -> shipments, and heartbeats of the stream while nothing changes
                                   | one stream, resumed from the logged cursor
    region:   shipment and cursor in one batch of its own log
              reports from its own log -> platform, in the session that has joined with this log

The two sides share messages (`host.protocol.shipments`) and nothing else; neither imports the other.

- `platform`  ships the platform's changes
- `region`    applies shipments, and reports
"""
