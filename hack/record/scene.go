package main

import (
	"context"
	"fmt"
	"sort"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// jobName is the name of every Job that is recorded.
const jobName = "task"

// deletionSlack is how long past its grace a Pod is surely not going by itself.
const deletionSlack = 15 * time.Second

// patience is how long a case may take to show itself: a lost node takes longest.
const patience = 4 * time.Minute

// scene is what Kubernetes shows of one Job at one time.
type scene struct {
	Taken  time.Time        `json:"taken"`
	Job    *batchv1.Job     `json:"job"`
	Pods   []corev1.Pod     `json:"pods,omitempty"`
	Events []eventsv1.Event `json:"events,omitempty"`
	Node   *corev1.Node     `json:"node,omitempty"`
}

// provoke makes the namespace and the objects of a case, the Job last. The namespace is told also where that fails.
func (r *recorder) provoke(ctx context.Context, p provocation) (string, error) {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "record-", Labels: p.labels}}
	if err := r.Create(ctx, ns); err != nil {
		return "", err
	}
	if p.before != nil {
		if err := p.before(ctx, r); err != nil {
			return ns.Name, err
		}
	}
	for _, manifest := range []string{p.also, p.job} {
		if manifest == "" {
			continue
		}
		objects, err := parse(strings.ReplaceAll(manifest, "NAMESPACE", ns.Name))
		if err != nil {
			return ns.Name, err
		}
		for _, object := range objects {
			object.SetNamespace(ns.Name)
			if err := r.Create(ctx, object); err != nil {
				return ns.Name, fmt.Errorf("making the %s %s: %w", object.GetKind(), object.GetName(), err)
			}
		}
		// A quota and a webhook do not bind at once.
		if manifest == p.also && p.also != "" {
			time.Sleep(3 * time.Second)
		}
	}
	return ns.Name, nil
}

func parse(manifests string) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	for _, manifest := range strings.Split(manifests, "\n---\n") {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(manifest), &object.Object); err != nil {
			return nil, fmt.Errorf("%w in\n%s", err, manifest)
		}
		objects = append(objects, object)
	}
	return objects, nil
}

func (r *recorder) clean(ctx context.Context, namespace, also string) {
	if objects, err := parse(strings.ReplaceAll(also, "NAMESPACE", namespace)); err == nil && also != "" {
		for _, object := range objects {
			object.SetNamespace(namespace)
			_ = r.Delete(ctx, object) // what is in the namespace goes with it; this is for what is not
		}
	}
	var pods corev1.PodList
	if err := r.List(ctx, &pods, client.InNamespace(namespace)); err == nil {
		for i := range pods.Items {
			_ = r.Delete(ctx, &pods.Items[i], client.GracePeriodSeconds(0)) // also on a node that is off
		}
	}
	if err := r.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}); err != nil {
		fmt.Println("left behind:", err)
	}
}

// await waits until the scene shows what is looked for.
func (r *recorder) await(ctx context.Context, namespace string, shows func(*scene) bool) (*scene, error) {
	var seen *scene
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		var err error
		seen, err = r.look(ctx, namespace)
		return err == nil && shows(seen), err
	})
	if err != nil {
		text, _ := yaml.Marshal(seen)
		return nil, fmt.Errorf("it did not show: %w\n%s", err, text)
	}
	return seen, nil
}

func (r *recorder) look(ctx context.Context, namespace string) (*scene, error) {
	seen := &scene{Taken: time.Now().UTC(), Job: &batchv1.Job{}}
	if err := r.Get(ctx, client.ObjectKey{Namespace: namespace, Name: jobName}, seen.Job); err != nil {
		return nil, err
	}
	var pods corev1.PodList
	if err := r.List(ctx, &pods, client.InNamespace(namespace), client.MatchingLabels{batchv1.JobNameLabel: jobName}); err != nil {
		return nil, err
	}
	seen.Pods = pods.Items
	sort.SliceStable(seen.Pods, func(i, j int) bool {
		return seen.Pods[i].CreationTimestamp.Before(&seen.Pods[j].CreationTimestamp)
	})
	var events eventsv1.EventList
	if err := r.List(ctx, &events, client.InNamespace(namespace)); err != nil {
		return nil, err
	}
	seen.Events = events.Items
	if n := len(seen.Pods); n > 0 && seen.Pods[n-1].Spec.NodeName != "" {
		seen.Node = &corev1.Node{}
		if err := r.Get(ctx, client.ObjectKey{Name: seen.Pods[n-1].Spec.NodeName}, seen.Node); err != nil {
			return nil, err
		}
	}
	return seen, nil
}

// evict asks for the eviction of the Job's Pod, as a drain does.
func evict(ctx context.Context, r *recorder, namespace string) error {
	seen, err := r.look(ctx, namespace)
	if err != nil {
		return err
	}
	return r.clientset.CoreV1().Pods(namespace).EvictV1(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: seen.Pods[0].Name, Namespace: namespace}})
}

func deletePod(ctx context.Context, r *recorder, namespace string) error {
	seen, err := r.look(ctx, namespace)
	if err != nil {
		return err
	}
	return r.Delete(ctx, &seen.Pods[0])
}

// taint ends the Pods of the node that do not tolerate it.
func taint(ctx context.Context, r *recorder, _ string) error {
	return r.taintFor(ctx, corev1.TaintEffectNoExecute, 5*time.Second)
}

// keepOff keeps Pods off the node that do not tolerate its taint.
func keepOff(ctx context.Context, r *recorder) error {
	return r.taintFor(ctx, corev1.TaintEffectNoSchedule, 15*time.Second)
}

// taintFor puts a taint on the node and takes it back after a while.
func (r *recorder) taintFor(ctx context.Context, effect corev1.TaintEffect, while time.Duration) error {
	var node corev1.Node
	if err := r.Get(ctx, client.ObjectKey{Name: r.node}, &node); err != nil {
		return err
	}
	before := node.DeepCopy()
	node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: "maintenance", Value: "today", Effect: effect})
	if err := r.Patch(ctx, &node, client.MergeFrom(before)); err != nil {
		return err
	}
	r.later.Go(func() {
		time.Sleep(while)
		if err := r.Patch(context.WithoutCancel(ctx), before, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"taints":null}}`))); err != nil {
			fmt.Println("the taint stays:", err)
		}
	})
	return nil
}

// crowdOut makes a Pod that is more important and needs all that the node has left beside the Job's.
func crowdOut(ctx context.Context, r *recorder, namespace string) error {
	objects, err := parse(fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: important}
spec:
  priorityClassName: important
  nodeSelector: {kubernetes.io/hostname: %s}
  terminationGracePeriodSeconds: 1
  containers: [{name: important, image: %q, command: [/fixture, compute, "600", important], resources: {requests: {cpu: 1100m}}}]`, r.node, r.image))
	if err != nil {
		return err
	}
	objects[0].SetNamespace(namespace)
	return r.Create(ctx, objects[0])
}
