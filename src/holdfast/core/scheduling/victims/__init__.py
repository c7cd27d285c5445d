"""Preemption: victims for a slot that no node accepts. A stage after the filters.

What may be freed on each node is in columns of the node table (`nodes.victims`).

- `choice`      the victims on one node: no one of them can be left out, and no better set exists
- `stage`       rounds of them for the groups of one cycle, added to its draft
- `preemption`  the nodes and victims for the slots of one request group
"""
