#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GPUSlice Authors
#
# Installs the Debian packages that the tests need; asks the package manager only when one is missing.
set -euo pipefail
cd "$(dirname "$0")"
mapfile -t wanted < <(grep -hv '^#' ./*/debian-packages.txt)
missing=()
for p in "${wanted[@]}"; do
	dpkg-query -W -f='${Status}' "$p" 2>/dev/null | grep -q 'install ok installed' || missing+=("$p")
done
if [ ${#missing[@]} -gt 0 ]; then
	echo "installing ${missing[*]}"
	apt-get update -qq
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "${missing[@]}"
fi
