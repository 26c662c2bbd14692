"""
The words of iptables: the options of iptables(8), iptables-extensions(8) and the xtables-addons.
"""

from __future__ import annotations

_TARGETS = """
    j jump add-set and-mark and-tos checksum-fill clamp-mss-to-pmtu clustermac ctevents ctmask
    del-set ecn-tcp-remove exist expevents gateway hash-init hashmode helper label local-node
    log-ip-options log-level log-prefix log-tcp-options log-tcp-sequence log-uid map-set
    map-mark map-prio map-queue mask mss new nfmask nflog-group nflog-prefix nflog-range
    nflog-threshold nodst notrack on-ip on-port or-mark or-tos persistent queue-balance
    queue-bypass queue-num random random-fully rateest-ewmalog rateest-interval rateest-name
    reject-with restore restore-mark sack-perm save-mark selctx set-class set-dscp
    set-dscp-class set-mark set-mss set-tos set-xmark strip-options timeout timestamp to
    to-destination to-ports to-source total-nodes tproxy-mark ttl-dec ttl-inc ttl-set type
    ulog-cprange ulog-nlgroup ulog-prefix ulog-qthreshold wscale xor-mark xor-tos zone zone-orig
    zone-reply dst-pfx hl-dec hl-inc hl-set hmark-dport-mask hmark-dst-prefix hmark-mod
    hmark-offset hmark-proto-mask hmark-rnd hmark-spi-mask hmark-sport-mask hmark-src-prefix
    hmark-tuple led-always-blink led-delay led-trigger-id queue-cpu-fanout src-pfx to-port addr
    and-mask delude honeypot or-mask prefix reset reuse set-mac shift static tarpit tname ttl
"""

AFTER_JUMP = tuple(_TARGETS.split())
"""Options of targets: they follow the jump, in this order. The jump itself comes first."""

OF_SETS = ("add-set", "del-set", "map-set")
"""Options of the target SET, each with two words: a set and its directions."""

SHORT = {
    "-A": "--append",
    "-D": "--delete",
    "-I": "--insert",
    "-R": "--replace",
    "-L": "--list",
    "-F": "--flush",
    "-Z": "--zero",
    "-N": "--new-chain",
    "-X": "--delete-chain",
    "-P": "--policy",
    "-E": "--rename-chain",
    "-p": "--protocol",
    "-s": "--source",
    "-d": "--destination",
    "-j": "--jump",
    "-g": "--goto",
    "-i": "--in-interface",
    "-o": "--out-interface",
    "-f": "--fragment",
    "-c": "--set-counters",
    "-m": "--match",
}
"""Commands and parameters that have a short name as well. A saved rule has the short one."""

SAME = {
    "--sport": "--source-port",
    "--dport": "--destination-port",
    "--sports": "--source-ports",
    "--dports": "--destination-ports",
    "--src-cc": "--source-country",
    "--dst-cc": "--destination-country",
}
"""Options with two long names."""

UNDERSCORED = {"source-port": "source_port", "destination-port": "destination_port"}
"""What rules call these two; it is Salt's spelling."""

_OPTIONS = """
    accept-local add-set addr ahlen ahres ahspi algo and-mark and-mask and-tos any apple ares
    arp autoclose bit broadcast bytecode bytes-eq bytes-gt bytes-lt cgroup checkip checksum-fill
    chunk-types clamp-mss-to-pmtu cluster-hash-seed cluster-local-node cluster-local-nodemask
    cluster-total-nodes clustermac cnscan comment condition connbytes connbytes-dir
    connbytes-mode connlimit-above connlimit-daddr connlimit-mask connlimit-saddr connlimit-upto
    contiguous cpu ctdir ctevents ctexpire ctmask ctorigdst ctorigdstport ctorigsrc
    ctorigsrcport ctproto ctrepldst ctrepldstport ctreplsrc ctreplsrcport ctstate ctstatus
    datestart datestop dc dccp-option dccp-types debug del-set delude dev-in dev-out dir
    disabled dormant down dscp dscp-class dst-group dst-len dst-opts dst-pfx dst-range dst-type
    dynamic ecn-ip-ect ecn-tcp-cwr ecn-tcp-ece ecn-tcp-remove edk enabled espspi every exist
    expevents flags fragfirst fragid fraglast fraglen fragmore fragres from gateway genre
    gid-owner gnu grow grscan h-length hash-init hashlimit-above hashlimit-burst
    hashlimit-dstmask hashlimit-htable-expire hashlimit-htable-gcinterval hashlimit-htable-max
    hashlimit-htable-size hashlimit-mode hashlimit-name hashlimit-srcmask hashlimit-upto
    hashmode hbh-len hbh-opts header helper hex-string hitcount hl-dec hl-eq hl-gt hl-inc hl-lt
    hl-set hmark-dport-mask hmark-dst-prefix hmark-mod hmark-offset hmark-proto-mask hmark-rnd
    hmark-spi-mask hmark-sport-mask hmark-src-prefix hmark-tuple honeypot icmp-type icmpv6-type
    iface invert ipvs kazaa kerneltz knockports label layer3 layer4 layer5 led-always-blink
    led-delay led-trigger-id length limit limit-burst limit-iface-in limit-iface-out local-node
    localtz log log-ip-options log-level log-prefix log-tcp-options log-tcp-sequence log-uid
    loopback loose lower-limit lower-up mac mac-source mangle-mac-d mangle-mac-s map-mark
    map-prio map-queue map-set mark mask match-set mh-type mode monthdays mss multicast name new
    next nfacct-name nflog-group nflog-prefix nflog-range nflog-threshold nfmask no-change noarp
    nodst notrack nowildcard on-ip on-port or-mark or-mask or-tos packet packets packets-eq
    packets-gt packets-lt persistent physdev-in physdev-is-bridged physdev-is-in physdev-is-out
    physdev-out pkt-type pointtopoint pol ports prefix probability promisc proto
    psd-delay-threshold psd-hi-ports-weight psd-lo-ports-weight psd-weight-threshold
    queue-balance queue-bypass queue-cpu-fanout queue-num quota random random-fully rateest
    rateest-bps rateest-bps1 rateest-bps2 rateest-delta rateest-eq rateest-ewma rateest-ewmalog
    rateest-gt rateest-interval rateest-lt rateest-name rateest-pps rateest-pps1 rateest-pps2
    rateest1 rateest2 rcheck rdest realm reap reject-with remove reqid reset restore
    restore-mark return-nomatch reuse rsource rt-0-addrs rt-0-not-strict rt-0-res rt-len
    rt-segsleft rt-type rttl running sack-perm save save-mark seconds selctx set set-class
    set-dscp set-dscp-class set-mac set-mark set-mss set-tos set-xmark shift socket-exists soft
    soul spi src-group src-pfx src-range src-type state static stealth strict string
    strip-options syn synscan tarpit tcp-flags tcp-option time timeout timestamp timestart
    timestop tname to to-destination to-ports to-source tos total-nodes tproxy-mark transparent
    ttl ttl-dec ttl-eq ttl-gt ttl-inc ttl-lt ttl-set tunnel-dst tunnel-src type u32 uid-owner
    ulog-cprange ulog-nlgroup ulog-prefix ulog-qthreshold up update update-counters
    update-subcounters upper-limit utc vaddr validmark vdir vmethod vport vportctl vproto
    weekdays winmx wscale xor-mark xor-tos zone zone-orig zone-reply
"""

LONG = tuple(_OPTIONS.split())
"""All other options that a saved rule may have."""
