"""
Sections and options of files of the C{.ini} kind (virtual module C{ini}).
"""

from __future__ import annotations

from typing import Any

__salt__: Any
__opts__: Any

__virtualname__ = "ini"

_ABSENT = "#-#-"
"""A value that no option is taken to have; stock shows it for one that it does not know."""


def __virtual__() -> Any:
    return __virtualname__ if "ini.set_option" in __salt__ else False


def _new(name: str) -> dict[str, Any]:
    return {"name": name, "changes": {}, "result": True, "comment": "No anomaly detected"}


def _error(ret: dict[str, Any], error: Any) -> dict[str, Any]:
    ret["result"] = False
    ret["comment"] = str(error)
    return ret


def _in(section: Any) -> str:
    return f" in section {section}" if section else ""


class _Present:
    """One run of L{options_present}: what it says, and what it changed."""

    def __init__(self, name: str, common: dict[str, Any], no_spaces: bool) -> None:
        self.name = name
        self.common = common
        self.no_spaces = no_spaces
        self.test = bool(__opts__["test"])
        self.lines: list[str] = []
        self.pending = False
        self.changes: dict[str, Any] = {}

    def call(self, function: str, **words: Any) -> Any:
        return __salt__[f"ini.{function}"](file_name=self.name, **words, **self.common)

    def would(self, text: str, change: bool = True) -> None:
        self.lines.append(f"{text}.\n")
        self.pending = self.pending or change

    def compare(self, have: dict[str, Any], wanted: dict[str, Any], where: str) -> None:
        for key, value in wanted.items():
            same = str(have.get(key, _ABSENT)) == str(value)
            self.would(f"{'Unchanged' if same else 'Changed'} key {key}{where}", not same)

    def put(self, sections: dict[str, Any]) -> dict[str, Any]:
        did: dict[str, Any] = self.call("set_option", sections=sections, no_spaces=self.no_spaces)
        return did

    def run(self, sections: dict[str, Any], strict: bool) -> None:
        tree = self.call("get_ini")
        now_top = {key: val for key, val in tree.items() if not isinstance(val, dict)}
        now = {key: val for key, val in tree.items() if isinstance(val, dict)}
        top = {key: val for key, val in sections.items() if not isinstance(val, dict)}
        bodies = {key: val for key, val in sections.items() if isinstance(val, dict)}
        if self.test:
            self.compare(now_top, top, "")
        else:
            self.changes.update(self.put(top))
        if strict:
            self.drop_others(now_top, now, top, bodies)
        for section, body in bodies.items():
            changed: dict[str, Any] = {}
            have = now.get(section, {})
            for key in [one for one in have if strict and one not in body]:
                if self.test:
                    self.would(f"Deleted key {key}{_in(section)}")
                else:
                    self.call("remove_option", section=section, option=key)
                    changed[key] = {"before": have[key], "after": None}
            if self.test:
                self.compare(have, body, _in(section))
                continue
            did = self.put({section: body})
            if did:
                changed.update(did[section])
            if changed:
                self.changes[section] = changed

    def drop_others(
        self,
        now_top: dict[str, Any],
        now: dict[str, Any],
        top: dict[str, Any],
        bodies: dict[str, Any],
    ) -> None:
        """Remove the options above all sections, and the sections, that are not wanted."""
        for key in [one for one in now_top if one not in top]:
            if self.test:
                self.would(f"Removed key {key}")
            else:
                self.call("remove_option", section=None, option=key)
                self.changes[key] = {"before": now_top[key], "after": None}
        for section in [one for one in now if one not in bodies]:
            if self.test:
                self.would(f"Removed section {section}")
            else:
                self.call("remove_section", section=section)
                self.changes[section] = {"before": dict(now[section]), "after": None}


