package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// keep collects what explains a violation.
func (r *running) keep() {
	ctx, stop := context.WithTimeout(context.Background(), 2*time.Minute)
	defer stop()
	save := func(name, command string, args ...string) {
		out, err := exec.CommandContext(ctx, command, args...).CombinedOutput()
		if err == nil {
			err = os.WriteFile(filepath.Join(r.folder, name), out, 0o644)
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "keep %s: %v\n", name, err)
		}
	}
	save("objects.yaml", "kubectl", "--namespace", r.namespace, "get", "mcptools,mcptasks,jobs,pods,secrets,events", "-o", "yaml")
	save("system.yaml", "kubectl", "--namespace", system, "get", "pods,deployments,events", "-o", "yaml")
	for _, part := range []string{"bridge", "controller"} {
		save(part+".log", "kubectl", "--namespace", system, "logs", "--prefix", "--tail=-1", "-l", "app.kubernetes.io/component="+part)
		save(part+"-previous.log", "kubectl", "--namespace", system, "logs", "--prefix", "--tail=-1", "--previous", "--ignore-errors", "-l", "app.kubernetes.io/component="+part)
	}
	if r.program == "" {
		return
	}
	logs := []string{"cp/kube-apiserver", "cp/kube-controller-manager", "cp/kube-scheduler", "cp/etcd", "cp/init"}
	for _, node := range r.breaker.Nodes() {
		logs = append(logs, node+"/kubelet", node+"/containerd", node+"/init")
	}
	for _, log := range logs {
		save(strings.ReplaceAll(log, "/", "-")+".log", r.program, "--name", r.cluster, "logs", log)
	}
}

// remove ends the namespace. That it goes shows that no finalizer is left.
func (r *running) remove() error {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	if err := r.kubectl(ctx, "", "delete", "namespace", r.namespace, "--timeout=60s"); err != nil {
		return fmt.Errorf("the namespace does not go: %w", err)
	}
	return nil
}
