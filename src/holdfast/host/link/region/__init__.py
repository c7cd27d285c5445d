"""The region's side of the link: applies shipments and reports. It must not import `host.link.platform`.

- `link`           session after session, for as long as this server leads the region
- `session`        `RegionSession`: opens a session and joins with the region's log
- `follower`       each shipment into the region's own log, with its cursor
- `dirty_set`      which objects may differ from what was last reported
- `reports`        what the region reports, compared with what it reported before
- `flap_damper`    crash loops do not fill the platform's log
- `reporter`       when reports are computed and sent
- `report_sender`  sends reports, and records the outcome
- `stand_down`     what a retired region does before it stops
"""
