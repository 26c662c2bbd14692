"""
Execution functions of a machine that exists in memory, and states to apply to it.

What would need accounts, crontabs and services is asked of stock's state modules and of ours
with these functions around them; the calls that change something are compared too.
"""

from __future__ import annotations

import copy
import importlib
from collections.abc import Callable
from typing import Any

Call = tuple[str, dict[str, Any], bool]


# Stock's C{group} looks for this beside C{test.ping}.
__context__: dict[str, Any] = {}


def _ping() -> bool:
    return True


class Machine:
    """
    @ivar did: changes that were asked for, in order.
    """

    def __init__(self) -> None:
        self.did: list[list[Any]] = []
        self.groups = {
            "root": {"name": "root", "gid": 0, "members": [], "passwd": "x"},
            "web": {"name": "web", "gid": 50, "members": ["kim"], "passwd": "x"},
            "kim": {"name": "kim", "gid": 1000, "members": [], "passwd": "x"},
            "twin": {"name": "twin", "gid": 50, "members": [], "passwd": "x"},
        }
        self.users: dict[str, dict[str, Any]] = {
            "kim": {
                "name": "kim",
                "uid": 1000,
                "gid": 1000,
                "groups": ["kim", "web"],
                "home": "/",
                "shell": "/bin/sh",
                "fullname": "Kim",
                "roomnumber": "",
                "workphone": "",
                "homephone": "",
                "other": "",
                "passwd": "x",
            }
        }
        self.shadow = {"kim": self._shadow()}
        self.services = {"up": [True, True], "down": [False, False], "broken": [False, False]}
        self.masked: set[str] = set()
        self.tab: dict[str, list[Any]] = {
            "crons": [
                {
                    "minute": "5",
                    "hour": "*",
                    "daymonth": "*",
                    "month": "*",
                    "dayweek": "*",
                    "identifier": "job",
                    "cmd": "run it",
                    "comment": None,
                    "commented": False,
                }
            ],
            "special": [],
            "env": [{"name": "A", "value": "1"}],
            "pre": [],
        }
        self.grains: dict[str, Any] = {"text": "x", "list": ["a", "b"], "none": None}

    @staticmethod
    def _shadow() -> dict[str, Any]:
        return {
            "passwd": "$6$salt$hash",
            "lstchg": 1,
            "min": 0,
            "max": 99999,
            "inact": -1,
            "warn": 7,
            "expire": -1,
        }

    def functions(self) -> dict[str, Callable[..., Any]]:
        """C{__salt__}."""
        found: dict[str, Callable[..., Any]] = {}
        for key in dir(self):
            module, _, name = key.partition("__")
            if name and module in ("user", "group", "shadow", "file", "service", "cron", "grains"):
                found[f"{module}.{name}"] = getattr(self, key)
        for field in ("uid", "gid", "shell", "fullname", "roomnumber", "workphone", "homephone"):
            found[f"user.ch{field}"] = self._setter("user", f"ch{field}", self.users, field)
        for word, field in (
            ("date", "lstchg"),
            ("mindays", "min"),
            ("maxdays", "max"),
            ("inactdays", "inact"),
            ("warndays", "warn"),
            ("expire", "expire"),
            ("password", "passwd"),
        ):
            found[f"shadow.set_{word}"] = self._setter("shadow", f"set_{word}", self.shadow, field)
        found["test.ping"] = _ping
        return found

    def _setter(
        self, module: str, function: str, table: dict[str, dict[str, Any]], field: str
    ) -> Callable[[str, Any], bool]:
        def change(name: str, value: Any) -> bool:
            self.did.append([f"{module}.{function}", name, value])
            # One value is refused, to see what a state makes of that.
            if value != "refused":
                table[name][field] = value
            return True

        return change

    # -- accounts

    def file__group_to_gid(self, group: Any) -> Any:
        if isinstance(group, int):
            return group
        return self.groups[group]["gid"] if group in self.groups else ""

    def file__gid_to_group(self, gid: Any) -> Any:
        return next((one["name"] for one in self.groups.values() if one["gid"] == gid), "")

    def file__mkdir(self, *args: Any) -> None:
        self.did.append(["file.mkdir", *args])

    def group__info(self, name: str, root: Any = None) -> Any:
        return copy.deepcopy(self.groups.get(name, {}))

    def group__getent(self) -> Any:
        return list(self.groups.values())

    def group__add(self, name: str, **words: Any) -> bool:
        self.did.append(["group.add", name, words])
        if name == "refused":
            return False
        gid = words["gid"] or 77
        self.groups[name] = {"name": name, "gid": gid, "members": [], "passwd": "x"}
        return True

    def group__chgid(self, name: str, gid: Any, non_unique: bool = False) -> bool:
        self.did.append(["group.chgid", name, gid, non_unique])
        self.groups[name]["gid"] = gid
        return True

    def group__adduser(self, name: str, user: str) -> bool:
        self.did.append(["group.adduser", name, user])
        if user != "refused":
            self.groups[name]["members"].append(user)  # type: ignore[attr-defined]
        return True

    def group__deluser(self, name: str, user: str) -> bool:
        self.did.append(["group.deluser", name, user])
        self.groups[name]["members"].remove(user)  # type: ignore[attr-defined]
        return True

    def group__members(self, name: str, users: str) -> bool:
        self.did.append(["group.members", name, users])
        self.groups[name]["members"] = users.split(",")
        return True

    def group__delete(self, name: str, local: bool = False) -> bool:
        self.did.append(["group.delete", name, local])
        return bool(self.groups.pop(name, None)) and name != "web"

    def user__info(self, name: str, root: Any = None) -> Any:
        return copy.deepcopy(self.users.get(name, {}))

    def user__add(self, **words: Any) -> Any:
        self.did.append(["user.add", words])
        name = words["name"]
        if name.startswith("refused"):
            return False
        self.users[name] = {
            **self.users["kim"],
            "name": name,
            "uid": words["uid"] or 2000,
            "home": words["home"] or "/",
            "groups": sorted(words["groups"] or []),
            "fullname": words["fullname"] or "",
        }
        self.shadow[name] = {**self._shadow(), "passwd": "!"}
        return True

    def user__chhome(self, name: str, home: str, persist: bool = False) -> bool:
        self.did.append(["user.chhome", name, home, persist])
        self.users[name]["home"] = home
        return True

    def user__chgroups(self, name: str, groups: Any, append: bool) -> bool:
        self.did.append(["user.chgroups", name, list(groups), append])
        old = self.users[name]["groups"] if append else ["kim"]
        self.users[name]["groups"] = sorted({*old, *groups})
        return True

    def user__delete(self, *args: Any, **words: Any) -> bool:
        self.did.append(["user.delete", *args, words])
        return True

    def shadow__info(self, name: str) -> Any:
        return dict(self.shadow.get(name) or {**self._shadow(), "passwd": ""})

    def shadow__default_hash(self) -> str:
        return "!"

    def shadow__gen_password(self, text: str, crypt_salt: Any = None, algorithm: Any = None) -> str:
        return f"{algorithm} {crypt_salt} of {text}"

    def shadow__del_password(self, name: str) -> bool:
        self.did.append(["shadow.del_password", name])
        self.shadow[name]["passwd"] = ""
        return True

    def shadow__lock_password(self, name: str) -> bool:
        self.did.append(["shadow.lock_password", name])
        self.shadow[name]["passwd"] = "!" + self.shadow[name]["passwd"]
        return True

    def shadow__unlock_password(self, name: str) -> bool:
        self.did.append(["shadow.unlock_password", name])
        self.shadow[name]["passwd"] = self.shadow[name]["passwd"].lstrip("!")
        return True

    # -- services

    def service__available(self, name: str) -> bool:
        return name in self.services

    def service__status(self, name: str, sig: Any = None) -> bool:
        return self.services[name][0]

    def service__enabled(self, name: str, **words: Any) -> bool:
        return self.services[name][1]

    def service__disabled(self, name: str) -> bool:
        return not self.services[name][1]

    def _switch(self, verb: str, name: str, field: int, value: bool) -> bool:
        self.did.append([f"service.{verb}", name])
        if name == "broken":
            return False
        self.services[name][field] = value
        return True

    def service__start(self, name: str) -> bool:
        return self._switch("start", name, 0, True)

    def service__stop(self, name: str) -> bool:
        return self._switch("stop", name, 0, False)

    def service__restart(self, name: str) -> bool:
        return self._switch("restart", name, 0, True)

    def service__reload(self, name: str) -> bool:
        return self._switch("reload", name, 0, True)

    def service__force_reload(self, name: str) -> bool:
        return self._switch("force_reload", name, 0, True)

    def service__full_restart(self, name: str) -> bool:
        return self._switch("full_restart", name, 0, True)

    def service__enable(self, name: str, **words: Any) -> bool:
        return self._switch("enable", name, 1, True)

    def service__disable(self, name: str, **words: Any) -> bool:
        return self._switch("disable", name, 1, False)

    def service__masked(self, name: str, runtime: bool = False) -> bool:
        return name in self.masked

    def service__mask(self, name: str, runtime: bool = False) -> None:
        self.did.append(["service.mask", name, runtime])
        self.masked.add(name)

    def service__unmask(self, name: str, runtime: bool = False) -> None:
        self.did.append(["service.unmask", name, runtime])
        self.masked.discard(name)

    # -- crontabs: what was asked for is the whole interest

    def cron__list_tab(self, user: str) -> Any:
        return copy.deepcopy(self.tab)

    def _cron(self, function: str, name: str, user: str, words: Any) -> str:
        self.did.append([f"cron.{function}", name, user, words])
        return {"new": "new", "same": "present", "other": "updated", "gone": "absent"}.get(
            name, "removed" if function.startswith("rm") else "some error"
        )

    def cron__set_job(self, user: str, cmd: str, **words: Any) -> str:
        return self._cron("set_job", cmd, user, words)

    def cron__set_special(self, user: str, cmd: str, **words: Any) -> str:
        return self._cron("set_special", cmd, user, words)

    def cron__set_env(self, user: str, name: str, value: Any = None) -> str:
        return self._cron("set_env", name, user, value)

    def cron__rm_job(self, user: str, cmd: str, **words: Any) -> str:
        return self._cron("rm_job", cmd, user, words)

    def cron__rm_special(self, user: str, cmd: str, **words: Any) -> str:
        return self._cron("rm_special", cmd, user, words)

    def cron__rm_env(self, user: str, name: str) -> str:
        return self._cron("rm_env", name, user, None)

    # -- grains

    def grains__get(self, name: str, default: Any = "", **words: Any) -> Any:
        return copy.deepcopy(self.grains.get(name, default))

    def grains__set(self, name: str, value: Any, **words: Any) -> Any:
        self.did.append(["grains.set", name, value, words])
        self.grains[name] = value
        if words.get("destructive"):
            del self.grains[name]
        return {"result": True, "changes": {name: value}, "comment": ""}

    def grains__setval(self, name: str, value: Any) -> Any:
        self.did.append(["grains.setval", name, value])
        self.grains[name] = value
        return {name: value}

    def grains__append(self, name: str, value: Any) -> Any:
        self.did.append(["grains.append", name, value])
        more = value if isinstance(value, list) else [value]
        self.grains[name] = [*(self.grains.get(name) or []), *more]
        return {name: self.grains[name]}

    def grains__remove(self, name: str, value: Any) -> Any:
        self.did.append(["grains.remove", name, value])
        self.grains[name].remove(value)
        return {name: self.grains[name]}


