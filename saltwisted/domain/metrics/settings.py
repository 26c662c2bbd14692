"""
The block C{metrics} of a master's configuration.

Salt 3008 has a block of this name, for OpenTelemetry. Its settings for Prometheus are understood.
We add some words of our own, and a block needs no others: C{metrics: {}} is enough.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import frozen

from saltwisted.domain.takeover import exports_elsewhere
from saltwisted.errors import ConfigError

HOST, PORT = "127.0.0.1", 9464
"""Where Salt's own exporter for Prometheus listens."""
PROMETHEUS = "prometheus"
STOCK = frozenset(
    (
        "enabled", "exporter", "endpoint", "service_name", "resource_attributes", "insecure",
        "headers", "export_interval_seconds", PROMETHEUS, "histogram_boundaries",
    )
)  # fmt: skip
"""Words of Salt's block."""
OURS = frozenset(("host", "port", "minions", "functions", "api"))
MOST_FUNCTIONS = 20


@frozen(kw_only=True)
class MetricsSettings:
    """
    The settings of the block.

    @ivar host: the address to listen on.
    @ivar port: C{None} if the block names none: then L{PORT}.
    @ivar minions: whether there are series for each minion.
    @ivar functions: the functions of which the last result is exported for each minion.
    @ivar api: whether the port of the HTTP API exports them as well.
    """

    host: str = HOST
    port: int | None = None
    minions: bool = False
    functions: tuple[str, ...] = ("state.highstate",)
    api: bool = False


def settings_of(block: Any) -> MetricsSettings | None:
    """
    The settings in the block, or C{None} if nothing is served.

    @raises ConfigError: a value is invalid.
    """
    if block is None:
        return None
    if not isinstance(block, Mapping):
        raise ConfigError("metrics must be a map; 'metrics: {}' is enough")
    unknown = sorted(str(name) for name in block if name not in STOCK | OURS)
    if unknown:
        known = ", ".join(sorted(OURS))
        raise ConfigError(f"metrics: unknown option {unknown[0]}; there are {known}")
    if not block.get("enabled", True) or exports_elsewhere(block):
        return None
    nested = block.get(PROMETHEUS) or {}
    if not isinstance(nested, Mapping):
        raise ConfigError("metrics: prometheus is a map of host and port")
    return MetricsSettings(
        host=_host(block.get("host", nested.get("host", HOST))),
        port=_port(block.get("port", nested.get("port"))),
        minions=_flag("minions", block.get("minions", False)),
        functions=_functions(block.get("functions", MetricsSettings().functions)),
        api=_flag("api", block.get("api", False)),
    )


def _host(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ConfigError("metrics: host is an address to listen on, such as 0.0.0.0")
    return value


def _port(value: Any) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 65536:
        raise ConfigError(f"metrics: port is a number below 65536, not {value!r}")
    return int(value)


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise ConfigError(f"metrics: {name} is true or false, not {value!r}")
    return value


def _functions(value: Any) -> tuple[str, ...]:
    names = [value] if isinstance(value, str) else value
    if (
        not isinstance(names, (list, tuple))
        or not all(isinstance(name, str) and name for name in names)
        or len(names) > MOST_FUNCTIONS
    ):
        raise ConfigError(f"metrics: functions is a list of up to {MOST_FUNCTIONS} names")
    return tuple(dict.fromkeys(names))
