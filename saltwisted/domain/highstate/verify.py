"""
Whether data is valid high data: the structural mistakes of an SLS, in stock's words.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from saltwisted.domain.highstate.words import REQUISITE_KEYWORDS, first_key


def mistakes(high: Any) -> list[str]:
    """Every structural mistake, in the order of the data; an empty list if all is well."""
    if not isinstance(high, dict):
        return ["High data is not a dictionary and is invalid"]
    errors: list[str] = []
    for id_, body in high.items():
        if not isinstance(id_, str):
            errors.append(
                f"ID '{id_}' in SLS '{body['__sls__']}' is not formed as a string, "
                f"but is type {type(id_).__name__}. It may need to be quoted."
            )
        elif id_.startswith("__"):
            continue
        if not isinstance(body, dict):
            errors.append(f"The type {id_} in {body} is not formatted as a dictionary")
            continue
        for state, run in body.items():
            if not state.startswith("__"):
                _check_state(id_, state, run, body, errors)
    return errors


def _check_state(id_: Any, state: str, run: Any, body: dict[str, Any], errors: list[str]) -> None:
    if run is None:
        errors.append(
            f"ID '{id_}' in SLS '{body['__sls__']}' contains a short declaration "
            f"({state}) with a trailing colon. When not passing any "
            "arguments to a state, the colon must be omitted."
        )
        return
    if not isinstance(run, list):
        errors.append(f"State '{id_}' in SLS '{body['__sls__']}' is not formed as a list")
        return
    functions = [state.split(".", 1)[1]] if "." in state else []
    for arg in run:
        if isinstance(arg, str):
            functions.append(arg)
            if " " in arg.strip():
                errors.append(
                    f'The function "{arg}" in state "{id_}" in SLS "{body["__sls__"]}" has '
                    "whitespace, a function with whitespace is not supported, perhaps this is "
                    'an argument that is missing a ":"'
                )
        elif isinstance(arg, dict):
            _check_argument(id_, arg, body, errors)
    if not functions:
        errors.append(f"No function declared in state '{id_}' in SLS '{body['__sls__']}'")
    elif len(functions) > 1:
        errors.append(
            f"Too many functions declared in state '{id_}' in SLS '{body['__sls__']}'. "
            "Please choose one of the following: " + ", ".join(functions)
        )


def _check_argument(id_: Any, arg: dict[Any, Any], body: dict[str, Any], errors: list[str]) -> None:
    name = first_key(arg)
    if not arg:
        errors.append(f"An argument of state '{id_}' in SLS '{body['__sls__']}' is an empty map")
        return
    if name == "names" and not isinstance(arg[name], list):
        errors.append(
            f"The 'names' argument in state '{id_}' in SLS '{body['__sls__']}' needs to be "
            "formed as a list"
        )
    if name not in REQUISITE_KEYWORDS:
        return
    if not isinstance(arg[name], list):
        errors.append(
            f"The {name} statement in state '{id_}' in SLS '{body['__sls__']}' needs to be "
            "formed as a list"
        )
    for given in arg[name] if isinstance(arg[name], list) else ():
        req = {"id": given} if isinstance(given, str) else given
        if not isinstance(req, dict) or len(req) != 1:
            errors.append(
                f"Requisite declaration {req} in state {id_} in SLS {body['__sls__']} "
                "is not formed as a single key dictionary"
            )
            continue
        key, value = next(iter(req.items()))
        if "." in key:
            errors.append(
                f"Invalid requisite type '{key}' in state '{id_}', in SLS '{body['__sls__']}'. "
                "Requisite types must not contain dots, did you mean "
                f"'{key[: key.find('.')]}'?"
            )
        if not _hashable(value):
            errors.append(
                f'Illegal requisite "{value}" in SLS "{body["__sls__"]}", '
                "please check your syntax.\n"
            )
    if len(arg) != 1:
        errors.append(
            f"Multiple dictionaries defined in argument of state '{id_}' in SLS '{body['__sls__']}'"
        )


def _hashable(value: Any) -> bool:
    if isinstance(value, (dict, list)):
        return False
    return isinstance(value, Hashable)
