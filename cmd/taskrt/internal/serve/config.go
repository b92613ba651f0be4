package serve

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/mcptask/mcptask/cmd/taskrt/internal/result"
)

// Config is where the sidecar is, and for whom.
type Config struct {
	// Socket is the path of the Unix socket: /mcptask/run/task.sock.
	Socket string
	// TokenFile has the Pod's token for the bridge.
	TokenFile string
	// RuntimeURL is the bridge's runtime port.
	RuntimeURL string
	// Namespace and TaskID name the task.
	Namespace, TaskID string
	// Asks are the modes of question that the tool may use: form, url.
	Asks []string
	// MaxResultBytes is the largest result that the tool keeps.
	MaxResultBytes int64
	// Index is the Pod's completion index in an indexed Job, else empty.
	Index string
}

// FromEnv reads what the controller set on the sidecar.
func FromEnv(getenv func(string) string, tokenFile string) (Config, error) {
	c := Config{
		Socket: getenv("MCPTASK_SOCKET"), TokenFile: tokenFile, RuntimeURL: getenv("MCPTASK_RUNTIME_URL"),
		Namespace: getenv("MCPTASK_NAMESPACE"), TaskID: getenv("MCPTASK_TASK_ID"), Index: getenv("JOB_COMPLETION_INDEX"),
	}
	for _, required := range []struct{ name, value string }{
		{"MCPTASK_SOCKET", c.Socket}, {"MCPTASK_RUNTIME_URL", c.RuntimeURL}, {"MCPTASK_NAMESPACE", c.Namespace}, {"MCPTASK_TASK_ID", c.TaskID},
	} {
		if required.value == "" {
			return Config{}, fmt.Errorf("%s is not set: the controller sets it on the container mcptask-runtime", required.name)
		}
	}
	var err error
	if c.MaxResultBytes, err = result.Limit(getenv); err != nil {
		return Config{}, err
	}
	for _, ask := range strings.Split(getenv("MCPTASK_ASKS"), ",") {
		if ask = strings.ToLower(strings.TrimSpace(ask)); ask != "" {
			c.Asks = append(c.Asks, ask)
		}
	}
	return c, nil
}

// Root is the folder that the sidecar shares with the program: /mcptask.
func (c Config) Root() string { return filepath.Dir(filepath.Dir(c.Socket)) }

// Program is the path of the CLI for the program.
func (c Config) Program() string { return filepath.Join(c.Root(), "bin", "task") }

// ResultFile is where the program may put its result.
func (c Config) ResultFile() string { return filepath.Join(c.Root(), "result.json") }

// Journal is the sidecar's memory.
func (c Config) Journal() string { return filepath.Join(filepath.Dir(c.Socket), "journal") }
