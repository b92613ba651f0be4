// Package results turns what a tool put out into the result of its task.
package results

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
)

// SmallTail is how much of a log is held in memory without asking.
const SmallTail = 64 << 10

// Log is the end of a container's log. Kubernetes keeps stdout and stderr as one.
type Log struct {
	// Tail is the end of the log, as much as was asked for.
	Tail []byte
	// Size of the whole log in bytes, and its hash in hex, as far as the node still has it.
	Size   int64
	SHA256 string
	// Lost says, in a sentence for the agent, why the log is not there; "" where it is.
	Lost string
}

// ReadLog reads the log of a container that has ended, and keeps so many bytes of its end. It calls take with each piece that has come; large
// says that much memory is needed from then on, and take may wait until there is room.
func ReadLog(ctx context.Context, client kubernetes.Interface, pod *corev1.Pod, container string, keep int, take func(large bool) error) (Log, error) {
	stream, err := client.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{Container: container}).Stream(ctx)
	if err != nil {
		return Log{}, fmt.Errorf("reading the log of %s in %s/%s: %w", container, pod.Namespace, pod.Name, err)
	}
	defer stream.Close()
	t := newTail(keep, take)
	if _, err := io.Copy(t, stream); err != nil {
		return Log{}, fmt.Errorf("reading the log of %s in %s/%s: %w", container, pod.Namespace, pod.Name, err)
	}
	log := t.Log()
	if InsteadOfLog(log.Tail, pod, container) {
		return Log{}, fmt.Errorf("reading the log of %s in %s/%s: the node says: %s", container, pod.Namespace, pod.Name, log.Tail)
	}
	return log, nil
}

// InsteadOfLog says whether what came is no log but the words of a kubelet that could not read it, for instance because its container
// runtime was just being restarted. It begins the answer, with 200 OK, before it looks for the log (GetKubeletContainerLogs in
// k8s.io/kubernetes/pkg/kubelet), so that an error can only follow as if it were the log.
func InsteadOfLog(came []byte, pod *corev1.Pod, container string) bool {
	text := strings.TrimSpace(string(came[:min(len(came), maxKubeletWords)]))
	if _, path, ok := strings.Cut(text, ` "/var/log/pods/`); ok && (strings.HasPrefix(text, "failed to try resolving symlinks in path ") || strings.HasPrefix(text, "failed to open log file ")) {
		return strings.Contains(path, string(pod.UID))
	}
	for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if status.Name == container && status.ContainerID != "" && text == "unable to retrieve container logs for "+status.ContainerID {
			return true
		}
	}
	return false
}

// maxKubeletWords is longer than an error of a kubelet about a log.
const maxKubeletWords = 1 << 10

// Tail is a writer that keeps the end of what is written to it.
type Tail struct {
	keep int
	take func(large bool) error // asked before each piece is taken, and whether it takes much memory
	size int64
	sum  hash.Hash
	buf  []byte
}

// NewTail is a Tail that keeps so many bytes.
func NewTail(keep int) *Tail { return newTail(keep, func(bool) error { return nil }) }

func newTail(keep int, take func(large bool) error) *Tail {
	return &Tail{keep: keep, take: take, sum: sha256.New()}
}

// Write implements io.Writer.
func (t *Tail) Write(p []byte) (int, error) {
	t.size += int64(len(p))
	t.sum.Write(p)
	most := t.keep + t.keep/4
	large := len(t.buf)+len(p) > SmallTail && cap(t.buf) < most
	if err := t.take(large); err != nil {
		return 0, err
	}
	if large {
		t.buf = append(make([]byte, 0, most), t.buf...)
	}
	for rest := p; len(rest) > 0; {
		if len(t.buf) == most {
			t.buf = append(t.buf[:0], t.buf[most-t.keep:]...)
		}
		n := min(len(rest), most-len(t.buf))
		t.buf = append(t.buf, rest[:n]...)
		rest = rest[n:]
	}
	return len(p), nil
}

// Log is what was written so far. It is good until the next Write.
func (t *Tail) Log() Log {
	return Log{Tail: t.buf[max(0, len(t.buf)-t.keep):], Size: t.size, SHA256: hex.EncodeToString(t.sum.Sum(nil))}
}
