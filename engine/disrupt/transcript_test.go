// SPDX-License-Identifier: Apache-2.0

package disrupt_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/karve-dev/karve/engine/disrupt"
	"github.com/karve-dev/karve/engine/disrupt/disrupttest"
	"github.com/karve-dev/karve/engine/enginetest"
	"github.com/karve-dev/karve/engine/offering"
)

var rewrite = flag.Bool("rewrite", false, "write what the engine answers into the transcripts")

// TestSearch replays testdata/search: a script, a line of dashes, the plan for it. A script is in
// the language of enginetest, with lines that begin with disrupt: see scenario.
func TestSearch(t *testing.T) {
	replay(t, "testdata/search/*.txt", func(*testing.T, *scenario, disrupt.Plan) {})
}

// TestMovesBesideEachOther replays testdata/together. In each of these clusters a plan once had a
// move that removed a pod or node that another move needed.
func TestMovesBesideEachOther(t *testing.T) {
	replay(t, "testdata/together/*.txt", func(t *testing.T, s *scenario, p disrupt.Plan) {
		if err := checkMoves(s.script, p.Moves); err != nil {
			t.Error(err)
		}
	})
}

func replay(t *testing.T, pattern string, check func(*testing.T, *scenario, disrupt.Plan)) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			in, want, _ := strings.Cut(string(raw), "----\n")
			s, err := parseScenario(in)
			if err != nil {
				t.Fatal(err)
			}
			plan := s.search()
			check(t, s, plan)
			got := printPlan(plan)
			if *rewrite {
				if err := os.WriteFile(file, []byte(in+"----\n"+got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("plan (-want +got; -rewrite accepts):\n%s", diff)
			}
		})
	}
}

// scenario is a cluster and what disruption knows of it. Nodes are ready, and were launched and
// had their last pod event long ago; any saving is enough; unless a line says something else:
//
//	disrupt node a [drifted=1h] [do-not-disrupt] [last-pod-event=1m] [stay=9m (of each pod)]
//	disrupt pool p [budget=1] [consolidate-after=1m] [min-savings=0.01] [back-off=1m]
//	disrupt settings [min-savings=5%] [share-of-pod-cost=25%] [no-spot-to-spot] [upstream]
type scenario struct {
	script   *enginetest.Script
	cluster  *disrupttest.Cluster
	pools    []disrupt.Pool
	settings disrupt.Settings
	nodes    map[string]func(*disrupt.Node)
}

func parseScenario(text string) (*scenario, error) {
	var script strings.Builder
	var lines [][]string
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) > 2 && f[0] == "disrupt" {
			lines = append(lines, f[1:])
		} else {
			script.WriteString(line)
		}
	}
	parsed, err := enginetest.Parse(script.String())
	if err != nil {
		return nil, err
	}
	s := &scenario{script: parsed, cluster: disrupttest.Of(parsed), pools: poolsOf(parsed), settings: disrupt.Settings{SpotToSpot: true}, nodes: map[string]func(*disrupt.Node){}}
	for _, f := range lines {
		if err := s.line(f); err != nil {
			return nil, fmt.Errorf("disrupt %s: %w", strings.Join(f, " "), err)
		}
	}
	return s, nil
}

// line reads the words after disrupt.
func (s *scenario) line(f []string) error {
	words := f[1:]
	switch f[0] {
	case "settings":
		return eachWord(words, s.setting)
	case "pool":
		i := slices.IndexFunc(s.pools, func(p disrupt.Pool) bool { return p.Name == f[1] })
		if i < 0 {
			return fmt.Errorf("no pool %s", f[1])
		}
		return eachWord(words[1:], func(key, value string) error { return poolWord(&s.pools[i], key, value) })
	case "node":
		if _, ok := s.cluster.Nodes[f[1]]; !ok {
			return fmt.Errorf("no node %s", f[1])
		}
		var changes []func(*disrupt.Node)
		err := eachWord(words[1:], func(key, value string) error {
			change, err := nodeWord(key, value)
			changes = append(changes, change)
			return err
		})
		s.nodes[f[1]] = func(n *disrupt.Node) {
			for _, change := range changes {
				change(n)
			}
		}
		return err
	}
	return fmt.Errorf("%q is not one of node, pool, settings", f[0])
}

