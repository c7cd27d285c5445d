"""The configuration of a process, and its secrets. Pure except for reading and writing files.

- `server_settings`  the table of settings
- `sources`          defaults, file, environment, flags
- `validation`       sets of settings that are rejected
- `addresses`        listen addresses
- `private_files`    files with mode 0600
- `token_files`      tokens in such files
- `credentials`      a token that is read again when its file changes
"""
