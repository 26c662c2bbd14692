"""
Modules that Salt has or had and saltwisted does not: which package has them.

Salt 3008 has removed some 750 modules. Some of them are in extensions, packages called
C{saltext-NAME} that both Salt and saltwisted load; of the others no home is known. We found them by
comparing 3007 with 3008.2 and with the extensions' own files.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

EXTENSIONS: Mapping[str, Mapping[str, str]] = {
    "saltext-acme": {
        "modules": """
            acme
        """,
        "states": """
            acme
        """,
    },
    "saltext-apache": {
        "modules": """
            suse_apache
        """,
    },
    "saltext-boto3": {
        "modules": """
            boto3_apigateway boto3_asg boto3_cfn boto3_cloudfront
            boto3_cloudtrail boto3_cloudwatch boto3_cloudwatch_event
            boto3_cognitoidentity boto3_datapipeline boto3_dynamodb boto3_ec2
            boto3_efs boto3_elasticache boto3_elasticsearch boto3_elb
            boto3_elbv2 boto3_iam boto3_iot boto3_kinesis boto3_kms boto3_lambda
            boto3_rds boto3_route53 boto3_s3 boto3_s3_bucket boto3_secgroup
            boto3_secretsmanager boto3_sns boto3_sqs boto3_ssm boto3_vpc
        """,
        "states": """
            boto3_apigateway boto3_asg boto3_cfn boto3_cloudfront
            boto3_cloudtrail boto3_cloudwatch_alarm boto3_cloudwatch_event
            boto3_cognitoidentity boto3_datapipeline boto3_dynamodb boto3_ec2
            boto3_elasticache boto3_elasticsearch boto3_elb boto3_elbv2
            boto3_iam boto3_iam_role boto3_iot boto3_kinesis boto3_kms
            boto3_lambda boto3_rds boto3_route53 boto3_s3 boto3_s3_bucket
            boto3_secgroup boto3_secretsmanager boto3_sns boto3_sqs boto3_vpc
        """,
    },
    "saltext-consul": {
        "modules": """
            consul
        """,
        "states": """
            consul
        """,
        "sdb": """
            consul
        """,
        "pillar": """
            consul consul_pillar
        """,
    },
    "saltext-dockermod": {
        "modules": """
            docker dockercompose dockermod
        """,
        "states": """
            docker_container docker_image docker_network docker_volume
        """,
        "engines": """
            docker_events
        """,
    },
    "saltext-elasticsearch": {
        "modules": """
            elasticsearch
        """,
        "states": """
            elasticsearch elasticsearch_index elasticsearch_index_template
        """,
        "returners": """
            elasticsearch elasticsearch_return
        """,
    },
    "saltext-github": {
        "modules": """
            github
        """,
        "states": """
            github
        """,
    },
    "saltext-grafana": {
        "modules": """
            grafana4
        """,
        "states": """
            grafana grafana4_dashboard grafana4_datasource grafana4_org
            grafana4_user grafana_dashboard grafana_datasource
        """,
    },
    "saltext-haproxy": {
        "modules": """
            haproxy haproxyconn
        """,
        "beacons": """
            haproxy
        """,
    },
    "saltext-helm": {
        "modules": """
            helm
        """,
        "states": """
            helm
        """,
    },
    "saltext-influxdb": {
        "modules": """
            influxdb influxdb08 influxdb08mod influxdbmod
        """,
        "states": """
            influxdb08_database influxdb08_user influxdb_continuous_query
            influxdb_database influxdb_retention_policy influxdb_user
        """,
        "returners": """
            influxdb influxdb_return
        """,
    },
    "saltext-kubernetes": {
        "modules": """
            k8s kubeadm kubernetes kubernetesmod
        """,
        "states": """
            kubernetes
        """,
    },
    "saltext-ldap": {
        "modules": """
            ldap ldap3 ldapmod
        """,
        "states": """
            ldap
        """,
        "pillar": """
            pillar_ldap
        """,
    },
    "saltext-mattermost": {
        "modules": """
            mattermost
        """,
        "returners": """
            mattermost mattermost_returner
        """,
        "runners": """
            mattermost
        """,
    },
    "saltext-mongodb": {
        "modules": """
            mongodb
        """,
        "states": """
            mongodb_database mongodb_user
        """,
    },
    "saltext-mysql": {
        "returners": """
            mysql
        """,
        "pillar": """
            mysql
        """,
    },
    "saltext-namecheap": {
        "modules": """
            namecheap_domains namecheap_domains_dns namecheap_domains_ns
            namecheap_ssl namecheap_users
        """,
    },
    "saltext-pagerduty": {
        "modules": """
            pagerduty pagerduty_util
        """,
        "states": """
            pagerduty pagerduty_escalation_policy pagerduty_schedule
            pagerduty_service pagerduty_user
        """,
        "runners": """
            pagerduty
        """,
    },
    "saltext-prometheus": {
        "returners": """
            prometheus_textfile
        """,
        "engines": """
            prometheus
        """,
    },
    "saltext-pushover": {
        "modules": """
            pushover pushover_notify
        """,
        "states": """
            pushover
        """,
        "returners": """
            pushover pushover_returner
        """,
    },
    "saltext-redis": {
        "modules": """
            redis redismod
        """,
        "states": """
            redis redismod
        """,
        "returners": """
            redis redis_return
        """,
        "engines": """
            redis redis_sentinel
        """,
        "sdb": """
            redis redis_sdb
        """,
        "pillar": """
            redis redismod
        """,
    },
    "saltext-s3fs": {},
    "saltext-splunk": {
        "modules": """
            splunk splunk_search
        """,
        "states": """
            splunk splunk_search
        """,
        "returners": """
            splunk
        """,
    },
    "saltext-vault": {
        "modules": """
            vault
        """,
        "states": """
            vault
        """,
        "runners": """
            vault
        """,
        "sdb": """
            vault
        """,
        "pillar": """
            vault
        """,
    },
    "saltext-zabbix": {
        "modules": """
            zabbix
        """,
        "states": """
            zabbix_action zabbix_host zabbix_hostgroup zabbix_mediatype
            zabbix_template zabbix_user zabbix_usergroup zabbix_usermacro
            zabbix_valuemap
        """,
        "returners": """
            zabbix zabbix_return
        """,
    },
    "saltext-zfs": {
        "modules": """
            zfs zpool
        """,
        "states": """
            zfs zpool
        """,
    },
    "saltext-zookeeper": {
        "modules": """
            zookeeper
        """,
        "states": """
            zookeeper
        """,
    },
}
"""By extension and kind of module, the names of its modules."""

STOCK: Mapping[str, str] = {
    "modules": """
        acl ansible ansiblegate apf appx arista_pyeapi artifactory assistive
        at at_solaris auditpol autoruns baredoc bcache beacons bgp bridge
        cassandra_cql celery certutil chef chocolatey chronos chroot cloud cryptdev
        debuild_pkgbuild desktop devinfo devmap dism dsc dsc_resource
        etcd etcd_mod ethtool extfs firewall fmadm highstate_doc idem
        incron iosconfig ipset iwtools jinja junos kernelpkg kernelpkg_linux_apt
        kernelpkg_linux_yum keyboard keychain lgpo lgpo_reg license linux_acl
        linux_ip locate macdefaults macpackage mdadm_raid nacl napalm napalm_bgp
        napalm_formula napalm_mod napalm_netacl napalm_network napalm_ntp
        napalm_probes napalm_route napalm_snmp napalm_users napalm_yang
        napalm_yang_mod net netacl netaddress nfs3 nixpkg npm ntp nxos nxos_api
        nxos_upgrade oracle osquery out pacmanpkg pam parted_partition partition
        pkgbuild pkgin pkgng pkgutil power powercfg probes proxy psget
        puppet pw_group pw_user pyeapi pyenv quota raid rbac rbac_solaris
        rdp reg rest_pkg rest_service restartcheck ret rh_ip rh_service route
        rpm_lowpkg rpmbuild_pkgbuild rsync salt_proxy salt_version
        saltcloud saltcloudmod scp scp_mod scsi seed shortcut slack
        slack_notify smbios smf_service snapper snmp softwareupdate sqlite3 ssh_pkg
        ssh_pki ssh_service supervisord syslog_ng task temp textfsm textfsm_mod tls
        udev upstart_service users vagrant vsphere webutil winrepo wusa x509_v2
        xattr xml yaml yumpkg zk_concurrency zoneadm zonecfg zypperpkg
    """,
    "states": """
        acl ansible ansiblegate appx assistive at beacon certutil chocolatey cloud
        disk dism dsc_resource etcd etcd_mod firewall
        highstate_doc idem ipset keyboard keychain lgpo lgpo_reg license
        linux_acl loop macdefaults macpackage makeconf mdadm_raid netacl netconfig
        netntp netsnmp netusers ntp pkgbuild pkgng
        powercfg process proxy pyenv quota
        raid reg salt_proxy shortcut ssh_pki status
        syslog_ng system task tls uptime winrepo wua wusa x509_v2 xattr
    """,
    "renderers": """
        gpg nacl
    """,
    "returners": """
        highstate highstate_return multi_returner pgjsonb postgres
        postgres_local_cache rawfile_json salt_cache syslog syslog_return
    """,
    "beacons": """
        cert_info diskusage inotify journald load log log_beacon memusage
        network_info network_settings pkg proxy_example ps salt_monitor salt_proxy
        service sh status swapusage watchdog
    """,
    "engines": """
        script test thorium webhook
    """,
    "sdb": """
    """,
    "pillar": """
        extra_minion_data_in_pillar file_tree git_pillar gpg nodegroups postgres
        reclass reclass_adapter stack
    """,
}
"""By kind, what Salt 3008 has, and saltwisted only where the C{salt} package is installed."""

GONE: Mapping[str, str] = {
    "modules": """
        apcups apkpkg aptly augeas augeas_cfg aws_sqs bamboohr bigip bluetooth
        bluez_bluetooth boto_apigateway boto_asg boto_cfn boto_cloudfront
        boto_cloudtrail boto_cloudwatch boto_cloudwatch_event boto_cognitoidentity
        boto_datapipeline boto_dynamodb boto_ec2 boto_efs boto_elasticache
        boto_elasticsearch_domain boto_elb boto_elbv2 boto_iam boto_iot boto_kinesis
        boto_kms boto_lambda boto_rds boto_route53 boto_s3 boto_s3_bucket
        boto_secgroup boto_sns boto_sqs boto_ssm boto_vpc bower bsd_shadow btrfs
        buildout cabal capirca capirca_acl ceph chassis cimc ciscoconfparse
        ciscoconfparse_mod cisconso composer container_resource cpan csf cyg
        daemontools datadog datadog_api ddns django djangomod dnsmasq
        drac dracr drbd ebuildpkg eix eselect esxcluster esxdatacenter esxi esxvm
        freebsd_sysctl freebsd_update freebsdjail freebsdkmod freebsdpkg
        freebsdports freebsdservice freezer gcp gcp_addon gem genesis gentoo_service
        gentoolkit gentoolkitmod glanceng glassfish glusterfs gnome gnomedesktop
        google_chat grub grub_legacy guestfs hadoop heat hg hue icinga2 ifttt ilo
        imgadm infoblox inspectlib inspector introspect ipmi jail jboss7 jboss7_cli
        jenkins jenkinsmod jira jira_mod kapacitor kerberos keystone keystoneng
        keystore launchctl_service layman libcloud_compute libcloud_dns
        libcloud_loadbalancer libcloud_storage logadm lvs lxc lxd makeconf mandrill
        marathon mdata memcached modjk monit moosefs mssql msteams munin nagios
        nagios_rpc netbox netbsd_sysctl netbsdservice netmiko netmiko_mod netplan_ip
        netscaler neutron neutronng nexus nginx nictagadm nilrt_ip nix nm_ip nova
        nspawn omapi openbsd_sysctl openbsdpkg openbsdrcctl_service openbsdservice
        openscap openstack_config openstack_mng openvswitch opkg opsgenie panos
        parallels pcs pdbedit pecl peeringdb pf philips_hue portage_config ports
        postfix poudriere powerpath purefa purefb pushbullet qemu_img qemu_nbd
        rallydev random_org rbenv rebootmgr restconf riak runit rvm s3 s6 sensehat
        sensors serverdensity_device servicenow slackware_service smartos_imgadm
        smartos_nictagadm smartos_virt smartos_vmadm smtp solr solrcloud statuspage
        suse_ip svn swarm swift sysbench sysrc system_profiler telegram telemetry
        testinfra testinframod tomcat trafficserver transactional_update travisci
        tuned twilio twilio_notify uptime uwsgi varnish vbox_guest vboxmanage
        vcenter victorops virt vmadm vmctl wordpress xapi_virt xbpspkg xmpp
        zcbuildout zenoss znc
    """,
    "states": """
        apt aptpkg artifactory augeas aws_sqs bigip boto_apigateway boto_asg
        boto_cfn boto_cloudfront boto_cloudtrail boto_cloudwatch_alarm
        boto_cloudwatch_event boto_cognitoidentity boto_datapipeline boto_dynamodb
        boto_ec2 boto_elasticache boto_elasticsearch_domain boto_elb boto_elbv2
        boto_iam boto_iam_role boto_iot boto_kinesis boto_kms boto_lambda boto_lc
        boto_rds boto_route53 boto_s3 boto_s3_bucket boto_secgroup boto_sns boto_sqs
        boto_vpc bower btrfs buildout cabal ceph chef chronos_job cimc cisconso
        composer cryptdev csf cyg ddns dellchassis drac dvs eselect esxcluster
        esxdatacenter esxi esxvm ethtool gem glance_image glassfish glusterfs
        gnomedesktop heat hg icinga2 ifttt incron infoblox_a infoblox_cname
        infoblox_host_record infoblox_range ipmi jboss7 jenkins junos kapacitor
        kernelpkg keystone keystone_domain keystone_endpoint keystone_group
        keystone_project keystone_role keystone_role_grant keystone_service
        keystone_user keystore layman libcloud_dns libcloud_loadbalancer
        libcloud_storage logadm lvs_server lvs_service lxc lxd lxd_container
        lxd_image lxd_profile marathon_app memcached modjk modjk_worker monit
        mssql_database mssql_login mssql_role mssql_user msteams napalm_yang
        net_napalm_yang neutron_network neutron_secgroup neutron_secgroup_rule
        neutron_subnet nexus nfs_export npm nxos nxos_upgrade openstack_config
        openvswitch_bridge openvswitch_db openvswitch_port opsgenie panos pbm pcs
        pdbedit pecl portage_config ports powerpath probes pyrax_queues rbac
        rbac_solaris rbenv rdp restconf rsync rvm serverdensity_device slack smartos
        smtp snapper solrcloud sqlite3 statuspage supervisord svn sysrc
        telemetry_alert testinfra testinframod tomcat trafficserver tuned vagrant
        vbox_guest victorops virt webutil wordpress xml xmpp zcbuildout zenoss
        zk_concurrency zone
    """,
    "renderers": """
        aws_kms cheetah dson genshi hjson json5 pass pydsl wempy
    """,
    "returners": """
        appoptics appoptics_return carbon carbon_return cassandra_cql
        cassandra_cql_return couchbase couchbase_return couchdb couchdb_return etcd
        etcd_return kafka kafka_return librato librato_return memcache
        memcache_return mongo mongo_future_return mongo_return nagios_nrdp
        nagios_nrdp_return odbc sentry sentry_return slack slack_returner
        slack_webhook slack_webhook_return sms sms_return smtp smtp_return sqlite3
        sqlite3_return telegram telegram_return xmpp xmpp_return
    """,
    "runners": """
        asam bgp cloud ddns digicert digicertapi drac f5 launchd lxc nacl pkg
        smartos_vmadm spacewalk thin venafi venafiapi virt vistara vmadm
    """,
    "beacons": """
        adb aix_account avahi_announce bonjour_announce btmp glxinfo imgadm
        junos_rre_keys napalm napalm_beacon sensehat smartos_imgadm smartos_vmadm
        telegram_bot_msg twilio_txt_msg vmadm wtmp
    """,
    "engines": """
        fluent http_logstash ircbot junos_syslog libvirt_events logentries logstash
        logstash_engine napalm_syslog slack slack_bolt slack_bolt_engine sqs_events
        stalekey
    """,
    "sdb": """
        cache confidant couchdb etcd etcd_db keyring keyring_db memcached rest
        sqlite3 tism
    """,
    "pillar": """
        cmd_yamlex cobbler confidant csv csvpillar digicert django_orm ec2_pillar
        etcd etcd_pillar foreman hg hg_pillar hiera http_json http_yaml libvirt
        makostack mongo nacl netbox neutron pepa puppet rethinkdb rethinkdb_pillar
        s3 saltclass sqlcipher sqlite3 svn svn_pillar varstack varstack_pillar
        venafi virtkey vmware vmware_pillar
    """,
}
"""By kind, what 3007 had and 3008 has not, and no extension that is known here."""


def package_of(kind: str, name: str) -> str:
    """The extension that has a module; empty: none that is known here."""
    return next(
        (each for each, kinds in EXTENSIONS.items() if name in kinds.get(kind, "").split()), ""
    )


def whereabouts(kind: str, name: str) -> str:
    """
    Where a missing module is, in one sentence.

    @param kind: C{"modules"}, C{"states"} ...
    @return: empty for a name that Salt never had.
    """
    package = package_of(kind, name)
    if package:
        return f"It is in the Salt extension {package} (pip install --no-deps {package})."
    if name in STOCK.get(kind, "").split():
        return (
            "saltwisted has no module of this name; the salt package has it, and what saltwisted"
            " lacks is taken from there where it is installed."
        )
    return gone(kind, name)


def gone(kind: str, name: str) -> str:
    """
    That a module no longer exists anywhere, in one sentence.

    @return: empty for one that exists somewhere, or that Salt never had.
    """
    if name in GONE.get(kind, "").split():
        return "Salt 3007 had it; Salt 3008 has not, and no extension is known that has it."
    return ""


_STATE = re.compile(r"^[ \t]+(?:-[ \t]+)?([a-z]\w*)\.[a-z]\w*(?::.*|[ \t]*(?:#.*)?)$", re.M)
_SHORT = re.compile(r"^[ \t]+([a-z]\w*):[ \t]*\n[ \t]+-[ \t]+[a-z]\w*[ \t]*$", re.M)
_CALL = re.compile(r"""\bsalt(?:\[["']|\.)([a-z]\w*)\.[a-z]\w*(?:["']\]|\()""")
_PIPE = re.compile(r"\A#!([\w |]+)")


def uses(text: str) -> set[tuple[str, str]]:
    """
    The modules that an SLS or a template names: kinds and names.

    It is read by its lines, and not rendered.
    """
    found = {("states", name) for name in (*_STATE.findall(text), *_SHORT.findall(text))}
    found |= {("modules", name) for name in _CALL.findall(text)}
    pipe = _PIPE.match(text)
    if pipe is not None:
        found |= {
            ("renderers", word.split()[0]) for word in pipe.group(1).split("|") if word.split()
        }
    return found
