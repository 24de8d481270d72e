"""All policies by name, for the command line and for settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from foretide.control.policies.admission import Admission
from foretide.control.policies.bypass import Bypass
from foretide.control.policies.hot_keys import HotKeys
from foretide.control.policies.paper_rule import PaperRule
from foretide.control.policies.processors import Processors
from foretide.control.policies.reactive import Reactive
from foretide.control.policies.replicas import Replicas
from foretide.control.policies.static import Static
from foretide.control.policy import Policy
from foretide.errors import ControlSettingError

POLICIES: Mapping[str, type[Policy[Any]]] = MappingProxyType(
    {
        "bypass": Bypass,
        "paper-rule": PaperRule,
        "replicas": Replicas,
        "processors": Processors,
        "admission": Admission,
        "hot-keys": HotKeys,
        "reactive": Reactive,
        "static": Static,
    }
)
"""Every policy by the name that decisions call it."""


def make_policies(names: Iterable[str]) -> tuple[Policy[Any], ...]:
    """The policies of these names with their default settings, in order of rank.

    >>> [policy.name for policy in make_policies(["bypass", "replicas"])]
    ['bypass', 'replicas']
    """
    wanted = tuple(dict.fromkeys(names))
    unknown = [name for name in wanted if name not in POLICIES]
    if unknown:
        raise ControlSettingError(f"there is no policy '{unknown[0]}'; choose of {', '.join(POLICIES)}")
    return tuple(POLICIES[name]() for name in wanted)
