"""
A real directory server for tests: Debian's C{slapd}, on ports and in a directory of its own.

Its users are those of a small site, in the forms that directories have: groups that name users
(posixGroup), groups that name DNs (as Active Directory and FreeIPA have them), and users that name
their groups (memberOf).
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import unittest
from collections.abc import Mapping
from typing import Any

from saltwisted.testing.ports import reserve_ports
from tests.certificates import Authority
from tests.harness import PEERS, Daemon, scratch, until

PROGRAM = "/usr/sbin/slapd"
BASE = "dc=example,dc=com"
SERVICE, SERVICE_PASSWORD = f"cn=salt,{BASE}", "service-word"
ADMIN, ADMIN_PASSWORD = f"cn=admin,{BASE}", "admin-word"
CONFIG = """
include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/nis.schema
include /etc/ldap/schema/inetorgperson.schema
attributetype ( 1.2.840.113556.1.4.221 NAME 'sAMAccountName' EQUALITY caseIgnoreMatch
  SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 SINGLE-VALUE )
attributetype ( 1.3.6.1.4.1.99999.1 NAME 'belongsTo' EQUALITY distinguishedNameMatch
  SYNTAX 1.3.6.1.4.1.1466.115.121.1.12 )
objectclass ( 1.3.6.1.4.1.99999.2 NAME 'account2' SUP top AUXILIARY
  MAY ( sAMAccountName $ belongsTo $ memberUid ) )
modulepath /usr/lib/ldap
moduleload back_mdb
pidfile {home}/slapd.pid
argsfile {home}/slapd.args
TLSCACertificateFile {authority}
TLSCertificateFile {certificate}
TLSCertificateKeyFile {key}
{more}
database mdb
suffix "dc=example,dc=com"
rootdn "cn=admin,dc=example,dc=com"
rootpw admin-word
directory {home}/data
access to attrs=userPassword by anonymous auth by * none
access to * by users read by anonymous {anonymous}
"""
PEOPLE = f"""
dn: {BASE}
objectClass: dcObject
objectClass: organization
o: example
dc: example

dn: ou=People,{BASE}
objectClass: organizationalUnit
ou: People

dn: ou=Groups,{BASE}
objectClass: organizationalUnit
ou: Groups

dn: ou=Teams,{BASE}
objectClass: organizationalUnit
ou: Teams

