"""Documents leave out what is as it is by default, whoever wrote it and however (ADR 0019)."""

from typing import Any

import msgspec
import pytest

from holdfast.core.ledger.codec import encode, template_digest
from holdfast.core.model.objects.policies import Override, PolicyDocument, SchedulerPolicy
from holdfast.core.model.objects.tenants import RecoveryBudget, Tenant, TenantSpec
from holdfast.core.model.objects.workloads import Template
from holdfast.core.model.values.metadata import Meta
from holdfast.core.model.values.resources import ZERO, Resources
from holdfast.core.model.values.settings import Settings
from holdfast.core.model.values.structs import Document
from tests.support.generated.golden_defaults import defaults_kept, defaults_now, documents


def another(value: Any) -> Any:
    """An object that equals this one and is, where that can be, not the same."""
    if isinstance(value, msgspec.Struct):
        return type(value)(*(another(part) for part in msgspec.structs.astuple(value)))
    return msgspec.msgpack.decode(msgspec.msgpack.encode(value), type=type(value))


@pytest.mark.parametrize("document", documents(), ids=lambda one: one.__name__)
def test_a_default_that_was_written_out_is_left_out(document: type[Document]) -> None:
    fields = msgspec.structs.fields(document)
    needed = {field.name: None for field in fields if field.required}
    defaults = {field.name: another(field.default) for field in fields if not field.required}
    assert encode(document(**needed, **defaults)) == encode(document(**needed))


def test_a_default_that_was_ever_written_by_does_not_change() -> None:
    """What is left out in old logs would mean something else: give the field another name instead (ADR 0019)."""
    assert defaults_now() == defaults_kept(), (
        "a changed default changes old logs; `make golden` adds those of new fields"
    )


def test_there_are_documents_to_look_at() -> None:
    assert {Tenant, Settings, Override, SchedulerPolicy, PolicyDocument, RecoveryBudget} <= set(documents())


def test_a_new_field_with_a_default_is_no_new_format() -> None:
    tenant = Tenant(meta=Meta(name="acme"), spec=TenantSpec(priority_classes=("normal",)))
    assert msgspec.msgpack.decode(encode(tenant)) == {
        "type": "Tenant",
        "meta": {"name": "acme"},
        "spec": {"priorityClasses": ["normal"]},
    }


def test_equal_templates_have_one_digest_whoever_wrote_their_defaults() -> None:
    plain = Template(command=("serve",))
    written = b'{"command":["serve"],"gpuMilli":1000,"need":[0,0,0,0,[]],"restartsMax":3,"restarted":0}'
    assert template_digest(msgspec.json.decode(written, type=Template)) == template_digest(plain)
    assert template_digest(msgspec.structs.replace(plain, need=Resources())) == template_digest(plain)
    assert msgspec.structs.replace(plain, need=Resources(1)).need != ZERO


def test_who_asks_for_a_restart_asks_for_another_template() -> None:
    assert template_digest(Template(restarted=1_700_000_000_000)) != template_digest(Template())
