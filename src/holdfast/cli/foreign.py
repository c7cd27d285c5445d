"""Words of other systems: commands and kinds of Kubernetes, Nomad and Slurm, and what has their place here."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

_LOGS = "the files are in the data folder of the node's agent: slots/*/logs, and logs/* after the end of a run"
_ROLLOUT = "`holdfast restart workload NAME`, and `holdfast wait workload NAME --for=condition=Updated`"

#: Commands that Holdfast does not have, and what to use instead.
FOREIGN_COMMANDS: Mapping[str, str] = MappingProxyType(
    {
        "cordon": "apply its Node with `cordoned: true` and --region NAME",
        "uncordon": "apply its Node with `cordoned: false` and --region NAME",
        "drain": "not there yet; a Node with `draining: true` receives no new replicas",
        "logs": _LOGS,
        "rollout": _ROLLOUT,
        "top": "`holdfast get nodes --region NAME` shows capacity and free capacity",
        "exec": "not there: log in to the node",
        "create": "`holdfast apply -f FILE`",
        "run": "`holdfast apply -f FILE`",
        "plan": "`holdfast diff -f FILE`",
        "edit": "`holdfast get KIND NAME -o yaml`, then `holdfast apply -f FILE`",
        "events": "`holdfast decisions`, `holdfast audit`",
        "api-resources": "`holdfast schema`",
        "auth": "`holdfast can-i`, `holdfast whoami`",
    }
)

_REPLICAS = "replicas: `holdfast get replicas -A --region NAME`"
_WORKLOADS = "workloads"
_TENANTS = "tenants"

#: Kinds that Holdfast does not have, and the kind or command that has their place.
_FOREIGN_KINDS: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(("pod", "po", "alloc", "allocation"), _REPLICAS),
        **dict.fromkeys(("deployment", "deploy", "statefulset", "sts", "job"), _WORKLOADS),
        **dict.fromkeys(("namespace", "ns"), _TENANTS),
        **dict.fromkeys(("event", "ev"), "`holdfast decisions` and `holdfast audit`"),
        **dict.fromkeys(("service", "svc", "endpointslice"), "endpoints: `holdfast endpoints WORKLOAD`"),
        **dict.fromkeys(("replicaset", "rs"), "the template of a workload: `holdfast describe workload NAME`"),
        **dict.fromkeys(("resourcequota", "account"), "quotas"),
        **dict.fromkeys(("partition", "nodegroup"), "nodepools"),
    }
)


def foreign_kind(word: str) -> str:
    """Return what has the place of a kind of another system; empty for an unknown word."""
    word = word.lower()
    return _FOREIGN_KINDS.get(word) or _FOREIGN_KINDS.get(word.removesuffix("s"), "")
