package tools

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// List returns the tools that callers are offered, in the order of their names on the wire.
func (c *Catalog) List(namespace string) []*Tool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	ns := c.namespaces[namespace]
	if ns == nil {
		return nil
	}
	all := make([]*Tool, 0, len(ns.offered))
	for _, tool := range ns.offered {
		all = append(all, tool)
	}
	slices.SortFunc(all, func(a, b *Tool) int { return strings.Compare(a.listed.Name, b.listed.Name) })
	return all
}

// Name is the tool's name on the wire.
func (t *Tool) Name() string { return t.listed.Name }

// Legacy is the tool as the revisions before 2026-07-28 show it, as JSON; with what it says about tasks, which only
// 2025-11-25 knows (Tasks, Tool-Level Negotiation).
func (t *Tool) Legacy(withTasks bool) (json.RawMessage, error) {
	raw, err := json.Marshal(t.listed)
	if err != nil || !withTasks {
		return raw, err
	}
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(raw, &fields); err != nil {
		return nil, fmt.Errorf("tool %s: %w", t.listed.Name, err)
	}
	fields["execution"] = json.RawMessage(`{"taskSupport":"` + strings.ToLower(string(t.TaskSupport())) + `"}`)
	return json.Marshal(fields)
}
