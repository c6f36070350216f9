// SPDX-License-Identifier: Apache-2.0

// Package events publishes Kubernetes events, each at most once per window and
// object. It writes them itself, several at a time, because the stock recorder
// queues a thousand and silently drops the rest, and a burst of pending pods is
// larger than that.
//
// It never blocks its callers: events that do not fit into its queue are counted and
// dropped. The zero Recorder is not usable; see New.
package events

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/karve-dev/karve/internal/panics"
)

const (
	component = "karpenter" // runbooks select on it
	queue     = 1 << 14
	workers   = 8
	longest   = 1000 // characters of a message; the API allows 1024
	window    = 2 * time.Minute
)

// Event is something that happened to an object.
type Event struct {
	About   client.Object
	Warning bool
	Reason  string
	Message string
	// Key separates events of the same reason on the same object; empty means the message does.
	Key string
	// Annotations are set on the event: the contents of the message, as data.
	Annotations map[string]string
	// Every is how long an event of the same key is not repeated; zero means two minutes.
	Every time.Duration
}

// Recorder publishes events. Publish may be called before Start.
type Recorder struct {
	// Panics is notified of panics while events are written; nil recovers nothing. Set it before
	// Start.
	Panics *panics.Reporter

	client  client.Client
	log     logr.Logger
	dropped func()
	events  chan *corev1.Event

	mu   sync.Mutex
	seen map[string]time.Time // key → when it may be published again
	// full is the size of seen at which entries that may be published again are looked for.
	full int
	last int64 // stamp of the last event
}

// least is how many events are remembered at least before any is forgotten.
const least = 256

// New returns a Recorder; dropped is called for each event that did not fit into the queue.
func New(c client.Client, log logr.Logger, dropped func()) *Recorder {
	return &Recorder{client: c, log: log, dropped: dropped, events: make(chan *corev1.Event, queue), seen: map[string]time.Time{}}
}

// Publish queues an event unless it was published a moment ago.
func (r *Recorder) Publish(e Event) {
	key, ok := r.claimWindow(e)
	if !ok {
		return
	}
	written, err := write(e, r.client.Scheme(), r.stamp())
	if err != nil {
		r.log.Error(err, "cannot write event", "reason", e.Reason)
		return
	}
	select {
	case r.events <- written:
	default:
		r.releaseWindow(key)
		r.dropped()
	}
}

// claimWindow reports whether the event may be published now, and begins its window, which key names.
func (r *Recorder) claimWindow(e Event) (key string, ok bool) {
	key = e.Key
	if key == "" {
		key = e.Message
	}
	key = string(e.About.GetUID()) + "/" + e.About.GetName() + "/" + e.Reason + "/" + key
	every := e.Every
	if every == 0 {
		every = window
	}
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Before(r.seen[key]) {
		return key, false
	}
	if len(r.seen) >= max(least, r.full) {
		r.forget(now)
	}
	r.seen[key] = now.Add(every)
	return key, true
}

// releaseWindow ends the window of an event that was dropped: the next one like it may be published.
func (r *Recorder) releaseWindow(key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.seen, key)
}

// forget drops entries that may be published again. It runs when twice as many are remembered as
// were left the last time, so that the cost per event is small however many there are.
func (r *Recorder) forget(now time.Time) {
	maps.DeleteFunc(r.seen, func(_ string, until time.Time) bool { return !now.Before(until) })
	r.full = 2 * len(r.seen)
}

// stamp is the present in nanoseconds; for events of the same moment, whose names it makes unique, one later
// each time.
func (r *Recorder) stamp() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = max(time.Now().UnixNano(), r.last+1)
	return r.last
}

func write(e Event, scheme *runtime.Scheme, stamp int64) (*corev1.Event, error) {
	kind, err := apiutil.GVKForObject(e.About, scheme)
	if err != nil {
		return nil, fmt.Errorf("naming %T: %w", e.About, err)
	}
	namespace := e.About.GetNamespace()
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	now := metav1.Now()
	return &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:   namespace,
			Name:        fmt.Sprintf("%s.%x", e.About.GetName(), stamp),
			Annotations: e.Annotations,
		},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: kind.GroupVersion().String(), Kind: kind.Kind,
			Namespace: e.About.GetNamespace(), Name: e.About.GetName(), UID: e.About.GetUID(),
		},
		Type:                eventType(e.Warning),
		Reason:              e.Reason,
		Message:             shorten(e.Message),
		Source:              corev1.EventSource{Component: component},
		ReportingController: component,
		FirstTimestamp:      now,
		LastTimestamp:       now,
		Count:               1,
	}, nil
}

func eventType(warning bool) string {
	if warning {
		return corev1.EventTypeWarning
	}
	return corev1.EventTypeNormal
}

func shorten(s string) string {
	if len(s) <= longest {
		return s
	}
	cut := longest - len("…")
	for cut > 0 && s[cut]&0xC0 == 0x80 { // not inside a character
		cut--
	}
	return s[:cut] + "…"
}

// Start publishes until the context ends.
func (r *Recorder) Start(ctx context.Context) error {
	var group panics.Group
	for range workers {
		group.Go(func() error { return r.Panics.Loop(ctx, "events", r.work) })
	}
	return group.Wait()
}

// NeedLeaderElection is false: only leaders publish events, but all may finish writing them.
func (r *Recorder) NeedLeaderElection() bool { return false }

func (r *Recorder) work(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case e := <-r.events:
			if err := r.client.Create(ctx, e); err != nil && ctx.Err() == nil {
				r.log.V(1).Info("event refused", "reason", e.Reason, "error", err.Error())
			}
		}
	}
}
