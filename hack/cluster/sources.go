// Package cluster carries the sources that the programs of a test cluster are
// built from, so that the built cluster tool needs no checkout at run time.
package cluster

import "embed"

// Sources holds the module files and the packages of this module that go into
// a cluster. The files of internal/image are here for the cache key alone: they
// decide the bytes of the images.
//
//go:embed go.mod go.sum cmd/k8s cmd/coredns
//go:embed internal/image/image.go internal/image/accounts.go internal/image/archive.go
var Sources embed.FS
