// SPDX-License-Identifier: Apache-2.0

// Package metrics defines karve's metrics. Names that begin with karpenter_ are
// those that Karpenter's dashboards read; names that begin with karve_ are karve's own.
//
// It has no global state: a Set is made once per process and passed to its users. The
// zero Set is not usable; see New.
package metrics

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// Set holds every metric of the controllers.
type Set struct {
	ClaimsCreated             *prometheus.CounterVec   // reason, nodepool, min_values_relaxed
	ClaimsTerminated          *prometheus.CounterVec   // nodepool, capacity_type, zone
	ClaimsDisrupted           *prometheus.CounterVec   // reason, nodepool, capacity_type
	ClaimsUnhealthy           *prometheus.CounterVec   // condition, nodepool, capacity_type, image_id
	ClaimTermination          *prometheus.HistogramVec // nodepool
	InstanceTermination       *prometheus.HistogramVec // nodepool
	NodesCreated              *prometheus.CounterVec   // nodepool, zone
	NodesTerminated           *prometheus.CounterVec   // nodepool, zone
	NodesDrained              *prometheus.CounterVec   // nodepool
	NodeTermination           *prometheus.SummaryVec   // nodepool
	NodeLifetime              *prometheus.HistogramVec // nodepool
	Scheduling                *prometheus.HistogramVec // controller
	QueueDepth                *prometheus.GaugeVec     // controller
	IgnoredPods               prometheus.Gauge
	UnschedulablePods         *prometheus.GaugeVec // controller
	Nodes                     prometheus.Gauge
	Synced                    prometheus.Gauge
	Unsynced                  prometheus.Gauge
	PoolLimit                 *prometheus.GaugeVec     // resource_type, nodepool
	PoolUsage                 *prometheus.GaugeVec     // resource_type, nodepool
	AllowedDisruptions        *prometheus.GaugeVec     // nodepool, reason
	Evictions                 *prometheus.CounterVec   // code
	PodsDrained               *prometheus.CounterVec   // reason
	CloudDuration             *prometheus.HistogramVec // controller, method, provider
	CloudErrors               *prometheus.CounterVec   // controller, method, provider, error
	DisruptionDecisions       *prometheus.CounterVec   // decision, reason, consolidation_type
	DisruptionEligible        *prometheus.GaugeVec     // reason
	DisruptionFailedValidates *prometheus.CounterVec   // consolidation_type
	DisruptionQueueFailures   *prometheus.CounterVec   // decision, reason, consolidation_type
	DisruptionByPool          *prometheus.CounterVec   // nodepool, decision, reason, consolidation_type
	DisruptionDeciding        *prometheus.HistogramVec // reason, consolidation_type
	ConsolidationTimeouts     *prometheus.CounterVec   // consolidation_type
	ConsolidationScore        *prometheus.HistogramVec // decision, nodepool, policy
	ConsolidationMoves        *prometheus.CounterVec   // decision, nodepool, policy
	PodsDisrupted             *prometheus.CounterVec   // reason, nodepool, capacity_type, consolidation_policy, termination_mode
	ConsumingBudgets          *prometheus.GaugeVec     // nodepool, reason

	BlockedCost    *prometheus.GaugeVec   // nodepool, reason: USD per month
	ClaimsDrifted  *prometheus.CounterVec // nodepool, reason
	ClaimsUpdated  *prometheus.CounterVec // nodepool, outcome
	LaunchRefusals *prometheus.CounterVec // nodepool, reason why a launch was refused
	LaunchSeconds  *prometheus.HistogramVec
	PlanPrice      prometheus.Gauge       // USD per hour of the last plan's first offerings
	PlanListPrice  prometheus.Gauge       // of their instances alone
	PlanBound      prometheus.Gauge       // and the least any plan could cost
	PlanCutShort   *prometheus.CounterVec // search
	GCHalted       prometheus.Gauge       // 1 while garbage collection is halted
	// OrphanedInstances have no NodeClaim and are kept, since the NodeClaims may have been lost.
	OrphanedInstances prometheus.Gauge
	GCUnreadable      prometheus.Gauge // malformed entries of the cloud's lists
	// DeletionsRefused counts refused deletions of pods at the deadline of their node.
	DeletionsRefused *prometheus.CounterVec // code
	// NodesRefused counts what Nodes say and is not believed.
	NodesRefused   *prometheus.CounterVec // reason
	EventsDropped  prometheus.Counter     // events that did not fit into the queue
	Panics         *prometheus.CounterVec // where
	Paused         prometheus.Gauge       // 1 while nothing voluntary is begun
	GuardHeld      *prometheus.CounterVec // action: creation, deletion
	CatalogAge     *prometheus.GaugeVec
	QuotaRemaining *prometheus.GaugeVec // quota
	QuotaExhausted *prometheus.GaugeVec // quota: seconds

	ConsolidationsUndone *prometheus.CounterVec // nodepool
	ConsolidationSaved   *prometheus.CounterVec // nodepool: USD per hour
	DisruptionSearch     prometheus.Histogram
	LockWait             prometheus.Histogram // for the lock of the mirror
	APIRejected          prometheus.Counter   // requests to the Kubernetes API

	byPool []series // that have the label nodepool
}

