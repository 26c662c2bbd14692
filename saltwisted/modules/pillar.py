"""
Read the minion's pillar.

A person who asks gets stars in place of values unless C{unmask=True} is given; a
template gets the plain values (see L{saltwisted.worker.masking}). C{items}, C{data},
C{ls}, C{obfuscate} and C{ext} have the pillar compiled again; the other functions read
the one that this job began with.
"""

from __future__ import annotations

import copy
import logging
import os
from collections.abc import Mapping
from typing import Any

from saltwisted.domain.targeting.traverse import DELIMITER, traverse
from saltwisted.modules import _data, _yaml
from saltwisted.worker import templates
from saltwisted.worker.exceptions import CommandExecutionError
from saltwisted.worker.masking import shown

log = logging.getLogger(__name__)

__proxyenabled__ = ["*"]

__salt__: Any
__opts__: Any
__grains__: Any
__pillar__: Any
__master__: Any

_DELIMITER = DELIMITER
_NOT_SET = "<Constant.NOT_SET>"


def _here(saltenv: str | None, pillarenv: str | None) -> Any:
    """The pillar in memory, or the one of another environment."""
    if saltenv is None and pillarenv is None:
        return __pillar__
    return items(saltenv=saltenv, pillarenv=pillarenv, unmask=True)


def get(
    key: Any,
    default: Any = _NOT_SET,
    merge: bool = False,
    merge_nested_lists: bool | None = None,
    delimiter: str = _DELIMITER,
    pillarenv: str | None = None,
    saltenv: str | None = None,
    unmask: bool | None = None,
) -> Any:
    """
    One value by C{a:b:c}; C{default} (or an empty text) if there is none.

    With C{merge} a map or list in the pillar is laid over a map or list given as
    C{default}. With the option C{pillar_raise_on_missing} a value that is not there and
    has no default is an error.

    CLI Example::

        salt '*' pillar.get pkg:apache
        salt '*' pillar.get abc::def|ghi delimiter='|'
    """
    if default == _NOT_SET:
        default = KeyError if __opts__.get("pillar_raise_on_missing") else ""
    lists = __opts__.get("pillar_merge_lists", False)
    if merge_nested_lists is not None:
        lists = merge_nested_lists
    pillar = _here(saltenv, pillarenv)
    if merge and isinstance(default, (dict, list)):
        found = traverse(pillar, key, type(default)(), delimiter)
        merged: Any = copy.deepcopy(default)
        if isinstance(default, dict) and isinstance(found, Mapping):
            return shown(_data.update(merged, found, merge_lists=lists), unmask)
        if isinstance(default, list) and isinstance(found, list):
            merged.extend(item for item in found if item not in merged)
            return shown(merged, unmask)
    if merge:
        log.error(
            "pillar.get: the default and the pillar value are of different types. "
            "Merge will be skipped."
        )
    found = traverse(pillar, key, default, delimiter)
    if found is KeyError:
        raise KeyError(f"Pillar key not found: {key}")
    return shown(found, unmask)


def fetch(
    key: Any,
    default: Any = _NOT_SET,
    merge: bool = False,
    merge_nested_lists: bool | None = None,
    delimiter: str = _DELIMITER,
    pillarenv: str | None = None,
    saltenv: str | None = None,
    unmask: bool | None = None,
) -> Any:
    """
    Another name of C{pillar.get}.

    CLI Example::

        salt '*' pillar.fetch pkg:apache
    """
    return get(key, default, merge, merge_nested_lists, delimiter, pillarenv, saltenv, unmask)


