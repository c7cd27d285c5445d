"""Commands for configuration, credentials and this program.

- `config`       contexts: servers, tokens, defaults
- `token`        create, list and revoke tokens
- `certificate`  an authority of the operator's own, and certificates that it signs
- `whoami`       the authenticated principal and its permissions
- `can_i`        whether a command or a permission is granted
- `version`      versions of this program and of the server
- `completion`   completion script of a shell
"""
