"""C{salt.serializers.tomlmod}; it needs the library C{toml}, as in stock."""

from __future__ import annotations

import importlib.util

from saltwisted.modules import _serializers
from saltwisted.modules._serializers import DeserializationError as DeserializationError
from saltwisted.modules._serializers import SerializationError as SerializationError

HAS_TOML = available = importlib.util.find_spec("toml") is not None
serialize, deserialize = _serializers._TOML
