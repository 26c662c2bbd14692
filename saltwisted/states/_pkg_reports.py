"""
What the states of C{pkg} say: of what they would do, of what was done, of what failed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from saltwisted.states import _pkg_holds, _pkg_targets
from saltwisted.states._pkg_targets import Finder, Install, Ret, already, done, refused
from saltwisted.states._pkg_versions import described
from saltwisted.worker.exceptions import CommandExecutionError, nested_text


def failed(name: Any, error: CommandExecutionError, doing: str) -> Ret:
    """The return for what the package manager refused, with what it did before that."""
    if error.info:
        changes = error.info.get("changes", {})
        return done(name, False, error.strerror_without_changes, changes)
    return refused(name, f"An error was encountered while {doing}: {error}")


def installable(
    salt: Any, targets: Mapping[str, Any], current: Mapping[str, Any] | None = None
) -> Ret:
    """What installing would change, as far as the package lists tell."""
    open_ones = [name for name, version in targets.items() if not version]
    found: dict[str, Any] = {}
    versions = salt["pkg.latest_version"](*open_ones)
    if open_ones:
        found = {open_ones[0]: versions} if isinstance(versions, str) else dict(versions)
    fixed = [described(name, targets) for name in targets if name not in open_ones]
    if fixed:
        for name, candidates in salt["pkg.list_repo_pkgs"](*fixed).items():
            if candidates:
                found[name] = candidates[0]
    changes: Ret = dict(found)
    for name in targets:
        old = (current or {}).get(name, "")
        changes[name] = {"new": found.get(name) or "installed", "old": old}
    return changes


def forecast(salt: Any, name: Any, found: Install, sources: bool, reinstall: bool) -> Ret:
    """What C{pkg.installed} would do."""
    comment: list[str] = []
    changes: Ret = {}
    if found.targets:
        changes.update(
            {one: {"new": "installed", "old": ""} for one in found.targets}
            if sources
            else installable(salt, found.targets)
        )
        names = ", ".join(found.targets)
        comment.append(f"The following packages would be installed/updated: {names}")
    if found.unpurge:
        comment.append(
            "The following packages would have their selection status changed from 'purge' to"
            f" 'install': {', '.join(found.unpurge)}"
        )
        changes.update({one: {"new": "installed", "old": ""} for one in found.unpurge})
    texts = {one: one if sources else described(one, found.reinstall) for one in found.reinstall}
    if texts and reinstall:
        changes.update({text: {"new": "installed", "old": ""} for text in texts.values()})
        comment.append(f"The following packages would be reinstalled: {', '.join(texts.values())}")
    elif texts:
        for one, text in texts.items():
            comment.append(
                f"Package '{text}' would be reinstalled because the following files have been"
                " altered:"
            )
            changes[one] = {}
            comment.append(nested_text(found.altered[one]).rstrip())
    return done(name, None, "\n".join(comment), changes)


def report(
    finder: Finder,
    found: Install,
    sources: bool,
    changes: Ret,
    held: _pkg_holds.Held | None,
    comment: list[str],
) -> bool:
    """Look whether the targets are there now; add to the comment what came of it."""
    targets, desired = found.targets, found.desired

    def others(names: list[str]) -> list[str]:
        return [one for one in names if one not in targets and one not in found.reinstall]

    if sources:
        changed = [one for one in changes if one in targets]
        same = others(list(desired))
        failed = [one for one in targets if one not in changed]
    else:
        kwargs = {key: value for key, value in finder.kwargs.items() if key != "fromrepo"}
        now = finder.salt["pkg.list_pkgs"](versions_as_list=True, **kwargs)
        provided = None
        if kwargs.get("resolve_capabilities", False) and "pkg.list_provides" in finder.salt:
            provided = finder.salt["pkg.list_provides"](**kwargs)
        good, bad = finder.verified(desired, now, provided)
        changed = [one for one in good if one in targets]
        same = others(good)
        failed = [one for one in bad if one in targets]
    _leave_to_tasks(changes, changed, failed)

    def summary(names: list[str]) -> str:
        return ", ".join(one if sources else described(one, desired) for one in names)

    if changed:
        text = summary(changed)
        if len(text) < 20:
            comment.append(f"The following packages were installed/updated: {text}")
        else:
            comment.append(f"{_counted(changed)} installed/updated.")
    if held:
        held.add_changes(changes, comment)
    if same:
        if len(same) <= 20:
            comment.append(f"The following packages were already installed: {summary(same)}")
        else:
            comment.append(f"{_counted(same)} already installed")
    if held:
        comment.extend(one["comment"] for one in held.same)
    if failed:
        comment.insert(0, f"The following packages failed to install/update: {summary(failed)}")
    if held:
        comment.extend(one["comment"] for one in held.failed)
    return not failed and not (held and held.failed)


def _leave_to_tasks(changes: Ret, changed: list[str], failed: list[str]) -> None:
    """What a task of the system does later has not failed."""
    for one in list(failed):
        if isinstance(changes.get(one), dict) and changes[one].get("install status") == (
            "task started"
        ):
            changed.append(one)
            failed.remove(one)


def _counted(names: list[str]) -> str:
    one = len(names) == 1
    return f"{len(names)} targeted package{'' if one else 's'} {'was' if one else 'were'}"


def report_again(
    finder: Finder,
    found: Install,
    sources: bool,
    reinstall: bool,
    verify: Any,
    did: Mapping[str, Any],
    comment: list[str],
) -> bool:
    """Look whether what was to be installed again is well now."""
    good: list[str] = []
    bad: list[str] = []
    for one in found.reinstall:
        if reinstall:
            (good if one in did else bad).append(one)
        elif verify:
            words = _pkg_targets.verify_words(verify)
            wrong = finder.salt["pkg.verify"](one, **words, **finder.kwargs)
            if wrong:
                found.altered[one] = wrong
            (bad if wrong else good).append(one)
    for names, head, files in (
        (good, "Package {} was reinstalled.", "were remediated"),
        (bad, "Reinstall was not successful for package {}.", "could not be remediated"),
    ):
        for one in names:
            text = head.format(one if sources else described(one, found.desired))
            if one in found.altered:
                comment.append(f"{text} The following files {files}:")
                comment.append(nested_text(found.altered[one]).rstrip())
            else:
                comment.append(text)
    return not bad


def upgraded(name: Any, targets: Mapping[str, str], changes: Any, same: list[str]) -> Ret:
    """The return of C{latest} by what the package manager did."""
    were = f"The following packages were already up-to-date: {', '.join(same)}"
    if not changes:
        if len(targets) > 10:
            text = f"{len(targets)} targeted packages failed to update. See debug log for details."
        elif len(targets) > 1:
            text = (
                "The following targeted packages failed to update. See debug log for details:"
                f" ({', '.join(sorted(targets))})."
            )
        else:
            text = f"Package {next(iter(targets))} failed to update."
        if len(same) > 10:
            text += f"{len(same)} packages were already up-to-date"
        elif same:
            text += f" {were}"
        return done(name, False, text, changes)

    def fell_short(one: str) -> bool:
        if not changes.get(one):
            return True
        new = changes[one].get("new")
        return new is not None and targets[one] not in (*new.split(","), "latest")

    failed = sorted(one for one in targets if fell_short(one))
    good = sorted(one for one in targets if one not in failed)
    comments = []
    if failed:
        comments.append(f"The following packages failed to update: {', '.join(failed)}")
    if good:
        comments.append(
            f"The following packages were successfully installed/upgraded: {', '.join(good)}"
        )
    if len(same) > 10:
        comments.append(f"{len(same)} packages were already up-to-date ")
    elif same:
        comments.append(were)
    return done(name, not failed, " ".join(comments), changes)


def up_to_date(name: Any, desired: list[str]) -> Ret:
    """The return of C{pkg.latest} where nothing is to be done."""
    if len(desired) > 10:
        return already(name, f"All {len(desired)} packages are up-to-date.")
    if len(desired) > 1:
        return already(name, f"All packages are up-to-date ({', '.join(sorted(desired))}).")
    return already(name, f"Package {desired[0]} is already up-to-date")


def would_upgrade(
    salt: Any,
    name: Any,
    targets: Mapping[str, str],
    current: Mapping[str, Any],
    same: list[str],
) -> Ret:
    """What C{pkg.latest} would do."""
    names = ", ".join(sorted(targets))
    comments = [f"The following packages would be installed/upgraded: {names}"]
    if len(same) > 10:
        comments.append(f"{len(same)} packages are already up-to-date")
    elif same:
        names = ", ".join(f"{one} ({current[one]})" for one in sorted(same))
        comments.append(f"The following packages are already up-to-date: {names}")
    return done(name, None, "\n".join(comments), installable(salt, targets, current))
