"""
What our texts recommend: one table of situations, words and commands.

Whoever tells an operator to run something takes it from here by its id (L{of}), with parameters
that are quoted for a shell. C{tests/advice} finds commands in other texts, and carries out each of
these: once, as printed, in the situation that prints it. What cannot be carried out like this is
words alone, and looks like no command.

Nothing is decided here: the caller knows the situation.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple


class By(Enum):
    """Who may run a command."""

    ROOT = "root"
    DAEMON = "root or the daemon's user"
    ANYBODY = "any user of the machine"
    NOBODY = "nobody: there is no command"


class Advice(NamedTuple):
    """
    A row.

    @ivar situation: when it is printed.
    @ivar words: the sentence, a template; C{{command}} in it is the command.
    @ivar command: a template of one line for a shell, or C{""}.
    @ivar on: where it runs if not on the machine that prints it, a template.
    """

    id: str
    situation: str
    words: str
    command: str = ""
    by: By = By.NOBODY
    on: str = ""


OURS = ("saltwisted ", "salt ", "salt-key ", "salt-run ", "salt-call ")
"""How commands of ours begin: these take C{-c}."""


class Said(NamedTuple):
    """
    A row with its parameters; as text it is the sentence.

    @ivar config: the directory of a configuration that a command of ours does not find by itself.
    @ivar programs: where our programs are if a shell does not find them: a directory with a slash
        at its end.
    """

    advice: Advice
    params: Mapping[str, object]
    config: str = ""
    programs: str = ""

    @property
    def id(self) -> str:
        """Which row."""
        return self.advice.id

    @property
    def by(self) -> By:
        """Who may run it."""
        return self.advice.by

    @property
    def on(self) -> str:
        """Another node, if it does not run here."""
        return self.advice.on.format(**self.params)

    @property
    def command(self) -> str:
        """One line for a shell; empty if a person has to decide, or does something by hand."""
        quoted = {name: _quoted(value) for name, value in self.params.items()}
        text = self.advice.command.format(**quoted)
        if text.startswith(OURS):
            # What is on another node has a configuration of its own
            at = f" -c {shlex.quote(self.config)}" if self.config and not self.advice.on else ""
            text = f"{'' if self.advice.on else self.programs}{text}{at}"
        return text

    @property
    def around(self) -> tuple[str, str]:
        """What the sentence says before its command and after it, which may be nothing."""
        before, _, after = self.words.partition(self.command) if self.command else (
            self.words, "", ""
        )  # fmt: skip
        return before.strip().rstrip(":'"), after.lstrip(".,' ").rstrip()

    @property
    def words(self) -> str:
        """The sentence."""
        shown = {
            name: ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else value
            for name, value in self.params.items()
        }
        return self.advice.words.format(command=self.command, on=self.on, **shown)

    def at(self, config: str, programs: str = "") -> Said:
        """The same for a reader who needs C{-c}, or has our programs in no path."""
        return self._replace(config=config, programs=programs)

    def __str__(self) -> str:
        return self.words

    def __format__(self, spec: str) -> str:
        return format(self.words, spec)


def _quoted(value: object) -> str:
    """For a shell: one word; of a list several; of a mapping options, each with a space before."""
    if isinstance(value, Mapping):
        return "".join(f" {name} {shlex.quote(str(one))}" for name, one in value.items())
    if isinstance(value, (list, tuple)):
        return shlex.join(map(str, value))
    return shlex.quote(str(value))


def of(id: str, /, **params: object) -> Said:
    """
    The row with this id.

    @raises KeyError: there is none, or a parameter is missing.
    """
    said = Said(TABLE[id], params)
    # A parameter that is missing shall fail here, and not in the middle of a log
    said.words  # noqa: B018
    said.on  # noqa: B018
    return said


def command(id: str, /, **params: object) -> str:
    """The command of that row, where it stands on a line of its own."""
    return of(id, **params).command


_ROWS = (
    # Daemons
    Advice(
        "start.unit",
        "a command needs the daemon, which is stopped, and a unit of systemd starts it",
        "Start it: {command}",
        "systemctl start {unit}",
        By.ROOT,
    ),
    Advice(
        "start.hand",
        "a command needs the daemon, which is stopped, and no unit has this configuration",
        "Start it: {command}",
        "{program} --nodaemon --pidfile= saltwisted --role {role} --config {directory}",
        By.DAEMON,
    ),
    Advice(
        "start.lone",
        "a node has left its cluster while it was stopped, and is to be a lone master",
        "To serve minions again: {command}",
        "systemctl disable saltwisted-cluster && systemctl enable --now saltwisted-master",
        By.ROOT,
    ),
    Advice(
        "status.elsewhere",
        "no daemon runs with the configuration that was asked for, but one with another does",
        "A {role} runs with another configuration (process {pid}): {command}",
        "saltwisted status -c {directory}",
        By.ANYBODY,
    ),
    Advice(
        "log.unit",
        "a daemon that systemd started says that something is wrong",
        "Its log says more: {command}",
        "journalctl -u {unit} -n 50",
        By.ROOT,
    ),
    Advice(
        "log.hand",
        "a daemon that was started by hand says that something is wrong",
        "Its log says more.",
    ),
    # A lone master, or a node of a cluster
    Advice(
        "lone.master",
        "a command about the cluster, on a machine with a lone master",
        "This machine has a lone master, not a cluster node.",
    ),
    Advice(
        "member.lone",
        "a lone master is started with the state of a cluster's node",
        "This machine is the node {node} of cluster {cluster}, and does not start as a lone "
        "master: keys that it changed would change back when it is a node again. Start the node "
        "(role cluster). To make it a lone master for good: {command}",
        "saltwisted leave --offline",
        By.DAEMON,
    ),
    Advice(
        "left.lone",
        "a lone master is started with the state of a node that has left, or was removed",
        "This machine was the node {node} of cluster {cluster}, and has that cluster's key. To "
        "make it a lone master with this key: {command}",
        "saltwisted leave --offline",
        By.DAEMON,
    ),
    Advice(
        "left.member",
        "a node has left while it was stopped, and could tell nobody",
        "The other members do not know it yet. Tell them, {on}: {command}",
        "saltwisted remove {node}",
        By.DAEMON,
        "on one of them",
    ),
    Advice(
        "stop.first",
        "a node is to leave as one that is stopped, and runs",
        "The node runs. Let it leave as a running one: {command}",
        "saltwisted leave",
        By.DAEMON,
    ),
    Advice(
        "keys.stopped",
        "keys are to be changed while the node is stopped",
        "This node is not running. The keys of a cluster are in its log, not in these directories, "
        "so a change here would be undone at the next start. Start the node, or change keys on "
        "another member.",
    ),
    # Files
    Advice(
        "file.mode",
        "others may read or change a file with secrets",
        "Take these rights from them: {command}",
        "chmod {mode} {path}",
        By.ROOT,
    ),
    Advice(
        "file.group",
        "others may read a file with secrets, as the daemon does, which it does not belong to",
        "Leave it to the daemon's group: {command}",
        "chgrp {group} {path} && chmod {mode} {path}",
        By.ROOT,
    ),
    Advice(
        "file.user",
        "others may read a key that the daemon needs, and that does not belong to it",
        "Give it to the daemon's user: {command}",
        "chown {user} {path} && chmod {mode} {path}",
        By.ROOT,
    ),
    Advice(
        "file.owner",
        "a file with secrets belongs to somebody else, who can change it",
        "Give it to the daemon's user: {command}",
        "chown {user} {path}",
        By.ROOT,
    ),
    Advice(
        "file.unknown",
        "others may read a file with secrets, and nobody knows as whom the daemon will run",
        "Only the user of the daemon should read it.",
    ),
    Advice(
        "own.tree",
        "a daemon is started whose own files belong to somebody else",
        "Fix it with: {command}",
        "chown -R {user}: {top}",
        By.ROOT,
    ),
    Advice(
        "roots.access",
        "a node may not read what is in its roots",
        "Give it access beside those who have it: {command}",
        "setfacl -R -m u:{user}:rwX,d:u:{user}:rwX {root}",
        By.ROOT,
    ),
    Advice(
        "takeover.access",
        "the user of our master may not read what the stock master served",
        "fix it with: {command}",
        "setfacl -R -m u:{user}:rX {path}",
        By.ROOT,
    ),
    Advice(
        "takeover.shadow",
        "logins by PAM, and the user of our master may not read passwords",
        "fix it with: {command}",
        "adduser {user} shadow",
        By.ROOT,
    ),
    Advice(
        "disk.space",
        "a file system is nearly full",
        "What takes the room: {command}. The option keep_jobs_seconds bounds the history of jobs.",
        "du -xh --max-depth=1 {path}",
        By.ROOT,
    ),
    Advice(
        "disk.inodes",
        "a file system has few inodes left",
        "What takes them: {command}",
        "du --inodes -x --max-depth=1 {path}",
        By.ROOT,
    ),
    Advice(
        "disk.refuses",
        "a store cannot write",
        "How full the disks are: {command}",
        "df -h",
        By.ANYBODY,
    ),
    Advice(
        "disk.fails",
        "what was written is read back as something else",
        "The disk may be failing: its own report and the kernel's log say more.",
    ),
    # The machine and its network
    Advice(
        "port.stock",
        "a stock master has the ports",
        "A stock master runs on this machine. Only one of the two can serve: stop the one that is "
        "not to.",
    ),
    Advice(
        "port.firewall",
        "a port cannot be reached",
        "Look for a firewall between them.",
    ),
    Advice(
        "clock.unsynchronised",
        "no time service keeps the clock",
        "Install a time service, such as chrony, or repair the one that is there. A container has "
        "its host's clock.",
    ),
    Advice(
        "clock.wrong",
        "a clock is wrong",
        "Set the clocks right: a time service does that on all machines.",
    ),
    Advice(
        "clock.back",
        "a clock was set back while a daemon ran",
        "The clock of this machine was set back: times that it shows are not to be trusted.",
    ),
    Advice(
        "certificate.renew",
        "a certificate has ended, or will end soon",
        "Have it renewed, and restart the daemon.",
    ),
    Advice(
        "limit.files",
        "the daemon may open fewer files than it has minions",
        "Set LimitNOFILE=100000 in a drop-in of its unit, section [Service], and restart it.",
    ),
    Advice(
        "proxy.idle",
        "a proxy cuts connections that are idle",
        "In haproxy.cfg: timeout client 50s, timeout server 50s (see docs/haproxy.md).",
    ),
    # Minions and their keys
    Advice(
        "key.shared",
        "two minions have one key",
        "On the clone: stop the minion, remove minion.pem and minion.pub from its pki_dir "
        "(/etc/saltwisted/pki/minion of our package, /etc/salt/pki/minion of the stock one), and "
        "start it again. Then accept its new key.",
    ),
    Advice(
        "key.states",
        "a minion's key is accepted and pending or rejected at once",
        "Decide which key is the minion's by its fingerprint, and delete or accept it.",
    ),
    Advice(
        "key.id",
        "another machine uses the id of an accepted minion",
        "Give one of them another id. If the machine was installed again, delete its old key.",
    ),
    Advice(
        "key.delete",
        "files of keys vanished, which deletes no key",
        "To delete keys, use salt-key.",
    ),
    Advice(
        "key.accept",
        "a master has rejected the key of the minion here",
        "accept it there, or delete it",
    ),
    Advice(
        "key.signature",
        "the option asks for a signature of the master's key, and there is none",
        "salt-key makes it with --gen-signature where the signing key is; copy it from there",
    ),
    Advice(
        "minion.old",
        "minions have known security holes",
        "Upgrade them to 3006.17, 3007.9 or 3008.",
    ),
    # A cluster
    Advice(
        "members.look",
        "a member is away, is behind, or does not serve",
        "How each member is: {command}",
        "saltwisted members",
        By.DAEMON,
    ),
    Advice(
        "drift.look",
        "members differ in options that should be equal",
        "'{command}' shows how",
        "saltwisted members --drift",
        By.DAEMON,
    ),
    Advice(
        "member.down",
        "a member cannot be reached, and a majority is in reach",
        "{node} cannot be reached from here. The other members keep serving, and {node} catches up "
        "when it is back. Start it. If it will not come back: {command}",
        "saltwisted remove {node}",
        By.DAEMON,
    ),
    Advice(
        "member.away",
        "a member cannot be reached, and whether a majority is there is another matter",
        "{node} cannot be reached from here: start it, or repair the network between.",
    ),
    Advice(
        "member.degraded",
        "a member serves without what others know",
        "{node} serves, but it started without members that did not answer. Keys that were revoked "
        "only there may still be accepted. Start those members.",
    ),
    Advice(
        "member.starting",
        "a member catches up",
        "{node} does not serve yet: it is catching up.",
    ),
    Advice(
        "member.suspended",
        "a member waits for an operator",
        "{node} joined with a token that another node had used up, or its token asks for approval. "
        "To let it in: {command}",
        "saltwisted members approve {node}",
        By.DAEMON,
    ),
    Advice(
        "member.approve",
        "a node waits until it is let in",
        "an operator: {command}",
        "saltwisted members approve {node}",
        By.DAEMON,
        "a member",
    ),
    Advice(
        "member.dead",
        "the one member that decides cannot be asked",
        "if it is dead: {command}",
        "saltwisted members --declare-dead {node}",
        By.DAEMON,
    ),
    Advice(
        "member.alive",
        "a member that is linked is to be declared dead",
        "stop it first, or remove it from the cluster",
    ),
    Advice(
        "cluster.minority",
        "this node reaches no majority of the members",
        "This node reaches {reached} of {all} members, which is no majority: {missing} cannot be "
        "reached from here. Most likely they serve, and this node is cut off. Repair the network, "
        "or start them. Remove none of them.",
    ),
    Advice(
        "cluster.cut-off",
        "this node reaches no other member",
        "This node reaches none of the other members ({missing}): it is cut off, or they are down. "
        "Repair the network, or start them. Remove none of them.",
    ),
    Advice(
        "cluster.half",
        "this node reaches half of the members",
        "This node reaches {reached} of {all} members, which is no majority: {missing} cannot be "
        "reached from here. Start what is down, or repair the network between.",
    ),
    Advice(
        "cluster.silent",
        "no other member answers at the start, and only they know what was revoked",
        "Start {late}. Remove none of them: which keys were revoked meanwhile, only they know.",
    ),
    Advice(
        "cluster.lost-disk",
        "members know a node at this address, which has no state",
        "a token that a member makes, to join again: {command}",
        "saltwisted join -",
        By.DAEMON,
    ),
    Advice(
        "cluster.outside",
        "a node that has left, or was removed",
        "To come back, it joins as a new node with a token that a member makes: {command}",
        "saltwisted join -",
        By.DAEMON,
    ),
    Advice(
        "cluster.refused",
        "a join was refused",
        "another token: {command}",
        "saltwisted join -",
        By.DAEMON,
    ),
    Advice(
        "cluster.unfounded",
        "a node that is in no cluster yet",
        "a token that a member of its cluster makes: {command}",
        "saltwisted join -",
        By.DAEMON,
    ),
    Advice(
        "cluster.peers",
        "the listed peers do not answer, and there is no cluster yet",
        "Start them.",
    ),
    Advice(
        "cluster.other",
        "a member is to join another cluster",
        "Let it leave first: {command}",
        "saltwisted leave",
        By.DAEMON,
    ),
    Advice(
        "cluster.itself",
        "a node is to remove itself",
        "let it leave: {command}, or remove it on another member",
        "saltwisted leave",
        By.DAEMON,
    ),
    Advice(
        "cluster.known",
        "a node joins under the name of a member that is away",
        "there is already a member {node}. If this is that machine, and it was installed again, "
        "remove the old one first, {on}: {command}. Otherwise give this node another id",
        "saltwisted remove {node}",
        By.DAEMON,
        "on a member",
    ),
    Advice(
        "cluster.alive",
        "a node joins under the name of a member that runs",
        "there is already a member {node}, and it runs: give this node another id",
    ),
    Advice(
        "cluster.too-late",
        "a member was away for longer than deletions are remembered",
        "Let it leave, or remove it, and let it join as a new node.",
    ),
    Advice(
        "cluster.untold",
        "a node leaves, and could tell no other member",
        "Remove it, {on}: {command}",
        "saltwisted remove {node}",
        By.DAEMON,
        "on one of them",
    ),
    Advice(
        "cluster.malicious",
        "a member claims what only another can know",
        "If its disk is sound, it is malicious: remove it as a compromised one (docs/security.md).",
    ),
    Advice(
        "cluster.secret",
        "the cluster_secret of the configuration is weak",
        "make one by: {command}. Or leave it out, and let nodes join by tokens",
        "head -c 32 /dev/urandom | base64",
        By.ANYBODY,
    ),
    Advice(
        "cluster.tokens",
        "cluster_peers without a cluster_secret",
        "Set cluster_secret on all of them, or leave both out and let nodes join by tokens",
    ),
    Advice(
        "cluster.rights",
        "pillars and the rights of members",
        "say once for all nodes which members get pillars: members have the right pillar",
    ),
    Advice(
        "token.use",
        "a token was made",
        "To use it, run this line on the new {machine}:\n{command}",
        "saltwisted join {token}",
        By.DAEMON,
        "the new {machine}",
    ),
    Advice(
        "token.list",
        "a token is named by what begins none, or several",
        "{command} shows them",
        "saltwisted token list",
        By.DAEMON,
    ),
    # Roots
    Advice(
        "roots.suspended",
        "a share is suspended",
        "To have what the cluster has: {command}. To take it as it is, adopt it with --accept.",
        "saltwisted roots adopt --restore --share {share}",
        By.DAEMON,
    ),
    Advice(
        "roots.held",
        "deletions are held",
        "To delete on all members: {command}. To have the files back, adopt with --restore.",
        "saltwisted roots approve --share {share}",
        By.DAEMON,
    ),
    Advice(
        "roots.held-there",
        "changes of another node are held",
        "Approve or undo them on {node}.",
    ),
    Advice(
        "roots.conflicts",
        "two members changed one file",
        "Which, and both contents: {command}",
        "saltwisted roots conflicts --share {share}",
        By.DAEMON,
    ),
    Advice(
        "roots.conflicts-all",
        "files differ after a merge, or in several shares",
        "Which: {command}",
        "saltwisted roots conflicts",
        By.DAEMON,
    ),
    Advice(
        "roots.look",
        "a peer's roots cannot be had",
        "What is served, and how far the peers are: {command}",
        "saltwisted roots status",
        By.DAEMON,
    ),
    Advice(
        "roots.wait",
        "changes are on their way",
        "To wait for them: {command}",
        "saltwisted roots sync --wait",
        By.DAEMON,
    ),
    Advice(
        "roots.log",
        "a generation is not kept, or was never there",
        "{command} shows those that are",
        "saltwisted roots log",
        By.DAEMON,
    ),
    Advice(
        "roots.help",
        "a word that is not one of the command's",
        "{command} shows what it knows",
        "saltwisted roots --help",
        By.ANYBODY,
    ),
    # Jobs and automation
    Advice(
        "job.lookup",
        "a job goes on after the command that began it; the words are stock's",
        "The minions may not have all finished running and any remaining minions will return upon "
        "completion. To look up the return data for this job later, run the following command:\n\n"
        "{command}",
        "salt-run jobs.lookup_jid {jid}",
        By.ANYBODY,
    ),
    Advice(
        "orch.show",
        "the master has gone while an orchestration ran",
        "What becomes of it, on any node: {command}",
        "saltwisted orch show {jid}",
        By.DAEMON,
    ),
    Advice(
        "automation.look",
        "the reactor has mistakes in its entries or files",
        "see {command}",
        "saltwisted automation status",
        By.DAEMON,
    ),
    Advice(
        "receipts.look",
        "two nodes may have done the same",
        "'{command}' shows both",
        "saltwisted receipts",
        By.DAEMON,
    ),
    Advice(
        "git.key-changed",
        "the host of a git remote shows another key than the known one",
        "If the host has a new key, remove the old one: {command}",
        "ssh-keygen -R {host}",
        By.DAEMON,
    ),
    Advice(
        "git.key-unknown",
        "the key of the host of a git remote is not known",
        "if the key is the right one, add it: {command}",
        "ssh-keyscan {host} >> {known}",
        By.DAEMON,
    ),
    # Takeover
    Advice(
        "takeover.switch",
        "a takeover has written everything, and stopped nothing",
        "Next: {command}",
        "saltwisted takeover --switch{options}",
        By.ROOT,
    ),
    Advice(
        "takeover.undo",
        "the same",
        "To go back: {command}",
        "saltwisted takeover --undo{options}",
        By.ROOT,
    ),
    Advice(
        "modules.sync",
        "the directory of the site's modules is another one after a takeover",
        "{command} fills it",
        "salt-run saltutil.sync_all",
        By.DAEMON,
    ),
    # Commands themselves
    Advice(
        "commands.list",
        "a subcommand that there is not",
        "{command} lists the commands.",
        "saltwisted --help",
        By.ANYBODY,
    ),
    Advice(
        "demo.keep",
        "the demo ends, and takes its daemons and its directory away",
        "To have it left running, and be told how to use it: {command}",
        "saltwisted demo --keep",
        By.ANYBODY,
    ),
    Advice(
        "demo.ping",
        "the demo leaves daemons running",
        "{command}",
        "saltwisted salt -c {directory} '*' test.ping",
        By.ANYBODY,
    ),
    Advice(
        "demo.keys",
        "the same",
        "{command}",
        "saltwisted salt-key -c {directory} -L",
        By.ANYBODY,
    ),
    Advice(
        "demo.jobs",
        "the same",
        "{command}",
        "saltwisted salt-run -c {directory} jobs.list_jobs",
        By.ANYBODY,
    ),
    Advice(
        "demo.grains",
        "the same",
        "{command}",
        "saltwisted salt-call -c {directory} grains.item os",
        By.ANYBODY,
    ),
    Advice(
        "demo.end",
        "the same",
        "and end it with\n        {command}",
        "kill {pids} && rm -r {directory}",
        By.ANYBODY,
    ),
)
TABLE: Mapping[str, Advice] = {row.id: row for row in _ROWS}
"""By id."""