def items(
    *args: Any,
    pillar: Any = None,
    pillar_enc: str | None = None,
    pillarenv: str | None = None,
    saltenv: str | None = None,
    unmask: bool | None = None,
) -> dict[str, Any]:
    """
    The whole pillar, compiled now. With names, the same as C{pillar.item}.

    pillar
        Values to lay over it while it is compiled.
    pillarenv
        Compile for this environment alone.
    unmask
        Whether values are shown; by default as the option C{pillar_mask_output} says.

    CLI Example::

        salt '*' pillar.items
    """
    if args:
        return item(*args, pillarenv=pillarenv, saltenv=saltenv, unmask=unmask)
    if pillarenv is None:
        if __opts__.get("pillarenv_from_saltenv", False):
            pillarenv = saltenv or __opts__.get("saltenv")
        else:
            pillarenv = __opts__.get("pillarenv")
    if unmask is None and not __opts__.get("pillar_mask_output", True):
        unmask = True
    if pillar and pillar_enc:
        try:
            pillar = _decrypted(pillar, pillar_enc)
        except Exception as error:
            raise CommandExecutionError(f"Failed to decrypt pillar override: {error}") from error
    return _shown(_compiled(None, pillarenv, pillar), unmask)


def _shown(pillar: dict[str, Any], unmask: bool | None) -> dict[str, Any]:
    answer: dict[str, Any] = shown(pillar, unmask)
    return answer


def _decrypted(pillar: Any, renderer: str) -> Any:
    """An override whose texts are encrypted, through one of the C{decrypt_pillar_renderers}."""
    if renderer not in (__opts__.get("decrypt_pillar_renderers") or ()):
        raise CommandExecutionError(f"'{renderer}' is not a valid decryption renderer")
    if isinstance(pillar, dict):
        return {key: _decrypted(value, renderer) for key, value in pillar.items()}
    if isinstance(pillar, list):
        return [_decrypted(value, renderer) for value in pillar]
    if isinstance(pillar, str):
        context = {"salt": __salt__, "opts": __opts__, "grains": __grains__, "pillar": __pillar__}
        return templates.render_data(context, text=pillar, pipe=renderer)
    return pillar


def _compiled(
    saltenv: str | None, pillarenv: str | None, override: Any, ext: Any = None
) -> dict[str, Any]:
    """Ask the master, or the local compiler, for this minion's pillar, now."""
    if override is not None and not isinstance(override, dict):
        log.error("Pillar data must be a dictionary")
        override = None
    load: dict[str, Any] = {
        "id": __opts__["id"],
        "grains": __grains__,
        "saltenv": saltenv if saltenv is not None else __opts__.get("saltenv"),
        "pillarenv": pillarenv,
    }
    if ext:
        load["ext"] = ext
    if __opts__.get("file_client") == "local" and not getattr(__master__, "connected", False):
        from saltwisted.worker.pillar.work import PillarWorker

        own = getattr(__opts__, "static_pillar", None)
        request = {**load, "override": override, "seed": own if isinstance(own, dict) else {}}
        before = __opts__.get("__pillarenv_before", __opts__.get("pillarenv"))
        if override or pillarenv != before:
            # Without a master Salt lays a pillar that is compiled again over the one that it has
            request["seed"] = dict(__pillar__)
        return PillarWorker(__opts__).value(request)
    load["grains"] = dict(__grains__)
    load.update(pillar_override=override or {}, extra_minion_data={}, ver="2", cmd="_pillar")
    answer = __master__.pillar(load)
    if not isinstance(answer, dict):
        raise CommandExecutionError(
            f"Got a bad pillar from master, type {type(answer).__name__}, expecting dict"
        )
    return answer


def data(
    *args: Any,
    pillar: Any = None,
    pillar_enc: str | None = None,
    pillarenv: str | None = None,
    saltenv: str | None = None,
    unmask: bool | None = None,
) -> dict[str, Any]:
    """
    Another name of C{pillar.items}.

    CLI Example::

        salt '*' pillar.data
    """
    return items(
        *args,
        pillar=pillar,
        pillar_enc=pillar_enc,
        pillarenv=pillarenv,
        saltenv=saltenv,
        unmask=unmask,
    )


def obfuscate(
    *args: Any,
    pillar: Any = None,
    pillar_enc: str | None = None,
    pillarenv: str | None = None,
    saltenv: str | None = None,
    unmask: bool | None = None,
) -> Any:
    """
    The whole pillar with the type of each value in its place.

    CLI Example::

        salt '*' pillar.obfuscate
    """
    return _types(
        items(
            *args,
            pillar=pillar,
            pillar_enc=pillar_enc,
            pillarenv=pillarenv,
            saltenv=saltenv,
            unmask=unmask,
        )
    )


