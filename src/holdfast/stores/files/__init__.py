"""What any engine keeps in folders. It must not import an engine.

- `folder`          lock, disk reserve, free space, network file systems
- `snapshot_files`  chunks and manifests as files
"""
