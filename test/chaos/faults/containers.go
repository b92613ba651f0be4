package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strings"
)

// container is one that runs on a node, as the node's own container runtime knows it: the API server may be away.
type container struct {
	node, id    string
	pod, podUID string
}

// cluster runs the program of the local cluster.
func (b *Breaker) cluster(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, b.Program, append([]string{"--name", b.Cluster}, args...)...)
	var out, said strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("cluster %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(said.String()))
	}
	return out.String(), nil
}

func (b *Breaker) ctr(ctx context.Context, node string, args ...string) (string, error) {
	return b.cluster(ctx, append([]string{"exec", node, "ctr", "--namespace", "k8s.io", "--connect-timeout", "2s"}, args...)...)
}

// containers are those with a name, of the Pods of a namespace, that run on any node that answers.
func (b *Breaker) containers(ctx context.Context, namespace, name string) []container {
	var found []container
	for _, node := range b.nodes {
		listed, err := b.ctr(ctx, node, "containers", "ls", "--quiet",
			fmt.Sprintf(`labels."io.kubernetes.pod.namespace"==%s,labels."io.kubernetes.container.name"==%s`, namespace, name))
		if err != nil || strings.TrimSpace(listed) == "" {
			continue // the node is away
		}
		tasks, err := b.ctr(ctx, node, "tasks", "ls")
		if err != nil {
			continue
		}
		for _, line := range strings.Split(tasks, "\n") {
			fields := strings.Fields(line)
			if len(fields) == 3 && fields[2] == "RUNNING" && slices.Contains(strings.Fields(listed), fields[0]) {
				found = append(found, container{node: node, id: fields[0]})
			}
		}
	}
	slices.SortFunc(found, func(x, y container) int { return strings.Compare(x.id, y.id) })
	return found
}

// describe finds out which Pod a container belongs to.
func (b *Breaker) describe(ctx context.Context, c *container) error {
	text, err := b.ctr(ctx, c.node, "containers", "info", c.id)
	if err != nil {
		return err
	}
	var info struct{ Labels map[string]string }
	if err := json.Unmarshal([]byte(text), &info); err != nil {
		return fmt.Errorf("container %s of %s: %w", c.id, c.node, err)
	}
	c.pod, c.podUID = info.Labels["io.kubernetes.pod.name"], info.Labels["io.kubernetes.pod.uid"]
	return nil
}

// kill ends the processes of this one container at once.
func (b *Breaker) kill(ctx context.Context, c container) error {
	_, err := b.ctr(ctx, c.node, "tasks", "kill", "--signal", "SIGKILL", c.id)
	return err
}
