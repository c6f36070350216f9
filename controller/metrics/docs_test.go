// SPDX-License-Identifier: Apache-2.0

package metrics_test

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/karve-dev/karve/controller/metrics"
)

var rewrite = flag.Bool("rewrite", false, "write the list of metrics anew")

const list = "../../docs/metrics.md"

// lister is a registry that only records the names of what is registered.
type lister struct{ rows []string }

func (l *lister) Register(c prometheus.Collector) error { l.MustRegister(c); return nil }

func (l *lister) Unregister(prometheus.Collector) bool { return false }

func (l *lister) MustRegister(all ...prometheus.Collector) {
	for _, c := range all {
		descs := make(chan *prometheus.Desc, 1)
		c.Describe(descs)
		l.rows = append(l.rows, row(c, (<-descs).String()))
	}
}

var described = regexp.MustCompile(`fqName: "([^"]*)", help: "([^"]*)".*variableLabels: {([^}]*)}`)

func row(c prometheus.Collector, desc string) string {
	kind := map[string]string{"*prometheus.CounterVec": "counter", "*prometheus.GaugeVec": "gauge", "*prometheus.HistogramVec": "histogram", "*prometheus.SummaryVec": "summary"}
	part := described.FindStringSubmatch(desc)
	return fmt.Sprintf("| `%s` | %s | %s | %s |", part[1], kind[fmt.Sprintf("%T", c)], strings.ReplaceAll(part[3], ",", ", "), part[2])
}

// The list of metrics in the docs equals the registered metrics.
//
// Rule METRIC-1.
func TestListOfMetrics(t *testing.T) {
	l := &lister{}
	metrics.New(l)
	slices.Sort(l.rows)
	text, err := os.ReadFile(list)
	if err != nil {
		t.Fatal(err)
	}
	const head = "| --- | --- | --- | --- |\n"
	before, table, ok := strings.Cut(string(text), head)
	if !ok {
		t.Fatalf("%s has no table", list)
	}
	want := strings.Join(l.rows, "\n") + "\n"
	if *rewrite {
		if err := os.WriteFile(list, []byte(before+head+want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, table); diff != "" {
		t.Errorf("metrics changed; look at the difference, then run with -rewrite (-want +got):\n%s", diff)
	}
}
