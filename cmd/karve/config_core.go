// SPDX-License-Identifier: Apache-2.0

package main

import (
	"time"

	"github.com/spf13/pflag"

	"github.com/karve-dev/karve/api/access"
	"github.com/karve-dev/karve/engine/disrupt"
	"github.com/karve-dev/karve/kube"
)

// CoreConfig are the settings that Karpenter's core has too, grouped by subject, and karve's own
// beside them. acceptIgnored declares those of Karpenter's that change nothing here.
type CoreConfig struct {
	ProcessConfig
	MetricsConfig
	LogConfig
	LeaderElectionConfig
	SchedulingConfig
	ConsolidationConfig
	SurgeConfig
	GuardConfig
	// OrphanGrace is how old an instance without a NodeClaim must be before it is terminated.
	OrphanGrace time.Duration
}

func (c *CoreConfig) bind(flags *pflag.FlagSet) {
	c.ProcessConfig.bind(flags)
	c.MetricsConfig.bind(flags)
	c.LogConfig.bind(flags)
	c.LeaderElectionConfig.bind(flags)
	c.SchedulingConfig.bind(flags)
	c.ConsolidationConfig.bind(flags)
	c.SurgeConfig.bind(flags)
	c.GuardConfig.bind(flags)
	flags.DurationVar(&c.OrphanGrace, "orphan-grace-period", 30*time.Second, "how old an instance without a NodeClaim must be before it is terminated")
}

func (c CoreConfig) validate() error {
	var f faults
	c.ProcessConfig.check(&f)
	c.MetricsConfig.check(&f)
	c.LogConfig.check(&f)
	c.LeaderElectionConfig.check(&f)
	c.SchedulingConfig.check(&f)
	c.ConsolidationConfig.check(&f)
	c.SurgeConfig.check(&f)
	c.GuardConfig.check(&f)
	f.check(c.OrphanGrace > 0, "orphan-grace-period", "must be positive, got %s", c.OrphanGrace)
	return f.joined()
}

// ProcessConfig is what the process serves, and how much it may use.
type ProcessConfig struct {
	MetricsPort, HealthProbePort int
	KubeClientQPS                int
	KubeClientBurst              int
	EnableProfiling              bool
	// MemoryLimit is in bytes; Go's soft limit becomes 90 % of it. Negative: none.
	MemoryLimit int64
}

func (c *ProcessConfig) bind(flags *pflag.FlagSet) {
	flags.IntVar(&c.MetricsPort, "metrics-port", 8080, "port of /metrics")
	flags.IntVar(&c.HealthProbePort, "health-probe-port", 8081, "port of /healthz and /readyz")
	flags.IntVar(&c.KubeClientQPS, "kube-client-qps", 200, "highest number of requests a second to the Kubernetes API; karve sends fewer where the API server rejects some (429)")
	flags.IntVar(&c.KubeClientBurst, "kube-client-burst", 300, "burst of requests to the Kubernetes API at the highest rate")
	flags.BoolVar(&c.EnableProfiling, "enable-profiling", false, "serve /debug/pprof on the metrics port")
	flags.Int64Var(&c.MemoryLimit, "memory-limit", -1, "container memory limit in bytes; Go keeps to 90 % of it")
}

func (c ProcessConfig) check(f *faults) {
	f.port("metrics-port", c.MetricsPort)
	f.port("health-probe-port", c.HealthProbePort)
	f.check(c.KubeClientQPS > 0, "kube-client-qps", "must be positive, got %d", c.KubeClientQPS)
	f.check(c.KubeClientBurst > 0, "kube-client-burst", "must be positive, got %d", c.KubeClientBurst)
}

// LogConfig is what is logged, and where.
type LogConfig struct {
	LogLevel       string
	LogOutputPaths []string
}

func (c *LogConfig) bind(flags *pflag.FlagSet) {
	flags.StringVar(&c.LogLevel, "log-level", "info", "debug, info (also when empty) or error")
	flags.StringSliceVar(&c.LogOutputPaths, "log-output-paths", []string{"stdout"}, "where logs go: stdout, stderr or files")
}

