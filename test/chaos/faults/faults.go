// Package faults breaks things in a cluster, one after another, and mends what does not mend itself.
package faults

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/mcptask/mcptask/test/chaos/record"
	"github.com/mcptask/mcptask/test/chaos/schedule"
)

// Breaker breaks one cluster.
type Breaker struct {
	Kubernetes kubernetes.Interface
	Log        *record.Log
	// System is the namespace of the product, Tasks that of the tasks.
	System, Tasks string
	// Program is that of the local cluster and Cluster its name; both are empty where kubectl is all there is.
	Program, Cluster string
	// Tell is given a line for people.
	Tell func(format string, args ...any)

	nodes []string
	// replicas that the deployments should have.
	replicas map[string]int32
	// kills of each Pod's containers: the kubelet lets those that end often wait for minutes.
	kills   map[string]int
	mending sync.WaitGroup
}

// Prepare looks at what there is to be broken.
func (b *Breaker) Prepare(ctx context.Context) error {
	nodes, err := b.Kubernetes.CoreV1().Nodes().List(ctx, v1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list the nodes: %w", err)
	}
	for _, node := range nodes.Items {
		b.nodes = append(b.nodes, node.Name)
	}
	slices.Sort(b.nodes)
	b.replicas, b.kills = map[string]int32{}, map[string]int{}
	deployments, err := b.Kubernetes.AppsV1().Deployments(b.System).List(ctx, v1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list the deployments: %w", err)
	}
	for _, d := range deployments.Items {
		b.replicas[d.Labels[component]] = ptr.Deref(d.Spec.Replicas, 1)
	}
	if b.replicas["bridge"] == 0 || b.replicas["controller"] == 0 {
		return fmt.Errorf("namespace %s has no bridge and controller that run", b.System)
	}
	return nil
}

// Nodes are the names of the nodes.
func (b *Breaker) Nodes() []string { return b.nodes }

const component = "app.kubernetes.io/component"

// Can says whether a kind of fault can be made here.
func (b *Breaker) Can(kind schedule.Kind) bool { return b.Program != "" || kind.ByKubectl() }

// breakLimit is how long it may take to break something, and mendLimit to mend it.
const (
	breakLimit = 30 * time.Second
	mendLimit  = 3 * time.Minute
)

// Do makes one fault. It returns when that is done; what is stopped for a while is started again later.
func (b *Breaker) Do(ctx context.Context, f schedule.Fault) {
	made := record.Fault{N: f.N, Kind: string(f.Kind), Began: time.Now()}
	limited, stop := context.WithTimeout(ctx, breakLimit)
	mend, err := b.make(limited, f, &made)
	stop()
	if err != nil {
		made.Missed = err.Error()
	}
	where := strings.Join(slices.DeleteFunc([]string{made.Node, made.Task}, func(s string) bool { return s == "" }), " ")
	b.Tell("%s %s%s", f, where, missed(err))
	if mend == nil {
		made.Ended = time.Now()
		b.Log.Fault(made)
		return
	}
	b.mending.Go(func() {
		select {
		case <-ctx.Done():
		case <-time.After(f.For):
		}
		limited, stop := context.WithTimeout(context.WithoutCancel(ctx), mendLimit)
		defer stop()
		if err := mend(limited); err != nil {
			b.Tell("      mending %d %s: %v", f.N, f.Kind, err)
		}
		made.Ended = time.Now()
		b.Log.Fault(made)
	})
}

func missed(err error) string {
	if err == nil {
		return ""
	}
	return " -- missed: " + err.Error()
}

// errNobody means that there was nothing to be hit.
var errNobody = errors.New("nothing of this kind runs now")

// make breaks something and says how that is mended; nil where it mends itself.
func (b *Breaker) make(ctx context.Context, f schedule.Fault, made *record.Fault) (mend func(context.Context) error, err error) {
	node := b.nodes[int(f.Pick)%len(b.nodes)]
	switch f.Kind {
	case schedule.KillBridge:
		return nil, b.killContainer(ctx, b.System, "bridge", f, made)
	case schedule.KillController:
		return nil, b.killContainer(ctx, b.System, "controller", f, made)
	case schedule.KillSidecar:
		return nil, b.killContainer(ctx, b.Tasks, "mcptask-runtime", f, made)
	case schedule.KillWork:
		return nil, b.killContainer(ctx, b.Tasks, "work", f, made)
	case schedule.DeleteBridge:
		return nil, b.deletePod(ctx, b.System, component+"=bridge", 0, f, made)
	case schedule.RestartBridge:
		return nil, b.deletePod(ctx, b.System, component+"=bridge", 30, f, made)
	case schedule.DeleteController:
		return nil, b.deletePod(ctx, b.System, component+"=controller", 0, f, made)
	case schedule.DeleteWork:
		return nil, b.deletePod(ctx, b.Tasks, "job-name", 0, f, made)
	case schedule.StopBridge:
		return b.scaled("bridge"), b.scale(ctx, "bridge", 0)
	case schedule.StopController:
		return b.scaled("controller"), b.scale(ctx, "controller", 0)
	case schedule.KillKubelet, schedule.KillContainerd:
		made.Node = node
		_, err := b.cluster(ctx, "kill", node+"/"+strings.TrimPrefix(string(f.Kind), "kill-"))
		return nil, err
	case schedule.KillAPIServer, schedule.KillEtcd, schedule.KillManager, schedule.KillScheduler:
		_, err := b.cluster(ctx, "kill", "cp/"+strings.TrimPrefix(string(f.Kind), "kill-"))
		return nil, err
	case schedule.StopControlPlane:
		_, err := b.cluster(ctx, "stop", "cp")
		return b.later("start", "cp"), err
	case schedule.StopNode:
		made.Node = node
		_, err := b.cluster(ctx, "stop", node)
		return b.later("start", node), err
	case schedule.CutNode:
		made.Node = node
		_, err := b.cluster(ctx, "cut", node)
		return b.later("heal", node), err
	case schedule.IsolateNode:
		made.Node = node
		_, err := b.cluster(ctx, "cut", "--all", node)
		return b.later("heal", node), err
	}
	return nil, fmt.Errorf("unknown kind of fault %s", f.Kind)
}

