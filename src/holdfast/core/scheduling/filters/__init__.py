"""Filter plugins, one per file; the file has the name of the plugin. A filter keeps no state between calls.

A filter gets a window of rows and returns a truth value per row. The ledger checks the same in
`core.region.queries.feasibility`.

- `condition`   the node accepts new work
- `zones`       no override avoids its zone
- `taints`      the template tolerates its taints
- `tenancy`     the node is reserved for this tenant, or for none
- `isolation`   its agent enforces the isolation that the template requires
- `one_tenant`  no other tenant has work on a node that takes one tenant at a time
- `labels`      it has every required label
- `capacity`    enough of every resource is free
- `devices`     enough devices are free
- `models`      enough free devices have an accepted model
- `ports`       enough ports are free
"""
