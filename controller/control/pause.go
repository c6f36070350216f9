// SPDX-License-Identifier: Apache-2.0

// Package control reads what an operator tells karve as a whole: annotations of one ConfigMap
// (kube.ControlConfigMap, in karve's own namespace).
//
// It does nothing itself: controllers ask it. The zero Pause is not usable; a nil one is never
// paused.
package control

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/karve-dev/karve/controller/events"
	"github.com/karve-dev/karve/controller/metrics"
	"github.com/karve-dev/karve/kube"
)

// every is the pause between two reads of the ConfigMap.
const every = 5 * time.Second

// Pause knows whether an operator has paused everything voluntary: each controller asks it before
// it begins to disrupt a node that could stay. Launches for pending pods, and what was begun before,
// go on. Until the ConfigMap was read for the first time it counts as paused; a read that fails
// later changes nothing. All fields are required.
type Pause struct {
	// Reader reads past the cache: karve may read this one ConfigMap only.
	Reader client.Reader
	// Namespace is karve's own.
	Namespace string
	Events    *events.Recorder
	Metrics   *metrics.Set
	Log       logr.Logger

	mu      sync.Mutex
	read    bool   // the ConfigMap was read once
	why     string // as Why returns it, once it was read
	problem string // of the last read; empty when it succeeded
}

// Why says in words why everything voluntary is paused; empty when it is not.
func (p *Pause) Why() string {
	if p == nil {
		return ""
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.read:
		return p.why
	case p.problem != "":
		return p.problem
	}
	return fmt.Sprintf("the ConfigMap %s/%s, which may say to pause, was not read yet", p.Namespace, kube.ControlConfigMap)
}

// Start follows the ConfigMap until the context ends.
func (p *Pause) Start(ctx context.Context) error {
	for {
		p.Read(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(every):
		}
	}
}

// Read reads the ConfigMap once, and reports what has changed since the last time.
func (p *Pause) Read(ctx context.Context) {
	held := &corev1.ConfigMap{}
	err := p.Reader.Get(ctx, client.ObjectKey{Namespace: p.Namespace, Name: kube.ControlConfigMap}, held)
	if client.IgnoreNotFound(err) != nil {
		p.failed(ctx, err)
		return
	}
	p.report(held, p.set(wordsOf(held)))
}

// wordsOf says why the ConfigMap pauses karve; empty when it does not. Any value pauses but "false"
// and the empty one: a person who writes another one means to pause, and says why.
func wordsOf(held *corev1.ConfigMap) string {
	switch value := held.Annotations[kube.PauseAnnotation]; value {
	case "", "false":
		return ""
	default:
		return fmt.Sprintf("the annotation %s of ConfigMap %s/%s is %q", kube.PauseAnnotation, held.Namespace, held.Name, value)
	}
}

// set records what the ConfigMap says, and returns whether that is news.
func (p *Pause) set(why string) (news bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	news = p.why != why
	p.read, p.why, p.problem = true, why, ""
	p.gauge(why != "")
	return news
}

func (p *Pause) gauge(on bool) {
	if on {
		p.Metrics.Paused.Set(1)
		return
	}
	p.Metrics.Paused.Set(0)
}

func (p *Pause) report(held *corev1.ConfigMap, news bool) {
	if !news {
		return
	}
	if why := p.Why(); why != "" {
		p.Log.Info("paused: nothing voluntary is begun", "because", why)
		p.publish(held, "Paused", "Nothing voluntary is begun, such as consolidation, drift and expiration: "+why+
			". Nodes for pending pods are launched, and what was begun is finished. Remove the annotation to go on")
		return
	}
	p.Log.Info("not paused any more")
	p.publish(held, "Resumed", "Voluntary disruption goes on")
}

// publish publishes an event on the ConfigMap. One that was deleted has none.
func (p *Pause) publish(held *corev1.ConfigMap, reason, message string) {
	if held.UID == "" {
		held = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: kube.ControlConfigMap}}
	}
	p.Events.Publish(events.Event{About: held, Reason: reason, Message: message})
}

// failed records that the ConfigMap cannot be read: what it said last still holds.
func (p *Pause) failed(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	problem := fmt.Sprintf("the ConfigMap %s/%s, which may say to pause, cannot be read: %v", p.Namespace, kube.ControlConfigMap, err)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.problem == "" {
		p.Log.Error(err, "cannot read whether karve is paused: what was read last holds, and nothing voluntary is begun before a first time. "+
			"karve rbac prints the role that allows it", "configmap", p.Namespace+"/"+kube.ControlConfigMap)
	}
	if p.problem = problem; !p.read {
		p.gauge(true)
	}
}
