"""The plugins that come with Holdfast, in the order in which they are asked: what is cheap and keeps most out first."""

from __future__ import annotations

from holdfast.core.scheduling.filters.capacity import Capacity
from holdfast.core.scheduling.filters.condition import Condition
from holdfast.core.scheduling.filters.devices import Devices
from holdfast.core.scheduling.filters.isolation import Isolating
from holdfast.core.scheduling.filters.labels import Labels
from holdfast.core.scheduling.filters.models import Models
from holdfast.core.scheduling.filters.one_tenant import OneTenant
from holdfast.core.scheduling.filters.ports import Ports
from holdfast.core.scheduling.filters.taints import Taints
from holdfast.core.scheduling.filters.tenancy import Tenancy
from holdfast.core.scheduling.filters.zones import Zones
from holdfast.core.scheduling.framework import Plugins
from holdfast.core.scheduling.scores.balance import Balance
from holdfast.core.scheduling.scores.cost import Cost
from holdfast.core.scheduling.scores.emptiness import Emptiness
from holdfast.core.scheduling.scores.evenness import Evenness
from holdfast.core.scheduling.scores.load import Load
from holdfast.core.scheduling.scores.near import Near
from holdfast.core.scheduling.scores.packing import Packing
from holdfast.core.scheduling.scores.warm import Warm

BUILT_IN = Plugins(
    (
        Condition(),
        Zones(),
        Taints(),
        Tenancy(),
        OneTenant(),
        Isolating(),
        Labels(),
        Capacity(),
        Devices(),
        Models(),
        Ports(),
    ),
    (Packing(), Emptiness(), Balance(), Near(), Cost(), Evenness(), Warm(), Load()),
)
