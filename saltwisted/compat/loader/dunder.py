"""C{salt.loader.dunder}: the loader's names for code that is no module."""

from __future__ import annotations

from saltwisted.compat.loader.context import LoaderContext

loader_context = LoaderContext()

__context__ = loader_context.named_context("__context__")
__file_client__ = loader_context.named_context("__file_client__")
__grains__ = loader_context.named_context("__grains__")
__opts__ = loader_context.named_context("__opts__")
__pillar__ = loader_context.named_context("__pillar__")
__salt__ = loader_context.named_context("__salt__")
__utils__ = loader_context.named_context("__utils__")
