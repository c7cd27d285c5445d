"""Commands on objects of any kind.

- `get`       options of `get`
- `listing`   what `get` does, without typer: the fast path uses it, too
- `describe`  one object in detail, with the next commands
- `schema`    the fields of a kind
- `validate`  check files without a server
- `diff`      what `apply` would change
- `apply`     create or change objects from files
- `delete`    delete objects
- `wait`      wait for a condition or a value
"""
