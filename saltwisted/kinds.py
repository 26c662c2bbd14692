"""
The kinds of interchangeable parts: which option chooses one, and among which names.

The names are on the lowest floor, so that the loader can check a configuration, and a takeover can
check it beforehand. The parts themselves are on the floors where they work, with a L{Parts} table
for each kind beside them; their common interface is a Protocol in L{saltwisted.parts}. The reasons
are in docs/adr/013-kinds-of-parts.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, TypeVar

from saltwisted.errors import ConfigError

T = TypeVar("T")


class Kind:
    """
    One kind of part; immutable by convention. Every shell command imports this module, so this is
    a plain class.
    """

    def __init__(
        self,
        *,
        option: str,
        noun: str,
        here: tuple[str, ...],
        elsewhere: tuple[str, ...],
        usual: str = "",
    ) -> None:
        """
        @param option: the option that chooses a part of this kind.
        @param noun: what such a part is called in messages.
        @param here: the names that a site may choose.
        @param elsewhere: names that Salt has, or had, and saltwisted does not.
        @param usual: the name to use if none of the chosen ones is available; C{""} for none.
        """
        self.option, self.noun = option, noun
        self.here, self.elsewhere, self.usual = here, elsewhere, usual

    def nearest(self, name: str) -> str:
        """The name that was probably meant, or C{""}."""
        from difflib import get_close_matches

        found = get_close_matches(name, self.here + self.elsewhere, 1, 0.6)
        return found[0] if found else ""

    def why_not(self, name: str) -> str:
        """Why this name cannot be chosen, in a sentence; C{""} for one that can."""
        if name in self.here:
            return ""
        have = f"there is {', '.join(self.here)}"
        if name in self.elsewhere:
            return f"{self.noun} {name!r} is not available here: {have}"
        near = self.nearest(name)
        hint = f"did you mean {near!r}? " if near else ""
        return f"unknown {self.noun} {name!r}: {hint}{have}"

    def misspelt(self, name: str) -> str:
        """As L{why_not}, but also C{""} for a name of Salt's, which is not a misspelling."""
        return "" if name in self.elsewhere else self.why_not(name)

    def chosen(self, value: Any) -> tuple[str, ...]:
        """The available names in an option's value, in order; the usual one if there is none."""
        return tuple(name for name in _names(value) if name in self.here) or (self.usual,)

    def complaints(self, value: Any) -> Iterator[str]:
        """One sentence for each mistake in an option's value."""
        for name in _names(value):
            if text := self.misspelt(name):
                yield f"{self.option}: {text}; {', '.join(self.chosen(value))} is used"


LOGINS = Kind(
    option="external_auth",
    noun="external authentication system",
    here=("auto", "file", "ldap", "oidc", "pam", "rest", "sharedsecret"),
    elsewhere=("django", "keystone", "mysql", "pki", "yubico"),
)
"""Login backends: L{saltwisted.parts.ILoginProof}."""
MINION_CACHE = Kind(
    option="cache",
    noun="minion cache",
    here=("localfs",),
    elsewhere=("consul", "etcd", "mmap_cache", "mysql", "redis"),
    usual="localfs",
)
"""Minion caches: L{saltwisted.parts.IMinionCache}."""
FILES = Kind(
    option="fileserver_backend",
    noun="file server backend",
    here=(
        # Each has a row in FILE_SOURCES, and one for a cluster in ClusterRoots
        "roots",
        "gitfs",
        "minionfs",
    ),
    elsewhere=(
        "azurefs",
        "hg",
        "hgfs",
        "s3fs",
        "svn",
        "svnfs",
    ),
    usual="roots",
)
"""Sources of files: L{saltwisted.parts.IFileSource}."""
JOB_STORE = Kind(
    option="master_job_cache",
    noun="job store",
    here=("local_cache",),
    elsewhere=(
        "cassandra_cql",
        "couchbase",
        "couchdb",
        "elasticsearch",
        "etcd",
        "influxdb",
        "memcache",
        "mongo",
        "mysql",
        "odbc",
        "pgjsonb",
        "postgres",
        "postgres_local_cache",
        "redis",
        "salt_cache",
        "sqlite3",
    ),
    usual="local_cache",
)
"""Job stores: L{saltwisted.parts.IJobStore}."""
CHOICES = (MINION_CACHE, FILES, JOB_STORE)
"""The kinds that a master's option chooses by its value, one name or several."""


def _names(value: Any) -> list[str]:
    return [str(each) for each in (value if isinstance(value, (list, tuple)) else [value])]


class Parts(Generic[T]):
    """
    The parts of one kind by name: exactly the names that a site may choose.

    A module that only one part needs is imported when that part is used.
    """

    def __init__(
        self, kind: Kind, parts: Mapping[str, T], late: Mapping[str, Callable[[], T]] | None = None
    ) -> None:
        """
        @param late: makes the parts that are made when somebody takes them for the first time.
        @raises TypeError: a name is missing, or is not one of the kind.
        """
        self._late = dict(late or {})
        if odd := set(kind.here) ^ (parts.keys() | self._late.keys()):
            raise TypeError(f"{kind.option}: {', '.join(sorted(odd))}")
        self.kind = kind
        self._parts = dict(parts)

    def __iter__(self) -> Iterator[str]:
        return iter(self.kind.here)

    def take(self, name: str) -> T:
        """
        The part of this name.

        @raises ConfigError: there is no such part; the text names the one that was probably meant.
        """
        if name in self._late:
            self._parts[name] = self._late.pop(name)()
        try:
            return self._parts[name]
        except KeyError:
            raise ConfigError(f"{self.kind.option}: {self.kind.why_not(name)}") from None
