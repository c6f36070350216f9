// SPDX-License-Identifier: Apache-2.0

package events_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/karve-dev/karve/controller/events"
)

func start(t *testing.T) (client.Client, *events.Recorder) {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c := fake.NewClientBuilder().WithScheme(scheme).Build()
	r := events.New(c, logr.Discard(), func() { t.Error("an event was dropped") })
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return c, r
}

func published(t *testing.T, c client.Client) []corev1.Event {
	t.Helper()
	synctest.Wait()
	list := &corev1.EventList{}
	if err := c.List(context.Background(), list); err != nil {
		t.Fatal(err)
	}
	return list.Items
}

func pod(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: "u"}}
}

func TestEventsAreSaidOncePerWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, r := start(t)
		say := func(message, key string) {
			r.Publish(events.Event{About: pod("a"), Reason: "FailedScheduling", Message: message, Key: key, Every: 5 * time.Minute})
			time.Sleep(time.Millisecond)
		}
		say("5 offerings", "resources")
		say("6 offerings", "resources") // the same reason in other numbers
		if got := len(published(t, c)); got != 1 {
			t.Errorf("%d events, want 1", got)
		}
		say("6 offerings", "quota") // another reason
		time.Sleep(5 * time.Minute)
		say("7 offerings", "resources") // the window is over
		if got := len(published(t, c)); got != 3 {
			t.Errorf("%d events, want 3", got)
		}
	})
}

// A burst larger than the stock recorder's queue arrives whole.
func TestBurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, r := start(t)
		for i := range 3000 {
			r.Publish(events.Event{About: pod(fmt.Sprint("p-", i)), Reason: "Nominated", Message: "soon"})
		}
		if got := len(published(t, c)); got != 3000 {
			t.Errorf("%d of 3000 events arrived", got)
		}
	})
}

// An event that did not fit into the queue was not published: it may be, once there is room.
func TestDroppedEventIsPublishedLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		scheme := runtime.NewScheme()
		if err := corev1.AddToScheme(scheme); err != nil {
			t.Fatal(err)
		}
		c, dropped := fake.NewClientBuilder().WithScheme(scheme).Build(), 0
		r := events.New(c, logr.Discard(), func() { dropped++ })
		last := events.Event{About: pod("last"), Reason: "FailedScheduling", Message: "no room"}
		for i := 0; dropped == 0; i++ {
			last.About = pod(fmt.Sprint("p-", i))
			r.Publish(last)
		}
		r.Publish(last)
		if dropped != 2 {
			t.Errorf("%d events dropped, want 2: the first drop counts as published", dropped)
		}
	})
}

func TestEventFields(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, r := start(t)
		r.Publish(events.Event{About: pod("a"), Warning: true, Reason: "FailedScheduling", Message: strings.Repeat("→", 2000)})
		r.Publish(events.Event{About: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, Reason: "X", Message: "y"})
		for _, e := range published(t, c) {
			switch e.InvolvedObject.Kind {
			case "Pod":
				if e.Namespace != "shop" || e.Type != "Warning" || e.Source.Component != "karpenter" || len(e.Message) > 1024 || !strings.HasSuffix(e.Message, "→…") {
					t.Errorf("pod's event: %+v", e)
				}
			case "Node":
				if e.Namespace != "default" || e.Type != "Normal" {
					t.Errorf("node's event: %+v", e)
				}
			}
		}
	})
}
