package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/mcptask/mcptask/test/chaos/agents"
	"github.com/mcptask/mcptask/test/chaos/faults"
	"github.com/mcptask/mcptask/test/chaos/observe"
	"github.com/mcptask/mcptask/test/chaos/record"
	"github.com/mcptask/mcptask/test/chaos/recorder"
	"github.com/mcptask/mcptask/test/chaos/schedule"
	"github.com/mcptask/mcptask/test/chaos/verdict"
)

// settings of a run.
type settings struct {
	seed                                          uint64
	faults, accounts, atOnce                      int
	image, program, cluster, folder, recorderHost string
	limit                                         time.Duration
}

const (
	system    = "mcptask-system"
	publicURL = "http://mcptask-bridge.mcptask-system.svc.cluster.local"
	// retention is how long ended tasks are kept. It must be long enough for clients to see the end through an outage.
	retention = 45 * time.Second
	// patience is how long tasks may take to end once everything is healed, and to be gone after their retention.
	patience = 3 * time.Minute
	// recovery is how long the system may take to be healthy once nothing is broken any more. A kubelet waits up to five minutes before it
	// starts a container again that has ended often.
	recovery = 6 * time.Minute
	// warmUp is how long tasks run before the first fault.
	warmUp = 8 * time.Second
)

// running is a run under way.
type running struct {
	settings
	config    *rest.Config
	client    kubernetes.Interface
	dynamic   dynamic.Interface
	log       *record.Log
	namespace string
	breaker   *faults.Breaker
	began     time.Time
	// made is how many faults of the plan were dealt with.
	made int
}

// say prints a line with the time since the beginning.
func (r *running) say(format string, args ...any) {
	fmt.Printf("%6.1fs  %s\n", time.Since(r.began).Seconds(), fmt.Sprintf(format, args...))
}

// prepare makes the namespace and finds out what can be broken.
func prepare(ctx context.Context, s settings) (*running, error) {
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(clientcmd.NewDefaultClientConfigLoadingRules(), &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("no cluster: %w", err)
	}
	config.QPS, config.Burst = 100, 200
	r := &running{settings: s, config: config, began: time.Now()}
	if r.client, err = kubernetes.NewForConfig(config); err != nil {
		return nil, err
	}
	if r.dynamic, err = dynamic.NewForConfig(config); err != nil {
		return nil, err
	}
	if r.log, err = record.Create(s.recordFile()); err != nil {
		return nil, err
	}
	made, err := r.client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: v1.ObjectMeta{
		GenerateName: "mcptask-chaos-", Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
	}}, v1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	r.namespace = made.Name
	r.breaker = &faults.Breaker{Kubernetes: r.client, Log: r.log, System: system, Tasks: r.namespace, Program: s.program, Cluster: s.cluster, Tell: r.say}
	return r, r.breaker.Prepare(ctx)
}

// run makes the faults while clients work, until all are made or enough is done, mends everything, and waits until all is over.
func (r *running) run(ctx, enough context.Context, plan []schedule.Fault) (*record.Log, error) {
	observing, stopObserving := context.WithCancel(ctx)
	defer stopObserving()
	var observers sync.WaitGroup
	for kind := range observe.Resources {
		observers.Go(func() { observe.Follow(observing, r.dynamic, r.log, r.namespace, kind) })
	}
	url, err := r.takeDown()
	if err != nil {
		return nil, err
	}
	kinds, err := r.makeTools(ctx, url)
	if err != nil {
		return nil, err
	}
	known := &replicas{forward: r.program == ""}
	go known.follow(observing, r.client, system)

	working, stopWorking := context.WithCancel(ctx)
	defer stopWorking()
	placing, stopPlacing := context.WithCancel(working)
	defer stopPlacing()
	var clients sync.WaitGroup
	for i := range r.accounts {
		account := fmt.Sprintf("agent-%d", i+1)
		token, err := r.token(ctx, account)
		if err != nil {
			return nil, err
		}
		newer, older := agents.Pair(working, agents.Config{Account: account, Token: token, Path: "/mcp/" + r.namespace, Replicas: known.urls,
			Kinds: kinds, Seed: r.seed + uint64(i), Log: r.log})
		for _, agent := range []*agents.Agent{newer, older} {
			clients.Go(func() { agent.Place(working, placing, r.atOnce) })
		}
	}
	r.say("namespace %s, seed %d, %d faults, %d clients", r.namespace, r.seed, len(plan), 2*r.accounts)
	if err := r.breakThings(ctx, enough, plan, known); err != nil {
		return nil, err
	}
	stopPlacing()
	healing, stopHealing := context.WithTimeout(ctx, recovery)
	healed := record.Fault{Kind: verdict.Healed, Began: time.Now()}
	err = r.breaker.Heal(healing)
	stopHealing()
	if err != nil {
		return nil, err
	}
	healed.Ended = time.Now()
	r.log.Fault(healed)
	r.say("everything is mended; waiting for the tasks to end and to go")

	patient := time.AfterFunc(patience+retention, stopWorking)
	clients.Wait()
	patient.Stop()
	r.awaitNothing(ctx)
	stopWorking()
	stopObserving()
	observers.Wait()
	r.say("the clients have seen all of their tasks go")
	return r.log, r.log.Close()
}

