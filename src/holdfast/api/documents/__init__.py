"""What people write and read: `apiVersion`, `kind`, `metadata`, `spec`, `status`.

The one idea: a document's shape is told once, by the structs of the model. Reading, showing, schemas and the API's
description all walk over the same forms, so none of them can know a field that the others do not. Everything here is
pure: text and trees in, values and trees out.

- `kinds`        the table of kinds: names, paths, columns; light enough for the first line of a command
- `faults`       what is wrong with a document and where, all of it at once
- `scalars`      text, numbers, times, revisions, choices
- `amounts`      resources as people write them
- `compounds`    lists, maps and structs
- `wholes`       whole documents
- `forms`        from a type to its form; `read` and `show`
- `objects`      whole documents of the kinds that people write
- `shown`        the kinds that nobody writes, as structs
- `told`         what regions have told, as it is shown with workloads and regions
- `rows`         which rows of a ledger's state are objects of a kind, and their names
- `finding`      one row by its name
- `views`        a row as a document
- `owners`       whose an object is
- `offline`      what can be said against an object without a server
- `commands`     what people may ask of each ledger
- `schema`       JSON Schema of every kind and command
- `openapi`      the OpenAPI description of each ledger's server, from `openapi_parts` and
                 `openapi_schemas`
- `json_bodies`  JSON with a fault for a key that comes twice
- `yaml_trees`   plain values from YAML, with the line of each, within bounds
- `yaml_files`   many documents in one text, with the lines they came from
"""