def answers(package: str, module: str) -> list[Any]:
    """
    Apply the states of a module to a fresh machine.

    @param package: C{salt.states} or C{saltwisted.states}.
    """
    machine = Machine()
    opts = {"test": False, "user": "root"}
    code = importlib.import_module(f"{package}.{module}")
    dunders = {
        "__salt__": machine.functions(),
        "__opts__": opts,
        "__grains__": {"kernel": "Linux", "os": "Debian", "os_family": "Debian"},
        "__context__": {},
    }
    missing = object()
    before = {key: getattr(code, key, missing) for key in dunders}
    for key, value in dunders.items():
        setattr(code, key, value)
    found: list[Any] = []
    try:
        for name, words, test in STATES[module]:
            opts["test"] = test
            machine.did = []
            function, _, target = name.partition(" ")
            ret = getattr(code, function)(target, **copy.deepcopy(words))
            if isinstance(ret["changes"], dict):
                for key, value in ret["changes"].items():
                    if isinstance(value, dict) and "delusers" in value:
                        ret["changes"][key] = {**value, "delusers": sorted(value["delusers"])}
            found.append({"ret": ret, "did": machine.did})
    finally:
        for key, value in before.items():
            if value is missing:
                delattr(code, key)
            else:
                setattr(code, key, value)
    return found