// breakThings makes the faults of the plan. Before each it waits until tasks can be called, if not for long, so that each
// hits something that works. It makes no more when its time is over or enough is done.
func (r *running) breakThings(ctx, enough context.Context, plan []schedule.Fault, known *replicas) error {
	var left []string
	for _, kind := range schedule.Kinds() {
		if !r.breaker.Can(kind) {
			left = append(left, string(kind))
		}
	}
	if left != nil {
		r.say("left out, because they need more than kubectl: %s", strings.Join(left, ", "))
	}
	enough, stop := context.WithTimeout(enough, warmUp+r.limit)
	defer stop()
	wait(enough, warmUp)
	for _, fault := range plan {
		wait(enough, fault.Pause)
		if enough.Err() != nil {
			break
		}
		r.made++
		if !r.breaker.Can(fault.Kind) {
			continue
		}
		r.breathe(ctx, known)
		r.breaker.Do(ctx, fault)
	}
	if r.made < len(plan) {
		r.say("no further faults after %d of %d", r.made, len(plan))
	}
	wait(ctx, 2*time.Second)
	return ctx.Err()
}

// breath is how long it is waited before a fault for what was broken before it.
const breath = 20 * time.Second

// breathe waits until some replica is there and the API server answers.
func (r *running) breathe(ctx context.Context, known *replicas) {
	ctx, stop := context.WithTimeout(ctx, breath)
	defer stop()
	for ctx.Err() == nil {
		limited, stop := context.WithTimeout(ctx, 2*time.Second)
		_, err := r.client.CoreV1().Namespaces().Get(limited, r.namespace, v1.GetOptions{})
		stop()
		if err == nil && len(known.urls()) > 0 {
			return
		}
		wait(ctx, 300*time.Millisecond)
	}
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// takeDown starts the recorder, where nobody says otherwise on the address of the local cluster's API server: Pods reach it, too.
func (r *running) takeDown() (string, error) {
	host := r.recorderHost
	if host == "" {
		server, err := url.Parse(r.config.Host)
		if err != nil {
			return "", err
		}
		host = server.Hostname()
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return "", fmt.Errorf("the recorder: %w", err)
	}
	service := &http.Server{Handler: recorder.New(r.log), ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = service.Serve(listener) }() // until the program ends
	return "http://" + listener.Addr().String(), nil
}

// awaitNothing waits until no task, Job, Pod or Secret is left, as long as patience lasts: the verdict says what is.
func (r *running) awaitNothing(ctx context.Context) {
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	for ctx.Err() == nil {
		left := 0
		for _, resource := range observe.Resources {
			list, err := r.dynamic.Resource(resource).Namespace(r.namespace).List(ctx, v1.ListOptions{})
			if err != nil {
				left++
				continue
			}
			left += len(list.Items)
		}
		if left == 0 {
			break
		}
		wait(ctx, time.Second)
	}
	wait(ctx, 2*time.Second) // the observers hear of it, too
}
