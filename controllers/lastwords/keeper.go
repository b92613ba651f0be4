// Package lastwords remembers what Pods say and how they end while somebody deletes them. Kubernetes forgets a Pod's log and its
// exit code with the Pod. A finalizer would keep both, and would leave Pods behind that nothing removes once the controller is
// uninstalled; this needs none: what is being deleted is watched and listened to until it is gone.
package lastwords

import (
	"context"
	"io"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/cache"

	"github.com/mcptask/mcptask/controllers/results"
)

const (
	// maxFollowed is how many logs are followed at a time; each holds at most 1¼ × results.SmallTail bytes.
	maxFollowed = 64
	// maxFollow ends a stream that does not end by itself: a Pod may have no longer grace than that.
	maxFollow = time.Hour
	// maxTasks is of how many tasks Pods are remembered, keep for how long after they were last seen.
	maxTasks = 1024
	keep     = 10 * time.Minute
	// awaitEnd is how long a log whose container has ended may take to arrive.
	awaitEnd = 2 * time.Second
)

// Open opens the log of a container from its beginning and follows it until the container ends.
type Open func(ctx context.Context, pod *corev1.Pod, container string) (io.ReadCloser, error)

// Keeper remembers, within bounds, Pods that were deleted before their end, and the ends of their logs.
type Keeper struct {
	open     Open
	pods     *cache.LRUExpireCache // of a task's name: []corev1.Pod
	disowned *cache.LRUExpireCache // of a Pod's UID: nothing

	mu       sync.Mutex
	followed map[types.UID]*follower
}

// New is a Keeper that reads logs with open.
func New(open Open) *Keeper {
	return &Keeper{open: open, pods: cache.NewLRUExpireCache(maxTasks), disowned: cache.NewLRUExpireCache(maxTasks), followed: map[types.UID]*follower{}}
}

// See takes note of a Pod of a task: of one that is being deleted before it has ended, until it is gone.
func (k *Keeper) See(task types.NamespacedName, pod *corev1.Pod, gone bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.Disowned(pod.UID) {
		return
	}
	pods := k.remembered(task)
	i := slices.IndexFunc(pods, func(p corev1.Pod) bool { return p.UID == pod.UID })
	if i < 0 && (pod.DeletionTimestamp == nil || ended(pod)) {
		return
	}
	now := *pod.DeepCopy()
	if gone {
		end(&now)
	}
	pods = slices.Clone(pods)
	if i < 0 {
		pods = append(pods, now)
	} else {
		// Its node deletes it once more, with no grace, when its containers have ended: that is not when it was asked to go.
		now.DeletionTimestamp, now.DeletionGracePeriodSeconds = pods[i].DeletionTimestamp, pods[i].DeletionGracePeriodSeconds
		pods[i] = now
	}
	k.pods.Add(task, pods, keep)
}

// Pods are the remembered Pods of a task, as they were last seen.
func (k *Keeper) Pods(task types.NamespacedName) []corev1.Pod {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.remembered(task)
}

func (k *Keeper) remembered(task types.NamespacedName) []corev1.Pod {
	if pods, ok := k.pods.Get(task); ok {
		return pods.([]corev1.Pod)
	}
	return nil
}

// Disown drops a Pod that goes because nobody needs it any more: neither is it remembered nor does how it ends matter.
func (k *Keeper) Disown(task types.NamespacedName, pod types.UID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.disowned.Add(pod, nil, keep)
	pods := k.remembered(task)
	if slices.ContainsFunc(pods, func(p corev1.Pod) bool { return p.UID == pod }) {
		k.pods.Add(task, slices.DeleteFunc(slices.Clone(pods), func(p corev1.Pod) bool { return p.UID == pod }), keep)
	}
}

// Disowned says whether that Pod was dropped.
func (k *Keeper) Disowned(pod types.UID) bool {
	_, ok := k.disowned.Get(pod)
	return ok
}

// Forget drops all that is kept of a task.
func (k *Keeper) Forget(task types.NamespacedName) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.pods.Remove(task)
	for uid, f := range k.followed {
		if f.task == task {
			f.cancel()
			delete(k.followed, uid)
		}
	}
}

// Follow listens to a container from now on, once. It says whether there was room for that.
func (k *Keeper) Follow(task types.NamespacedName, pod *corev1.Pod, container string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, ok := k.followed[pod.UID]; ok {
		return true
	}
	for uid, f := range k.followed {
		if f.lapsed(time.Now()) {
			delete(k.followed, uid)
		}
	}
	if len(k.followed) >= maxFollowed {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), maxFollow)
	f := &follower{task: task, container: container, cancel: cancel, done: make(chan struct{})}
	k.followed[pod.UID] = f
	pod = pod.DeepCopy()
	go func() {
		defer cancel()
		f.follow(func() (io.ReadCloser, error) { return k.open(ctx, pod, container) })
	}()
	return true
}

// Log is what was heard of a container: all of it where the container has ended. false means that nothing was.
func (k *Keeper) Log(pod types.UID, container string) (results.Log, bool) {
	k.mu.Lock()
	f, ok := k.followed[pod]
	k.mu.Unlock()
	if !ok || f.container != container {
		return results.Log{}, false
	}
	select {
	case <-f.done:
	case <-time.After(awaitEnd):
	}
	return f.heard()
}

// follower listens to one container.
type follower struct {
	task      types.NamespacedName
	container string
	cancel    context.CancelFunc
	done      chan struct{}

	mu     sync.Mutex
	tail   *results.Tail // nil before the log could be opened
	closed time.Time
}

func (f *follower) follow(open func() (io.ReadCloser, error)) {
	defer close(f.done)
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.closed = time.Now()
	}()
	stream, err := open()
	if err != nil {
		return // the log is asked for once more when the work has ended
	}
	defer stream.Close()
	f.mu.Lock()
	f.tail = results.NewTail(results.SmallTail)
	f.mu.Unlock()
	_, _ = io.Copy(f, stream) // what has arrived when the stream breaks is what there is
}

// Write implements io.Writer.
func (f *follower) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.tail.Write(p)
}

func (f *follower) heard() (results.Log, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.tail == nil {
		return results.Log{}, false
	}
	log := f.tail.Log()
	log.Tail = slices.Clone(log.Tail) // more may come
	return log, true
}

func (f *follower) lapsed(now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.closed.IsZero() && now.Sub(f.closed) > keep
}

func ended(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// unknown is Kubernetes' own reason for a container whose end nobody saw.
const unknown = "ContainerStatusUnknown"

// end turns a Pod that went without saying how into one that has failed; nothing is made up about its containers.
func end(pod *corev1.Pod) {
	if ended(pod) {
		return
	}
	pod.Status.Phase = corev1.PodFailed
	for i := range pod.Status.ContainerStatuses {
		state := &pod.Status.ContainerStatuses[i].State
		if state.Running != nil {
			state.Terminated = &corev1.ContainerStateTerminated{Reason: unknown, StartedAt: state.Running.StartedAt}
			state.Running = nil
		}
	}
}
