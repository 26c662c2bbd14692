"""
Users of RabbitMQ.
"""

from __future__ import annotations

from typing import Any

from saltwisted.states import _rabbitmq

__salt__: Any
__opts__: Any


def __virtual__() -> Any:
    return _rabbitmq.loadable()


def present(
    name: str,
    password: Any = None,
    force: bool = False,
    tags: Any = None,
    perms: Any = (),
    runas: str | None = None,
) -> dict[str, Any]:
    """
    There is a user, with this password, these tags and these permissions.

    name
        The user.
    password
        Its password. A new user without one cannot log in by one.
    force
        Set the password in any case; without one, take it away.
    tags
        Its tags, and no others; a list, or words.
    perms
        A list of maps: virtual host, and patterns for configure, write and read.
    runas
        The system user who runs C{rabbitmqctl}.
    """
    work = _User(name, password, runas)
    ret = _rabbitmq.tried(name, lambda: work.present(force, tags, perms or ()))
    return {**ret, "changes": work.changes}


class _User:
    """
    One user.

    @ivar changes: what was done, also when the server refuses what is next.
    """

    def __init__(self, name: str, password: Any, runas: str | None) -> None:
        self._name, self._password, self._runas = name, password, runas
        self.changes: dict[str, Any] = {}

    def _call(self, *args: Any) -> Any:
        """A function of the module, which changes something."""
        return None if __opts__["test"] else args[0](*args[1:], runas=self._runas)

    def present(self, force: bool, tags: Any, perms: Any) -> _rabbitmq.Ret:
        ret = _rabbitmq.new(self._name)
        is_there = __salt__["rabbitmq.user_exists"](self._name, runas=self._runas)
        is_other = is_there and self._password is not None and not self._is_so()
        if is_there and not any((force, perms, tags, is_other)):
            return {**ret, "comment": f"User '{self._name}' is already present."}
        if not is_there:
            self._call(__salt__["rabbitmq.add_user"], self._name, self._password)
            self.changes["user"] = {"old": "", "new": self._name}
            if __opts__["test"]:
                comment = f"User '{self._name}' is set to be created."
                return {**ret, "result": None, "comment": comment}
        elif force or is_other:
            self._set_password()
        if tags is not None:
            self._set_tags(tags.split() if isinstance(tags, str) else tags)
        if perms:
            self._set_permissions(perms)
        if not self.changes:
            return {**ret, "comment": f"'{self._name}' is already in the desired state."}
        if __opts__["test"]:
            comment = f"Configuration for '{self._name}' will change."
            return {**ret, "result": None, "comment": comment}
        return {**ret, "comment": f"'{self._name}' was configured."}

    def _is_so(self) -> bool:
        check = __salt__["rabbitmq.check_password"]
        return bool(check(self._name, self._password, runas=self._runas))

    def _set_password(self) -> None:
        if self._password is not None:
            self._call(__salt__["rabbitmq.change_password"], self._name, self._password)
            self.changes["password"] = {"old": "", "new": "Set password."}
        else:
            self._call(__salt__["rabbitmq.clear_password"], self._name)
            self.changes["password"] = {"old": "Removed password.", "new": ""}

    def _set_tags(self, tags: Any) -> None:
        users = __salt__["rabbitmq.list_users"](runas=self._runas)
        now = users.get(self._name, [])
        if {*tags} - {""} != {*now} - {""}:
            self._call(__salt__["rabbitmq.set_user_tags"], self._name, tags)
            self.changes["tags"] = {"old": now, "new": tags}

    def _set_permissions(self, perms: Any) -> None:
        now = __salt__["rabbitmq.list_user_permissions"](self._name, runas=self._runas)
        for vhost, given in (item for each in perms for item in each.items()):
            wanted = dict(zip(("configure", "write", "read"), given, strict=True))
            if now.get(vhost) == wanted:
                continue
            self._call(__salt__["rabbitmq.set_permissions"], vhost, self._name, *given)
            told = self.changes.setdefault("perms", {"new": {}})
            told["new"][vhost] = wanted
            if vhost in now:
                told.setdefault("old", {}).update(now[vhost])


def absent(name: str, runas: str | None = None) -> dict[str, Any]:
    """
    There is no such user.

    name
        The user.
    runas
        The system user who runs C{rabbitmqctl}.
    """

    def work() -> _rabbitmq.Ret:
        ret = _rabbitmq.new(name, f"The user '{name}' is not present.")
        if not __salt__["rabbitmq.user_exists"](name, runas=runas):
            return ret
        ret["changes"] = {"name": {"old": name, "new": ""}}
        if __opts__["test"]:
            return {**ret, "result": None, "comment": f"The user '{name}' will be removed."}
        __salt__["rabbitmq.delete_user"](name, runas=runas)
        return {**ret, "comment": f"The user '{name}' was removed."}

    return _rabbitmq.tried(name, work)