func (c LogConfig) check(f *faults) {
	f.oneOf("log-level", c.LogLevel, "debug", "info", "error", "")
	f.check(len(c.LogOutputPaths) > 0, "log-output-paths", "names no output: use stdout, stderr or files")
}

// LeaderElectionConfig is the lease that one of several replicas holds.
type LeaderElectionConfig struct {
	DisableLeaderElection   bool
	LeaderElectionName      string
	LeaderElectionNamespace string
	// LeaseDuration is how long the other replicas wait for a leader that stopped renewing.
	LeaseDuration time.Duration
}

func (c *LeaderElectionConfig) bind(flags *pflag.FlagSet) {
	flags.BoolVar(&c.DisableLeaderElection, "disable-leader-election", false, "run without a lease: safe only with one replica")
	flags.StringVar(&c.LeaderElectionName, "leader-election-name", access.DefaultLease, "name of the lease (its role: karve rbac --leader-election-name)")
	flags.StringVar(&c.LeaderElectionNamespace, "leader-election-namespace", "", "namespace of the lease (default: the pod's own)")
	flags.DurationVar(&c.LeaseDuration, "leader-election-lease-duration", 15*time.Second, "how long other replicas wait for a leader that stopped renewing its lease")
}

func (c LeaderElectionConfig) check(f *faults) {
	f.check(c.LeaseDuration >= time.Second, "leader-election-lease-duration", "must be at least 1s, got %s", c.LeaseDuration)
}

// SchedulingConfig is when karve decides about pending pods, and what it may pay for what they
// prefer.
type SchedulingConfig struct {
	BatchMaxDuration, BatchIdleDuration time.Duration
	// PreferencePolicy is Respect or Ignore, MinValuesPolicy Strict or BestEffort.
	PreferencePolicy, MinValuesPolicy string
	// PreferenceSurplus is in percent of the price, or "unlimited"; see surplus.
	PreferenceSurplus string
	// FeatureGates is a list of Name=bool; see gates.go.
	FeatureGates string
}

func (c *SchedulingConfig) bind(flags *pflag.FlagSet) {
	flags.DurationVar(&c.BatchMaxDuration, "batch-max-duration", 10*time.Second, "longest time that pods are gathered before a decision")
	flags.DurationVar(&c.BatchIdleDuration, "batch-idle-duration", time.Second, "a batch ends when no pod arrived for this long")
	flags.StringVar(&c.PreferencePolicy, "preference-policy", "Respect", "Respect honours what pods prefer, the heaviest weight first, while it costs little (see --preference-surplus); Ignore leaves preferences to the scheduler")
	flags.StringVar(&c.PreferenceSurplus, "preference-surplus", "10", "how many percent more a plan may cost because it honours preferences, or unlimited")
	flags.StringVar(&c.MinValuesPolicy, "min-values-policy", "Strict", "Strict or BestEffort: whether a NodePool may launch with fewer values than its minValues require when pods would stay pending otherwise")
	flags.StringVar(&c.FeatureGates, "feature-gates", "", "Name=true or Name=false, comma separated: NodeOverlay, CapacityBuffer, StaticCapacity, NodeRepair, SpotToSpotConsolidation; others change nothing")
}

func (c SchedulingConfig) check(f *faults) {
	f.check(c.BatchIdleDuration > 0, "batch-idle-duration", "must be positive, got %s", c.BatchIdleDuration)
	f.check(c.BatchMaxDuration >= c.BatchIdleDuration, "batch-max-duration",
		"must be at least --batch-idle-duration (%s), got %s", c.BatchIdleDuration, c.BatchMaxDuration)
	f.oneOf("preference-policy", c.PreferencePolicy, "Respect", "Ignore")
	f.oneOf("min-values-policy", c.MinValuesPolicy, "Strict", "BestEffort")
	_, err := surplus(c.PreferenceSurplus)
	f.check(err == nil, "preference-surplus", "%v", err)
	_, err = features(c.FeatureGates)
	f.check(err == nil, "feature-gates", "%v", err)
}

