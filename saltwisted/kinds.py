"""
The kinds of parts of which there are several: by which option a site chooses, and among what.

The names are known on the lowest floor, so that a configuration is judged when it is loaded, and a
takeover before it. The parts themselves are where they may do their work, each kind as
L{Parts} beside them; what they have in common is a Protocol in L{saltwisted.parts}. Why it is so:
docs/adr/013-kinds-of-parts.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, TypeVar

from saltwisted.errors import ConfigError

T = TypeVar("T")


class Kind:
    """
    One kind of parts; nobody changes it. Every command of the shell imports this module, so it is
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
        @param option: what chooses it in the configuration.
        @param noun: what one of them is, in a sentence.
        @param here: the names that may be chosen.
        @param elsewhere: what Salt has, or had, and is not here.
        @param usual: what is used where nothing else can be; C{""} where nothing is.
        """
        self.option, self.noun = option, noun
        self.here, self.elsewhere, self.usual = here, elsewhere, usual

    def nearest(self, name: str) -> str:
        """The name of Salt's that was probably meant, or C{""}."""
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
        """As L{why_not}, but C{""} also for what Salt has: that was meant, and is no mistake."""
        return "" if name in self.elsewhere else self.why_not(name)

    def chosen(self, value: Any) -> tuple[str, ...]:
        """Those names of an option's value that are here, in order; the usual one if none is."""
        return tuple(name for name in _names(value) if name in self.here) or (self.usual,)

    def complaints(self, value: Any) -> Iterator[str]:
        """What a person should be told of an option's value: a sentence for each mistake."""
        for name in _names(value):
            if text := self.misspelt(name):
                yield f"{self.option}: {text}; {', '.join(self.chosen(value))} is used"


LOGINS = Kind(
    option="external_auth",
    noun="external authentication system",
    here=("auto", "file", "ldap", "oidc", "pam", "rest", "sharedsecret"),
    elsewhere=("django", "keystone", "mysql", "pki", "yubico"),
)
"""A proof of a login: L{saltwisted.parts.ILoginProof}."""
MINION_CACHE = Kind(
    option="cache",
    noun="minion cache",
    here=("localfs",),
    elsewhere=("consul", "etcd", "mmap_cache", "mysql", "redis"),
    usual="localfs",
)
"""What keeps what is known of minions: L{saltwisted.parts.IMinionCache}."""
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
"""A source of files: L{saltwisted.parts.IFileSource}."""
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
"""What keeps jobs and returns: L{saltwisted.parts.IJobStore}."""
CHOICES = (MINION_CACHE, FILES, JOB_STORE)
"""Those that an option of the master chooses by its value, one name or several."""


def _names(value: Any) -> list[str]:
    return [str(each) for each in (value if isinstance(value, (list, tuple)) else [value])]


class Parts(Generic[T]):
    """
    The parts of one kind by their names: all that may be chosen, and no other.

    What is imported for one of them alone is imported when it works.
    """

    def __init__(
        self, kind: Kind, parts: Mapping[str, T], late: Mapping[str, Callable[[], T]] | None = None
    ) -> None:
        """
        @param late: makes those that are made when somebody takes them for the first time.
        @raises TypeError: a name is missing, or is one too many.
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

        @raises ConfigError: there is none; with the name that was probably meant.
        """
        if name in self._late:
            self._parts[name] = self._late.pop(name)()
        try:
            return self._parts[name]
        except KeyError:
            raise ConfigError(f"{self.kind.option}: {self.kind.why_not(name)}") from None