// series deletes time series of one metric by their labels.
type series interface {
	DeletePartialMatch(prometheus.Labels) int
}

// ForgetPool ends all series of a deleted NodePool.
func (m *Set) ForgetPool(name string) {
	for _, s := range m.byPool {
		s.DeletePartialMatch(prometheus.Labels{labelPool: name})
	}
}

const labelPool = "nodepool"

// New makes a Set and registers it. It panics when a name is registered twice,
// which is a programming error.
func New(registry prometheus.Registerer) *Set {
	m := &maker{registry: registry}
	set := &Set{
		ClaimsCreated:             m.counter("karpenter_nodeclaims_created_total", "NodeClaims created.", "reason", "nodepool", "min_values_relaxed"),
		ClaimsTerminated:          m.counter("karpenter_nodeclaims_terminated_total", "NodeClaims terminated.", "nodepool", "capacity_type", "zone"),
		ClaimsDisrupted:           m.counter("karpenter_nodeclaims_disrupted_total", "NodeClaims disrupted.", "reason", "nodepool", "capacity_type"),
		ClaimsUnhealthy:           m.counter("karpenter_nodeclaims_unhealthy_disrupted_total", "NodeClaims given up because their node is broken.", "condition", "nodepool", "capacity_type", "image_id"),
		ClaimTermination:          m.histogram("karpenter_nodeclaims_termination_duration_seconds", "Deletion of a NodeClaim to its end.", doubling(12), "nodepool"),
		InstanceTermination:       m.histogram("karpenter_nodeclaims_instance_termination_duration_seconds", "Request to terminate an instance to its end.", doubling(11), "nodepool"),
		NodesCreated:              m.counter("karpenter_nodes_created_total", "Nodes registered.", "nodepool", "zone"),
		NodesTerminated:           m.counter("karpenter_nodes_terminated_total", "Nodes terminated.", "nodepool", "zone"),
		NodesDrained:              m.counter("karpenter_nodes_drained_total", "Nodes drained.", "nodepool"),
		NodeTermination:           m.summary("karpenter_nodes_termination_duration_seconds", "Deletion of a node to its end.", "nodepool"),
		NodeLifetime:              m.histogram("karpenter_nodes_lifetime_duration_seconds", "Age of nodes at their end.", lifetimes(), "nodepool"),
		Scheduling:                m.histogram("karpenter_scheduler_scheduling_duration_seconds", "Time to decide.", durations(), "controller"),
		QueueDepth:                m.gauge("karpenter_scheduler_queue_depth", "Pods waiting for a decision.", "controller"),
		IgnoredPods:               m.gauge("karpenter_scheduler_ignored_pods_count", "Pods that opted out or cannot be read.").WithLabelValues(),
		UnschedulablePods:         m.gauge("karpenter_scheduler_unschedulable_pods_count", "Pods for which no node can be launched.", "controller"),
		Nodes:                     m.gauge("karpenter_cluster_state_node_count", "Nodes known.").WithLabelValues(),
		Synced:                    m.gauge("karpenter_cluster_state_synced", "1 when the cluster is known completely.").WithLabelValues(),
		Unsynced:                  m.gauge("karpenter_cluster_state_unsynced_time_seconds", "Time since the cluster was last known completely.").WithLabelValues(),
		PoolLimit:                 m.gauge("karpenter_nodepools_limit", "Limits of a NodePool.", "resource_type", "nodepool"),
		PoolUsage:                 m.gauge("karpenter_nodepools_usage", "Resources a NodePool has provisioned.", "resource_type", "nodepool"),
		AllowedDisruptions:        m.gauge("karpenter_nodepools_allowed_disruptions", "Nodes that budgets allow to disrupt now.", "nodepool", "reason"),
		Evictions:                 m.counter("karpenter_pods_eviction_requests_total", "Evictions requested, by response code.", "code"),
		PodsDrained:               m.counter("karpenter_pods_drained_total", "Pods evicted or deleted to drain a node.", "reason"),
		CloudDuration:             m.histogram("karpenter_cloudprovider_duration_seconds", "Time of provider calls.", durations(), "controller", "method", "provider"),
		CloudErrors:               m.counter("karpenter_cloudprovider_errors_total", "Provider calls that failed.", "controller", "method", "provider", "error"),
		DisruptionDecisions:       m.counter("karpenter_voluntary_disruption_decisions_total", "Disruption decisions.", "decision", "reason", "consolidation_type"),
		DisruptionEligible:        m.gauge("karpenter_voluntary_disruption_eligible_nodes", "Nodes eligible for disruption.", "reason"),
		DisruptionFailedValidates: m.counter("karpenter_voluntary_disruption_failed_validations_total", "Candidates that validation rejected.", "consolidation_type"),
		DisruptionQueueFailures:   m.counter("karpenter_voluntary_disruption_queue_failures_total", "Disruptions that were taken back.", "decision", "reason", "consolidation_type"),
		DisruptionByPool:          m.counter("karpenter_voluntary_disruption_decisions_by_nodepool_total", "Disruption decisions, by the NodePools of their nodes.", "nodepool", "decision", "reason", "consolidation_type"),
		ConsolidationScore:        m.histogram("karpenter_consolidation_score", "Scores of consolidations in Balanced NodePools.", []float64{0.1, 0.25, 0.33, 0.5, 1, 2, 5, 10}, "decision", "nodepool", "policy"),
		DisruptionDeciding:        m.histogram("karpenter_voluntary_disruption_decision_evaluation_duration_seconds", "Beginning of the search that found a disruption to its start, validation included.", durations(), "reason", "consolidation_type"),
		ConsolidationTimeouts:     zero(m.counter("karpenter_voluntary_disruption_consolidation_timeouts_total", "Searches that ran out of time; always 0, because searches are resumed.", "consolidation_type"), "multi", "single"),
		ConsolidationMoves:        m.counter("karpenter_consolidation_moves_total", "Consolidations by the NodePools of their nodes, approved or rejected by their policy.", "decision", "nodepool", "policy"),
		PodsDisrupted:             m.counter("karpenter_pods_disruption_initiated_total", "Pods that need another node, on nodes whose disruption began.", "reason", "nodepool", "capacity_type", "consolidation_policy", "termination_mode"),
		ConsumingBudgets:          m.gauge("karpenter_nodepools_nodes_consuming_budgets", "Nodes that count against budgets: not ready, leaving, or chosen to go.", "nodepool", "reason"),

		BlockedCost:       m.gauge("karve_nodepools_blocked_cost_usd_per_month", "Price in USD a month of nodes that could be removed if it were not for the reason.", "nodepool", "reason"),
		ClaimsDrifted:     m.counter("karve_nodeclaims_drifted_total", "NodeClaims found drifted.", "nodepool", "reason"),
		ClaimsUpdated:     m.counter("karve_nodeclaims_updated_in_place_total", "Instances that were changed without being replaced (changed), or could not be (failed).", "nodepool", "outcome"),
		LaunchRefusals:    m.counter("karve_launch_refusals_total", "Launch requests that the cloud refused.", "nodepool", "reason"),
		LaunchSeconds:     m.histogram("karve_launch_stage_seconds", "Creation of a NodeClaim to each stage of its life.", doubling(11), "stage"),
		PlanPrice:         m.gauge("karve_plan_price_usd_per_hour", "Price of the last plan, each node at its first offering.").WithLabelValues(),
		PlanListPrice:     m.gauge("karve_plan_list_price_usd_per_hour", "Price of the last plan's instances alone, without their disks and what agents cost by the node.").WithLabelValues(),
		PlanBound:         m.gauge("karve_plan_lower_bound_usd_per_hour", "Price below which no plan for the same pods is possible.").WithLabelValues(),
		PlanCutShort:      m.counter("karve_plan_searches_cut_short_total", "Searches for plans that stopped because their steps were spent.", "search"),
		GCHalted:          m.gauge("karve_garbage_collection_halted", "1 while the list of instances, or that of NodeClaims, may be incomplete.").WithLabelValues(),
		OrphanedInstances: m.gauge("karve_orphaned_instances", "Instances without a NodeClaim that are kept, because their NodeClaims may be lost.").WithLabelValues(),
		GCUnreadable:      m.gauge("karve_garbage_collection_unreadable_instances", "Entries of the cloud's list of instances that cannot be read and are skipped.").WithLabelValues(),
		DeletionsRefused:  m.counter("karve_pod_deletions_refused_total", "Pod deletions of a drain that the API server refused, by response code.", "code"),
		NodesRefused:      m.counter("karve_nodes_refused_total", "Nodes that are not those of the NodeClaim with their provider ID (name, age), and Nodes that contradict their NodeClaim, each counted once.", "reason"),
		EventsDropped:     m.counter("karve_events_dropped_total", "Events dropped because the queue was full.").WithLabelValues(),
		Panics:            m.counter("karve_panics_recovered_total", "Panics that were recovered outside of reconcilers.", "where"),
		Paused:            m.gauge("karve_paused", "1 while an operator has paused everything voluntary, or karve cannot tell.").WithLabelValues(),
		GuardHeld:         zero(m.counter("karve_guard_held_total", "Creations and voluntary deletions of NodeClaims that were held back, since there were so many lately, each time that they were tried.", "action"), "creation", "deletion"),
		QuotaRemaining:    m.gauge("karve_quota_remaining", "What is left of a quota (cores, VMs) or of a subnet's addresses.", "quota"),
		QuotaExhausted:    m.gauge("karve_quota_exhausted_seconds", "Time until a quota is used up at the rate of the last ten minutes; quotas that last longer than a day are left out.", "quota"),
		CatalogAge:        m.gauge("karve_catalog_age_seconds", "Age of the catalog of offerings.", "class"),

		ConsolidationsUndone: m.counter("karve_consolidations_undone_total", "Consolidations after which a node was launched for pods that they moved.", "nodepool"),
		ConsolidationSaved:   m.counter("karve_consolidation_saved_usd_per_hour_total", "Savings of consolidations, by the NodePools of the nodes that were removed.", "nodepool"),
		DisruptionSearch:     m.histogram("karve_disruption_search_seconds", "Time that one complete search for disruptions takes.", durations()).WithLabelValues().(prometheus.Histogram),
		APIRejected:          m.counter("karve_kubernetes_requests_rejected_total", "Requests that the Kubernetes API server rejected because there were too many.").WithLabelValues(),
		LockWait:             m.histogram("karve_mirror_lock_wait_seconds", "Time that events and queries waited for karve's record of the cluster.", lockWaits()).WithLabelValues().(prometheus.Histogram),
	}
	set.byPool = m.byPool
	return set
}

