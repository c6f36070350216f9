// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/karve-dev/karve/internal/panics"
	"github.com/karve-dev/karve/kube"
)

// every is the interval at which Azure recommends to poll for events.
const every = time.Second

// Agent reports one VM's events on its Node.
type Agent struct {
	// Node is the name of the VM's Node.
	Node string
	// Metadata is the VM's metadata service.
	Metadata Metadata
	// Client reads and patches the Node, and creates events about it. It needs no cache.
	Client client.Client
	Log    logr.Logger
	// Panics is notified of panics, after which the agent continues; nil recovers nothing.
	Panics *panics.Reporter

	vm      string          // Azure's name of this VM; empty until it was read
	told    int64           // incarnation of the last document that the Node shows
	settled bool            // the value of told is valid
	said    map[string]bool // events about which an event of the Node was created
	failure string          // the last failure that was logged
}

// Run looks once a second until ctx ends. Whatever fails is tried again.
func (a *Agent) Run(ctx context.Context) {
	_ = a.Panics.Loop(ctx, "agent", a.follow) // always nil
}

func (a *Agent) follow(ctx context.Context) error {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		if err := a.Look(ctx); ctx.Err() == nil {
			a.logFailure(err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// Look reads the scheduled events once, and updates the Node if they changed.
func (a *Agent) Look(ctx context.Context) error {
	if a.vm == "" {
		vm, err := a.Metadata.VM(ctx)
		if err != nil {
			return err
		}
		a.vm = vm
	}
	document, err := a.Metadata.Events(ctx)
	if err != nil || a.settled && document.Incarnation == a.told {
		return err
	}
	next, coming := a.next(document)
	if err := a.mark(ctx, next, coming); err != nil {
		return err
	}
	a.told, a.settled = document.Incarnation, true
	a.report(ctx, document)
	return nil
}

// next returns the event of this VM that ends its pods first. An event that merely
// freezes the VM for seconds does not.
func (a *Agent) next(d Document) (first Event, coming bool) {
	for _, e := range d.Events {
		if !e.concerns(a.vm) || !ends(e) {
			continue
		}
		if !coming || sooner(e, first) {
			first, coming = e, true
		}
	}
	return first, coming
}

// ends reports whether the event ends the pods on the VM.
func ends(e Event) bool {
	switch kube.NoticeKind(e.Kind) {
	case kube.NoticePreempt, kube.NoticeTerminate, kube.NoticeRedeploy, kube.NoticeReboot:
		return true
	}
	return false
}

func sooner(a, b Event) bool {
	if a.started() != b.started() {
		return a.started()
	}
	return a.at().Before(b.at())
}

// logFailure logs a failure once, and once that it is over.
func (a *Agent) logFailure(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	switch {
	case text == a.failure:
		return
	case err != nil:
		a.Log.Error(err, "cannot read the VM's scheduled events, trying again")
	default:
		a.Log.Info("reading the VM's scheduled events again")
	}
	a.failure = text
}

// report creates an event on the Node for each new event of the VM, for users:
// nothing else is done about a freeze. If one cannot be created it is not retried.
func (a *Agent) report(ctx context.Context, d Document) {
	current := map[string]bool{}
	for _, e := range d.Events {
		if !e.concerns(a.vm) {
			continue
		}
		key := e.ID + " " + e.Status
		current[key] = true
		if a.said[key] {
			continue
		}
		a.Log.Info("scheduled event", "kind", e.Kind, "status", e.Status, "notBefore", e.NotBefore, "id", e.ID, "description", e.Description)
		if err := a.Client.Create(ctx, a.eventOf(e)); err != nil {
			a.Log.Error(err, "cannot create an event about a scheduled event", "id", e.ID)
		}
	}
	a.said = current
}

func (a *Agent) eventOf(e Event) *corev1.Event {
	when := ""
	if e.NotBefore != "" {
		when = ", not before " + e.NotBefore
	}
	now := metav1.Now()
	return &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, GenerateName: a.Node + "."},
		InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: a.Node},
		Type:           corev1.EventTypeWarning,
		Reason:         "ScheduledEvent",
		Message:        fmt.Sprintf("Azure: %s %s%s (event %s)", e.Kind, e.Status, when, e.ID),
		Source:         corev1.EventSource{Component: "karve-agent", Host: a.Node},
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
	}
}
