package main

import (
	"context"
	"fmt"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// stage says what a case does to others.
type stage int

const (
	// peaceful cases harm nobody.
	peaceful stage = iota
	// disruptive cases need the node that may be harmed.
	disruptive
	// powerless cases need that node to be powered off.
	powerless
)

// provocation is one case.
type provocation struct {
	stage       stage
	name, about string
	// labels of the namespace.
	labels map[string]string
	// also are objects that are made before the Job.
	also, job string
	// before is done before the Job is made.
	before func(context.Context, *recorder) error
	// ready says when to do then, or when the node may go.
	ready func(*scene) bool
	then  func(context.Context, *recorder, string) error
	// until says when the case shows.
	until func(*scene) bool
}

// template is a Job of one container named work; fields are added to the Job's spec, the Pod's, and the container's.
func template(image, job, pod, container string) string {
	if !strings.Contains(container, "command:") {
		container += `, command: [/fixture, compute, "600", something]`
	}
	if !strings.Contains(container, "image:") {
		container += ", image: " + image
	}
	return strings.NewReplacer("JOB", job, "POD", pod, "CONTAINER", strings.TrimPrefix(container, ", ")).Replace(`
apiVersion: batch/v1
kind: Job
metadata:
  name: task
  annotations: {mcptask.dev/container: work, mcptask.dev/start-deadline: 5m}
  labels: {kueue.x-k8s.io/queue-name: QUEUE}
spec: {backoffLimit: 0, podReplacementPolicy: Failed, JOB
  template: {metadata: {labels: {mcptask.dev/task: task}}, spec: {restartPolicy: Never, automountServiceAccountToken: false, terminationGracePeriodSeconds: 2, POD
    containers: [{name: work, terminationMessagePolicy: FallbackToLogsOnError, CONTAINER}]}}}`)
}

func provocations(image, node string) []provocation {
	work := func(job, pod, container string) string {
		return strings.Replace(template(image, job, pod, container), "  labels: {kueue.x-k8s.io/queue-name: QUEUE}\n", "", 1)
	}
	beside := fmt.Sprintf(`, image: %[1]s, command: [/fixture, exit, "CODE", something]}, {name: mesh, image: %[1]s, command: [/fixture, compute, "600", mesh]`, image)
	on := "nodeSelector: {kubernetes.io/hostname: " + node + "}, "
	soon := on + "tolerations: [{key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 5}, {key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: 5}], "
	return append([]provocation{
		{name: "suspended", about: "A suspended Job.", job: work("suspend: true,", "", ""), until: hasSuspended},
		{name: "queued-by-kueue", about: "A Job that Kueue has suspended, as its webhook does it.",
			job: strings.Replace(template(image, "suspend: true,", "", ""), "QUEUE", "gpu", 1), until: hasSuspended},
		{name: "no-cpu", about: "A Pod that asks for more than a node has.", job: work("", "", `resources: {requests: {cpu: "1000"}}`), until: unschedulable},
		{name: "no-such-node", about: "A Pod whose nodeSelector no node has.", job: work("", "nodeSelector: {disk: fast},", ""), until: unschedulable},
		{name: "scheduling-gate", about: "A Pod that something else has to admit first.", job: work("", "schedulingGates: [{name: example.test/budget}],", ""), until: unschedulable},
		{name: "no-claim", about: "A volume of a claim that does not exist.",
			job: work("", "volumes: [{name: data, persistentVolumeClaim: {claimName: data}}],", "volumeMounts: [{name: data, mountPath: /data}]"), until: unschedulable},
		{name: "unbound-claim", about: "A volume of a claim that nothing provides.",
			also: "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: data}\nspec: {accessModes: [ReadWriteOnce], storageClassName: nothing, resources: {requests: {storage: 1Gi}}}",
			job:  work("", "volumes: [{name: data, persistentVolumeClaim: {claimName: data}}],", "volumeMounts: [{name: data, mountPath: /data}]"), until: unschedulable},

		{name: "pull-fails", about: "An image of a registry that does not exist.", job: work("", "", "image: registry.invalid/nothing:1"), until: waits("ErrImagePull")},
		{name: "pull-backs-off", about: "The same a little later.", job: work("", "", "image: registry.invalid/nothing:1"), until: waits("ImagePullBackOff")},
		{name: "invalid-image-name", about: "An image whose name is none.", job: work("", "", `image: "Not/An:Image:Name"`), until: waits("InvalidImageName")},
		{name: "image-never-pulled", about: "An image that is not there and may not be pulled.", job: work("", "", "image: registry.invalid/nothing:1, imagePullPolicy: Never"), until: waits("ErrImageNeverPull")},
		{name: "no-configmap", about: "A variable from a ConfigMap that does not exist.", job: work("", "", "envFrom: [{configMapRef: {name: settings}}]"), until: waits("CreateContainerConfigError")},
		{name: "no-secret-key", about: "A variable from a Secret that lacks the key.",
			also: "apiVersion: v1\nkind: Secret\nmetadata: {name: database}\nstringData: {user: someone}",
			job:  work("", "", "env: [{name: PASSWORD, valueFrom: {secretKeyRef: {name: database, key: password}}}]"), until: waits("CreateContainerConfigError")},
		{name: "no-configmap-volume", about: "A volume of a ConfigMap that does not exist.",
			job: work("", "volumes: [{name: settings, configMap: {name: settings}}],", "volumeMounts: [{name: settings, mountPath: /etc/settings}]"), until: tells("FailedMount")},
		{name: "no-secret-volume", about: "A volume of a Secret that does not exist.",
			job: work("", "volumes: [{name: keys, secret: {secretName: keys}}],", "volumeMounts: [{name: keys, mountPath: /etc/keys}]"), until: tells("FailedMount")},
		{name: "no-program", about: "A command that the image does not have.", job: work("", "", "command: [/nothing]"), until: ended(batchv1.JobFailed)},

		{name: "no-service-account", about: "A service account that does not exist.", job: work("", "serviceAccountName: nobody,", ""), until: tells("FailedCreate")},
		{name: "quota-exceeded", about: "A quota that is too small for the Pod.",
			also: `{"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "team"}, "spec": {"hard": {"pods": "0"}}}`, job: work("", "", ""), until: tells("FailedCreate")},
		{name: "pod-security", about: "A Pod that the namespace's Pod security forbids.", labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}, job: work("", "", ""), until: tells("FailedCreate")},
		{name: "policy-denies", about: "A Pod that an admission policy denies.", labels: map[string]string{"record": "policy-denies"}, also: denyingPolicy, job: work("", "", ""), until: tells("FailedCreate")},
		{name: "webhook-unreachable", about: "A webhook that must be asked about Pods and does not answer.", labels: map[string]string{"record": "webhook-unreachable"}, also: deadWebhook, job: work("", "", ""), until: tells("FailedCreate")},
		{name: "node-refuses", about: "A Pod bound to a node that has no room for it.", job: work("", "nodeName: node1,", `resources: {requests: {cpu: "1000"}}`), until: ended(batchv1.JobFailed)},

		{name: "succeeded", about: "Exit code 0.", job: work("", "", `command: [/fixture, greet, you]`), until: ended(batchv1.JobComplete)},
		{name: "exit-code", about: "Exit code 3.", job: work("", "", `command: [/fixture, exit, "3", "no such host"]`), until: ended(batchv1.JobFailed)},
		{name: "init-container-runs", about: "An init container that takes its time.",
			job: work("", fmt.Sprintf(`initContainers: [{name: migrate, image: %s, command: [/fixture, compute, "600", migration]}],`, image), ""), until: initRuns},
		{name: "init-container-failed", about: "An init container that ends with exit code 2.",
			job: work("", fmt.Sprintf(`initContainers: [{name: migrate, image: %s, terminationMessagePolicy: FallbackToLogsOnError, command: [/fixture, exit, "2", "no such table: ledger"]}],`, image), ""), until: ended(batchv1.JobFailed)},
		{name: "out-of-memory", about: "More memory than the limit.", job: work("", "", `command: [/fixture, memory, "200"], resources: {limits: {memory: 64Mi}}`), until: ended(batchv1.JobFailed)},
		{name: "init-out-of-memory", about: "An init container that takes more memory than its limit.",
			job: work("", fmt.Sprintf(`initContainers: [{name: load, image: %s, command: [/fixture, memory, "200"], resources: {limits: {memory: 64Mi}}}],`, image), ""), until: ended(batchv1.JobFailed)},
		{name: "disk-full", about: "A kubelet that evicts: more disk than the volume's limit.",
			job: work("", `volumes: [{name: scratch, emptyDir: {sizeLimit: 1Mi}}],`, `command: [/fixture, fill, /scratch/file, "8"], volumeMounts: [{name: scratch, mountPath: /scratch}]`), until: ended(batchv1.JobFailed)},
		{name: "pod-deleted", about: "A Pod that somebody deletes.", job: work("", "", ""), ready: runs, then: deletePod, until: podFailed},
		{name: "pod-gone", about: "The same a little later: the Job has failed, and the Pod is gone.", job: work("", "", ""), ready: runs, then: deletePod, until: ended(batchv1.JobFailed)},
		{name: "job-deadline", about: "activeDeadlineSeconds of the Job.", job: work("activeDeadlineSeconds: 5,", "", ""), until: ended(batchv1.JobFailed)},
		{name: "pod-deadline", about: "activeDeadlineSeconds of the Pod.", job: work("", "activeDeadlineSeconds: 5,", ""), until: ended(batchv1.JobFailed)},
		{name: "retrying", about: "The first of two attempts has failed.", job: strings.Replace(work("", "", `command: [/fixture, exit, "4", "no route"]`), "backoffLimit: 0", "backoffLimit: 1", 1), until: attemptFailed},
		{name: "attempts-used-up", about: "Two attempts have failed.", job: strings.Replace(work("", "", `command: [/fixture, exit, "4", "no route"]`), "backoffLimit: 0", "backoffLimit: 1", 1), until: ended(batchv1.JobFailed)},
		{name: "failure-policy", about: "A podFailurePolicy that gives up at an exit code.",
			job: strings.Replace(work("podFailurePolicy: {rules: [{action: FailJob, onExitCodes: {operator: In, values: [42]}}]},", "", `command: [/fixture, exit, "42", "not retriable"]`), "backoffLimit: 0", "backoffLimit: 3", 1), until: ended(batchv1.JobFailed)},
		{name: "mesh-runs-on", about: "The work has ended well; a container beside it never does.", job: work("", "", strings.Replace(beside, "CODE", "0", 1)), until: workDone},
		{name: "mesh-runs-on-after-failure", about: "The work has failed; a container beside it never ends.", job: work("", "", strings.Replace(beside, "CODE", "3", 1)), until: workDone},

		{stage: disruptive, name: "being-evicted", about: "The eviction API, as a drain uses it; the Pod has its grace period.", job: work("", on, ""), ready: runs, then: evict, until: leaving},
		{stage: disruptive, name: "evicted", about: "The same when the Pod has ended, before it is gone.", job: work("", on, ""), ready: runs, then: evict, until: podFailed},
		{stage: disruptive, name: "node-taints", about: "A taint that the Pod does not tolerate keeps it off the only node that its selector allows.",
			job: work("", on, ""), before: keepOff, until: unschedulable},
		{stage: disruptive, name: "tainted", about: "A taint that the Pod does not tolerate, on a healthy node.", job: work("", on, ""), ready: runs, then: taint, until: podFailed},
		{stage: disruptive, name: "preempted", about: "A Pod that is more important needs the place.",
			also: "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: important}\nvalue: 1000000",
			job:  work("", on, "resources: {requests: {cpu: 1100m}}"), ready: runs, then: crowdOut, until: podFailed},
	}, lost(work, on, soon)...)
}