// zero begins counting at nothing, for series that dashboards expect to be there.
func zero(c *prometheus.CounterVec, values ...string) *prometheus.CounterVec {
	for _, v := range values {
		c.WithLabelValues(v)
	}
	return c
}

type maker struct {
	registry prometheus.Registerer
	byPool   []series
}

// register makes the metric known.
func (m *maker) register(of interface {
	prometheus.Collector
	series
}, labels []string) {
	m.registry.MustRegister(of)
	if slices.Contains(labels, labelPool) {
		m.byPool = append(m.byPool, of)
	}
}

func (m *maker) counter(name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	m.register(c, labels)
	return c
}

func (m *maker) gauge(name, help string, labels ...string) *prometheus.GaugeVec {
	g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
	m.register(g, labels)
	return g
}

func (m *maker) histogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
	m.register(h, labels)
	return h
}

func (m *maker) summary(name, help string, labels ...string) *prometheus.SummaryVec {
	s := prometheus.NewSummaryVec(prometheus.SummaryOpts{
		Name: name, Help: help,
		Objectives: map[float64]float64{0: 0, 0.5: 0.05, 0.9: 0.01, 0.99: 0.001, 1: 0},
	}, labels)
	m.register(s, labels)
	return s
}

func doubling(n int) []float64 { return prometheus.ExponentialBuckets(1, 2, n) }

func durations() []float64 {
	return []float64{
		0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 0.75, 1, 2, 3, 5, 7.5,
		10, 15, 20, 30, 45, 60, 90, 120, 180, 240, 300, 450, 600,
	}
}

// lockWaits are fine up to 5 ms, which no wait should exceed.
func lockWaits() []float64 {
	return []float64{0.00001, 0.0001, 0.00025, 0.0005, 0.001, 0.002, 0.003, 0.004, 0.005, 0.0075, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5}
}

func lifetimes() []float64 {
	const hour, day = 3600, 24 * 3600
	return []float64{hour / 4, hour / 2, hour, 2 * hour, 4 * hour, 6 * hour, 12 * hour, day, 2 * day, 3 * day, 5 * day, 7 * day, 10 * day, 15 * day, 20 * day, 25 * day, 30 * day}
}

// Disrupted counts a claim that was given up for a reason.
func (m *Set) Disrupted(claim *karpv1.NodeClaim, why string) {
	m.ClaimsDisrupted.WithLabelValues(why, claim.Labels[karpv1.NodePoolLabelKey], claim.Labels[karpv1.CapacityTypeLabelKey]).Inc()
}
