"""C{salt.serializers.configparser}."""

from __future__ import annotations

from saltwisted.modules import _serializers
from saltwisted.modules._serializers import DeserializationError as DeserializationError
from saltwisted.modules._serializers import SerializationError as SerializationError

available = True
serialize, deserialize = _serializers.OWN["configparser"]
