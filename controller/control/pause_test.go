// SPDX-License-Identifier: Apache-2.0

package control_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/karve-dev/karve/controller/control"
	"github.com/karve-dev/karve/controller/controllertest"
	"github.com/karve-dev/karve/kube"
	"github.com/karve-dev/karve/provider/memory"
)

// A pauseCluster is a cluster whose ConfigMap may be unreadable, and a Pause that reads it.
type pauseCluster struct {
	*controllertest.Env
	pause      *control.Pause
	unreadable error
}

func newPauseCluster(t *testing.T) *pauseCluster {
	c := &pauseCluster{Env: controllertest.New(t, memory.Options{})}
	reader := interceptor.NewClient(c.API, interceptor.Funcs{
		Get: func(ctx context.Context, api client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if c.unreadable != nil {
				return c.unreadable
			}
			return api.Get(ctx, key, o, opts...)
		},
	})
	c.pause = &control.Pause{Reader: reader, Namespace: "default", Events: c.Env.Events, Metrics: c.Env.Metrics, Log: logr.Discard()}
	return c
}

func (c *pauseCluster) want(t *testing.T, when string, paused bool) {
	t.Helper()
	c.pause.Read(t.Context())
	if got := c.pause.Why(); (got != "") != paused || (c.Counter("karve_paused") == 1) != paused {
		t.Errorf("%s: paused because %q, karve_paused is %v; want paused %v", when, got, c.Counter("karve_paused"), paused)
	}
}

// The annotation pauses with any value but "false". Both the pause and its end are reported once,
// by an event of the ConfigMap, which has the value.
//
// Rule PAUSE-1. Rule PAUSE-3.
func TestAnnotationPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newPauseCluster(t)
		c.want(t, "without a ConfigMap", false)
		for _, value := range []string{"false", "true", "", "until Monday, ask Kim"} {
			time.Sleep(5 * time.Second)
			c.Control(kube.PauseAnnotation, value)
			c.want(t, value, len(value) > 0 && value != "false")
			c.want(t, value+", again", len(value) > 0 && value != "false")
		}
		if why := c.pause.Why(); !strings.Contains(why, "until Monday, ask Kim") || !strings.Contains(why, "default/karve-control") {
			t.Errorf("paused because %q", why)
		}
		time.Sleep(5 * time.Second)
		c.Delete(controllertest.Get(c.Env, &corev1.ConfigMap{}, kube.ControlConfigMap))
		c.want(t, "the ConfigMap was deleted", false)
		time.Sleep(time.Second) // events are written concurrently
		texts := c.EventTexts(kube.ControlConfigMap)
		for _, want := range []string{"Paused: Nothing voluntary is begun, such as consolidation, drift and expiration: the annotation karve.dev/pause of ConfigMap default/karve-control is \"until Monday, ask Kim\"", "Resumed: "} {
			if n := slices.IndexFunc(texts, func(s string) bool { return strings.HasPrefix(s, want) }); n < 0 {
				t.Errorf("no event begins with %q: %q", want, texts)
			}
		}
	})
}

// karve that cannot read the ConfigMap goes on as it last read it. Before it has read it for the
// first time, it is paused, and says what is wrong.
//
// Rule PAUSE-2.
func TestUnreadableConfigMapChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newPauseCluster(t)
		if c.pause.Why() == "" {
			t.Error("not paused before anything was read")
		}
		c.unreadable = apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, kube.ControlConfigMap, errors.New("no role"))
		c.want(t, "never read", true)
		if why := c.pause.Why(); !strings.Contains(why, "forbidden") {
			t.Errorf("paused because %q, which names no permission", why)
		}
		c.unreadable = nil
		c.want(t, "read", false)
		c.unreadable = errors.New("no route to host")
		c.want(t, "was not paused", false)
		c.unreadable = nil
		c.Control(kube.PauseAnnotation, "true")
		c.want(t, "paused", true)
		c.unreadable = errors.New("no route to host")
		c.want(t, "was paused", true)
		c.unreadable = nil
		c.Control(kube.PauseAnnotation, "")
		ctx, stop := context.WithCancel(t.Context())
		go func() { _ = c.pause.Start(ctx) }() // always nil
		time.Sleep(6 * time.Second)
		if why := c.pause.Why(); why != "" {
			t.Errorf("the annotation went, and six seconds later it is paused because %q", why)
		}
		stop()
	})
}

// Without a switch, nothing is paused.
//
// Rule PAUSE-1.
func TestNoSwitchPausesNothing(t *testing.T) {
	var none *control.Pause
	if why := none.Why(); why != "" {
		t.Error(why)
	}
}
