package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// replicas knows the bridge's replicas as a load balancer does that asks the API server, and keeps what it knew while that is away.
type replicas struct {
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
	for ctx.Err() == nil {
		limited, stop := context.WithTimeout(ctx, 5*time.Second)
		pods, err := client.CoreV1().Pods(namespace).List(limited, v1.ListOptions{LabelSelector: "app.kubernetes.io/component=bridge"})
		stop()
		if err == nil {
			var all []string
			for _, pod := range pods.Items {
				if ready(&pod) {
					all = append(all, fmt.Sprintf("http://%s:8080", pod.Status.PodIP))
				}
			}
			r.mu.Lock()
			r.all = all
			r.mu.Unlock()
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
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