// lost are the cases of a node that has lost its power.
func lost(work func(job, pod, container string) string, on, soon string) []provocation {
	return []provocation{
		{stage: powerless, name: "node-not-ready", about: "The node has lost its power; Kubernetes has not given the Pod up yet.", job: work("", on, ""), ready: runs, until: notReady},
		{stage: powerless, name: "node-lost", about: "The node has lost its power; the Pod is deleted and never goes, the Job hangs.", job: work("", soon, ""), ready: runs, until: overdue},
		{stage: powerless, name: "node-lost-at-deadline", about: "The node has lost its power and the Job's time is up: it hangs at FailureTarget.",
			job: work("activeDeadlineSeconds: 20,", on, ""), ready: runs, until: overdue},
	}
}

const denyingPolicy = `apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: NAMESPACE}
spec:
  matchConstraints: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: NAMESPACE}}, resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}
  validations: [{expression: "false", message: every Pod needs a cost centre}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: NAMESPACE}
spec: {policyName: NAMESPACE, validationActions: [Deny]}`

const deadWebhook = `apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: NAMESPACE}
webhooks:
- name: pods.example.test
  admissionReviewVersions: [v1]
  sideEffects: None
  timeoutSeconds: 2
  namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: NAMESPACE}}
  rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
  clientConfig: {service: {name: gone, namespace: NAMESPACE}}`

