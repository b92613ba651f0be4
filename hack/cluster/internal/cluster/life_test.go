//go:build cluster

package cluster

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mcptask/mcptask/hack/cluster/internal/build"
	"github.com/mcptask/mcptask/hack/cluster/internal/cache"
	"github.com/mcptask/mcptask/hack/cluster/internal/process"
	"github.com/mcptask/mcptask/hack/cluster/internal/progress"
)

// program is the built command "cluster".
var program string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "cluster-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	program = filepath.Join(dir, "cluster")
	if out, err := exec.Command("go", "build", "-o", program, "../../cmd/cluster").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build the command: %v\n%s", err, out)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// try runs the command on a cluster.
func try(t *testing.T, name string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.Command(program, append([]string{"--name", name}, args...)...)
	var out, all bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &all
	began := time.Now()
	err := cmd.Run()
	t.Logf("cluster --name %s %s (%.1fs)\n%s%s", name, strings.Join(args, " "), time.Since(began).Seconds(), all.String(), out.String())
	if err != nil {
		err = fmt.Errorf("%w: %s", err, all.String())
	}
	return out.String(), err
}

func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := try(t, name, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// open names a cluster and sees to it that nothing of it is there before and
// after the test.
func open(t *testing.T, name string) *Cluster {
	t.Helper()
	root, err := cache.Root()
	if err != nil {
		t.Fatal(err)
	}
	c, err := New(root, name, progress.New(os.Stderr))
	if err != nil {
		t.Fatal(err)
	}
	run(t, name, "down")
	t.Cleanup(func() { run(t, name, "down") })
	return c
}

func kubectl(t *testing.T, c *Cluster, args ...string) string {
	t.Helper()
	s, err := c.loadState()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(s.Tree.Kubernetes(), "kubectl"), append([]string{"--kubeconfig", c.Kubeconfig()}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// runJob runs the version command of the one image that every node has.
func runJob(t *testing.T, c *Cluster, job, node string) {
	t.Helper()
	began := time.Now()
	manifest := fmt.Sprintf(`{"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": %q}, "spec": {"template": {"spec": {
		"restartPolicy": "Never", "nodeName": %q, "containers": [{"name": "main", "image": %q, "command": ["/pause", "-v"]}]}}}}`, job, node, build.PauseImage)
	file := filepath.Join(t.TempDir(), "job.json")
	if err := os.WriteFile(file, []byte(manifest), 0o600); err != nil {
		t.Fatal(err)
	}
	kubectl(t, c, "create", "-f", file)
	kubectl(t, c, "wait", "--for=condition=Complete", "--timeout=60s", "job/"+job)
	t.Logf("Job on %s: created to Complete in %.1fs", node, time.Since(began).Seconds())
	if out := kubectl(t, c, "logs", "job/"+job); !strings.Contains(out, "pause") {
		t.Errorf("the Job's log is %q", out)
	}
}

// componentPID is the number of a component's only process, or 0.
func componentPID(t *testing.T, c *Cluster, role, component string) int {
	t.Helper()
	i, err := c.running(role)
	if err != nil {
		t.Fatal(err)
	}
	inside, err := i.Inside()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range inside {
		if p.Name == component {
			return p.PID
		}
	}
	return 0
}

func eventually(t *testing.T, what string, condition func(context.Context) error) {
	t.Helper()
	if err := waitFor(t.Context(), what, time.Minute, condition); err != nil {
		t.Fatal(err)
	}
}

func TestLife(t *testing.T) {
	before := lookAtMachine(t)
	one, two := open(t, "ct1"), open(t, "ct2")

	if out := run(t, "ct1", "up", "--nodes", "2"); out != "export KUBECONFIG="+one.Kubeconfig()+"\n" {
		t.Errorf("up printed %q", out)
	}
	if out := kubectl(t, one, "get", "nodes", "--output=name"); out != "node/node1\nnode/node2\n" {
		t.Errorf("the nodes are %q", out)
	}
	runJob(t, one, "first", "node1")
	runJob(t, one, "second", "node2")

	// A second up is quick and changes nothing.
	first := componentPID(t, one, "cp", "kube-apiserver")
	began := time.Now()
	run(t, "ct1", "up")
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the second up took %s", took)
	}
	if again := componentPID(t, one, "cp", "kube-apiserver"); again != first {
		t.Errorf("the second up replaced the API server")
	}
	if _, err := try(t, "ct1", "up", "--nodes", "3"); err == nil || !strings.Contains(err.Error(), "with 2 nodes instead of 3") {
		t.Errorf("up with other nodes: %v", err)
	}

	// A killed kubelet comes back.
	kubelet := componentPID(t, one, "node1", "kubelet")
	killed := time.Now()
	run(t, "ct1", "kill", "node1/kubelet")
	eventually(t, "another kubelet that is Ready", func(ctx context.Context) error {
		if now := componentPID(t, one, "node1", "kubelet"); now == 0 || now == kubelet {
			return fmt.Errorf("the kubelet is process %d", now)
		}
		s, err := one.loadState()
		if err != nil {
			return err
		}
		api, err := one.client(s)
		if err != nil {
			return err
		}
		return api.nodeReady(ctx, "node1", killed)
	})
	runJob(t, one, "third", "node1")

	// A node powered off comes back with its images.
	run(t, "ct1", "stop", "node2")
	if out := run(t, "ct1", "status"); !strings.Contains(out, "node2  stopped") {
		t.Errorf("status says %s", out)
	}
	run(t, "ct1", "start", "node2")
	runJob(t, one, "fourth", "node2")

	// Another cluster beside it.
	run(t, "ct2", "up")
	runJob(t, two, "first", "node1")
	runJob(t, one, "fifth", "node1")
	if out := run(t, "ct2", "exec", "node1", "ctr", "-n", "k8s.io", "images", "ls", "-q"); !strings.Contains(out, build.CoreDNSImage) {
		t.Errorf("exec printed %q", out)
	}

	r1, r2 := remember(t, one), remember(t, two)
	run(t, "ct1", "down")
	runJob(t, two, "second", "node1")
	run(t, "ct2", "down")
	checkGone(t, before, r1)
	checkGone(t, before, r2)
}

// killInits ends the first processes of a cluster as a crash would.
func killInits(t *testing.T, c *Cluster) {
	t.Helper()
	inits, err := process.Of(c.Name)
	if err != nil || len(inits) == 0 {
		t.Fatalf("no first processes: %v", err)
	}
	for _, i := range inits {
		if err := syscall.Kill(i.PID, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
}

func TestCrash(t *testing.T) {
	before := lookAtMachine(t)
	c := open(t, "ct3")
	run(t, "ct3", "up")
	killInits(t, c)
	run(t, "ct3", "up")
	runJob(t, c, "after-crash", "node1")

	// Down without any process and with a damaged state.
	r := remember(t, c)
	killInits(t, c)
	if err := os.Truncate(c.stateFile(), 20); err != nil {
		t.Fatal(err)
	}
	run(t, "ct3", "down")
	checkGone(t, before, r)

	// Down while everything runs, but its files are lost.
	run(t, "ct3", "up")
	r = remember(t, c)
	if err := os.Remove(c.stateFile()); err != nil {
		t.Fatal(err)
	}
	run(t, "ct3", "down")
	checkGone(t, before, r)

	// Up itself is killed on its way.
	for _, sign := range []string{"starting cluster", "control plane ready"} {
		killUpAt(t, "ct3", sign)
		r.dir = c.dir
		run(t, "ct3", "down")
		checkGone(t, before, r)
	}
	killUpAt(t, "ct3", "starting cluster")
	run(t, "ct3", "up")
	runJob(t, c, "after-killed-up", "node1")
	r = remember(t, c)
	run(t, "ct3", "down")
	checkGone(t, before, r)
}

// killUpAt kills up as soon as it says something.
func killUpAt(t *testing.T, name, sign string) {
	t.Helper()
	cmd := exec.Command(program, "--name", name, "up")
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var said []byte
	buffer := make([]byte, 4096)
	for !bytes.Contains(said, []byte(sign)) {
		n, err := stderr.Read(buffer)
		if err != nil {
			t.Fatalf("up ended before it said %q: %s", sign, said)
		}
		said = append(said, buffer[:n]...)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Fatal("up was not killed")
	}
	t.Logf("up killed after it said %q", sign)
}

func TestUnknownImageFailsFast(t *testing.T) {
	c := open(t, "ct4")
	run(t, "ct4", "up")
	began := time.Now()
	kubectl(t, c, "run", "unknown", "--image=registry.example/unknown:1", "--restart=Never")
	eventually(t, "ErrImagePull", func(context.Context) error {
		reason := kubectl(t, c, "get", "pod", "unknown", "--output=jsonpath={.status.containerStatuses[0].state.waiting.reason}")
		if reason == "ErrImagePull" || reason == "ImagePullBackOff" {
			return nil
		}
		return fmt.Errorf("the reason is %q", reason)
	})
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %s", took)
	}
}

func TestCut(t *testing.T) {
	c := open(t, "ct5")
	run(t, "ct5", "up", "--nodes", "2")
	s, err := c.loadState()
	if err != nil {
		t.Fatal(err)
	}
	// reach says whether node2 reaches an address.
	reach := func(address string, port uint16) bool {
		_, err := try(t, "ct5", "exec", "node2", "timeout", "2", "bash", "-c", fmt.Sprintf("exec 3<>/dev/tcp/%s/%d", address, port))
		return err == nil
	}
	check := func(when string, controlPlane, nodes bool) {
		t.Helper()
		if got := reach(s.Network.Host().String(), s.Ports.API); got != controlPlane {
			t.Errorf("%s, node2 reaches the control plane: %v", when, got)
		}
		if got := reach(s.Network.Node(1).String(), 10250); got != nodes {
			t.Errorf("%s, node2 reaches node1: %v", when, got)
		}
	}
	check("at first", true, true)
	run(t, "ct5", "cut", "node2")
	check("cut off from the control plane", false, true)
	run(t, "ct5", "cut", "--all", "node2")
	check("cut off from all", false, false)
	run(t, "ct5", "heal", "node2")
	run(t, "ct5", "heal", "node2")
	check("healed", true, true)
	run(t, "ct5", "cut", "node2")
	run(t, "ct5", "stop", "node2")
	run(t, "ct5", "start", "node2")
	check("powered off and on", true, true)
	if _, err := try(t, "ct5", "cut", "cp"); err == nil {
		t.Error("the control plane was cut off from itself")
	}
}
