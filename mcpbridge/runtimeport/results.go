package runtimeport

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/cache"

	"github.com/mcptask/mcptask/api/report/fit"
	"github.com/mcptask/mcptask/api/resultsecret"
	"github.com/mcptask/mcptask/api/v1alpha1"
)

const (
	// maxUploads is how many results are taken at one time. Of each no more than a part is in memory.
	maxUploads = 8
	// maxUploadsOfNamespace is how many of them may be of one namespace, so that no tenant keeps the others out.
	maxUploadsOfNamespace = 3
	// maxResultsOfPod is how many different results one Pod may store through one replica: nobody can delete them but with the task.
	maxResultsOfPod = 8
	// partTimeout bounds how long a caller may take to send a part.
	partTimeout = 15 * time.Second
	uploadedFor = 24 * time.Hour
	// maxUploaders is of how many Pods it is remembered what they stored.
	maxUploaders = 4096
)

// uploads are the results that are being stored, and those that were.
type uploads struct {
	free chan struct{}

	mu   sync.Mutex
	pods map[types.UID]bool    // that upload now
	of   map[string]int        // how many of them are of a namespace
	done *cache.LRUExpireCache // types.UID → map[string]bool, the hashes of what a Pod stored
}

func newUploads() *uploads {
	return &uploads{free: make(chan struct{}, maxUploads), pods: map[types.UID]bool{}, of: map[string]int{}, done: cache.NewLRUExpireCache(maxUploaders)}
}

// enter takes a place for a Pod's upload, which leave gives back.
func (u *uploads) enter(namespace string, pod types.UID, hash string) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.pods[pod] {
		return &refusal{http.StatusTooManyRequests, "uploads", "another result of this Pod is being stored; try again in a second", ""}
	}
	stored := map[string]bool{}
	if known, ok := u.done.Get(pod); ok {
		stored = known.(map[string]bool)
	}
	if !stored[hash] && len(stored) >= maxResultsOfPod {
		return &refusal{http.StatusUnprocessableEntity, "uploads",
			fmt.Sprintf("result: this Pod has handed over %d large results already, as many as are stored", maxResultsOfPod), ""}
	}
	if u.of[namespace] >= maxUploadsOfNamespace {
		return &refusal{http.StatusServiceUnavailable, "uploads", "many results of this namespace are being stored; try again in a second", ""}
	}
	select {
	case u.free <- struct{}{}:
	default:
		return &refusal{http.StatusServiceUnavailable, "uploads", "many results are being stored; try again in a second", ""}
	}
	u.pods[pod] = true
	u.of[namespace]++
	stored[hash] = true
	u.done.Add(pod, stored, uploadedFor)
	return nil
}

func (u *uploads) leave(namespace string, pod types.UID) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.pods, pod)
	if u.of[namespace]--; u.of[namespace] == 0 {
		delete(u.of, namespace)
	}
	<-u.free
}

// takeResult stores a result that is too large for a report, which names it afterwards by its hash. It answers once the API server has
// all of it. The same result sent again, here or to another replica, is stored once.
func (p *Port) takeResult(x *exchange) (any, error) {
	hash, size := x.http.PathValue("sha256"), x.http.ContentLength
	limit := p.resultLimit(x.task)
	switch {
	case !resultsecret.ValidHash(hash):
		return nil, &refusal{http.StatusUnprocessableEntity, "invalid", "the result's address must end in its SHA-256, in lower-case hex", ""}
	case size < 1:
		return nil, &refusal{http.StatusLengthRequired, "body", "the result must come with its Content-Length", ""}
	case size > limit:
		return nil, &refusal{http.StatusRequestEntityTooLarge, "too_large", fmt.Sprintf("result: has %d bytes, more than the %d that the tool keeps", size, limit), ""}
	}
	if err := p.uploads.enter(x.task.Namespace, x.pod.PodUID, hash); err != nil {
		return nil, err
	}
	defer p.uploads.leave(x.task.Namespace, x.pod.PodUID)
	if err := p.storeResult(x.http.Context(), x.task, hash, size, &paced{body: x.http.Body, connection: http.NewResponseController(x.w)}); err != nil {
		return nil, err
	}
	p.metrics.results.Inc()
	// From here on the connection is only watched for the caller's leaving.
	_ = http.NewResponseController(x.w).SetReadDeadline(time.Time{})
	return stored{}, nil
}

