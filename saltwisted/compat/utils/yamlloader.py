"""C{salt.utils.yamlloader}: the loader of YAML in SLS files."""

from __future__ import annotations

from saltwisted.utils.yaml import SaltYamlSafeLoader as SaltYamlSafeLoader
from saltwisted.utils.yaml import safe_load as load
from saltwisted.utils.yaml import safe_load as safe_load

__all__ = ["SaltYamlSafeLoader", "load", "safe_load"]
