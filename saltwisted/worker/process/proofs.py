"""
The login backends: anybody, a shared secret, a file, PAM, LDAP, REST, OIDC.

Each is a L{saltwisted.parts.ILoginProof}. They read files, ask PAM and servers, and may block.
"""

from __future__ import annotations

import grp
import hmac
import os
import pwd
from collections.abc import Callable, Mapping
from typing import Any

from saltwisted.domain.eauth import Proof
from saltwisted.domain.passwords import PasswordFileError, has_name, right
from saltwisted.kinds import LOGINS, Parts
from saltwisted.parts import ILoginProof
from saltwisted.worker import libcrypt
from saltwisted.worker.process import pam

LARGEST = 16 * 1024 * 1024


class Anybody:
    """C{auto}: every name is accepted. For a site's tests."""

    def prove(self, settings: Mapping[str, Any], username: str, password: str) -> Proof:
        """Yes."""
        return Proof(ok=True)

    def look(self, settings: Mapping[str, Any], username: str) -> Proof:
        """Yes."""
        return Proof(ok=True)


class SharedSecret:
    """C{sharedsecret}: one password for everybody, an option of the master."""

    def prove(self, settings: Mapping[str, Any], username: str, password: str) -> Proof:
        """Whether the password is the secret."""
        secret = settings.get("sharedsecret")
        if not isinstance(secret, (str, int)) or not str(secret):
            return Proof(problem="external_auth: sharedsecret needs the option 'sharedsecret'")
        return Proof(ok=hmac.compare_digest(str(secret).encode(), password.encode()))

    def look(self, settings: Mapping[str, Any], username: str) -> Proof:
        """Any name is as good as another."""
        return Proof(ok=True)


class PasswordFile:
    """C{file}: a file with names and passwords, read each time."""

    def prove(self, settings: Mapping[str, Any], username: str, password: str) -> Proof:
        """Whether the file has this name with this password."""
        return self._of_file(
            settings, lambda text: right(text, settings, username, password, libcrypt.crypt)
        )

    def look(self, settings: Mapping[str, Any], username: str) -> Proof:
        """Whether the file has this name."""
        return self._of_file(settings, lambda text: has_name(text, settings, username))

    def _of_file(self, settings: Mapping[str, Any], judge: Callable[[str], bool]) -> Proof:
        path = str(settings.get("filename") or "")
        if not path:
            return Proof(problem="external_auth: file needs ^filename")
        try:
            with open(path, encoding="utf-8", errors="surrogateescape") as file:
                text = file.read(LARGEST)
            return Proof(ok=judge(text))
        except (OSError, PasswordFileError, UnicodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            return Proof(problem=f"external_auth: file: {path}: {reason}")


class Pam:
    """C{pam}: the users of this machine, and all others that PAM's modules know."""

    def prove(self, settings: Mapping[str, Any], username: str, password: str) -> Proof:
        """What PAM says, with the groups that the user has on this machine."""
        service = str(settings.get("service") or "login")
        try:
            is_right, is_closed = pam.ask(username, password, service)
        except pam.PamMissing as error:
            return Proof(problem=str(error))
        if is_right:
            return Proof(ok=True, groups=groups_of(username), closed=is_closed)
        return Proof(closed=is_closed, problem="" if is_closed else pam.why_not())

    def look(self, settings: Mapping[str, Any], username: str) -> Proof:
        """Whether this machine has the user, with his groups; PAM is not asked."""
        try:
            pwd.getpwnam(username)
        except (KeyError, OSError, ValueError):
            return Proof()
        return Proof(ok=True, groups=groups_of(username))


def _ldap() -> ILoginProof:
    from saltwisted.worker.process.ldap import Ldap

    return Ldap()


def _oidc() -> ILoginProof:
    from saltwisted.worker.process.oidc import Oidc

    return Oidc()


def _rest() -> ILoginProof:
    from saltwisted.worker.process.rest import Rest

    return Rest()


PROOFS = Parts[ILoginProof](
    LOGINS,
    {
        "auto": Anybody(),
        "file": PasswordFile(),
        "pam": Pam(),
        "sharedsecret": SharedSecret(),
    },
    # A worker that asks nobody beyond this machine needs neither TLS nor what comes with it
    {"ldap": _ldap, "oidc": _oidc, "rest": _rest},
)


def groups_of(username: str) -> list[str]:
    """The names of a user's groups on this machine."""
    try:
        numbers = os.getgrouplist(username, pwd.getpwnam(username).pw_gid)
    except (KeyError, OSError):
        return []
    found = set()
    for number in numbers:
        try:
            found.add(grp.getgrgid(number).gr_name)
        except KeyError:
            continue
    return sorted(found)
