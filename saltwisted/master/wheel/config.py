"""
The C{config} wheel functions: the options with which the master runs, and with which it will.
"""

from __future__ import annotations

import os
from typing import Any

from saltwisted.config.secrets import shown
from saltwisted.master import configfiles
from saltwisted.master.wheel_table import Call


async def values(call: Call) -> dict[str, Any]:
    """The whole configuration as it is in force, without its secrets."""
    return shown(call.ctx.config.as_opts())


async def apply(call: Call, key: str, value: Any) -> None:
    """Set one option in the master's file; it counts from the next start."""
    await call.ctx.pool(configfiles.set_option, call.ctx.config.conf_file, key, value)


async def update_config(call: Call, file_name: str, yaml_contents: Any) -> Any:
    """Write options into a file of their own in master.d; they count from the next start."""
    config = call.ctx.config
    folder = os.path.join(config.config_dir, os.path.dirname(config.default_include))
    return await call.ctx.pool(configfiles.write_part, folder, file_name, yaml_contents)


FUNCTIONS = {"apply": apply, "update_config": update_config, "values": values}