func (b *Breaker) later(args ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := b.cluster(ctx, args...)
		return err
	}
}

// maxKills is how often containers of one Pod are killed before the Pod is replaced.
const maxKills = 2

func (b *Breaker) killContainer(ctx context.Context, namespace, name string, f schedule.Fault, made *record.Fault) error {
	running := b.containers(ctx, namespace, name)
	if len(running) == 0 {
		return errNobody
	}
	hit := running[int(f.Pick)%len(running)]
	if err := b.describe(ctx, &hit); err != nil {
		return err
	}
	made.Node, made.Pod, made.Task = hit.node, hit.podUID, b.taskOf(namespace, hit.pod)
	if err := b.kill(ctx, hit); err != nil {
		return err
	}
	if b.kills[hit.podUID]++; namespace == b.System && b.kills[hit.podUID] >= maxKills {
		return b.remove(ctx, namespace, hit.pod, types.UID(hit.podUID), 0)
	}
	return nil
}

// taskOf is the task that a Pod belongs to: a Job's Pod has the Job's name and a suffix.
func (b *Breaker) taskOf(namespace, pod string) string {
	if namespace != b.Tasks {
		return ""
	}
	task, _, _ := strings.Cut(pod, "-")
	return task
}

func (b *Breaker) deletePod(ctx context.Context, namespace, selector string, grace int64, f schedule.Fault, made *record.Fault) error {
	pods, err := b.Kubernetes.CoreV1().Pods(namespace).List(ctx, v1.ListOptions{LabelSelector: selector})
	if err != nil {
		return err
	}
	running := slices.DeleteFunc(pods.Items, func(pod corev1.Pod) bool {
		return pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	})
	if len(running) == 0 {
		return errNobody
	}
	hit := running[int(f.Pick)%len(running)]
	made.Node, made.Pod, made.Task = hit.Spec.NodeName, string(hit.UID), b.taskOf(namespace, hit.Name)
	return b.remove(ctx, namespace, hit.Name, hit.UID, grace)
}

func (b *Breaker) remove(ctx context.Context, namespace, name string, uid types.UID, grace int64) error {
	return b.Kubernetes.CoreV1().Pods(namespace).Delete(ctx, name, v1.DeleteOptions{GracePeriodSeconds: &grace, Preconditions: &v1.Preconditions{UID: &uid}})
}

// scale sets the replicas of a part, as soon as the API server answers.
func (b *Breaker) scale(ctx context.Context, part string, replicas int32) error {
	patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas)
	for {
		list, err := b.Kubernetes.AppsV1().Deployments(b.System).List(ctx, v1.ListOptions{LabelSelector: component + "=" + part})
		for i := 0; err == nil && i < len(list.Items); i++ {
			_, err = b.Kubernetes.AppsV1().Deployments(b.System).Patch(ctx, list.Items[i].Name, types.MergePatchType, patch, v1.PatchOptions{})
		}
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("scale %s: %w", part, err)
		case <-time.After(500 * time.Millisecond):
		}
	}
}

func (b *Breaker) scaled(part string) func(context.Context) error {
	return func(ctx context.Context) error { return b.scale(ctx, part, b.replicas[part]) }
}

// Heal waits until all that was broken for a while is mended, and until everything runs.
func (b *Breaker) Heal(ctx context.Context) error {
	b.mending.Wait()
	if b.Program != "" {
		if _, err := b.cluster(ctx, append([]string{"start", "cp"}, b.nodes...)...); err != nil {
			return err
		}
		for _, node := range b.nodes {
			if _, err := b.cluster(ctx, "heal", node); err != nil {
				return err
			}
		}
	}
	for part, replicas := range b.replicas {
		if err := b.scale(ctx, part, replicas); err != nil {
			return err
		}
	}
	for {
		err := b.healthy(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the system does not recover: %w", err)
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// healthy is nil when every node is Ready and every replica is available.
func (b *Breaker) healthy(ctx context.Context) error {
	nodes, err := b.Kubernetes.CoreV1().Nodes().List(ctx, v1.ListOptions{})
	if err != nil {
		return err
	}
	for _, node := range nodes.Items {
		ready := slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		})
		if !ready {
			return fmt.Errorf("%s is not Ready", node.Name)
		}
	}
	deployments, err := b.Kubernetes.AppsV1().Deployments(b.System).List(ctx, v1.ListOptions{})
	if err != nil {
		return err
	}
	for _, d := range deployments.Items {
		if d.Status.AvailableReplicas != b.replicas[d.Labels[component]] {
			return fmt.Errorf("%s has %d of %d replicas", d.Name, d.Status.AvailableReplicas, b.replicas[d.Labels[component]])
		}
	}
	return nil
}
