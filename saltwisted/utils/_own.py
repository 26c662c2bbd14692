"""
Functions from elsewhere under a module's own name.

The loader offers the functions of a module and no others, so that what it only imports for itself
is not offered.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from saltwisted.domain.render.errors import FilterError
from saltwisted.worker.exceptions import SaltInvocationError


def own(module: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function as one of a module; errors of filters become those that modules know."""

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except FilterError as error:
            raise SaltInvocationError(str(error)) from None

    called.__module__ = module
    return called
