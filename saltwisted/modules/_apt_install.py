"""
What C{apt-get install} is called with.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from saltwisted.modules import _packages


def install_command(kwargs: dict[str, Any], skip_verify: bool) -> list[str]:
    """The command, up to what is to be installed."""
    command = ["apt-get", "-q", "-y"]
    if kwargs.get("force_yes", False):
        command.append("--force-yes")
    command += conf_options(kwargs)
    if "install_recommends" in kwargs:
        wanted = kwargs["install_recommends"]
        command.append("--install-recommends" if wanted else "--no-install-recommends")
    if kwargs.get("only_upgrade"):
        command.append("--only-upgrade")
    if skip_verify:
        command.append("--allow-unauthenticated")
    return command


def conf_options(kwargs: dict[str, Any]) -> list[str]:
    """What dpkg does with configuration files that were changed here."""
    words = ["confnew"] if kwargs.get("force_conf_new") else ["confold", "confdef"]
    return [part for word in words for part in ("-o", f"DPkg::Options::=--force-{word}")]


class Plan:
    """
    What C{apt-get install} is to be called with: three calls at most.

    @ivar targets: to install or upgrade.
    @ivar down: to downgrade.
    @ivar again: name to what names it on the command line, to install once more.
    @ivar errors: wanted versions that there are not.
    @ivar compare: C{pkg.version_cmp}.
    """

    def __init__(
        self, old: dict[str, str], reinstall: bool, ignore_epoch: bool, compare: Callable[..., Any]
    ) -> None:
        self.old = old
        self.reinstall = reinstall
        self.ignore_epoch = ignore_epoch
        self.compare = compare
        self.targets: list[str] = []
        self.down: list[str] = []
        self.again: dict[str, str] = {}
        self.errors: list[str] = []

    def add_package(self, name: str, wanted: str | None, known: list[str] | None) -> None:
        """
        @param known: the versions to choose from for C{>=1.2}; C{None} if C{wanted} is exact.
        """
        if wanted is None:
            if self.reinstall and name in self.old:
                self.again[name] = name
            else:
                self.targets.append(name)
            return
        exact: str | None = wanted.lstrip("=")
        if known is not None:
            exact = _packages.match_version(
                exact or "", known, cmp_func=self.compare, ignore_epoch=self.ignore_epoch
            )
            if exact is None:
                shown = ", ".join(known) if known else None
                self.errors.append(
                    f"No version matching '{name}{wanted}' could be found (available: {shown})"
                )
                return
        self._place(name, f"{name}={exact}", exact or "")

    def add_file(self, name: str, path: str, number: str) -> None:
        """A C{.deb} that holds this version."""
        self._place(name, path, number)

    def _place(self, name: str, word: str, number: str) -> None:
        current = self.old.get(name, "")
        if self.reinstall and current and _packages.compare(number, "==", current, self.compare):
            self.again[name] = word
        elif not current or _packages.compare(number, ">=", current, self.compare):
            self.targets.append(word)
        else:
            self.down.append(word)

    def commands(
        self, head: list[str], repository: bool, sources: bool, downloadonly: bool
    ) -> list[list[str]]:
        """The calls, in Salt's order."""
        found = []
        if self.targets:
            found.append([*head, *self.targets])
        if self.down:
            forced = repository and "--force-yes" not in head
            options = [*head[:-1], "--force-yes", head[-1]] if forced else head
            found.append([*options, *self.down])
        if downloadonly and found:
            found[-1].append("--download-only")
        if self.again:
            option = [] if sources else ["--reinstall"]
            found.append([*head, *option, *self.again.values()])
        return found
