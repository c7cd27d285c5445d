"""Ordered streams that a leader serves to machines, and a reader of one. The link's own are in `host.link`.

- `resume`           which server may serve a stream, from which position it resumes, its frames and its end; watches
                     are resumed in `host.watch`
- `bindings_server`  all bindings of a node, whenever they change, to its agent
- `log_server`       a snapshot, then every durable batch, to a mirror
- `mirror_state`     the state that a mirror loads, and the state that it shows
- `mirror`           a region's state in another process, folded there by the same `evolve`
"""
