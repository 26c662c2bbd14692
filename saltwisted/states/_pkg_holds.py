"""
Packages that are kept at their version: what is held, and holding or letting go.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from attrs import define

from saltwisted.states._pkg_targets import Ret, done

NO_LIST = (
    "No any function to get the list of held packages available.\n"
    "Check if the package manager supports package locking."
)

_DNF_LOCK = re.compile(r"^(.+)-(\d+):(.*)\.\*")


@define
class Holds:
    """
    @ivar locks: what is held now, by package; a C{version} where the platform knows one.
    @ivar versioned: whether a hold is for a version.
    """

    salt: Any
    test: bool
    locks: dict[str, dict[str, Any]]
    versioned: bool

    @classmethod
    def read(cls, salt: Any, test: bool) -> Holds | None:
        """What is held; C{None} if the platform cannot tell."""
        if "pkg.list_locks" in salt:
            return cls(salt, test, salt["pkg.list_locks"](), True)
        if "pkg.list_holds" in salt:
            locks: dict[str, dict[str, Any]] = {}
            for lock in salt["pkg.list_holds"](full=True):
                match = _DNF_LOCK.match(lock)
                if match is None:
                    locks[lock] = {}
                    continue
                epoch = "" if match[2] == "0" else f"{match[2]}:"
                locks[match[1]] = {"version": epoch + match[3]}
            return cls(salt, test, locks, False)
        if "pkg.get_selections" in salt:
            held = salt["pkg.get_selections"](state="hold").get("hold", [])
            return cls(salt, test, {name: {} for name in held}, False)
        return None

    def _version(self, package: str) -> str | None:
        version = self.locks.get(package, {}).get("version")
        return None if version is None else str(version).lstrip("= ")

    def _packages(self) -> list[str]:
        return [one for one, lock in self.locks.items() if lock.get("type", "package") == "package"]

    def hold(self, ret: Ret, pkgs: Iterable[Any], replace: bool) -> Ret:
        """C{pkg.held}."""
        comments: list[str] = []
        held = set()
        for item in pkgs:
            package, version = next(iter(item.items())) if isinstance(item, dict) else (item, None)
            held.add(package)
            known = package in self.locks
            if known and not (self.versioned and self._version(package) != version):
                continue
            more = f" (version = {version})" if version else ""
            if self.test:
                what = "package's hold rule would be updated" if known else "package would be held"
                comments.append(f"The following {what}: {package}{more}")
                continue
            let_go = self.salt["pkg.unhold"](name=ret["name"], pkgs=[package]) if known else {}
            took = self.salt["pkg.hold"](name=ret["name"], pkgs=[item])
            fine = took.get(package, {}).get("result", False)
            if not fine:
                ret["result"] = False
                comments.append(f"Package {package} was not held")
            elif let_go.get(package, {}).get("result", False):
                comments.append(f"Package {package} was updated with hold rule")
            else:
                comments.append(f"Package {package} is now being held")
            ret["changes"].update(took)
        for package in self._packages() if replace else ():
            if package not in held:
                self._let_go(ret, package, "", comments)
        return _told(ret, comments)

    def unhold(self, ret: Ret, pkgs: Iterable[Any], everything: bool) -> Ret:
        """C{pkg.unheld}."""
        wanted: dict[str, Any] = {}
        for item in pkgs:
            wanted.update(item if isinstance(item, dict) else {item: None})
        comments: list[str] = []
        for package in self._packages():
            version = self._version(package) if self.versioned else None
            if everything or (
                package in wanted and (not version or version == wanted.get(package))
            ):
                more = f" (version = {version})" if wanted.get(package) else ""
                self._let_go(ret, package, more, comments)
        return _told(ret, comments)

    def _let_go(self, ret: Ret, package: str, more: str, comments: list[str]) -> None:
        if self.test:
            comments.append(f"The following package would be unheld: {package}{more}")
            return
        let_go = self.salt["pkg.unhold"](name=ret["name"], pkgs=[package])
        one = let_go.get(package, {})
        if not one.get("result", False):
            ret["result"] = False
        if one.get("comment"):
            comments.append(one["comment"])
        ret["changes"].update(let_go)


def _told(ret: Ret, comments: list[str]) -> Ret:
    ret["comment"] = "\n".join(comments)
    if not (ret["changes"] or ret["comment"]):
        ret["comment"] = "No changes made"
    return ret


@define
class Held:
    """What C{hold: True} of C{pkg.installed} came to."""

    changed: list[Ret]
    same: list[Ret]
    failed: list[Ret]

    @classmethod
    def of(cls, answer: dict[str, Any]) -> Held:
        """Sort the answer of C{pkg.hold} or C{pkg.unhold}."""
        changed = [one for one in answer.values() if one["changes"]]
        same = [one for one in answer.values() if not one["changes"] and one["result"]]
        return cls(changed, same, [one for one in answer.values() if not one["result"]])

    def add_to(self, ret: Ret) -> None:
        """Tell of it in a return that had nothing else to do."""
        for one in (*self.changed, *self.same, *self.failed):
            ret["comment"] += f".\n{one['comment']}"
            ret["result"] = one["result"]
        for one in self.changed:
            ret["changes"][one["name"]] = one["changes"]

    def add_changes(self, changes: dict[str, Any], comment: list[str]) -> None:
        """Tell of the changed ones among the changes of an installation."""
        for one in self.changed:
            comment.append(one["comment"])
            name, new, old = one["name"], one["changes"]["new"], one["changes"]["old"]
            if name not in changes:
                changes[name] = {"new": f"{new}"}
                continue
            for key, value in (("new", new), ("old", old)):
                before = changes[name][key]
                changes[name][key] = f"{before}\n{value}" if before else f"{value}"


def hold_or_not(salt: Any, hold: Any, *, name: Any, **words: Any) -> tuple[Held | None, Ret | None]:
    """
    Hold or let go of packages with C{pkg.installed}.

    @raises CommandExecutionError, SaltInvocationError: from the functions.
    @return: what came of it, or the return of the state where that failed.
    """
    function: Callable[..., Any] = salt["pkg.hold" if hold else "pkg.unhold"]
    answer = function(name=name, **words)
    if "result" in answer and not answer["result"]:
        text = f"An error was encountered while holding/unholding package(s): {answer['comment']}"
        return None, done(name, False, text)
    return Held.of(answer), None