func eachWord(words []string, read func(key, value string) error) error {
	for _, word := range words {
		key, value, _ := strings.Cut(word, "=")
		if err := read(key, value); err != nil {
			return fmt.Errorf("%s: %w", word, err)
		}
	}
	return nil
}

func (s *scenario) setting(key, value string) error {
	switch key {
	case "min-savings":
		percent, err := strconv.ParseFloat(strings.TrimSuffix(value, "%"), 64)
		s.settings.MinSavings.Share = percent / 100
		return err
	case "share-of-pod-cost":
		percent, err := strconv.ParseFloat(strings.TrimSuffix(value, "%"), 64)
		s.settings.MinSavings = disrupt.MinSavings{Share: s.settings.MinSavings.Share, PerEviction: disrupt.Defaults().MinSavings.PerEviction,
			ShareOfPodCost: percent / 100, ShortStayShare: percent / 100}
		return err
	case "no-spot-to-spot":
		s.settings.SpotToSpot = false
	case "upstream":
		s.settings.Upstream = true
	default:
		return fmt.Errorf("not a setting")
	}
	return nil
}

func poolWord(p *disrupt.Pool, key, value string) (err error) {
	switch key {
	case "budget":
		b := disrupt.Budget{Active: true}
		b.Nodes, err = strconv.Atoi(value)
		p.Budgets = append(p.Budgets, b)
	case "consolidate-after":
		p.ConsolidateAfter, err = time.ParseDuration(value)
	case "min-savings":
		var usd float64
		usd, err = strconv.ParseFloat(value, 64)
		p.MinSavings = &disrupt.MinSavings{PerHour: offering.Price(usd * 1e9)}
	case "back-off":
		var left time.Duration
		left, err = time.ParseDuration(value)
		p.BackOffUntil = disrupttest.Now().Add(left)
	default:
		err = fmt.Errorf("not a word of a pool")
	}
	return err
}

func nodeWord(key, value string) (func(*disrupt.Node), error) {
	if key == "do-not-disrupt" {
		return func(n *disrupt.Node) { n.Blocks = []disrupt.Block{{Because: disrupt.DoNotDisrupt}} }, nil
	}
	ago, err := time.ParseDuration(value) // stay: from now on
	at := disrupttest.Now().Add(-ago)
	switch key {
	case "drifted":
		return func(n *disrupt.Node) {
			n.Due = []disrupt.DueCause{{Cause: disrupt.Drifted, Detail: "ImageDrift", Since: at}}
		}, err
	case "last-pod-event":
		return func(n *disrupt.Node) { n.LastPodEvent = at }, err
	case "stay":
		return func(n *disrupt.Node) {
			n.ShortStayCost, n.ShortestStay, n.ShortestStayPod = disrupt.ShortStayCost(n.EvictionCost, ago, disrupt.Defaults().ExpectedStay), ago, "default/"+n.Key
		}, err
	}
	return nil, fmt.Errorf("not a word of a node")
}

func (s *scenario) search() disrupt.Plan {
	in := s.cluster.ForDisruption(disrupttest.Now(), s.pools, s.settings)
	for i := range in.Nodes {
		if change := s.nodes[in.Nodes[i].Key]; change != nil {
			change(&in.Nodes[i])
		}
	}
	return disrupt.Search(s.cluster.Builder.Snapshot(), in, disrupt.Cursor{})
}

// printPlan writes the moves and the kept nodes, one a line.
func printPlan(p disrupt.Plan) string {
	var b strings.Builder
	for _, m := range p.Moves {
		fmt.Fprintf(&b, "%s %s:", m.Cause, strings.Join(m.Nodes, " "))
		for _, r := range m.Nominations {
			fmt.Fprintf(&b, " %d pods to %s,", len(r.Pods), r.Node)
		}
		for _, l := range m.Launches {
			var offerings []string
			for _, o := range l.Offerings {
				offerings = append(offerings, o.Type+"/"+o.CapacityType)
			}
			fmt.Fprintf(&b, " %d pods to a launch of %s,", len(l.Pods), strings.Join(offerings, "|"))
		}
		fmt.Fprintf(&b, " saves %s/h\n", m.Saves())
	}
	for _, k := range p.Kept {
		fmt.Fprintf(&b, "kept %s: %s\n", k.Key, k.Because)
	}
	return b.String()
}
