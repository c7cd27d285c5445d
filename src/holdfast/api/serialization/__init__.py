"""Types of the model as JSON or YAML, and back.

The structs of the model define the shape of a document once. Parsing, rendering and JSON Schema use the same
serializers, so none of them can miss a field. Everything here is pure: text and plain values in, values out. No module
depends on a table or a ledger; `api.kinds` states which kinds have a tenant and labels.

- `field_errors`    what is wrong with a document, with a pointer to each field; JSON without duplicate keys
- `scalars`         text, numbers, times, revisions, enums
- `quantities`      amounts of resources: `500m`, `4Gi`
- `composites`      lists, maps, tuples and structs
- `objects`         complete documents: apiVersion, kind, metadata, spec, status
- `registry`        from a type to its serializer; `parse` and `render`
- `json_schema`     JSON Schema 2020-12 from the serializers
- `yaml_parser`     plain values from YAML with the line of each, within limits
- `yaml_documents`  many documents in one text, with their lines; documents as YAML text
"""
