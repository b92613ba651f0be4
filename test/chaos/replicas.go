package main

import (
	"bufio"
	"context"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// replicas knows the bridge's replicas as a load balancer does that asks the API server, and keeps what it knew while that is away.
type replicas struct {
	// forward says that Pods are not reached from here but through kubectl port-forward.
	forward bool

	mu  sync.Mutex
	all []string
}

// urls are the base URLs of those that are known.
func (r *replicas) urls() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all
}

// follow looks for changes until the context ends.
func (r *replicas) follow(ctx context.Context, client kubernetes.Interface, namespace string) {
	forwarded := map[string]string{} // URLs by Pod
	for ctx.Err() == nil {
		limited, stop := context.WithTimeout(ctx, 5*time.Second)
		pods, err := client.CoreV1().Pods(namespace).List(limited, v1.ListOptions{LabelSelector: "app.kubernetes.io/component=bridge"})
		stop()
		if err == nil {
			var all []string
			for _, pod := range pods.Items {
				switch url := forwarded[pod.Name]; {
				case !ready(&pod):
				case !r.forward:
					all = append(all, fmt.Sprintf("http://%s:8080", pod.Status.PodIP))
				case url != "":
					all = append(all, url)
				default:
					if url, err := forward(ctx, namespace, pod.Name); err == nil { // else it is tried again
						forwarded[pod.Name] = url
						all = append(all, url)
					}
				}
			}
			r.mu.Lock()
			r.all = all
			r.mu.Unlock()
		}
		wait(ctx, time.Second)
	}
}

func ready(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue && pod.DeletionTimestamp == nil && pod.Status.PodIP != ""
		}
	}
	return false
}

// forward forwards a port of this machine to a Pod until the context or the Pod ends.
func forward(ctx context.Context, namespace, pod string) (url string, err error) {
	cmd := exec.CommandContext(ctx, "kubectl", "--namespace", namespace, "port-forward", "--address", "127.0.0.1", "pod/"+pod, ":8080")
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := cmd.Start(); err != nil {
		return "", err
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if _, rest, ok := strings.Cut(lines.Text(), "Forwarding from "); ok {
			address, _, _ := strings.Cut(rest, " ")
			go func() {
				for lines.Scan() { // kubectl stops when nobody reads what it prints
				}
				_ = cmd.Wait() // the Pod has gone: the next look at the list finds another one
			}()
			return "http://" + address, nil
		}
	}
	return "", fmt.Errorf("no port is forwarded to %s: %w", pod, cmd.Wait())
}
