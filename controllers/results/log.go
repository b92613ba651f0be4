// Package results turns what a tool put out into the result of its task.
package results

import (
	"context"
	"fmt"
	"io"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
)

// How much of a log's end is held in memory while it is read.
const (
	// WorkTail has room for a last line of MaxInlineBytes and the text before it.
	WorkTail = 4 * MaxInlineBytes
	// SidecarTail has room for the largest report that the runtime port takes.
	SidecarTail = 1 << 20
)

// Log is the end of a container's log. Kubernetes keeps stdout and stderr as one.
type Log struct {
	// Tail is the end of the log, as much as was asked for.
	Tail []byte
	// Size of the whole log in bytes, as far as the node still has it.
	Size int64
}

// ReadLog reads the log of a container that has ended, and keeps so many bytes of its end.
func ReadLog(ctx context.Context, client kubernetes.Interface, pod *corev1.Pod, container string, keep int) (Log, error) {
	stream, err := client.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{Container: container}).Stream(ctx)
	if err != nil {
		return Log{}, fmt.Errorf("reading the log of %s in %s/%s: %w", container, pod.Namespace, pod.Name, err)
	}
	defer stream.Close()
	t := NewTail(keep)
	if _, err := io.Copy(t, stream); err != nil {
		return Log{}, fmt.Errorf("reading the log of %s in %s/%s: %w", container, pod.Namespace, pod.Name, err)
	}
	return t.Log(), nil
}

// Tail is a writer that keeps the end of what is written to it.
type Tail struct {
	keep int
	size int64
	buf  []byte
}

// NewTail is a Tail that keeps so many bytes.
func NewTail(keep int) *Tail { return &Tail{keep: keep} }

// Log is what was written so far.
func (t *Tail) Log() Log { return Log{Tail: slices.Clone(t.bytes()), Size: t.size} }

// Write implements io.Writer.
func (t *Tail) Write(p []byte) (int, error) {
	t.size += int64(len(p))
	t.buf = append(t.buf, p...)
	if len(t.buf) > 2*t.keep {
		t.buf = append(t.buf[:0], t.buf[len(t.buf)-t.keep:]...)
	}
	return len(p), nil
}

func (t *Tail) bytes() []byte {
	if len(t.buf) > t.keep {
		return t.buf[len(t.buf)-t.keep:]
	}
	return t.buf
}
