"""C{salt.syspaths}: where Salt's files are by default."""

from __future__ import annotations

import os

from saltwisted.worker.process.modulefiles import HERE

ROOT_DIR = "/"
CONFIG_DIR = "/etc/salt"
CACHE_DIR = "/var/cache/salt"
SOCK_DIR = "/var/run/salt"
SRV_ROOT_DIR = "/srv"
LOGS_DIR = "/var/log/salt"
PIDFILE_DIR = "/var/run"
LIB_STATE_DIR = "/etc/salt"
SHARE_DIR = "/usr/share/salt"
HOME_DIR = os.path.expanduser("~")
BASE_FILE_ROOTS_DIR = "/srv/salt"
BASE_PILLAR_ROOTS_DIR = "/srv/pillar"
BASE_THORIUM_ROOTS_DIR = "/srv/thorium"
BASE_MASTER_ROOTS_DIR = "/srv/salt-master"
SPM_PARENT_PATH = "/srv/spm"
INSTALL_DIR = HERE
CLOUD_DIR = os.path.join(INSTALL_DIR, "cloud")
BOOTSTRAP = os.path.join(CLOUD_DIR, "deploy", "bootstrap-salt.sh")
