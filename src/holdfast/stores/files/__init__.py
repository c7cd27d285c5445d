"""Files that any engine may use in its folder. Nothing here imports an engine.

- `folder`          lock, disk reserve, free space, network file systems
- `snapshot_files`  chunks and manifests as files
"""
