#!/usr/bin/env bash
# Builds the images as OCI archives from static binaries: hack/images.sh MCPTASK_REF EXAMPLES_REF NETPOL_REF
set -euo pipefail
cd "$(dirname "$0")/.."
GOTOOLCHAIN=$(hack/toolchain.sh)
export GOTOOLCHAIN
mcptask=${1:?the reference of the image} examples=${2:?the reference of the image of the examples}
netpol=${3:?the reference of the image that enforces network policies in tests}
export CGO_ENABLED=0 GOOS=linux GOARCH=${GOARCH:-$(go env GOARCH)}
out=bin/images root=bin/images/root
mkdir -p "$root"
GOOS= GOARCH= GOTOOLCHAIN=$(hack/toolchain.sh hack/cluster) hack/compile.sh -C hack/cluster -o ../../bin/ ./cmd/image
hack/compile.sh -ldflags "-s -w" -o "$root/" ./cmd/controller ./cmd/bridge ./cmd/taskrt ./examples/crawl/cmd/crawl ./examples/crawl/cmd/site ./examples/invoice/cmd/erp ./examples/invoice/cmd/pay-invoice ./test/fixture
hack/compile.sh -C hack/netpol -ldflags "-s -w" -o "../../$root/" .
hack/compile.sh -C test/idp -ldflags "-s -w" -o "../../$root/" .

certificates=()
for file in /etc/ssl/certs/ca-certificates.crt /etc/ssl/cert.pem; do
  if [[ -f $file ]]; then certificates=(--ca-certificates "$file"); break; fi
done
bin/image build --output "$out/mcptask.tar" --tag "$mcptask" --entrypoint /controller --user 65532:65532 "${certificates[@]}" \
  "$root/controller=/controller" "$root/bridge=/bridge" "$root/taskrt=/taskrt"
bin/image build --output "$out/examples.tar" --tag "$examples" --entrypoint /crawl --user 65532:65532 "${certificates[@]}" \
  "$root/crawl=/crawl" "$root/site=/site" "$root/erp=/erp" "$root/pay-invoice=/pay-invoice" "$root/fixture=/fixture" "$root/idp=/idp"
bin/image build --output "$out/netpol.tar" --tag "$netpol" --entrypoint /netpol --user 0:0 "${certificates[@]}" "$root/netpol=/netpol"
