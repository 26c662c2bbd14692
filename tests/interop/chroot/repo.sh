#!/bin/sh
# Makes /srv/repo: a package repository with small packages, and names it in sources.list.
set -eu
mkdir -p /srv/repo
cd /srv/repo
: >Packages

package() { # NAME VERSION [FIELD...]
  name=$1 version=$2
  shift 2
  tree=$(mktemp -d)
  mkdir -p "$tree/DEBIAN" "$tree/usr/share/$name" "$tree/etc/$name"
  echo "$version" >"$tree/usr/share/$name/version"
  echo "setting of $version" >"$tree/etc/$name/conf"
  echo "/etc/$name/conf" >"$tree/DEBIAN/conffiles"
  {
    echo "Package: $name"
    echo "Version: $version"
    echo "Architecture: all"
    echo "Maintainer: Nobody <nobody@example.org>"
    for field in "$@"; do echo "$field"; done
    echo "Description: small package for tests"
  } >"$tree/DEBIAN/control"
  file=${name}_${version}_all.deb
  dpkg-deb --root-owner-group -Zgzip -b "$tree" "$file" >/dev/null
  {
    cat "$tree/DEBIAN/control"
    echo "Filename: ./$file"
    echo "Size: $(stat -c %s "$file")"
    echo "SHA256: $(sha256sum "$file" | cut -d' ' -f1)"
    echo
  } >>Packages
  rm -rf "$tree"
}

package sw-alpha 1.0-1
package sw-alpha 1.1-1
package sw-alpha 2.0-1
package sw-beta 1:3.0-1 'Depends: sw-alpha'
package sw-gamma 0.1-1
package sw-delta 0.1-1
echo 'deb [trusted=yes] file:/srv/repo ./' >/etc/apt/sources.list