def options_present(
    name: str,
    sections: Any = None,
    separator: str = "=",
    strict: bool = False,
    encoding: str | None = None,
    no_spaces: bool = False,
) -> dict[str, Any]:
    """
    Options have their values.

    sections
        Section to a map of options; options above all sections stand beside the sections.
    strict
        Other options and sections go.
    no_spaces
        No blanks around the separator.
    """
    ret = _new(name)
    run = _Present(name, {"separator": separator, "encoding": encoding}, no_spaces)
    try:
        if sections:
            run.run(sections, strict)
        elif not run.test:
            run.changes = run.put(sections)
    except (OSError, KeyError) as error:
        return _error(ret, error)
    if run.test:
        ret["comment"] = "".join(run.lines)
        ret["result"] = None if run.pending else True
    elif "error" in run.changes:
        return _error(ret, f"Errors encountered. {run.changes['error']}")
    ret["changes"] = {key: body for key, body in run.changes.items() if body}
    if ret["changes"]:
        ret["comment"] = "Changes take effect"
    return ret


def options_absent(
    name: str, sections: Any = None, separator: str = "=", encoding: str | None = None
) -> dict[str, Any]:
    """
    Options are not there.

    sections
        Section to a list of options.
    """
    ret = _new(name)
    common = {"file_name": name, "separator": separator, "encoding": encoding}
    try:
        if __opts__["test"]:
            lines = []
            for section, keys in (sections or {}).items():
                have = __salt__["ini.get_section"](section=section, **common)
                if not isinstance(keys, list):
                    known = __salt__["ini.get_option"](section=None, option=section, **common)
                    gone, keys, where = not known, [section], ""
                    have = {section: None if gone else known}
                else:
                    where = _in(section)
                for key in keys:
                    if have.get(key):
                        lines.append(f"Deleted key {key}{where}.\n")
                        ret["result"] = None
                    else:
                        lines.append(f"Key {key}{where} does not exist.\n")
            ret["comment"] = "".join(lines) or "No changes detected."
            return ret
        for section, keys in (sections or {}).items():
            for key in keys:
                old = __salt__["ini.remove_option"](section=section, option=key, **common)
                if not old:
                    continue
                if isinstance(keys, list):
                    ret["changes"].setdefault(section, {})[key] = old
                else:
                    ret["changes"][section] = old
                ret["comment"] = "Changes take effect"
    except OSError as error:
        return _error(ret, error)
    return ret


def sections_present(
    name: str, sections: Any = None, separator: str = "=", encoding: str | None = None
) -> dict[str, Any]:
    """
    Sections are there, with whatever options.
    """
    ret = _new(name)
    common = {"file_name": name, "separator": separator, "encoding": encoding}
    try:
        if __opts__["test"]:
            tree = __salt__["ini.get_ini"](**common)
            lines = []
            for section in sections or ():
                if section in tree:
                    lines.append(f"Section unchanged {section}.\n")
                else:
                    lines.append(f"Created new section {section}.\n")
                    ret["result"] = None
            ret["comment"] = "".join(lines) or "No changes detected."
            return ret
        changes = __salt__["ini.set_option"](
            sections={section: {} for section in sections or ()}, **common
        )
    except OSError as error:
        return _error(ret, error)
    if "error" in changes:
        ret["result"] = False
        ret["changes"] = f"Errors encountered {changes['error']}"
        return ret
    ret["changes"] = changes
    ret["comment"] = "Changes take effect"
    return ret


def sections_absent(
    name: str, sections: Any = None, separator: str = "=", encoding: str | None = None
) -> dict[str, Any]:
    """
    Sections are not there.
    """
    ret = _new(name)
    common = {"file_name": name, "separator": separator, "encoding": encoding}
    try:
        if __opts__["test"]:
            tree = __salt__["ini.get_ini"](**common)
            lines = []
            for section in sections or ():
                if section in tree:
                    lines.append(f"Deleted section {section}.\n")
                    ret["result"] = None
                else:
                    lines.append(f"Section {section} does not exist.\n")
            ret["comment"] = "".join(lines) or "No changes detected."
            return ret
        for section in sections or ():
            old = __salt__["ini.remove_section"](section=section, **common)
            if old:
                ret["changes"][section] = old
                ret["comment"] = "Changes take effect"
    except OSError as error:
        return _error(ret, error)
    return ret
