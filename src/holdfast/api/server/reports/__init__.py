"""Computed, read-only replies: one module per subject. They write nothing.

- `scope`      who may read a report, from which state, and how many items
- `discovery`  health, readiness, the OpenAPI document, schemas
- `access`     whoami and can-i
- `status`     leader, age, degraded parts, regions of a server; what works but needs attention, and what is stuck
- `audit`      who sent which command, with its outcome
- `quota`      quota, grants and usage by tenant and region
- `fairness`   how tenants share a region, or all regions
- `schedulers` the live schedulers of a region, and how their proposals fare
- `decisions`  what schedulers decided; scheduling requests in their order, and why they wait
"""
