// Package access decides who may call which tool.
package access

import (
	"context"

	"github.com/mcptask/mcptask/mcpbridge/auth"
)

// Policy says whether a caller may call a tool, by the name of its McpTool. The empty name stands for all tools of the
// namespace. An error wraps auth.ErrUnavailable.
type Policy interface {
	MayCall(ctx context.Context, caller auth.Principal, namespace, tool string) (bool, error)
}

// Everyone lets every caller that was identified call every tool.
type Everyone struct{}

// MayCall implements Policy.
func (Everyone) MayCall(context.Context, auth.Principal, string, string) (bool, error) {
	return true, nil
}
