"""Read-only queries of the platform state, shared by handlers, controllers and the API.

A query never writes and never emits an event.

- `accounts`      the account that pays; limits, charges and demand of an account
- `feasibility`   the regions a workload may use, and whether any of their nodes could ever hold it
- `identities`    the ordinals an assignment may list; the end of a leased right
- `completion`    batch work: done, failed, deadline met or missed
- `quota_report`  a quota for readers, region by region, with warnings
- `fairness_report` how tenants share all regions, by their last reports
- `repairs`       open repairs, each with owner and next step
"""