func hasSuspended(s *scene) bool { return jobIs(s, batchv1.JobSuspended) }

func jobIs(s *scene, t batchv1.JobConditionType) bool {
	for _, c := range s.Job.Status.Conditions {
		if c.Type == t && c.Status == corev1.ConditionTrue {
			return true
		}
	}
	return false
}

func ended(t batchv1.JobConditionType) func(*scene) bool {
	return func(s *scene) bool { return jobIs(s, t) }
}

func newest(s *scene) *corev1.Pod {
	if len(s.Pods) == 0 {
		return &corev1.Pod{}
	}
	return &s.Pods[len(s.Pods)-1]
}

func unschedulable(s *scene) bool {
	for _, c := range newest(s).Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return true
		}
	}
	return false
}

func waits(reason string) func(*scene) bool {
	return func(s *scene) bool {
		for _, c := range newest(s).Status.ContainerStatuses {
			if c.State.Waiting != nil && c.State.Waiting.Reason == reason {
				return true
			}
		}
		return false
	}
}

func tells(reason string) func(*scene) bool {
	return func(s *scene) bool {
		for _, e := range s.Events {
			if e.Reason == reason {
				return true
			}
		}
		return false
	}
}

func runs(s *scene) bool {
	for _, c := range newest(s).Status.ContainerStatuses {
		if c.Name == "work" && c.State.Running != nil {
			return true
		}
	}
	return false
}

