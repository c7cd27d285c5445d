"""Commands and events that both ledgers have. Nothing that only one ledger needs.

- `sessions`   open and end a session
- `log`        start log, start term, raise level, record digest, configure
- `overrides`  open and end an override; the active overrides
- `servers`    admit, revoke and forget the servers of a ledger
- `audit`      audit entries of a batch: actions of operators and tenants, and denials, which are recorded
- `registry`   their rules, appliers, watch keys, command and event unions
"""
