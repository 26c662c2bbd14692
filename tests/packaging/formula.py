"""
A formula with the layout that public ones have: defaults, maps by system, a pillar, and parts for
the package, its configuration and its service. It is not one of those; none of their text is here.
"""

from __future__ import annotations

FILES = {
    "clock/defaults.yaml": """
clock:
  pkgs: [nosuch-package]
  service: nosuch
  config: /etc/clock
  refresh: true
  jobs: {}
  owners: []
""",
    "clock/osfamilymap.yaml": """
Debian:
  pkgs: [cron, nano]
  service: cron
RedHat:
  pkgs: [cronie]
  service: crond
""",
    "clock/map.jinja": """
{%- set tplroot = tpldir.split('/')[0] %}
{%- import_yaml tplroot ~ '/defaults.yaml' as defaults %}
{%- import_yaml tplroot ~ '/osfamilymap.yaml' as osfamilymap %}
{%- set found = salt['grains.filter_by'](
      defaults,
      merge=salt['grains.filter_by'](
        osfamilymap, grain='os_family', merge=salt['config.get']('clock', {})),
      base='clock') %}
{%- set clock = salt['slsutil.merge'](found, {'made': True}) %}
""",
    "clock/init.sls": "include: [.package, .config, .service]\n",
    "clock/package.sls": """
{%- set tplroot = tpldir.split('/')[0] %}
{%- from tplroot ~ '/map.jinja' import clock with context %}
clock-package:
  pkg.installed:
    - pkgs: {{ clock.pkgs | json }}
    - refresh: {{ clock.refresh }}
""",
    "clock/config.sls": """
{%- set tplroot = tpldir.split('/')[0] %}
{%- set sls_package = tplroot ~ '.package' %}
{%- from tplroot ~ '/map.jinja' import clock with context %}
include: [{{ sls_package }}]

{%- for name in clock.owners %}
clock-owner-{{ name }}:
  user.present:
    - name: {{ name }}
    - shell: /usr/sbin/nologin
{%- endfor %}

clock-folder:
  file.directory:
    - name: {{ clock.config }}
    - mode: '0750'
    - require: [{sls: {{ sls_package }}}]

{%- for name, job in clock.jobs | dictsort %}
clock-job-{{ name }}:
  file.managed:
    - name: /etc/cron.d/{{ name }}
    - source: salt://{{ tplroot }}/files/job.jinja
    - template: jinja
    - mode: '0644'
    - context: {{ {'name': name, 'job': job} | json }}
    - watch_in: [{service: clock-service}]
{%- endfor %}

clock-facts:
  file.serialize:
    - name: {{ clock.config }}/facts.yaml
    - serializer: yaml
    - dataset:
        hours: {{ clock.jobs | json_query('*.hour') | json }}
        made: {{ clock.made | json }}

clock-settings:
  ini.options_present:
    - name: {{ clock.config }}/clock.ini
    - sections: {main: {zone: UTC}}

clock-key:
  x509.private_key_managed:
    - name: {{ clock.config }}/clock.key
    - algo: ec

clock-certificate:
  x509.certificate_managed:
    - name: {{ clock.config }}/clock.crt
    - private_key: {{ clock.config }}/clock.key
    - signing_private_key: {{ clock.config }}/clock.key
    - CN: clock.example.org
    - subjectAltName: 'DNS:clock.example.org'
    - days_valid: 90
    - days_remaining: 30
    - require: [{x509: clock-key}]

clock-rotation:
  logrotate.set:
    - key: rotate
    - value: '7'
    - require: [{pkg: clock-rotate}]

clock-rotate:
  pkg.installed:
    - name: logrotate
    - refresh: {{ clock.refresh }}
""",
    "clock/service.sls": """
{%- set tplroot = tpldir.split('/')[0] %}
{%- set sls_config = tplroot ~ '.config' %}
{%- from tplroot ~ '/map.jinja' import clock with context %}
include: [{{ sls_config }}]

clock-service:
  service.running:
    - name: {{ clock.service }}
    - enable: true
    - require: [{sls: {{ sls_config }}}]
""",
    "clock/files/job.jinja": """
# {{ name }}, by {{ grains['id'] }}
{{ job.minute | default(0) }} {{ job.hour }} * * * {{ job.user }} {{ job.command }}
""",
    "top.sls": "base: {'*': [clock]}\n",
}
PILLAR = {
    "top.sls": "base: {'*': [clock]}\n",
    "clock.sls": """
clock:
  refresh: false
  owners: [ticker]
  jobs:
    tick: {hour: 3, user: ticker, command: /bin/true}
    tock: {hour: 4, minute: 30, user: root, command: "/bin/echo tock"}
""",
}
