// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

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
