package network

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strconv"
)

// prefixLength leaves room for "-n64" in the fifteen bytes of a Linux
// interface's name.
const prefixLength = 10

// prefix is what the names of a cluster's interfaces begin with: its own name,
// or, where that is too long, the beginning of it and a hash.
func prefix(cluster string) string {
	if len(cluster) <= prefixLength {
		return cluster
	}
	sum := sha256.Sum256([]byte(cluster))
	return cluster[:prefixLength-6] + hex.EncodeToString(sum[:])[:6]
}

func bridgeName(cluster string) string { return prefix(cluster) + "-br" }

func linkName(cluster string, node int) string { return prefix(cluster) + "-n" + strconv.Itoa(node) }

// isOwn tells whether an interface has a name that only this cluster gives.
func isOwn(cluster, name string) bool {
	return regexp.MustCompile(`^` + regexp.QuoteMeta(prefix(cluster)) + `-(br|n[0-9]{1,2})$`).MatchString(name)
}