def _types(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _types(item) for key, item in value.items()}
    if isinstance(value, (list, set, tuple)):
        return type(value)(_types(item) for item in value)
    return f"<{type(value).__name__}>"


def ls(
    *args: Any,
    pillar: Any = None,
    pillar_enc: str | None = None,
    pillarenv: str | None = None,
    saltenv: str | None = None,
    unmask: bool | None = None,
) -> list[str]:
    """
    The names at the top of the pillar.

    CLI Example::

        salt '*' pillar.ls
    """
    return list(
        items(
            *args,
            pillar=pillar,
            pillar_enc=pillar_enc,
            pillarenv=pillarenv,
            saltenv=saltenv,
            unmask=unmask,
        )
    )


def item(
    *args: Any,
    default: Any = None,
    delimiter: str | None = None,
    pillarenv: str | None = None,
    saltenv: str | None = None,
    unmask: bool | None = None,
) -> dict[str, Any]:
    """
    Some values by name, or by C{a:b:c}; C{default} (or an empty text) where there is none.

    CLI Example::

        salt '*' pillar.item foo
        salt '*' pillar.item foo:bar
        salt '*' pillar.item foo bar baz
    """
    default = "" if default is None else default
    pillar = _here(saltenv, pillarenv)
    found = {arg: traverse(pillar, arg, default, delimiter or _DELIMITER) for arg in args}
    return _shown(found, unmask)


def raw(key: Any = None, unmask: bool | None = None) -> Any:
    """
    The pillar in memory, or one name of it, in plain values.

    CLI Example::

        salt '*' pillar.raw
        salt '*' pillar.raw key='roles'
    """
    value = __pillar__.get(key, {}) if key else dict(__pillar__)
    return shown(value, True if unmask is None else unmask)


def ext(external: Any, pillar: Any = None, unmask: bool | None = None) -> dict[str, Any]:
    """
    The pillar as it would be with this C{ext_pillar} besides: a map with one name.

    CLI Example::

        salt '*' pillar.ext '{libvirt: _}'
    """
    if isinstance(external, str):
        external = _yaml.load(external)
    compiled = _compiled(__opts__.get("saltenv"), __opts__.get("pillarenv"), pillar, external)
    return _shown(compiled, unmask)


def keys(key: Any, delimiter: str = _DELIMITER, unmask: bool | None = None) -> list[Any]:
    """
    The names inside the map at C{a:b:c}.

    CLI Example::

        salt '*' pillar.keys web:sites
    """
    found = traverse(__pillar__, key, KeyError, delimiter)
    if found is KeyError:
        raise KeyError(f"Pillar key not found: {key}")
    if not isinstance(found, Mapping):
        raise ValueError(f"Pillar value in key {key} is not a dict")
    return list(found)


def file_exists(path: str, saltenv: str | None = None) -> bool:
    """
    Whether there is such a file in the C{pillar_roots} of this machine.

    CLI Example::

        salt '*' pillar.file_exists foo/bar.sls
    """
    roots = __opts__.get("pillar_roots")
    if not roots:
        raise CommandExecutionError("No pillar_roots found. Are you running this on the master?")
    if saltenv:
        if saltenv not in roots:
            return False
        roots = {saltenv: roots[saltenv]}
    return any(os.path.isfile(os.path.join(folder, path)) for env in roots for folder in roots[env])


def filter_by(
    lookup_dict: Any, pillar: str, merge: Any = None, default: Any = "default", base: Any = None
) -> Any:
    """
    The entry of a map that fits a pillar value: keys are globs. See C{grains.filter_by}.

    CLI Example::

        salt '*' pillar.filter_by '{web: Serve it up, db: I query, default: x}' role
    """
    return _data.filter_by(lookup_dict, pillar, __pillar__, merge, default, base)
