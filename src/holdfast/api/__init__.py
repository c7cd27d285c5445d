"""The way in for everybody outside: documents, a server's API, its clients, and what carries requests over sockets.

- `documents`   objects and commands as people write and read them; schemas, the OpenAPI document, files
- `problems`    what is said instead of an answer
- `server`      every endpoint, as one function from a request to an answer or a stream
- `client`      the typed client: one core without I/O, an async and a blocking face
- `carriers`    the transport port over HTTP
"""
