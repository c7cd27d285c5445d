"""Commands and events that every ledger has. Nothing that only one ledger needs.

- `sessions`   open and end a session
- `log`        start log, start term, raise level, record digest, configure
- `overrides`  open and end an override; the overrides in force
- `denials`    record which request was denied to whom
- `servers`    admit, revoke and forget the servers of a ledger
- `audit`      audit entries of a batch: actions of people, and denials
- `registry`   their rules, appliers, watch keys, command and event unions
"""
