"""The configuration of a process, and its secrets. Pure except for reading and writing files.

- `server_settings`  the table of settings
- `sources`          defaults, file, environment, flags
- `validation`       listen addresses, and sets of settings that are rejected
- `private_files`    files with mode 0600; tokens in them, read again when their file changes
"""