// paced gives the sender of a body time for each part of it.
type paced struct {
	body       io.Reader
	connection *http.ResponseController
	read       int
}

func (p *paced) Read(b []byte) (int, error) {
	if p.read%resultsecret.PartBytes == 0 {
		// Not every ResponseWriter has deadlines; then there are no slow callers either.
		_ = p.connection.SetReadDeadline(time.Now().Add(partTimeout))
	}
	n, err := p.body.Read(b)
	p.read += n
	return n, err
}

// storeResult makes the Secrets of a result.
func (p *Port) storeResult(ctx context.Context, task *v1alpha1.McpTask, hash string, size int64, in io.Reader) error {
	err := resultsecret.Write(ctx, task, hash, size, in, func(ctx context.Context, part *corev1.Secret) error {
		ctx, cancel := context.WithTimeout(ctx, writeLimit)
		defer cancel()
		return p.Secrets.StoreSecret(ctx, part)
	})
	var mismatch *resultsecret.Mismatch
	var damaged *resultsecret.Damaged
	switch {
	case err == nil:
		return nil
	case errors.As(err, &mismatch):
		return &refusal{http.StatusUnprocessableEntity, "invalid", "result: " + mismatch.Error(), ""}
	case errors.As(err, &damaged):
		p.Log.Error("a result cannot be stored", "namespace", task.Namespace, "task", task.Name, "error", damaged)
		return &refusal{http.StatusUnprocessableEntity, "invalid", "result: cannot be stored, because something else stands in its place; the log of the bridge says what", ""}
	case apierrors.IsForbidden(err):
		p.Log.Warn("the cluster does not take a result", "namespace", task.Namespace, "task", task.Name, "error", err)
		return &refusal{http.StatusUnprocessableEntity, "quota", "result: the cluster does not take it now, for instance because of a quota on Secrets; the log of the bridge says why", ""}
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &refusal{http.StatusRequestTimeout, "body", "the result did not arrive in time", ""}
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return &refusal{http.StatusBadRequest, "body", "the result could not be read", ""}
	}
	return fmt.Errorf("storing a result of task %s/%s: %w", task.Namespace, task.Name, err)
}

// resultLimit is how much of a result the task's tool keeps.
func (p *Port) resultLimit(task *v1alpha1.McpTask) int64 {
	if p.MaxResultBytes != nil {
		if limit := p.MaxResultBytes(task); limit > 0 {
			return min(limit, resultsecret.MaxBytes)
		}
	}
	return resultsecret.MaxBytes
}

// place puts the result of a report where it belongs: it stays there if it is small, else it goes into Secrets, or is there already.
func (p *Port) place(x *exchange, result *v1alpha1.TaskResult) error {
	switch {
	case result == nil:
		return nil
	case result.Inline == nil:
		result.SecretRef.Name = resultsecret.Reference(x.task, result.SHA256, 1).Name // whatever a Pod says, it is its task's own
		return nil
	case len(result.Inline.Raw) <= fit.MaxInline:
		return nil
	}
	raw := result.Inline.Raw
	if known := reportOf(x.task, x.pod.PodUID); known != nil && known.Result != nil && known.Result.SecretRef != nil && known.Result.SHA256 == result.SHA256 {
		result.Inline, result.SecretRef = nil, known.Result.SecretRef // each report tells all that the ones before it told
		return nil
	}
	size := int64(len(raw))
	if err := p.uploads.enter(x.task.Namespace, x.pod.PodUID, result.SHA256); err != nil {
		return err
	}
	defer p.uploads.leave(x.task.Namespace, x.pod.PodUID)
	if err := p.storeResult(x.http.Context(), x.task, result.SHA256, size, bytes.NewReader(raw)); err != nil {
		return err
	}
	result.Inline, result.SecretRef = nil, resultsecret.Reference(x.task, result.SHA256, size)
	return nil
}
