# syntax=docker/dockerfile:1

# One image with all three programs and nothing else: no shell, no package manager.
#
#   docker build --tag mcptask.dev/mcptask:0.1.0 --build-arg VERSION=0.1.0 .
FROM --platform=$BUILDPLATFORM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
COPY hack/toolchain.sh hack/
RUN --mount=type=cache,target=/go/pkg/mod GOTOOLCHAIN=$(hack/toolchain.sh) go mod download
COPY api api
COPY cmd cmd
COPY controllers controllers
COPY mcpbridge mcpbridge
ARG VERSION=dev
ARG TARGETOS TARGETARCH
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH GOTOOLCHAIN=$(hack/toolchain.sh) \
    go build -trimpath -ldflags "-s -w -X main.version=$VERSION" -o /out/ ./cmd/controller ./cmd/bridge ./cmd/taskrt
RUN echo "nonroot:x:65532:65532::/:/sbin/nologin" > /out/passwd

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /out/passwd /etc/passwd
COPY --from=build /out/controller /out/bridge /out/taskrt /
USER 65532:65532
# No entry point: the chart says which of the programs a Pod runs.