def _each(*calls: tuple[str, dict[str, Any]]) -> list[Call]:
    """Each under test, for real, and again."""
    return [(name, words, test) for name, words in calls for test in (True, False, False)]


STATES: dict[str, list[Call]] = {
    "group": _each(
        ("present kim", {}),
        ("present new", {"gid": 60, "members": ["kim"]}),
        ("present new2", {"gid": 60}),
        ("present new2", {"gid": 60, "non_unique": True, "system": True}),
        ("present refused", {}),
        ("present web", {"gid": "x"}),
        ("present web", {"gid": 51, "addusers": ["lee", "kim"]}),
        ("present web", {"delusers": ["lee", "zoe"]}),
        ("present web", {"members": ["a", "b"]}),
        ("present web", {"members": []}),
        ("present web", {"addusers": ["refused"]}),
        ("present web", {"members": [], "addusers": ["x"]}),
        ("present web", {"addusers": ["x"], "delusers": ["x"]}),
        ("absent new", {}),
        ("absent web", {}),
    ),
    "user": [
        ("absent kim", {}, True),
        *_each(
            ("present kim", {}),
            ("present kim", {"fullname": "Kim K.", "shell": "/bin/bash", "roomnumber": 5}),
            ("present kim", {"uid": 1001}),
            ("present kim", {"uid": 1001, "gid": 50, "allow_uid_change": True}),
            ("present kim", {"uid": 1001, "allow_uid_change": True}),
            ("present kim", {"groups": ["root"]}),
            ("present kim", {"groups": ["web"], "remove_groups": False}),
            ("present kim", {"groups": ["twin", "root", "web"]}),
            ("present kim", {"groups": ["nosuch"]}),
            ("present kim", {"groups": ["web"], "optional_groups": ["root", "nosuch"]}),
            ("present kim", {"password": "new hash"}),
            ("present kim", {"password": "other", "enforce_password": False}),
            ("present kim", {"password_lock": True}),
            ("present kim", {"password_lock": False}),
            ("present kim", {"empty_password": True}),
            (
                "present kim",
                {"mindays": 1, "maxdays": 90, "warndays": 3, "inactdays": 5, "expire": 9},
            ),
            ("present kim", {"date": 77}),
            ("present kim", {"home": "/tmp"}),
            ("present kim", {"home": "/nonexistent/home", "persist_home": True}),
            ("present kim", {"home": "/nonexistent/home", "createhome": False}),
            ("present kim", {"fullname": "a,b"}),
            ("present kim", {"shell": "refused"}),
            ("present kim", {"password": "clear", "hash_password": True}),
            ("present new", {"uid": 7, "groups": ["web"], "createhome": False, "password": "hash"}),
            ("present new3", {"groups": ["nosuch"]}),
            ("present new4", {"optional_groups": ["web", "nosuch"], "mindays": 3, "date": 8}),
            ("present new5", {"empty_password": True, "expire": 4, "usergroup": True}),
            ("present refused", {}),
            ("absent nosuch", {}),
        ),
    ],
    "service": _each(
        ("running up", {}),
        ("running up", {"enable": False}),
        ("running up", {"enable": "true"}),
        ("running down", {"enable": True}),
        ("dead down", {"enable": False}),
        ("dead down", {"enable": "on"}),
        ("running broken", {}),
        ("running broken", {"enable": True}),
        ("running nosuch", {}),
        ("dead nosuch", {}),
        ("running up", {"enabled": True}),
        ("enabled nosuch", {}),
        ("disabled nosuch", {}),
        ("enabled down", {}),
        ("disabled down", {}),
        ("enabled broken", {}),
        ("masked up", {}),
        ("unmasked up", {}),
        ("masked up", {"runtime": True}),
        ("unmasked up", {"runtime": True}),
        ("mod_watch up", {"sfun": "running"}),
        ("mod_watch up", {"sfun": "running", "reload": True}),
        ("mod_watch up", {"sfun": "running", "reload": True, "force": True}),
        ("mod_watch up", {"sfun": "running", "full_restart": True}),
        ("mod_watch up", {"sfun": "dead"}),
        ("mod_watch up", {"sfun": "running"}),
        ("mod_watch broken", {"sfun": "running"}),
        ("mod_watch up", {"sfun": "enabled"}),
        ("mod_beacon up", {"sfun": "running"}),
        ("mod_beacon up", {"sfun": "enabled"}),
    ),
    "cron": _each(
        *(
            (f"{function} {name}", words)
            for name in ("new", "same", "other", "gone", "run it", "bad")
            for function, words in (
                ("present", {"minute": 5, "identifier": "job"}),
                ("present", {"special": "@daily", "commented": True}),
                ("present", {"minute": "random", "hour": "3", "comment": "c"}),
                ("absent", {}),
                ("absent", {"identifier": "job", "special": "@daily"}),
            )
        ),
        ("env_present A", {"value": "1"}),
        ("env_present A", {"value": "2"}),
        ("env_present new", {"user": "kim"}),
        ("env_absent A", {}),
        ("env_absent gone", {}),
    ),
    "grains": _each(
        ("present text", {"value": "x"}),
        ("present text", {"value": "y"}),
        ("present deep:er", {"value": 1, "force": True}),
        ("exists text", {}),
        ("exists nosuch", {}),
        ("append list", {"value": "c"}),
        ("append text", {"value": "c"}),
        ("append text", {"value": "c", "convert": True}),
        ("append nosuch", {"value": "c"}),
        ("list_absent list", {"value": ["a", "zz"]}),
        ("list_absent nosuch", {"value": "a"}),
        ("list_absent deep:er", {"value": "a"}),
        ("list_present list", {"value": "d"}),
        ("list_present list", {"value": ["b", "e"]}),
        ("list_present fresh", {"value": ["b", "e"]}),
        ("list_present deep:er", {"value": "x"}),
        ("absent list", {}),
        ("absent none", {}),
        ("absent text", {"destructive": True}),
        ("absent nosuch", {}),
    ),
}
