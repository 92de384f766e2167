#!/usr/bin/env bash
# The programs that views are tested with, from Debian's packages: Prometheus is unpacked into DIR (no service is started,
# nothing on the machine changes); Chromium with its driver is installed, as root and only with REGAUGE_CI=1 or --install.
# What is not there is said; that is an error only with REGAUGE_CI=1.
set -euo pipefail

dir=${1:?usage: get_programs.sh DIR [--install]}
install=${REGAUGE_CI:-}
[ "${2:-}" = --install ] && install=1
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)

absent() {
  echo "$1 is not on this machine: $2; tests that need it are skipped" >&2
  [ "${REGAUGE_CI:-}" = 1 ] && exit 1
  return 0
}

fresh_lists() {
  apt-cache show "$1" >/dev/null 2>&1 || apt-get update -qq
}

if [ ! -x "$dir/usr/bin/prometheus" ] && ! command -v prometheus >/dev/null; then
  if command -v apt-get >/dev/null && command -v dpkg >/dev/null; then
    fresh_lists prometheus || true
    if (cd "$dir" && apt-get download -qq prometheus); then
      dpkg -x "$dir"/prometheus_*.deb "$dir" && rm -f "$dir"/prometheus_*.deb
    else
      absent prometheus "its package cannot be had"
    fi
  else
    absent prometheus "install it, or run on Debian"
  fi
fi

if ! command -v chromium >/dev/null || ! command -v chromedriver >/dev/null; then
  if [ "$install" = 1 ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    fresh_lists chromium
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium chromium-driver >/dev/null
  else
    absent "chromium with chromedriver" "install both (Debian: apt-get install chromium chromium-driver)"
  fi
fi
