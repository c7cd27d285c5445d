"""The region's side of the link: applies shipments and reports. It must not import `host.link.platform`.

- `link`           session after session, while this server leads the region; the end of a retired region
- `session`        `RegionSession`: opens a session and joins with the region's log
- `follower`       submits shipments to the region's own log; `core.region.decide.shipments` refuses repeats
- `dirty_set`      objects that may differ from what was last reported; limits reports about crash loops
- `reports`        the region's reports, compared with earlier ones
- `reporter`       when reports are computed and sent
- `report_sender`  sends reports, and records the outcome
"""
