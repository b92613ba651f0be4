package image

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

type account struct {
	name string
	id   int
}

// accounts are the users and groups that an image knows by name, so that
// programs which look themselves up find something.
type accounts struct{ users, groups []account }

// accountsFor returns root, nobody, nonroot, and the image's own user. The user
// is "UID" or "UID:GID"; names are refused, because the kubelet cannot tell
// whether a name is root.
func accountsFor(user string) (accounts, error) {
	uid, gid, hasGroup := strings.Cut(user, ":")
	u, err := strconv.ParseUint(uid, 10, 31)
	if err != nil {
		return accounts{}, fmt.Errorf("user %q is not UID or UID:GID in numbers", user)
	}
	g := u
	if hasGroup {
		if g, err = strconv.ParseUint(gid, 10, 31); err != nil {
			return accounts{}, fmt.Errorf("user %q is not UID or UID:GID in numbers", user)
		}
	}
	a := accounts{
		users:  []account{{"root", 0}, {"nobody", 65534}, {"nonroot", 65532}},
		groups: []account{{"root", 0}, {"nogroup", 65534}, {"nonroot", 65532}},
	}
	add := func(list []account, id int) []account {
		if slices.ContainsFunc(list, func(x account) bool { return x.id == id }) {
			return list
		}
		return append(list, account{"user", id})
	}
	a.users, a.groups = add(a.users, int(u)), add(a.groups, int(g))
	return a, nil
}

func (a accounts) passwd() []byte {
	var b strings.Builder
	for _, u := range a.users {
		home := "/"
		if u.name == "root" {
			home = "/root"
		}
		fmt.Fprintf(&b, "%s:x:%d:%d:%s:%s:/sbin/nologin\n", u.name, u.id, u.id, u.name, home)
	}
	return []byte(b.String())
}

func (a accounts) group() []byte {
	var b strings.Builder
	for _, g := range a.groups {
		fmt.Fprintf(&b, "%s:x:%d:\n", g.name, g.id)
	}
	return []byte(b.String())
}
