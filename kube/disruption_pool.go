// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/engine/disrupt"
	"github.com/karve-dev/karve/engine/offering"
)

// mostWindows bounds how many overlapping windows of a schedule are followed.
const mostWindows = 64

// SoftExpiry reports whether the pool's expired nodes are replaced within budgets instead of
// merely deleted. The pool may be nil.
func SoftExpiry(p *karpv1.NodePool) bool {
	return p != nil && p.Annotations[SoftExpiryAnnotation] == "true"
}

// DisruptionPool converts what a NodePool says about disruption, as of now. Problems lists what
// could not be read, for the pool's owner: an annotation then counts as missing, a budget as one
// that allows nothing.
func DisruptionPool(p *karpv1.NodePool, now time.Time) (_ disrupt.Pool, problems []error) {
	out := disrupt.Pool{
		Name:   p.Name,
		Policy: disrupt.Policy(p.Spec.Disruption.ConsolidationPolicy),
		Static: p.Spec.Replicas != nil,
		MinAge: -1,
	}
	if after := p.Spec.Disruption.ConsolidateAfter.Duration; after != nil {
		out.ConsolidateAfter = *after
	} else {
		out.ConsolidationDisabled = true
	}
	for i := range p.Spec.Disruption.Budgets {
		b, err := budget(&p.Spec.Disruption.Budgets[i], now)
		if err != nil {
			problems = append(problems, fmt.Errorf("spec.disruption.budgets[%d], which allows nothing while it cannot be read: %w", i, err))
		}
		out.Budgets = append(out.Budgets, b)
	}
	return out, append(problems, byAnnotations(&out, p.Annotations)...)
}

// byAnnotations fills in the fields that annotations set.
func byAnnotations(out *disrupt.Pool, annotations map[string]string) (problems []error) {
	if text, ok := annotations[MinSavingsAnnotation]; ok {
		minimum, err := MinSavings(text)
		if err != nil {
			problems = append(problems, fmt.Errorf("annotation %s, which is ignored: %w", MinSavingsAnnotation, err))
		} else {
			out.MinSavings = &minimum
		}
	}
	if text, ok := annotations[MinNodeAgeAnnotation]; ok {
		age, err := time.ParseDuration(text)
		if err != nil || age < 0 {
			problems = append(problems, fmt.Errorf("annotation %s, which is ignored: %q is not a duration such as 10m", MinNodeAgeAnnotation, text))
		} else {
			out.MinAge = age
		}
	}
	if text, ok := annotations[SoftExpiryAnnotation]; ok && text != "true" && text != "false" {
		problems = append(problems, fmt.Errorf("annotation %s, which is ignored: %q is neither true nor false", SoftExpiryAnnotation, text))
	}
	if text, ok := annotations[RepairAnnotation]; ok && text != "graceful" && text != "forceful" {
		problems = append(problems, fmt.Errorf("annotation %s, which is ignored: %q is neither graceful nor forceful", RepairAnnotation, text))
	}
	if text, ok := annotations[BurstableCPUAnnotation]; ok && text != BurstableCPUFull && text != "baseline" {
		problems = append(problems, fmt.Errorf("annotation %s, which is ignored: %q is neither full nor baseline", BurstableCPUAnnotation, text))
	}
	return problems
}

// MinSavings reads the minimum that replacing nodes must save: a share of their cost (5%), or an
// amount per hour ($0.02/h or 0.02).
func MinSavings(text string) (disrupt.MinSavings, error) {
	value := strings.TrimSpace(text)
	if percent, ok := strings.CutSuffix(value, "%"); ok {
		n, err := strconv.ParseFloat(strings.TrimSpace(percent), 64)
		if err != nil || math.IsNaN(n) || n < 0 || n > 100 {
			return disrupt.MinSavings{}, fmt.Errorf("%q is not a percentage from 0%% to 100%%", text)
		}
		return disrupt.MinSavings{Share: n / 100}, nil
	}
	value = strings.TrimSuffix(strings.TrimPrefix(value, "$"), "/h")
	n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
	if err == nil && n >= 0 {
		price, priceErr := offering.USDPerHour(n)
		if priceErr == nil {
			return disrupt.MinSavings{PerHour: price}, nil
		}
	}
	return disrupt.MinSavings{}, fmt.Errorf("%q is neither a percentage such as 5%% nor dollars per hour such as $0.02/h", text)
}

// budget converts a budget as it is now; with an error the result is Invalid. (Karpenter rejects a
// number that cannot be read only while the budget is active.)
func budget(b *karpv1.Budget, now time.Time) (out disrupt.Budget, err error) {
	out.Causes = causes(b.Reasons)
	if out.Nodes, out.Percent, err = nodesOrPercent(b.Nodes); err == nil {
		out.Active, out.Until, err = window(b, now.UTC())
	}
	out.Invalid = err != nil
	return out, err
}

// causes keeps nil, which means all, distinct from an empty list, which means none.
func causes(reasons []karpv1.DisruptionReason) []disrupt.Cause {
	if reasons == nil {
		return nil
	}
	out := make([]disrupt.Cause, len(reasons))
	for i, r := range reasons {
		out[i] = disrupt.Cause(r)
	}
	return out
}

// nodesOrPercent reads 3 or 10%. A negative number counts as zero.
func nodesOrPercent(text string) (n int, percent bool, err error) {
	number, percent := strings.CutSuffix(text, "%")
	if n, err = strconv.Atoi(number); err != nil {
		return 0, percent, fmt.Errorf("%q is neither a number of nodes nor a percentage such as 10%%", text)
	}
	return max(0, n), percent, nil
}

// window reports whether the budget's schedule is active, and when that may change. A window
// lasts for the duration after each time of the schedule, in UTC. A schedule that never occurs
// (30 February) is always active, as in Karpenter.
func window(b *karpv1.Budget, now time.Time) (active bool, until time.Time, err error) {
	if b.Schedule == nil && b.Duration == nil {
		return true, time.Time{}, nil
	}
	text, lasts := "", time.Duration(0)
	if b.Schedule != nil {
		text = *b.Schedule
	}
	if b.Duration != nil {
		lasts = b.Duration.Duration
	}
	schedule, err := cron.ParseStandard("TZ=UTC " + text)
	if err != nil {
		return false, time.Time{}, fmt.Errorf("reading schedule %q: %w", text, err)
	}
	hit := schedule.Next(now.Add(-lasts))
	switch {
	case hit.IsZero():
		return true, time.Time{}, nil
	case hit.After(now):
		return false, hit, nil
	}
	return true, closes(schedule, hit, lasts), nil
}

// closes is the end of the windows that overlap from hit on. When there are too many it is an
// earlier time, at which to look again.
func closes(schedule cron.Schedule, hit time.Time, lasts time.Duration) time.Time {
	end := hit.Add(lasts)
	for range mostWindows {
		next := schedule.Next(hit)
		if next.IsZero() || next.After(end) {
			break
		}
		hit, end = next, next.Add(lasts)
	}
	return end
}
