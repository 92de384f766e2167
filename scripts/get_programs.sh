#!/usr/bin/env bash
# The programs that views are tested with, from Debian's packages: Prometheus is unpacked into DIR (no service is started,
# nothing on the machine changes); Chromium with its driver is installed, as root and only with REGAUGE_CI=1 or --install.
# What cannot be had is said, and tests that need it are skipped with the reason.
set -euo pipefail

dir=${1:?usage: get_programs.sh DIR [--install]}
install=${REGAUGE_CI:-}
[ "${2:-}" = --install ] && install=1
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)

absent() {
  echo "$1 is not on this machine: $2; tests that need it are skipped" >&2
}

# Lists of packages may be missing or old: they are fetched anew before a second attempt.
twice() {
  "$@" || { apt-get update -qq && "$@"; }
}

fetch_prometheus() {
  (cd "$dir" && apt-get download -qq prometheus)
}

install_chromium() {
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium chromium-driver >/dev/null
}

if [ ! -x "$dir/usr/bin/prometheus" ] && ! command -v prometheus >/dev/null; then
  if ! command -v apt-get >/dev/null || ! command -v dpkg >/dev/null; then
    absent prometheus "install it, or run on Debian"
  elif twice fetch_prometheus; then
    dpkg -x "$dir"/prometheus_*.deb "$dir"
    rm -f "$dir"/prometheus_*.deb
  else
    absent prometheus "its package cannot be had"
  fi
fi

if ! command -v chromium >/dev/null || ! command -v chromedriver >/dev/null; then
  if [ "$install" != 1 ] || [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    absent "chromium with chromedriver" "install both (Debian: apt-get install chromium chromium-driver)"
  elif ! twice install_chromium; then
    absent "chromium with chromedriver" "their packages cannot be had"
  fi
fi
