// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/karve-dev/karve/controller/leader"
	"github.com/karve-dev/karve/provider/memory"
)

func TestMissingOptionsAreRefusedByName(t *testing.T) {
	cloud := memory.New(memory.NewCloud(memory.Options{}))
	for want, o := range map[string]Options{
		"Options.Provider":  {NodeClass: schema.GroupVersionKind{Version: "v1", Kind: "X"}},
		"Options.NodeClass": {Provider: cloud},
	} {
		if _, err := New(&rest.Config{}, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not name %s", err, want)
		}
	}
}

func TestDefaults(t *testing.T) {
	o := Options{Provider: memory.New(memory.NewCloud(memory.Options{})), NodeClass: schema.GroupVersionKind{Version: "v1", Kind: "X"}, HealthPort: -1}
	if err := o.complete(); err != nil {
		t.Fatal(err)
	}
	if o.LeaderElectionName != "karpenter-leader-election" || address(o.MetricsPort) != ":8080" || address(o.HealthPort) != "0" {
		t.Errorf("%+v", o)
	}
}

func TestJSONLog(t *testing.T) {
	var out strings.Builder
	log := JSONLog(&out, slog.LevelInfo)
	log.V(1).Info("not said")
	log.WithName("healthz").WithValues("a", 1).Info("healthz check failed")
	log.Info("created nodeclaim", "nodepool", "web")
	log.Error(errors.New("refused"), "launching failed")
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 2 {
		t.Fatalf("%d lines, want 2: %s", len(lines), out.String())
	}
	var entry map[string]any
	if err := json.Unmarshal([]byte(lines[0]), &entry); err != nil {
		t.Fatal(err)
	}
	if entry["message"] != "created nodeclaim" || entry["level"] != "info" || entry["nodepool"] != "web" || entry["logger"] != "controller" {
		t.Errorf("entry %v", entry)
	}
}

// othersLease is a lease that another process holds.
type othersLease struct{ resourcelock.Interface }

func (othersLease) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	return &resourcelock.LeaderElectionRecord{HolderIdentity: "other"}, nil, nil
}

func (othersLease) Identity() string { return "me" }

// A process that no longer leads tells nothing of what it had decided.
//
// Rule LEADER-1.
func TestEventsAreTheLeadersAlone(t *testing.T) {
	var requests atomic.Int64
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		w.WriteHeader(http.StatusForbidden)
	}))
	defer api.Close()
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Event"), meta.RESTScopeNamespace)
	fence := &leader.Fence{}
	c, err := eventsClient(&rest.Config{Host: api.URL}, client.Options{Mapper: mapper}, fence)
	if err != nil {
		t.Fatal(err)
	}
	event := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "said"}}
	if err := c.Create(t.Context(), event); !apierrors.IsForbidden(err) || requests.Load() != 1 {
		t.Errorf("without an election: %v after %d requests, want that of the API server", err, requests.Load())
	}
	fence.Guard(othersLease{}, othersLease{}, time.Second)
	if err := c.Create(t.Context(), event); !errors.Is(err, leader.ErrNotLeading) || requests.Load() != 1 {
		t.Errorf("while another leads: %v after %d requests", err, requests.Load())
	}
}
