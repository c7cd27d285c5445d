"""What exists.

- `shapes`      the two kinds of struct: documents people write, rows the log holds by the million
- `defaults`    one spelling for what is as it is by default
- `ordered`     a sorted list that is shared by reference
- `runs`        sets of numbers as runs; `blocks` as bits, for those that are full of holes
- `quantity`    amounts as people write them: `500m`, `4Gi`, `30s`
- `resources`   resource vectors and their arithmetic
- `settings`    the numbers of the promises, and the function that refuses an unsafe set
- `meta`        metadata, owners, finalizers, conditions
- `tenancy`     Tenant, Quota, PriorityClass, Principal, Token
- `secrets`     tokens as people hold them, and the hash that is stored
- `addresses`   addresses of servers: which are this machine, and which may be sent credentials
- `topology`    Region, NodePool, Node
- `process`     how a process is run and watched over: drivers, restarts, probes
- `workload`    Template, Workload and its rules
- `contradictions`  what a workload's spec cannot mean
- `allotment`   Assignment, Grant, RecoveryBudget, Right: what the platform gives to a region
- `control`     SchedulerPolicy, Override: how people steer
- `effects`     what each kind of override does, with its parameters
- `lifecycle`   the slot's edge table
- `placement`   Slot, SchedulingRequest, Reservation, Room: what a region holds
- `repair`      Repair: something that waits to be ended or put right
- `decided`     decisions as they are kept
- `evidence`    Decision, AuditEvent, Denial: what is kept beside the log, or in it, and never folded
"""
