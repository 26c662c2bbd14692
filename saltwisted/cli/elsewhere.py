"""
What Salt has and saltwisted has not: commands and runner functions, by Salt's names.

Somebody who calls one of these has made no mistake in typing, and is told so.
"""

from __future__ import annotations

from collections.abc import Mapping

COMMANDS: Mapping[str, str] = {
    "salt-api": "the master serves the API itself, where its configuration has rest_twisted",
    "salt-cloud": "a stock salt-cloud makes machines; a token lets their minions in",
    "salt-proxy": "a stock salt-proxy can be a minion of this master",
    "salt-ssh": "a stock salt-ssh works without any master",
    "salt-syndic": "masters share their work as nodes of a cluster (docs/cluster.md)",
    "salt-support": "the subcommands doctor and backup show what there is",
    "spm": "formulas are files: put them below file_roots",
}
"""Name to what helps instead."""

DAEMONS: Mapping[str, str] = {"salt-master": "master", "salt-minion": "minion"}
"""Salt's daemons: they are here, and are started otherwise."""

RUNNERS: Mapping[str, str] = {
    "asam": "add_platform list_platform_sets list_platforms remove_platform",
    "auth": "del_token mk_token",
    "batch": "list_active status stop",
    "bgp": "neighbors",
    "cache": (
        "clear_all clear_git_lock clear_grains clear_mine clear_mine_func clear_pillar cloud "
        "fetch flush grains list migrate mine pillar store"
    ),
    "cloud": (
        "action create destroy full_query list_images list_locations list_sizes map_run profile "
        "query select_query"
    ),
    "cluster": (
        "collect_from_peers members migrate_jobs_to_cache ring_create ring_destroy ring_info "
        "ring_set rings route_clear route_set routes shed_status shed_unowned shed_unowned_all "
        "sync_roots"
    ),
    "config": "get",
    "ddns": "add_host create delete delete_host update",
    "digicert": (
        "del_cached_domain gen_csr gen_key get_certificate get_org_details list_domain_cache "
        "list_domains list_orders list_organizations list_requests order_certificate show_csrs "
        "show_organization show_rsa"
    ),
    "doc": "execution runner wheel",
    "drac": "poweroff poweron pxe reboot version",
    "error": "error",
    "event": "send",
    "f5": (
        "add_pool_member check_member_pool check_pool check_virtualserver create_pool create_vs"
    ),
    "fileserver": (
        "clear_cache clear_file_list_cache clear_lock dir_list empty_dir_list envs file_list lock "
        "symlink_list update"
    ),
    "git_pillar": "update",
    "http": "query update_ca_bundle",
    "jobs": (
        "active exit_success last_run list_job list_jobs list_jobs_filter lookup_jid master "
        "print_job"
    ),
    "launchd": "write_launchd_plist",
    "lxc": "cloud_init find_guest find_guests freeze info init list purge start stop unfreeze",
    "manage": (
        "alived allowed bootstrap bootstrap_psexec down joined key_regen list_not_state "
        "list_state not_alived not_allowed not_joined not_present not_reaped present reaped "
        "safe_accept status up versions"
    ),
    "match": "compound_matches",
    "mattermost": "post_event post_message",
    "mine": "get update",
    "nacl": (
        "dec dec_file enc enc_file keygen sealedbox_decrypt sealedbox_encrypt secretbox_decrypt "
        "secretbox_encrypt"
    ),
    "net": "find findarp findmac interfaces lldp multi_find",
    "network": "wol wollist wolmatch",
    "pagerduty": (
        "create_event list_incidents list_policies list_schedules list_services list_users "
        "list_windows"
    ),
    "pillar": "clear_pillar_cache show_pillar show_pillar_cache show_top",
    "pkg": "list_upgrades",
    "pki": "migrate_to_mmap status",
    "queue": (
        "delete insert insert_runner list_items list_length list_queues pop process_queue "
        "process_runner"
    ),
    "reactor": "add delete is_leader list set_leader",
    "resource": "list_grains refresh show_grains",
    "salt": "cmd execute",
    "saltutil": (
        "sync_all sync_cache sync_clouds sync_eauth_tokens sync_engines sync_executors "
        "sync_fileserver sync_grains sync_modules sync_output sync_pillar sync_proxymodules "
        "sync_queues sync_renderers sync_returners sync_roster sync_runners sync_sdb "
        "sync_serializers sync_states sync_thorium sync_tops sync_utils sync_wheel sync_wrapper"
    ),
    "sdb": "delete get get_or_set_hash set",
    "spacewalk": (
        "addGroupsToKey api deleteAllActivationKeys deleteAllGroups deleteAllSystems unregister"
    ),
    "ssh": "cmd",
    "state": (
        "event graph graph_highstate orchestrate orchestrate_high orchestrate_show_sls "
        "orchestrate_single pause resume soft_kill"
    ),
    "survey": "diff hash",
    "test": "arg get_opts metasyntactic raw_arg sleep stdout_print stream",
    "thin": "generate generate_min",
    "vault": (
        "cleanup_auth clear_cache generate_new_token generate_secret_id generate_token get_config "
        "get_role_id list_approles list_entities show_approle show_entity show_policies "
        "sync_approles sync_entities unseal"
    ),
    "venafi": "del_cached_domain list_domain_cache renew request show_cert",
    "virt": (
        "force_off host_info init list migrate next_host pause purge query reset resume start "
        "vm_info"
    ),
    "vistara": "delete_device",
    "vmadm": "get is_running list nodes reboot start stop",
    "winrepo": "genrepo update_git_repos",
}
"""Salt's runners 3006 to 3008, each with its functions."""


def is_runner(fun: str) -> bool:
    """Whether Salt has such a runner function."""
    module, _, name = fun.partition(".")
    return name in RUNNERS.get(module, "").split()