func initRuns(s *scene) bool {
	for _, c := range newest(s).Status.InitContainerStatuses {
		if c.State.Running != nil {
			return true
		}
	}
	return false
}

// workDone: the work has ended, another container runs.
func workDone(s *scene) bool {
	work, other := false, false
	for _, c := range newest(s).Status.ContainerStatuses {
		work = work || c.Name == "work" && c.State.Terminated != nil
		other = other || c.Name != "work" && c.State.Running != nil
	}
	return work && other
}

func leaving(s *scene) bool {
	pod := newest(s)
	return pod.DeletionTimestamp != nil && pod.Status.Phase == corev1.PodRunning
}

func podFailed(s *scene) bool { return newest(s).Status.Phase == corev1.PodFailed }

// attemptFailed: the newest Pod has failed, the Job has not.
func attemptFailed(s *scene) bool {
	return newest(s).Status.Phase == corev1.PodFailed && s.Job.Status.Failed == 1 && !jobIs(s, batchv1.JobFailed)
}

// notReady: the node's controller has marked the node and its Pods.
func notReady(s *scene) bool {
	for _, c := range newest(s).Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionFalse {
			return true
		}
	}
	return false
}

// overdue: the Pod ought to be gone for some time, and its node is not ready.
func overdue(s *scene) bool {
	d := newest(s).DeletionTimestamp
	return notReady(s) && d != nil && s.Taken.After(d.Add(deletionSlack))
}
