"""The configuration of a process, and its secrets. Pure except for reading and writing files.

- `server_settings`  the settings of one process; leases, fence and other numbers of a ledger are in
                     `core.model.values.settings`
- `sources`          defaults, file, environment, flags
- `validation`       sets of settings that are rejected; `settings_problems` in that module rejects unsafe times
- `addresses`        listen addresses
- `private_files`    files with mode 0600
- `token_files`      tokens in such files
- `credentials`      a token that is read again when its file changes
"""
