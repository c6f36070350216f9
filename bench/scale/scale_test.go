// SPDX-License-Identifier: Apache-2.0

package scale

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/proto"
)

// Both controllers are measured at ten nodes. It needs the control plane and builds both commands.
func TestTenNodes(t *testing.T) {
	controlplane := os.Getenv("KARVE_CONTROLPLANE")
	if controlplane == "" {
		t.Skip("KARVE_CONTROLPLANE names no control plane (make controlplane)")
	}
	dir := t.TempDir()
	for command, source := range map[string]string{"karve": "github.com/karve-dev/karve/cmd/karve", "upstream": "sigs.k8s.io/karpenter/kwok"} {
		if output, err := exec.Command("go", "build", "-o", filepath.Join(dir, command), source).CombinedOutput(); err != nil {
			t.Fatalf("building %s: %v\n%s", command, err, output)
		}
	}
	var rows []Row
	row, err := Run(t.Context(), Options{
		Size: Size{Nodes: 10, Pods: 100, Pending: 20}, Dir: filepath.Join(dir, "run"), PerSecond: 50, Churn: 3 * time.Second, Patience: 4 * time.Minute,
		Karve: filepath.Join(dir, "karve"), Controlplane: controlplane, Upstream: filepath.Join(dir, "upstream"),
		Progress: func(step string) { t.Log(step) }, Measured: func(r Row) error { rows = append(rows, r); return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]*Side{"karve": row.Karve, "upstream": row.Upstream} {
		if s.RSSMB <= 0 || s.CPUSeconds <= 0 || s.RestartSeconds <= 0 || s.EventToDecision <= 0 || s.Details.Decided != s.Details.Probes || s.Details.Covered <= 0 {
			t.Errorf("%s: %+v", name, *s)
		}
	}
	if len(rows) != 2 || rows[0].Upstream != nil {
		t.Errorf("told of %+v", rows)
	}
	if row.Karve.LockWait == nil || row.Upstream.LockWait != nil || row.Churn.Pods == 0 {
		t.Errorf("lock waits: %v, %v; churn %+v", row.Karve.LockWait, row.Upstream.LockWait, row.Churn)
	}
}

// The file has the fields that readers of the results know, and keeps rows of other sizes.
func TestSave(t *testing.T) {
	path, wait := filepath.Join(t.TempDir(), "scale.json"), 0.002
	for _, rows := range [][]Row{
		{{Nodes: 5000, Pods: 100_000, Karve: &Side{RSSMB: 1}}},
		{{Nodes: 1000, Pods: 30_000, Karve: &Side{RSSMB: 9}}},
		{{Nodes: 1000, Pods: 30_000, Karve: &Side{RSSMB: 2, LockWait: &wait}, Upstream: &Side{}}},
	} {
		if err := Save(path, rows); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var got []map[string]any
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || got[0]["nodes"] != 1000.0 || got[1]["upstream"] != nil || len(got[0]) != 4 {
		t.Fatalf("saved %s", text)
	}
	ours := got[0]["karve"].(map[string]any)
	if len(ours) != 5 || ours["rss_mb"] != 2.0 || ours["lock_wait_p99_seconds"] != wait {
		t.Errorf("saved %v", ours)
	}
	for _, field := range []string{"cpu_seconds", "restart_seconds", "event_to_decision_p99_seconds"} {
		if _, ok := ours[field]; !ok {
			t.Errorf("%s is missing in %v", field, ours)
		}
	}
	if err := os.WriteFile(path, []byte("["), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := Save(path, nil); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("a damaged file: %v", err)
	}
}

func TestQuantileOfAHistogram(t *testing.T) {
	buckets := []*dto.Bucket{
		{UpperBound: proto.Float64(0.001), CumulativeCount: proto.Uint64(90)},
		{UpperBound: proto.Float64(0.005), CumulativeCount: proto.Uint64(99)},
	}
	name := "waits"
	m := metrics{name: {Name: &name, Metric: []*dto.Metric{{Histogram: &dto.Histogram{SampleCount: proto.Uint64(100), Bucket: buckets}}}}}
	if got, err := m.quantile(0.99, name); err != nil || got != 0.005 {
		t.Errorf("p99 %v, %v", got, err)
	}
	if _, err := m.quantile(0.999, name); err == nil {
		t.Error("a value beyond the buckets is known")
	}
	if _, err := m.quantile(0.5, "none"); err == nil {
		t.Error("a histogram that does not exist has a quantile")
	}
}
