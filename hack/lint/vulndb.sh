#!/usr/bin/env bash
# Prints the URL of the database of known vulnerabilities in Go modules: the official one, or, where only Go modules can be
# fetched, the newest state of the module golang.org/x/vulndb that it is made from. Fails where neither can be reached.
set -euo pipefail
official=https://vuln.go.dev
if curl --silent --fail --max-time 5 --output /dev/null "$official/index/db.json"; then
  echo "$official"
  exit
fi
found=$(GOFLAGS=-mod=mod go mod download -json golang.org/x/vulndb@latest 2>/dev/null)
folder=$(sed -n 's/^\t"Dir": "\(.*\)",$/\1/p' <<<"$found")
echo "lint: the database is $(sed -n 's/^\t"Version": "\(.*\)",$/golang.org\/x\/vulndb@\1/p' <<<"$found")" >&2
[[ -d $folder/data/osv ]]
echo "file://$folder/data/osv"
