"""Values of every type that has a form, drawn from the form itself; and JSON trees of any shape."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from holdfast.api.serialization import quantities, scalars
from holdfast.api.serialization.composites import (
    ListSerializer,
    MapSerializer,
    OptionalSerializer,
    StructSerializer,
    TupleSerializer,
)
from holdfast.api.serialization.objects import (
    SENDER_FIELDS,
    AnyObjectSerializer,
    ObjectSerializer,
    WritableObjectSerializer,
)
from holdfast.api.serialization.scalars import INT_MAX, Serializer
from holdfast.core.model.values.resources import Resources

WHOLE = st.integers(-INT_MAX - 1, INT_MAX)
TEXT = st.text(max_size=12)
#: The names of resources that nobody takes for a built-in one.
_EXTENDED = TEXT.filter(
    lambda name: bool(name) and name not in quantities.BUILT_IN and not quantities.mistaken_for(name)
)
_AMOUNT = st.one_of(st.integers(0, 2**40), WHOLE)
RESOURCES = st.builds(
    Resources,
    cpu=_AMOUNT,
    memory=_AMOUNT,
    disk=_AMOUNT,
    gpu=_AMOUNT,
    extended=st.dictionaries(_EXTENDED, _AMOUNT.filter(bool), max_size=2).map(
        lambda found: tuple(sorted(found.items()))
    ),
)
#: From the year 1 to the year 9999.
INSTANTS = st.one_of(st.integers(0, 2_000_000_000_000), st.integers(-62_135_596_800_000, 253_402_300_799_999))

_SCALARS: dict[type, st.SearchStrategy[Any]] = {
    scalars.TextSerializer: TEXT,
    scalars.SecretSerializer: TEXT,
    scalars.BoolSerializer: st.booleans(),
    scalars.IntSerializer: WHOLE,
    scalars.DurationSerializer: WHOLE,
    scalars.PercentSerializer: WHOLE,
    scalars.InstantSerializer: INSTANTS,
    scalars.RevisionSerializer: st.integers(0, INT_MAX),
    quantities.ResourcesSerializer: RESOURCES,
}

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


def values_of(form: Serializer, depth: int = 0) -> st.SearchStrategy[Any]:
    """Values that the form shows and reads back."""
    simple = _SCALARS.get(type(form))
    if simple is not None:
        return simple
    match form:
        case scalars.EnumSerializer():
            return st.sampled_from(list(form.names))
        case ListSerializer():
            # A struct that holds itself ends here.
            return st.lists(values_of(form.item, depth + 1), max_size=2).map(tuple) if depth < 7 else st.just(())
        case MapSerializer():
            pairs = st.dictionaries(TEXT, values_of(form.item, depth + 1), max_size=2)
            return pairs.map(lambda found: tuple(sorted(found.items(), key=lambda pair: pair[0])))
        case TupleSerializer():
            return st.tuples(*(values_of(item, depth + 1) for item in form.items))
        case OptionalSerializer():
            return st.none() | values_of(form.item, depth + 1)
        case AnyObjectSerializer():
            return st.one_of([values_of(one, depth) for one in form.forms.values()])
        case WritableObjectSerializer():
            return st.builds(form.struct, meta=_sent(form), spec=values_of(form.spec, depth + 1))
        case ObjectSerializer():
            parts = {"meta": form.meta, "spec": form.spec, "status": form.status}
            return st.builds(form.struct, **{name: values_of(part, depth + 1) for name, part in parts.items()})
        case StructSerializer():
            return st.builds(
                form.struct, **{field.inside: values_of(field.form, depth + 1) for field in form.fields.values()}
            )
    raise AssertionError(form)


def _sent(form: WritableObjectSerializer) -> st.SearchStrategy[Any]:
    """Metadata as a sender may say it."""
    fields = {name: values_of(form.meta.fields[name].form) for name in SENDER_FIELDS}
    fields["tenant"] = TEXT.filter(bool) if form.tenanted else st.just("")
    fields |= {mark: st.just(()) for mark in form.unmarked}
    return st.builds(form.meta.struct, **fields)
