"""The configuration of a process, and its secrets. Pure except for reading and writing files.

- `server_settings`  the settings of one process; leases, fence and other numbers of a ledger are in
                     `core.model.values.settings`
- `sources`          defaults, file, environment, flags
- `validation`       listen addresses, and sets of settings that are rejected; unsafe times of a ledger are rejected by
                     `core.model.values.settings`
- `private_files`    files with mode 0600; tokens in them, read again when their file changes
"""
