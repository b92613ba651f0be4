package serve

import (
	"context"
	"fmt"
	"net"
	"time"
)

// readyWithin bounds the wait of Ready.
const readyWithin = 30 * time.Second

// Ready waits until the socket can be used. The kubelet starts the next container only then.
func Ready(ctx context.Context, path string) error {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		conn, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("the sidecar does not serve: %w", err)
		}
	}
}
