// Package schedule decides what is broken and when. It is a pure function of the seed and of the number of faults.
package schedule

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// Kind is a way to break something.
type Kind string

// The kinds. Kill is "kill -9" of the one process; whoever started it starts it again.
const (
	KillBridge       Kind = "kill-bridge"
	DeleteBridge     Kind = "delete-bridge"  // the Pod, without a grace period
	RestartBridge    Kind = "restart-bridge" // the Pod, with its grace period
	StopBridge       Kind = "stop-bridge"    // all replicas, for a while
	KillController   Kind = "kill-controller"
	DeleteController Kind = "delete-controller"
	StopController   Kind = "stop-controller"

	KillSidecar Kind = "kill-sidecar"
	KillWork    Kind = "kill-work"
	DeleteWork  Kind = "delete-work" // a task's Pod, without a grace period

	KillKubelet    Kind = "kill-kubelet"
	KillContainerd Kind = "kill-containerd"
	KillAPIServer  Kind = "kill-kube-apiserver"
	KillEtcd       Kind = "kill-etcd"
	KillManager    Kind = "kill-kube-controller-manager"
	KillScheduler  Kind = "kill-kube-scheduler"

	StopControlPlane Kind = "stop-control-plane"
	StopNode         Kind = "stop-node"
	CutNode          Kind = "cut-node"     // from the control plane alone
	IsolateNode      Kind = "isolate-node" // from everything
)

// property of a kind.
type property struct {
	// weight is how often it comes, beside the others.
	weight int
	// lasts is how long what is stopped or cut stays so, at least and at most; nothing where it is started again by itself.
	least, most time.Duration
	// wide faults take away a whole role; no two of them come at one time, so that something goes on working.
	wide bool
	// api says that kubectl alone can do it.
	api bool
}

var properties = map[Kind]property{
	KillBridge:       {weight: 10},
	DeleteBridge:     {weight: 4, api: true},
	RestartBridge:    {weight: 3, api: true},
	StopBridge:       {weight: 2, least: 3 * time.Second, most: 12 * time.Second, api: true},
	KillController:   {weight: 10},
	DeleteController: {weight: 4, api: true},
	StopController:   {weight: 3, least: 3 * time.Second, most: 20 * time.Second, api: true},
	KillSidecar:      {weight: 10},
	KillWork:         {weight: 7},
	DeleteWork:       {weight: 4, api: true},
	KillKubelet:      {weight: 6},
	KillContainerd:   {weight: 5},
	KillAPIServer:    {weight: 5},
	KillEtcd:         {weight: 4},
	KillManager:      {weight: 5},
	KillScheduler:    {weight: 4},
	StopControlPlane: {weight: 1, least: 2 * time.Second, most: 15 * time.Second, wide: true},
	StopNode:         {weight: 2, least: 3 * time.Second, most: 60 * time.Second, wide: true},
	CutNode:          {weight: 3, least: 3 * time.Second, most: 60 * time.Second, wide: true},
	IsolateNode:      {weight: 2, least: 3 * time.Second, most: 60 * time.Second, wide: true},
}

// order is that of the kinds, which a map does not keep.
var order = []Kind{
	KillBridge, DeleteBridge, RestartBridge, StopBridge, KillController, DeleteController, StopController,
	KillSidecar, KillWork, DeleteWork, KillKubelet, KillContainerd, KillAPIServer, KillEtcd, KillManager, KillScheduler,
	StopControlPlane, StopNode, CutNode, IsolateNode,
}

// Kinds are all of them, in a fixed order.
func Kinds() []Kind { return append([]Kind(nil), order...) }

// ByKubectl says whether the kind needs no more than kubectl.
func (k Kind) ByKubectl() bool { return properties[k].api }

// Wide says whether the kind takes away a whole role of the cluster.
func (k Kind) Wide() bool { return properties[k].wide }

// Fault is one thing to break.
type Fault struct {
	N int
	// Pause before it, after the one before it.
	Pause time.Duration
	Kind  Kind
	// For how long; 0 where what was broken comes back by itself.
	For time.Duration
	// Pick says which of the possible targets it is: the one with this number, modulo how many there are.
	Pick uint32
}

// String is a line for people.
func (f Fault) String() string {
	text := fmt.Sprintf("%4d  after %4.1fs  %s", f.N, f.Pause.Seconds(), f.Kind)
	if f.For > 0 {
		text += fmt.Sprintf(" for %.1fs", f.For.Seconds())
	}
	return text
}

const (
	leastPause = 2 * time.Second
	meanPause  = 3 * time.Second // beyond the least, so that a thousand faults take about an hour and a half
	mostPause  = 15 * time.Second
	// settle is what a role needs to come back, before another one is taken away.
	settle = 20 * time.Second
)

// Plan is the list of faults. Where there are enough of them each kind comes at least once; else each comes at most once.
func Plan(seed uint64, faults int) []Fault {
	random := rand.New(rand.NewPCG(seed, 0x6d63707461736b))
	kinds := deal(random, faults)
	plan := make([]Fault, 0, faults)
	var wideUntil, now time.Duration
	for len(kinds) > 0 {
		pause := leastPause + min(time.Duration(random.ExpFloat64()*float64(meanPause)), mostPause)
		next := 0
		if now+pause < wideUntil { // the first that is not wide; if there is none, it waits
			for next < len(kinds) && kinds[next].Wide() {
				next++
			}
			if next == len(kinds) {
				next, pause = 0, wideUntil-now
			}
		}
		kind := kinds[next]
		kinds = append(kinds[:next], kinds[next+1:]...)
		p := properties[kind]
		fault := Fault{N: len(plan) + 1, Pause: pause.Round(100 * time.Millisecond), Kind: kind, Pick: random.Uint32()}
		if p.most > 0 {
			fault.For = (p.least + time.Duration(random.Float64()*float64(p.most-p.least))).Round(100 * time.Millisecond)
		}
		now += fault.Pause
		if p.wide {
			wideUntil = now + fault.For + settle
		}
		plan = append(plan, fault)
	}
	return plan
}

// deal chooses the kinds: whole sets first, so that even a short plan has as many different kinds as it can.
func deal(random *rand.Rand, n int) []Kind {
	var kinds []Kind
	if n >= len(order) {
		kinds = Kinds()
	}
	total := 0
	for _, kind := range order {
		total += properties[kind].weight
	}
	taken := map[Kind]bool{}
	for len(kinds) < n {
		at := random.IntN(total)
		for _, kind := range order {
			if at -= properties[kind].weight; at < 0 {
				if n >= len(order) || !taken[kind] {
					kinds = append(kinds, kind)
					taken[kind] = true
				}
				break
			}
		}
	}
	random.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
	return kinds
}
