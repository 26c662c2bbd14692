"""
Python packages, installed by pip.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import Any

from saltwisted.states import _pip_specs
from saltwisted.worker.exceptions import CommandExecutionError, CommandNotFoundError

logger = logging.getLogger(__name__)

__salt__: Any
__opts__: Any
__env__: str
__virtualname__ = "pip"

_SAME = (
    "Requirement already satisfied",
    "Requirement already up-to-date",
    "Requirement not upgraded",
    "Collecting",
    "Cloning",
    "Cleaning up...",
    "Looking in indexes",
)
"""Lines of pip that tell of no change."""
_THERE = re.compile(r"Requirement already (?:satisfied|up-to-date): ([^\s=!<>~@;\[]+)")
_OWN = ("name", "pkgs", "pip_bin", "repo", "cache_dir", "kwargs")
"""Arguments of C{installed} that C{pip.install} is not given."""


def __virtual__() -> Any:
    return __virtualname__ if "pip.list" in __salt__ else False


def _end(ret: dict[str, Any], result: bool | None, comment: str) -> dict[str, Any]:
    ret["result"] = result
    ret["comment"] = comment
    return ret


def wrong_pip(version: str, use_wheel: Any, no_use_wheel: Any, no_binary: Any) -> str:
    """What to say of an option that this pip does not have; nothing if all is well."""
    has = _pip_specs.parse_version(str(version))
    old, new = _pip_specs.parse_version("1.4"), _pip_specs.parse_version("9.0.3")
    binary = _pip_specs.parse_version("7.0.0")
    if has is None or old is None or new is None or binary is None:
        return ""
    found = f"The version of pip detected was {version}."
    for word, value in (("use_wheel", use_wheel), ("no_use_wheel", no_use_wheel)):
        if value and not old <= has <= new:
            return f"The '{word}' option is only supported in pip between 1.4 and 9.0.3. {found}"
    if no_binary and has < binary:
        return f"The 'no_binary' option is only supported in pip 7.0.0 and newer. {found}"
    return ""


def _details(pkgs: list[str]) -> tuple[list[tuple[str, str, tuple[_pip_specs.Spec, ...]]], str]:
    """Each package with its normalized name and conditions; or what is wrong with some."""
    details = []
    wrong = []
    for pkg in pkgs:
        requirement = _pip_specs.parse_requirement(pkg)
        if requirement is not None:
            name = __salt__["pip.normalize"](requirement.name) if requirement.name else ""
            details.append((name, pkg, requirement.specs))
        elif "=" in pkg and "==" not in pkg:
            wrong.append(
                f"Invalid version specification in package {pkg}. '=' is not supported, use '=='"
                " instead."
            )
        else:
            wrong.append(
                f"pip raised an exception while parsing '{pkg}': Invalid requirement: {pkg!r}"
            )
    return details, "\n".join(wrong)


def _found(packages: Mapping[str, str], name: str) -> str | None:
    """The version of a package in C{pip.list}, whatever the case of its name."""
    lower = {key.lower(): version for key, version in packages.items()}
    return lower.get(name.lower())


def _there(
    name: str,
    pkg: str,
    specs: tuple[_pip_specs.Spec, ...],
    version: str,
    upgrade: bool,
    words: Mapping[str, Any],
) -> str:
    """What to say of a package that is as wanted; nothing if it is not."""
    installed_text = f"Python package {pkg} was already installed"
    if not upgrade:
        return installed_text if _pip_specs.fulfils(version, specs) else ""
    texts = [one for _, one in specs]
    candidates = __salt__["pip.list_all_versions"](
        name,
        include_alpha=any("a" in one for one in texts),
        include_beta=any("b" in one for one in texts),
        include_rc=any("rc" in one for one in texts),
        **words,
    )
    fitting = [one for one in candidates or () if _pip_specs.fulfils(one, specs) or not specs]
    if not fitting:
        return (
            f"Python package {name} was already installed and\n"
            "the available upgrade doesn't fulfills the version requirements"
        )
    return installed_text if _pip_specs.same(version, fitting[-1]) else ""


def installed(
    name: Any,
    pkgs: Any = None,
    pip_bin: Any = None,
    requirements: Any = None,
    bin_env: Any = None,
    use_wheel: bool = False,
    no_use_wheel: bool = False,
    log: Any = None,
    proxy: Any = None,
    timeout: Any = None,
    repo: Any = None,
    editable: Any = None,
    find_links: Any = None,
    index_url: Any = None,
    extra_index_url: Any = None,
    no_index: bool = False,
    mirrors: Any = None,
    build: Any = None,
    target: Any = None,
    download: Any = None,
    download_cache: Any = None,
    source: Any = None,
    upgrade: bool = False,
    force_reinstall: bool = False,
    ignore_installed: bool = False,
    exists_action: Any = None,
    no_deps: bool = False,
    no_install: bool = False,
    no_download: bool = False,
    install_options: Any = None,
    global_options: Any = None,
    user: Any = None,
    cwd: Any = None,
    pre_releases: bool = False,
    cert: Any = None,
    allow_all_external: bool = False,
    allow_external: Any = None,
    allow_unverified: Any = None,
    process_dependency_links: bool = False,
    env_vars: Any = None,
    use_vt: bool = False,
    trusted_host: Any = None,
    no_cache_dir: bool = False,
    cache_dir: Any = None,
    no_binary: Any = None,
    extra_args: Any = None,
    **kwargs: Any,
) -> dict[str, Any]:
    """
    Packages are installed. What is not named here is handed to C{pip.install}.

    name, pkgs
        The package, or several, each as for pip: C{name}, C{name==1.2}, an address.
    requirements, editable
        A file with packages, or a checkout, instead.
    bin_env
        The virtual environment, or its pip.
    upgrade, force_reinstall, ignore_installed
        Install also what is there: if there is a newer one, or in any case.
    user, cwd, env_vars
        As whom, where and with which variables to run pip.
    """
    words = {key: value for key, value in locals().items() if key not in _OWN}
    words["bin_env"] = bin_env or pip_bin
    if pkgs and not isinstance(pkgs, list):
        comment = "pkgs argument must be formatted as a list"
        return {"name": name, "result": False, "changes": {}, "comment": comment}
    return _install(name, pkgs or [name], words, kwargs)


def _install(
    name: Any, given: list[Any], words: dict[str, Any], kwargs: dict[str, Any]
) -> dict[str, Any]:
    """
    C{pip.installed}.

    @param words: arguments for C{pip.install}; C{kwargs} are those that the state has not.
    """
    pkgs = [
        pkg if isinstance(pkg, str) else " ".join(str(part) for part in next(iter(pkg.items())))
        for pkg in given
    ]
    ret: dict[str, Any] = {"name": ";".join(pkgs), "result": None, "comment": "", "changes": {}}
    requirements, editable = words["requirements"], words["editable"]
    whole = bool(requirements or editable)
    try:
        version = __salt__["pip.version"](words["bin_env"])
    except (CommandNotFoundError, CommandExecutionError) as error:
        return _end(ret, False, f"Error installing '{name}': {error}")
    wrong = wrong_pip(version, words["use_wheel"], words["no_use_wheel"], words["no_binary"])
    if wrong:
        return _end(ret, False, wrong)
    details, wrong = ([], "") if whole else _details(pkgs)
    if wrong:
        return _end(ret, False, wrong)
    user = words["user"]
    if user and "user.info" in __salt__ and not __salt__["user.info"](user):
        return _end(ret, False, f"User {user} does not exist")
    where = {key: words[key] for key in ("bin_env", "user", "cwd")}
    targets: list[tuple[str, str]] = []
    there: list[str] = []
    if not whole:
        index = {**where, **{key: words[key] for key in ("index_url", "extra_index_url")}}
        targets, there = _targets(
            details,
            {**where, "env_vars": words["env_vars"]},
            index,
            words["upgrade"],
            bool(words["force_reinstall"] or words["ignore_installed"]),
            kwargs,
        )
        if not targets:
            more = " and up-to-date" if words["upgrade"] else ""
            there.append(f"All specified packages are already installed{more}")
            return _end(ret, True, "\n".join(there))
    if __opts__["test"]:
        return _end(ret, None, _forecast(requirements, editable, [one for _, one, _ in details]))
    did = __salt__["pip.install"](
        pkgs=",".join(one for _, one in targets),
        saltenv=__env__,
        disable_version_check=True,
        **words,
        **kwargs,
    )
    if not did:
        return _end(ret, False, "Could not install package")
    if did.get("retcode", 1) != 0:
        return _failed(ret, did, requirements, editable, targets, there)
    if whole:
        return _processed(ret, did, requirements, editable)
    where["env_vars"] = words["env_vars"]
    return _installed(ret, did, pkgs, targets, there, {**where, **kwargs})


def _forecast(requirements: Any, editable: Any, pkgs: list[str]) -> str:
    """What would be done."""
    said = []
    if requirements:
        said.append(f"Requirements file '{requirements}' will be processed.")
    if editable:
        said.append(
            'Package will be installed in editable mode (i.e. setuptools "develop mode")'
            f" from {editable}."
        )
    if said:
        return " ".join(said)
    if len(pkgs) > 1:
        return "\n".join(["Python package(s) set to be installed:", *pkgs])
    return f"Python package {pkgs[0]} is set to be installed"


def _targets(
    details: list[tuple[str, str, tuple[_pip_specs.Spec, ...]]],
    where: Mapping[str, Any],
    index: Mapping[str, Any],
    upgrade: bool,
    always: bool,
    kwargs: Mapping[str, Any],
) -> tuple[list[tuple[str, str]], list[str]]:
    """What is to be installed, with its name; what to say of the rest."""
    packages: Any = None
    try:
        packages = __salt__["pip.list"](**where)
    except Exception as error:
        # Then each is looked for by itself.
        logger.warning("pip.list failed: %s", error)
    targets = []
    there = []
    for prefix, pkg, specs in details:
        said = ""
        if prefix and not always:
            known = packages or __salt__["pip.list"](prefix, **where, **kwargs)
            version = _found(known, prefix)
            if version is not None:
                said = _there(prefix, pkg, specs, version, upgrade, index)
        if said:
            there.append(said)
        else:
            targets.append((prefix, pkg.replace(",", ";")))
    return targets, there


def _processed(
    ret: dict[str, Any], did: Mapping[str, Any], requirements: Any, editable: Any
) -> dict[str, Any]:
    said = []
    if requirements:
        lines = did.get("stdout", "").split("\n")
        if all(line.strip().startswith(_SAME) for line in lines):
            said.append("Requirements were already installed.")
        else:
            ret["changes"]["requirements"] = True
            said.append(f"Successfully processed requirements file {requirements}.")
    if editable:
        said.append(f"Package successfully installed from VCS checkout {editable}.")
        ret["changes"]["editable"] = True
    return _end(ret, True, " ".join(said))


def _installed(
    ret: dict[str, Any],
    did: Mapping[str, Any],
    pkgs: list[str],
    targets: list[tuple[str, str]],
    there: list[str],
    where: Mapping[str, Any],
) -> dict[str, Any]:
    # "Requirement already satisfied: Big.Name>=1 in /usr/lib/…", of an older pip "up-to-date"
    same = {
        __salt__["pip.normalize"](found[1])
        for line in did.get("stdout", "").split("\n")
        if (found := _THERE.match(line))
    }
    lost = []
    for prefix, pkg in targets:
        if not prefix:
            ret["changes"][f"{pkg}==???"] = "Installed"
            continue
        now = __salt__["pip.list"](prefix, **where)
        version = _found(now, prefix)
        if not now:
            lost.append(
                f"There was no error installing package '{pkgs[-1]}' although it does not show"
                " when calling 'pip.freeze'."
            )
        elif version is not None and __salt__["pip.normalize"](prefix) not in same:
            ret["changes"][f"{prefix}=={version}"] = "Installed"
    return _end(
        ret, True, "\n".join([*there, *(lost or ["All packages were successfully installed"])])
    )


def _failed(
    ret: dict[str, Any],
    did: Mapping[str, Any],
    requirements: Any,
    editable: Any,
    targets: list[tuple[str, str]],
    there: list[str],
) -> dict[str, Any]:
    if "stdout" in did:
        error = f"Error: {did['stdout']} {did['stderr']}"
    else:
        error = f"Error: {did['comment']}"
    if not requirements and not editable:
        names = ", ".join(one for _, one in targets)
        return _end(
            ret, False, "\n".join([*there, f"Failed to install packages: {names}. {error}"])
        )
    said = []
    if requirements:
        said.append(f'Unable to process requirements file "{requirements}"')
    if editable:
        said.append(f"Unable to install from VCS checkout {editable}.")
    return _end(ret, False, " ".join([*said, error]))


def removed(
    name: str,
    requirements: Any = None,
    bin_env: Any = None,
    log: Any = None,
    proxy: Any = None,
    timeout: Any = None,
    user: Any = None,
    cwd: Any = None,
    use_vt: bool = False,
) -> dict[str, Any]:
    """
    A package is not installed. The arguments are those of C{installed}.
    """
    ret: dict[str, Any] = {"name": name, "result": None, "comment": "", "changes": {}}
    where = {"bin_env": bin_env, "user": user, "cwd": cwd}
    try:
        packages = __salt__["pip.list"](**where)
    except (CommandExecutionError, CommandNotFoundError) as error:
        return _end(ret, False, f"Error uninstalling '{name}': {error}")
    if name not in packages:
        return _end(ret, True, "Package is not installed.")
    if __opts__["test"]:
        return _end(ret, None, f"Package {name} is set to be removed")
    if __salt__["pip.uninstall"](
        pkgs=name,
        requirements=requirements,
        log=log,
        proxy=proxy,
        timeout=timeout,
        use_vt=use_vt,
        **where,
    ):
        ret["changes"][name] = "Removed"
        return _end(ret, True, "Package was successfully removed.")
    return _end(ret, False, "Could not remove package.")


def uptodate(
    name: str, bin_env: Any = None, user: Any = None, cwd: Any = None, use_vt: bool = False
) -> dict[str, Any]:
    """
    All packages are at their newest. The arguments are those of C{installed}.
    """
    ret: dict[str, Any] = {"name": name, "changes": {}, "result": False, "comment": ""}
    where = {"bin_env": bin_env, "user": user, "cwd": cwd}
    try:
        packages = __salt__["pip.list_upgrades"](**where)
    except Exception as error:
        # Whatever it is, stock makes a comment of it.
        return _end(ret, False, str(error))
    if not packages:
        return _end(ret, True, "System is already up-to-date.")
    if __opts__["test"]:
        return _end(ret, None, "System update will be performed")
    did = __salt__["pip.upgrade"](use_vt=use_vt, **where)
    if did.get("result") is False:
        ret.update(did)
        return ret
    if not did:
        return _end(ret, False, "Upgrade failed.")
    ret["changes"] = did
    return _end(ret, True, "Upgrade successful.")
