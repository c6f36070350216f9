// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/karve-dev/karve/azureemulator"
)

// The pace of a kubelet's attempts to join: it doubles its pauses up to seconds.
const (
	firstPause = 200 * time.Millisecond
	longPause  = 7 * time.Second
)

// Options adjust an OS. The zero value works.
type Options struct {
	// OSDiskGiB is the size of the OS disk of VMs that AKS did not make, and of AKS's when
	// their profile names none. Zero means 128, AKS's default.
	OSDiskGiB int64
	// Cluster is the cluster that VMs join which AKS made itself.
	Cluster Cluster
	// Routes maps an address that VMs connect to, host:port, to the address that is dialled
	// instead: what DNS and a load balancer do between a node and its API server.
	Routes map[string]string
	// API carries the requests of kubelets in the place of a network, to an API server that asks for
	// no certificate. Nil: they connect, and join with their bootstrap token.
	API http.RoundTripper
	// Silence is how long after its VM went a Node is declared unknown; a
	// real cluster takes 50 s. Zero means at once.
	Silence time.Duration
	// Log receives one line when a VM joins, leaves, or never will join.
	// Nil: nothing is logged.
	Log *slog.Logger
}

// OS is the operating system of every VM: a Guest for the emulator. It
// is safe for concurrent use.
type OS struct {
	options Options
	console consoleLog

	mu     sync.Mutex
	guests map[string]*guest // by VM name; those running now
}

var (
	_ azureemulator.Guest     = (*OS)(nil)
	_ azureemulator.Preempter = (*OS)(nil)
)

// NewOS makes an OS without VMs.
func NewOS(o Options) *OS {
	if o.OSDiskGiB == 0 {
		o.OSDiskGiB = 128
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &OS{options: o, guests: map[string]*guest{}}
}

// Run is one VM from the end of its boot until ctx ends. It returns early
// when the payload can never make a node. When the VM is gone (the cause of
// ctx says so) the Node is left as a dead kubelet leaves it.
func (a *OS) Run(ctx context.Context, m azureemulator.VM) {
	g := &guest{os: a, vm: m, preempt: make(chan azureemulator.Preemption, 1)}
	a.enter(g)
	defer a.leave(g)
	g.say("booted %s as %s", m.Size.Name, m.ComputerName)
	payload, err := a.bootstrap(ctx, m)
	if err == nil {
		err = payload.installDriver(m)
	}
	if err == nil && !payload.Kubelet.Register {
		err = errors.New("--register-node=false keeps the kubelet from registering")
	}
	if err != nil {
		g.say("the node will never join: %v", err)
		a.options.Log.Warn("node will never join", "vm", m.Name, "reason", err)
		return
	}
	g.payload = payload
	g.live(ctx)
}

// bootstrap is what the VM starts as: by its customData, or by what AKS says of a
// VM of its own.
func (a *OS) bootstrap(ctx context.Context, m azureemulator.VM) (Payload, error) {
	if m.Node != nil {
		return a.options.Cluster.bootstrap(m)
	}
	return readPayload(ctx, m.CustomData, imageVersion(m.ImageID))
}

// Console is the boot log of a VM: how far it came, and why no further. It
// remains for a while after the VM has gone, and holds no secret.
func (a *OS) Console(vmName string) string { return a.console.read(vmName) }

// Preempt tells a running VM that Azure will take it back, as a Scheduled
// Event would; its Node says so in a condition. A VM that is still booting
// hears nothing, as it would not ask yet.
func (a *OS) Preempt(vmName string, p azureemulator.Preemption) {
	a.mu.Lock()
	g, ok := a.guests[vmName]
	a.mu.Unlock()
	if !ok {
		return
	}
	// Only the latest notice counts, so a full channel is emptied first.
	select {
	case <-g.preempt:
	default:
	}
	select {
	case g.preempt <- p:
	default: // another notice came in between; it is as good as this one
	}
}

func (a *OS) enter(g *guest) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.guests[g.vm.Name] = g
}

// leave forgets a guest, unless a new boot of the VM has taken its place.
func (a *OS) leave(g *guest) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.guests[g.vm.Name] == g {
		delete(a.guests, g.vm.Name)
	}
}