dn: {SERVICE}
objectClass: organizationalRole
objectClass: simpleSecurityObject
cn: salt
userPassword: {SERVICE_PASSWORD}
"""
PERSON = """
dn: uid={name},ou=People,dc=example,dc=com
objectClass: inetOrgPerson
objectClass: account2
uid: {name}
sAMAccountName: {name}
cn: {name}
sn: {name}
userPassword: {password}
{more}
"""
POSIX = """
dn: cn={name},ou=Groups,dc=example,dc=com
objectClass: posixGroup
cn: {name}
gidNumber: {number}
{members}
"""
TEAM = """
dn: cn={name},ou=Teams,dc=example,dc=com
objectClass: groupOfNames
cn: {name}
{members}
"""


def needs_slapd(test: Any) -> Any:
    """Skip a test class where there is no slapd; where the peers are named it has to be there."""
    if PEERS or os.path.exists(PROGRAM):
        return test
    return unittest.skip("slapd is not installed")(test)


class Slapd:
    """
    One server.

    @ivar url: without encryption, which it may begin (STARTTLS).
    @ivar secure_url: with it from the start.
    """

    def __init__(
        self,
        test: Any,
        users: Mapping[str, str],
        groups: Mapping[str, tuple[str, ...]],
        anonymous: str = "auth",
        more: str = "",
        named: str = "localhost",
    ) -> None:
        """
        @param users: name to password.
        @param groups: name to its members.
        @param anonymous: what somebody may who did not bind.
        @param named: for which host its certificate is.
        """
        if not os.path.exists(PROGRAM):
            raise AssertionError("slapd is not installed")
        self.home = scratch(test)
        self._ports = plain, secure = reserve_ports(2)
        self._seen = 0
        self.url = f"ldap://localhost:{plain}"
        self.secure_url = f"ldaps://localhost:{secure}"
        os.mkdir(os.path.join(self.home, "data"))
        authority = Authority(self.home)
        pair = authority.issue("directory", named)
        self.authority = authority.ca
        config = os.path.join(self.home, "slapd.conf")
        with open(config, "w", encoding="utf-8") as file:
            file.write(
                CONFIG.format(
                    home=self.home,
                    authority=authority.ca,
                    certificate=pair["certfile"],
                    key=pair["keyfile"],
                    anonymous=anonymous,
                    more=more,
                )
            )
        # A copy is not what the system's rules (AppArmor) are about, which forbid it our directory
        self._program = shutil.copy(PROGRAM, os.path.join(self.home, "slapd"))
        data = os.path.join(self.home, "data.ldif")
        with open(data, "w", encoding="utf-8") as file:
            file.write(_ldif(users, groups))
        subprocess.run(
            [self._program, "-T", "add", "-f", config, "-l", data],
            check=True,
            capture_output=True,
        )
        listen = f"ldap://127.0.0.1:{plain} ldaps://127.0.0.1:{secure}"
        self.daemon = Daemon(
            "slapd", [self._program, "-d", "stats", "-h", listen, "-f", config], self.home
        )
        test.addCleanup(self.daemon.kill)

    def start(self) -> Slapd:
        """And wait until it takes connections, which is after it says that it starts."""
        self.daemon.start()
        before = self._accepted()
        for port in self._ports:
            until("slapd to listen", lambda port=port: self._takes(port), every=0.02)
        until("slapd to see us", lambda: self._accepted() >= before + 2, every=0.02)
        self._seen = self._accepted()
        return self

    def _takes(self, port: int) -> bool:
        if not self.daemon.running:
            raise AssertionError(f"slapd ended:\n{self.daemon.tail()}")
        try:
            socket.create_connection(("127.0.0.1", port), 5).close()
        except OSError:
            return False
        return True

    def _accepted(self) -> int:
        return len(re.findall(r"\bACCEPT from\b", self.daemon.text()))

    def binds(self, name: str) -> int:
        """How often somebody of this name has bound, by the server's own log."""
        words = rf'BIND dn="uid={re.escape(name)},[^"]*" method=128'
        return len(re.findall(words, self.daemon.text()))

    def asked(self) -> int:
        """How many connections it has seen since it was started."""
        return self._accepted() - self._seen

    def change(self, text: str) -> None:
        """LDIF by its administrator."""
        subprocess.run(
            ["ldapmodify", "-x", "-H", self.url, "-D", ADMIN, "-w", ADMIN_PASSWORD],
            input=text.encode(),
            check=True,
            capture_output=True,
        )

    def leave(self, name: str, group: str) -> None:
        """Take somebody out of a group that names users."""
        self.change(
            f"dn: cn={group},ou=Groups,{BASE}\nchangetype: modify\n"
            f"delete: memberUid\nmemberUid: {name}\n"
        )

    def remove(self, name: str) -> None:
        """Take somebody out of the directory."""
        self.change(f"dn: uid={name},ou=People,{BASE}\nchangetype: delete\n")

    def options(self, **changes: Any) -> dict[str, Any]:
        """C{auth.ldap.*} of a site that searches by an account of its own, encrypted."""
        usual = {
            "uri": self.secure_url,
            "ca_file": self.authority,
            "basedn": BASE,
            "binddn": SERVICE,
            "bindpw": SERVICE_PASSWORD,
            "filter": "(uid={{ username }})",
        }
        return {f"auth.ldap.{name}": value for name, value in {**usual, **changes}.items()}


def _ldif(users: Mapping[str, str], groups: Mapping[str, tuple[str, ...]]) -> str:
    entries = [PEOPLE.strip()]
    for name, password in users.items():
        own = [group for group, members in groups.items() if name in members]
        more = "\n".join(f"belongsTo: cn={group},ou=Teams,{BASE}" for group in own)
        entries.append(PERSON.format(name=name, password=password, more=more).strip())
    for number, (group, members) in enumerate(groups.items(), 500):
        named = "\n".join(f"memberUid: {name}" for name in members)
        entries.append(POSIX.format(name=group, number=number, members=named).strip())
        meant = "\n".join(f"member: uid={name},ou=People,{BASE}" for name in members)
        entries.append(TEAM.format(name=group, members=meant).strip())
    return "\n\n".join(entries) + "\n"
