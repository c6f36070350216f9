// SPDX-License-Identifier: Apache-2.0

package clusterlife

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/disrupt"
	"github.com/karve-dev/karve/engine/quantity"
)

// Pool is a NodePool in the words of its manifest.
type Pool struct {
	Name          string
	Weight        int32
	CapacityTypes []string // empty means any
	Types         []string // empty means any
	Taint         string   // key of a NoSchedule taint; empty means none
	LimitCPU      int64    // cores; 0 means no limit
	Policy        disrupt.Policy
	// ConsolidateAfter is how long nothing may have happened on a node; negative means Never.
	ConsolidateAfter time.Duration
	Budgets          []Budget
	// MinSavings is the share of the price that a replacement must save.
	MinSavings float64
	MinAge     time.Duration // negative means the operator's setting
	// Grace is the terminationGracePeriod; 0 means none.
	TerminationGracePeriod time.Duration
	// ExpireAfter is a node's lifetime, and ends softly; 0 means no limit.
	ExpireAfter time.Duration
	// Version is the template's hash: nodes of another version have drifted.
	Version int
}

// Budget is a disruption budget as written: "10%" or "3", for all reasons or some, always
// or for some time from each match of "minute hour * * weekdays".
type Budget struct {
	Nodes    string
	Reasons  []disrupt.Cause
	Schedule string
	Duration time.Duration
}

// snapshotPool returns the pool as the engine sees it when it launches nodes.
func (p *Pool) snapshotPool() cluster.NodePool {
	w := cluster.NodePool{Name: p.Name, Weight: p.Weight, NodeClass: class, Labels: map[string]string{"pool": p.Name}}
	in := func(key string, values []string) {
		if len(values) > 0 {
			w.Requirements = append(w.Requirements, constraint.Rule{Key: key, Operator: constraint.In, Values: values})
		}
	}
	in(cluster.LabelCapacityType, p.CapacityTypes)
	in(cluster.LabelInstanceType, p.Types)
	w.Taints = p.taints()
	if p.LimitCPU > 0 {
		w.Limits = quantity.Amounts{quantity.NameCPU: p.LimitCPU * 1000}
	}
	return w
}

func (p *Pool) taints() []cluster.Taint {
	if p.Taint == "" {
		return nil
	}
	return []cluster.Taint{{Key: p.Taint, Effect: cluster.NoSchedule}}
}

// disruptionPool returns the pool as the engine sees it when it disrupts nodes.
func (p *Pool) disruptionPool(now time.Time) disrupt.Pool {
	d := disrupt.Pool{Name: p.Name, Policy: p.Policy, ConsolidateAfter: max(0, p.ConsolidateAfter), ConsolidationDisabled: p.ConsolidateAfter < 0, MinAge: p.MinAge}
	if p.MinSavings > 0 {
		d.MinSavings = &disrupt.MinSavings{Share: p.MinSavings}
	}
	for _, b := range p.Budgets {
		d.Budgets = append(d.Budgets, b.at(now))
	}
	return d
}

// at returns the budget at a time, with the schedule read as Karpenter reads it.
func (b Budget) at(now time.Time) disrupt.Budget {
	out := disrupt.Budget{Causes: b.Reasons, Active: true}
	text, percent := strings.CutSuffix(b.Nodes, "%")
	n, err := strconv.Atoi(text)
	out.Nodes, out.Percent, out.Invalid = n, percent, err != nil
	if b.Schedule == "" {
		return out
	}
	schedule, err := cron.ParseStandard(b.Schedule)
	if err != nil {
		panic(fmt.Sprintf("clusterlife: schedule %q: %v", b.Schedule, err))
	}
	start := schedule.Next(now.Add(-b.Duration))
	if out.Active = !start.After(now); out.Active {
		out.Until = start.Add(b.Duration)
	} else {
		out.Until = start
	}
	return out
}

// allows is the oracle's own reading of a budget, which shares nothing with at: how many
// of n nodes may be down for the cause at a time.
func (b Budget) allows(n int, cause disrupt.Cause, now time.Time) int {
	if cause == disrupt.Expired {
		cause = disrupt.Drifted
	}
	for i, r := range b.Reasons {
		if r == cause {
			break
		}
		if i == len(b.Reasons)-1 {
			return math.MaxInt
		}
	}
	if b.Schedule != "" && !b.activeAt(now) {
		return math.MaxInt
	}
	var count int
	if k, err := fmt.Sscanf(b.Nodes, "%d%%", &count); k == 1 && err == nil && strings.HasSuffix(b.Nodes, "%") {
		down := 0 // the least whole number that is not below count percent of n
		for down*100 < count*n {
			down++
		}
		return down
	}
	if _, err := fmt.Sscanf(b.Nodes, "%d", &count); err != nil {
		return 0
	}
	return count
}

// activeAt walks back minute by minute and asks each whether the schedule names it.
func (b Budget) activeAt(now time.Time) bool {
	for t := now.UTC().Truncate(time.Minute); now.Sub(t) < b.Duration; t = t.Add(-time.Minute) {
		if matches(b.Schedule, t) {
			return true
		}
	}
	return false
}

// matches reports whether "minute hour * * weekdays" names the minute; numbers, ranges and stars.
func matches(schedule string, t time.Time) bool {
	fields := strings.Fields(schedule)
	has := func(field string, n int) bool {
		if field == "*" {
			return true
		}
		from, to, ranged := strings.Cut(field, "-")
		lo, _ := strconv.Atoi(from)
		hi := lo
		if ranged {
			hi, _ = strconv.Atoi(to)
		}
		return lo <= n && n <= hi
	}
	return has(fields[0], t.Minute()) && has(fields[1], t.Hour()) && has(fields[4], int(t.Weekday()))
}