// current reports whether no later boot of the VM has begun.
func (g *guest) current() bool {
	g.os.mu.Lock()
	defer g.os.mu.Unlock()
	return g.os.guests[g.vm.Name] == g
}

// guest is one running VM.
type guest struct {
	os      *OS
	vm      azureemulator.VM
	payload Payload
	preempt chan azureemulator.Preemption
	last    string // the last line said; attempts repeat themselves
}

// live joins the cluster, waits for the end, and goes silent.
func (g *guest) live(ctx context.Context) {
	identity, ok := g.enroll(ctx)
	if !ok {
		return
	}
	k, err := newKubelet(g, identity)
	if err != nil {
		g.say("the node will never join: %v", err)
		return
	}
	defer k.close()
	if g.retry(ctx, "registering the node", k.register) {
		g.say("registered as node %s", k.name)
		g.os.options.Log.Info("node registered", "vm", g.vm.Name, "node", k.name)
		g.retry(ctx, "starting the disk driver", k.startDisks)
		g.serve(ctx, k)
	}
	if gone(ctx) {
		g.silence(context.WithoutCancel(ctx), k, context.Cause(ctx))
	}
}

// serve waits for the VM's end and passes on what happens until then.
func (g *guest) serve(ctx context.Context, k *kubelet) {
	for {
		select {
		case <-ctx.Done():
			return
		case p := <-g.preempt:
			g.say("scheduled event: Preempt, not before %s", p.NotBefore.UTC().Format(time.RFC3339))
			g.retry(ctx, "reporting the preemption", func(ctx context.Context) error {
				return k.reportPreemption(ctx, p)
			})
		}
	}
}

// silenceLimit is when an unreachable API server is given up: the cloud
// controller will not hear from this node again either way.
const silenceLimit = 2 * time.Minute

// silence leaves the Node as it is when its kubelet has stopped: its lease is no longer renewed,
// and after a while its conditions are unknown.
func (g *guest) silence(ctx context.Context, k *kubelet, cause error) {
	g.say("stopped: %v", cause)
	ctx, cancel := context.WithTimeout(ctx, g.os.options.Silence+silenceLimit)
	defer cancel()
	if g.os.options.Silence > 0 {
		g.retry(ctx, "stopping the heartbeat", k.unplug)
		pause(ctx, g.os.options.Silence)
	}
	if !g.current() {
		return // the VM has been started again, and the Node speaks for that boot
	}
	if g.retry(ctx, "going silent", k.goSilent) {
		g.os.options.Log.Info("node went silent", "vm", g.vm.Name, "node", k.name, "cause", cause)
		return
	}
	g.os.options.Log.Error("node still looks alive", "vm", g.vm.Name, "node", k.name, "last", g.last)
}

// gone reports whether ctx ended because the VM runs no more, rather
// than because the emulator stops.
func gone(ctx context.Context) bool {
	cause := context.Cause(ctx)
	for _, end := range []error{azureemulator.ErrDeleted, azureemulator.ErrEvicted, azureemulator.ErrDeallocated, azureemulator.ErrRestarted} {
		if errors.Is(cause, end) {
			return true
		}
	}
	return false
}

// retry acts until it succeeds, with growing pauses, or until ctx ends; then it
// reports false. Each new reason for failing goes to the console.
func (g *guest) retry(ctx context.Context, what string, act func(context.Context) error) bool {
	for wait := firstPause; ctx.Err() == nil; wait = min(2*wait, longPause) {
		err := act(ctx)
		if err == nil {
			return true
		}
		if ctx.Err() == nil {
			g.say("%s: %v", what, err)
		}
		// A fleet that starts together must not knock together.
		pause(ctx, wait/2+rand.N(wait))
	}
	return false
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// say writes a line on the VM's console, once.
func (g *guest) say(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	if g.payload.Token != "" {
		line = strings.ReplaceAll(line, g.payload.Token, "[token]")
	}
	if line == g.last {
		return
	}
	g.last = line
	g.os.console.add(g.vm.Name, line, time.Now())
}
