"""
Answers to the questions of packages (virtual module C{debconf}).
"""

from __future__ import annotations

from typing import Any

__salt__: Any
__opts__: Any
__grains__: Any

__virtualname__ = "debconf"
__func_alias__ = {"set_": "set"}


def __virtual__() -> Any:
    if __grains__["os_family"] != "Debian":
        return False, "debconf state only runs on Debian systems"
    if "debconf.show" not in __salt__:
        return False, "debconf module could not be loaded"
    return __virtualname__


def set_file(
    name: str,
    source: str,
    template: str | None = None,
    context: Any = None,
    defaults: Any = None,
    **kwargs: Any,
) -> dict[str, Any]:
    """
    Answers from a file on the master, each time that the state runs.

    source
        The file: lines for C{debconf-set-selections}.
    template
        The engine that renders it first.
    context
        Variables of the template.
    defaults
        Variables that C{context} may replace.
    """
    ret: dict[str, Any] = {"name": name, "changes": {}, "result": False, "comment": ""}
    for word, given in (("Context", context), ("Defaults", defaults)):
        if given is not None and not isinstance(given, dict):
            return {**ret, "comment": f"{word} must be formed as a dict"}
    if __opts__["test"]:
        return {**ret, "result": None, "comment": "Debconf selections would have been set."}
    if template:
        done = __salt__["debconf.set_template"](
            source, template, context or {}, defaults or {}, **kwargs
        )
    else:
        done = __salt__["debconf.set_file"](source, **kwargs)
    if done:
        return {**ret, "result": True, "comment": "Debconf selections were set."}
    return {**ret, "comment": "Unable to set debconf selections from file."}


def set_(name: str, data: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
    """
    The questions of a package have these answers.

    name
        The package.
    data
        Question to C{type} and C{value}; a boolean is C{true} or C{false}.
    """
    ret: dict[str, Any] = {"name": name, "changes": {}, "result": True, "comment": ""}
    have = __salt__["debconf.show"](name) or []
    for question, wanted in data.items():
        kind, value = wanted["type"], wanted["value"]
        if kind == "boolean":
            value = "true" if value else "false"
        if [question, kind, str(value)] in have:
            ret["comment"] = f"{ret['comment'] or 'Unchanged answers: '}{question} "
        elif __opts__["test"]:
            ret["result"] = None
            ret["changes"][question] = f"New value: {value}"
        elif __salt__["debconf.set"](name, question, kind, value):
            ret["changes"][question] = "(password hidden)" if kind == "password" else f"{value}"
        else:
            ret["result"] = False
            ret["comment"] = "Some settings failed to be applied."
            ret["changes"][question] = "Failed to set!"
    if not ret["changes"]:
        ret["comment"] = "All specified answers are already set"
    return ret
