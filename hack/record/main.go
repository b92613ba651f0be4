// Command record provokes, with plain Jobs on a real cluster, each way in which a Job fails, waits or hangs, and writes down what
// Kubernetes then shows: the Job, its Pods, their Events, the node. controllers/task_words_test.go decides from these records.
//
//	go run ./hack/record [-only NAME,…] [-node NODE -stop COMMAND -start COMMAND] OUT
//
// It needs no operator, only KUBECONFIG and the image of the examples on the nodes. What harms a node is recorded only with -node:
// Pods on it are evicted, and COMMAND powers it off and on again. Use a cluster of its own: see hack/record/README.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// recorder provokes cases on one cluster.
type recorder struct {
	client.Client
	clientset         kubernetes.Interface
	image             string
	node, stop, start string
	out               string
	// later is what a case leaves to be undone, of a node.
	later sync.WaitGroup
}

func main() {
	only := flag.String("only", "", "record these cases alone")
	r := recorder{}
	flag.StringVar(&r.image, "image", "mcptask.dev/examples:dev", "image of the examples")
	flag.StringVar(&r.node, "node", "", "a node that may be harmed")
	flag.StringVar(&r.stop, "stop", "", "command that powers it off")
	flag.StringVar(&r.start, "start", "", "command that powers it on again")
	flag.Parse()
	r.out = flag.Arg(0)
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	defer cancel()
	if err := r.run(ctx, *only); err != nil {
		fmt.Fprintln(os.Stderr, "record:", err)
		os.Exit(1)
	}
}

func (r *recorder) run(ctx context.Context, only string) error {
	if r.out == "" {
		return errors.New("name the folder that the records are written to")
	}
	ctrl.SetLogger(logr.Discard())
	config, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("no cluster: %w", err)
	}
	config.QPS, config.Burst = 100, 200
	if r.Client, err = client.New(config, client.Options{Scheme: clientgoscheme.Scheme}); err != nil {
		return err
	}
	if r.clientset, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	// First what harms nobody, side by side; then what needs the node alone; then what needs it to be off.
	for _, now := range []stage{peaceful, disruptive, powerless} {
		if now != peaceful && r.node == "" {
			continue
		}
		if err := r.recordAll(ctx, now, only); err != nil {
			return err
		}
	}
	return nil
}

func (r *recorder) recordAll(ctx context.Context, now stage, only string) error {
	var wanted []provocation
	for _, p := range provocations(r.image, r.node) {
		if p.stage == now && (only == "" || slices.Contains(strings.Split(only, ","), p.name)) {
			wanted = append(wanted, p)
		}
	}
	if len(wanted) == 0 {
		return nil
	}
	var wait sync.WaitGroup
	failures := make([]error, len(wanted))
	free := make(chan struct{}, map[stage]int{peaceful: 8, disruptive: 1, powerless: len(wanted)}[now])
	running := make(chan struct{}, len(wanted))
	for i, p := range wanted {
		wait.Go(func() {
			free <- struct{}{}
			defer func() { <-free }()
			failures[i] = r.record(ctx, p, func() { running <- struct{}{} })
		})
	}
	if now == powerless {
		for range wanted {
			select {
			case <-running:
			case <-ctx.Done():
			}
		}
		defer func() {
			if err := shell(context.WithoutCancel(ctx), r.start); err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
		}()
		if err := shell(ctx, r.stop); err != nil {
			return err
		}
	}
	wait.Wait()
	return errors.Join(failures...)
}

func shell(ctx context.Context, command string) error {
	if out, err := exec.CommandContext(ctx, "sh", "-c", command).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", command, err, out)
	}
	return nil
}

// record provokes one case in a namespace of its own and writes what came of it.
func (r *recorder) record(ctx context.Context, p provocation, running func()) error {
	namespace, err := r.provoke(ctx, p)
	if namespace != "" {
		defer r.clean(context.WithoutCancel(ctx), namespace, p.also)
	}
	if err != nil {
		running()
		return fmt.Errorf("%s: %w", p.name, err)
	}
	if p.then != nil {
		if _, err = r.await(ctx, namespace, p.ready); err == nil {
			err = p.then(ctx, r, namespace)
		}
	} else if p.stage == powerless {
		_, err = r.await(ctx, namespace, p.ready)
	}
	running()
	if err != nil {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	seen, err := r.await(ctx, namespace, p.until)
	r.later.Wait()
	if err != nil {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	text, err := seen.sanitised(namespace)
	if err != nil {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	header := "# " + p.about + "\n# Recorded by hack/record.\n"
	fmt.Println("recorded", p.name)
	return os.WriteFile(filepath.Join(r.out, p.name+".yaml"), append([]byte(header), text...), 0o644)
}