// ConsolidationConfig is which consolidations pay, and how much work one search may be.
type ConsolidationConfig struct {
	// ConsolidationValidation is how long a consolidation must stay right before it begins.
	ConsolidationValidation, ConsolidationMinAge time.Duration
	// ConsolidationExpectedStay is how long pods must be expected to stay for their evictions not
	// to cost more.
	ConsolidationExpectedStay time.Duration
	// ConsolidationMinSavings is what a replacement must save, see kube.MinSavings;
	// ConsolidationRules is Karve or Karpenter.
	ConsolidationMinSavings, ConsolidationRules string
	// ConsolidationSteps bounds one search; 0: no bound.
	ConsolidationSteps int
}

func (c *ConsolidationConfig) bind(flags *pflag.FlagSet) {
	flags.DurationVar(&c.ConsolidationValidation, "consolidation-validation-delay", 15*time.Second, "how long a consolidation, or the removal of an empty node, must stay right before it begins")
	flags.StringVar(&c.ConsolidationMinSavings, "consolidation-min-savings", "5%", "the least that replacing nodes must save: a share of their price, or dollars an hour such as $0.02/h; the annotation karve.dev/min-savings of a NodePool overrides it")
	flags.DurationVar(&c.ConsolidationMinAge, "consolidation-min-node-age", 5*time.Minute, "how old a node with pods must be before it is consolidated; the annotation karve.dev/min-node-age of a NodePool overrides it")
	flags.DurationVar(&c.ConsolidationExpectedStay, "consolidation-expected-stay", disrupt.Defaults().ExpectedStay, "how long a pod must be expected to stay on its node, by how long it and others of its workload have stayed, for a consolidation not to have to save more for moving it; 0 for all pods alike")
	flags.StringVar(&c.ConsolidationRules, "consolidation-rules", "Karve", "Karve, or Karpenter: any saving pays, new nodes count like old ones, several nodes are replaced by at most one, and spot by spot only with 15 cheaper instance types")
	flags.IntVar(&c.ConsolidationSteps, "consolidation-steps", 200, "how many sets of nodes consolidation looks into before pending pods get a turn; 0 for no bound")
}

func (c ConsolidationConfig) check(f *faults) {
	f.check(c.ConsolidationValidation >= 0, "consolidation-validation-delay", "must not be negative, got %s", c.ConsolidationValidation)
	_, err := kube.MinSavings(c.ConsolidationMinSavings)
	f.check(err == nil, "consolidation-min-savings", "%v", err)
	f.check(c.ConsolidationMinAge >= 0, "consolidation-min-node-age", "must not be negative, got %s", c.ConsolidationMinAge)
	f.check(c.ConsolidationExpectedStay >= 0, "consolidation-expected-stay", "must not be negative, got %s", c.ConsolidationExpectedStay)
	f.oneOf("consolidation-rules", c.ConsolidationRules, "Karve", "Karpenter")
	f.check(c.ConsolidationSteps >= 0, "consolidation-steps", "must not be negative, got %d", c.ConsolidationSteps)
}

// acceptIgnored declares Karpenter's settings that change nothing here,
// so that a Deployment which has them starts. Only their form is checked.
func acceptIgnored(flags *pflag.FlagSet) {
	flags.Int("cpu-requests", 1000, "accepted, unused: worker counts are fixed")
	flags.StringSlice("log-error-output-paths", []string{"stderr"}, "accepted, unused: the logger's own faults go to stderr")
	flags.Bool("ignore-dra-requests", true, "accepted, unused: no node is launched for pods with resource claims, and an event on them says so")
	flags.String("karpenter-service", "", "accepted, unused")
	flags.String("scheduler-config", "", "accepted, unused")
	flags.Bool("disable-controller-warmup", true, "accepted, unused: informers start with the process")
	flags.Bool("disable-cluster-state-observability", false, "accepted, unused")
	flags.Bool("enable-azure-sdk-logging", true, "accepted, unused: Azure requests are not logged")
}
