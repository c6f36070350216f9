// SPDX-License-Identifier: Apache-2.0

package clusterlife

import (
	"slices"
	"time"

	"github.com/karve-dev/karve/engine/cluster"
)

// workload makes pods: a Deployment, or with Job a CronJob.
type workload struct {
	Name       string
	Milli, MiB int64
	Replicas   int
	Placement  placement
	// MaxUnavailable is that of a PodDisruptionBudget; negative means no such budget.
	MaxUnavailable int
	DoNotDisrupt   bool
	ProtectFor     time.Duration // how long; 0 means always
	Grace          time.Duration // from the request to stop until it has ended
	Startup        time.Duration // from being bound until ready
	Job            job

	version    int
	podSpec    cluster.Pod // the same in all of its pods
	pods       []*pod
	reconciled bool // as desired when last looked at
	unreplaced int  // pods that were evicted and have no replacement yet
}

// placement is where pods may run.
type placement struct {
	Pool       string // nodeSelector on the pool's label; empty means any
	Tolerates  string // key of a taint
	OnDemand   bool   // nodeSelector on the capacity type
	Spread     bool   // over zones, hard, maxSkew 1
	MinDomains int32  // of the spread: zones without a node count, too; 0 means 1
	OnePerNode bool   // by anti-affinity
}

// admits evaluates node selectors and the pool's taints.
func (p placement) admits(pool *Pool, capacityType string) bool {
	return (p.Pool == "" || p.Pool == pool.Name) && (!p.OnDemand || capacityType == "on-demand") &&
		(pool.Taint == "" || pool.Taint == p.Tolerates)
}

// job is what makes a workload a CronJob; the zero job does not.
type job struct {
	Every time.Duration // between starts of Replicas pods
	Takes time.Duration // until a pod succeeds
}

func (w *workload) isJob() bool { return w.Job.Every > 0 }

func (w *workload) live() []*pod {
	return slices.DeleteFunc(slices.Clone(w.pods), func(p *pod) bool { return p.terminating })
}

// unavailable is how many pods a disruption budget counts as unavailable.
func (w *workload) unavailable() int {
	healthy := 0
	for _, p := range w.pods {
		if p.ready && !p.terminating {
			healthy++
		}
	}
	return w.Replicas - healthy
}

// allowedEvictions is how many evictions the workload's disruption budget allows now.
func (w *workload) allowedEvictions() int {
	if w.MaxUnavailable < 0 || w.isJob() {
		return len(w.pods)
	}
	return max(0, w.MaxUnavailable-w.unavailable())
}
