"""
C{sdb://profile/a:b}: values from YAML files, merged in the order in which C{files} lists them.

C{merge} of the profile has the words of C{dictupdate.merge}; with C{gpg: True} the values are
decrypted by the renderer C{gpg}.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from saltwisted.domain.yamltext import load_yaml
from saltwisted.worker.exceptions import CommandExecutionError

log = logging.getLogger(__name__)

__func_alias__ = {"set_": "set"}
__renderers__: Any
__utils__: Any


def set_(*args: Any, **kwargs: Any) -> None:
    """
    Files are edited by people.

    @raises CommandExecutionError: always.
    """
    raise CommandExecutionError("The sdb driver yaml cannot set values: edit its files")


def get(key: str, profile: Mapping[str, Any] | None = None) -> Any:
    """The value of a key, or of several with colons between them."""
    profile = profile or {}
    found: Any = {}
    for path in profile.get("files", ()):
        try:
            with open(path, encoding="utf-8") as file:
                content = load_yaml(file)
        except OSError:
            log.error("File '%s' not found ", path)
            continue
        if not isinstance(content, dict):
            log.error("Error deserializing sdb file '%s': it is no map", path)
            continue
        found = __utils__["dictupdate.merge"](found, content, **profile.get("merge", {}))
    if profile.get("gpg"):
        found = _decrypted(found)
    return __utils__["data.traverse_dict_and_list"](found, key, None)


def _decrypted(data: Any) -> Any:
    render = __renderers__.get("gpg.render")
    if render is None:
        raise CommandExecutionError(
            "There is no renderer gpg here, which this sdb profile asks for"
        )
    return render(data)
