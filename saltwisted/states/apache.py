"""
Files of configuration of the web server Apache.
"""

from __future__ import annotations

import os
from typing import Any

__salt__: Any
__opts__: Any


def __virtual__() -> Any:
    if "apache.config" in __salt__:
        return True
    return False, "apache module could not be loaded"


def configfile(name: str, config: Any) -> dict[str, Any]:
    """
    A file of configuration says this.

    name
        The file.
    config
        A list of directives and sections; a section's attribute is its key C{this}.
    """
    ret: dict[str, Any] = {"name": name, "changes": {}, "result": None, "comment": ""}
    new = __salt__["apache.config"](name, config, edit=False)
    old = ""
    if os.path.exists(name):
        with open(name, encoding="utf-8", errors="surrogateescape") as file:
            old = file.read()
    if new.strip() == old.strip():
        return {**ret, "result": True, "comment": "Configuration is up to date."}
    changes = {"old": old, "new": new}
    if __opts__["test"]:
        return {**ret, "changes": changes, "comment": "Configuration will update."}
    try:
        with open(name, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(f"{new}\n")
    except OSError:
        return {**ret, "result": False, "comment": "Failed to create apache configuration."}
    comment = "Successfully created configuration."
    return {**ret, "changes": changes, "result": True, "comment": comment}
