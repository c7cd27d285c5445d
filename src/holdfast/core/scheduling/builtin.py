"""The plugins that ship with Holdfast. Filters are in order of use: cheap and selective ones first."""

from __future__ import annotations

from holdfast.core.scheduling.filters.capacity import CapacityFilter
from holdfast.core.scheduling.filters.condition import ConditionFilter
from holdfast.core.scheduling.filters.devices import DevicesFilter
from holdfast.core.scheduling.filters.isolation import IsolationFilter
from holdfast.core.scheduling.filters.labels import LabelsFilter
from holdfast.core.scheduling.filters.models import ModelsFilter
from holdfast.core.scheduling.filters.one_tenant import OneTenantFilter
from holdfast.core.scheduling.filters.ports import PortsFilter
from holdfast.core.scheduling.filters.taints import TaintsFilter
from holdfast.core.scheduling.filters.tenancy import TenancyFilter
from holdfast.core.scheduling.filters.zones import ZonesFilter
from holdfast.core.scheduling.framework import Plugins
from holdfast.core.scheduling.scores.balance import BalanceScore
from holdfast.core.scheduling.scores.cost import CostScore
from holdfast.core.scheduling.scores.emptiness import EmptinessScore
from holdfast.core.scheduling.scores.evenness import EvennessScore
from holdfast.core.scheduling.scores.fragmentation import FragmentationScore
from holdfast.core.scheduling.scores.load import LoadScore
from holdfast.core.scheduling.scores.near import NearScore
from holdfast.core.scheduling.scores.packing import PackingScore
from holdfast.core.scheduling.scores.warm import WarmScore

BUILT_IN = Plugins(
    (
        ConditionFilter(),
        ZonesFilter(),
        TaintsFilter(),
        TenancyFilter(),
        OneTenantFilter(),
        IsolationFilter(),
        LabelsFilter(),
        CapacityFilter(),
        DevicesFilter(),
        ModelsFilter(),
        PortsFilter(),
    ),
    (
        FragmentationScore(),
        PackingScore(),
        EmptinessScore(),
        BalanceScore(),
        NearScore(),
        CostScore(),
        EvennessScore(),
        WarmScore(),
        LoadScore(),
    ),
)
