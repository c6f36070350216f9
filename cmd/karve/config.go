package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/karve-dev/karve/kube"
)

// Config is everything "karve controller" can be told. It is filled from flags
// and environment, validated once, and handed on in slices: no other package
// reads the environment (the Azure SDK's own credential variables excepted).
//
// Flags and variables are spelled as Karpenter and its Azure provider spell
// them, so that an existing Deployment works with another image.
type Config struct {
	Core  CoreConfig
	Azure AzureConfig
}

// CoreConfig are Karpenter's own settings, as far as karve heeds them; see
// acceptIgnored for the others.
type CoreConfig struct {
	MetricsPort, HealthProbePort int
	KubeClientQPS                int
	KubeClientBurst              int
	EnableProfiling              bool
	DisableLeaderElection        bool
	LeaderElectionName           string
	LeaderElectionNamespace      string
	// MemoryLimit is in bytes; Go's soft limit becomes 90 % of it. Negative: none.
	MemoryLimit                         int64
	LogLevel                            string
	LogOutputPaths                      []string
	BatchMaxDuration, BatchIdleDuration time.Duration
	// PreferencePolicy is Respect or Ignore, MinValuesPolicy Strict or BestEffort.
	PreferencePolicy, MinValuesPolicy string
	// PreferenceSurplus is in percent of the price, or "unlimited"; see surplus.
	PreferenceSurplus string
	// FeatureGates is a list of Name=bool; see gates.go.
	FeatureGates string
	// LeaseDuration is how long a leader that died is waited for.
	LeaseDuration time.Duration
	// ConsolidationValidation is how long consolidation must stay right before it begins;
	// ConsolidationMinSavings is what a replacement must save, see kube.MinSavings;
	// ConsolidationRules is Karve or Karpenter; ConsolidationSteps bounds one look.
	ConsolidationValidation, ConsolidationMinAge time.Duration
	ConsolidationMinSavings, ConsolidationRules  string
	ConsolidationSteps                           int
	// MachineGrace is how old a machine without a NodeClaim must be before it is given back.
	MachineGrace time.Duration
}

// bind declares every flag with its default.
func (c *Config) bind(flags *pflag.FlagSet) {
	c.Core.bind(flags)
	c.Azure.bind(flags)
	c.Azure.Images.bind(flags)
	c.Azure.Machines.bind(flags)
	c.Azure.Unsupported.bind(flags)
	acceptIgnored(flags)
}

func (c *CoreConfig) bind(flags *pflag.FlagSet) {
	flags.IntVar(&c.MetricsPort, "metrics-port", 8080, "port of /metrics")
	flags.IntVar(&c.HealthProbePort, "health-probe-port", 8081, "port of /healthz and /readyz")
	flags.IntVar(&c.KubeClientQPS, "kube-client-qps", 200, "requests a second to the Kubernetes API")
	flags.IntVar(&c.KubeClientBurst, "kube-client-burst", 300, "burst of requests to the Kubernetes API")
	flags.BoolVar(&c.EnableProfiling, "enable-profiling", false, "serve /debug/pprof on the metrics port")
	flags.BoolVar(&c.DisableLeaderElection, "disable-leader-election", false, "run without a lease: safe only with one replica")
	flags.StringVar(&c.LeaderElectionName, "leader-election-name", "karpenter-leader-election", "name of the lease")
	flags.StringVar(&c.LeaderElectionNamespace, "leader-election-namespace", "", "namespace of the lease (default: the pod's own)")
	flags.Int64Var(&c.MemoryLimit, "memory-limit", -1, "container memory limit in bytes; Go keeps to 90 % of it")
	flags.StringVar(&c.LogLevel, "log-level", "info", "debug, info (also when empty) or error")
	flags.StringSliceVar(&c.LogOutputPaths, "log-output-paths", []string{"stdout"}, "where logs go: stdout, stderr or files")
	flags.DurationVar(&c.BatchMaxDuration, "batch-max-duration", 10*time.Second, "longest time pods are gathered before a decision")
	flags.DurationVar(&c.BatchIdleDuration, "batch-idle-duration", time.Second, "a batch ends when no pod came for so long")
	flags.StringVar(&c.PreferencePolicy, "preference-policy", "Respect", "Respect honours what pods prefer, the heaviest first, while it costs little (see --preference-surplus); Ignore leaves it to the scheduler")
	flags.StringVar(&c.PreferenceSurplus, "preference-surplus", "10", "how many percent more a plan may cost because it honours preferences, or unlimited")
	flags.StringVar(&c.MinValuesPolicy, "min-values-policy", "Strict", "Strict or BestEffort: whether a NodePool buys with less variety than its minValues ask for when nothing else would do")
	flags.StringVar(&c.FeatureGates, "feature-gates", "", "Name=true or Name=false, comma separated: NodeOverlay, CapacityBuffer, StaticCapacity, NodeRepair, SpotToSpotConsolidation; others change nothing")
	flags.DurationVar(&c.ConsolidationValidation, "consolidation-validation-delay", 15*time.Second, "how long a consolidation, or the removal of an empty node, must stay right before it begins")
	flags.StringVar(&c.ConsolidationMinSavings, "consolidation-min-savings", "5%", "the least that replacing nodes must save: a share of what they cost, or dollars an hour such as $0.02/h; NodePools may say otherwise in the annotation karve.dev/min-savings")
	flags.DurationVar(&c.ConsolidationMinAge, "consolidation-min-node-age", 5*time.Minute, "how old a node with pods must be before it is consolidated; NodePools may say otherwise in the annotation karve.dev/min-node-age")
	flags.StringVar(&c.ConsolidationRules, "consolidation-rules", "Karve", "Karve, or Karpenter: any saving pays, new nodes count like old ones, several nodes are replaced by one at most, and spot by spot only with 15 cheaper types")
	flags.IntVar(&c.ConsolidationSteps, "consolidation-steps", 200, "how many sets of nodes consolidation looks into before pending pods get a turn; 0 for no bound")
	flags.DurationVar(&c.LeaseDuration, "leader-election-lease-duration", 15*time.Second, "how long a leader that died is waited for")
	flags.DurationVar(&c.MachineGrace, "machine-grace", 30*time.Second, "age from which a machine without a NodeClaim is given back")
}

// acceptIgnored declares the settings of the incumbent that change nothing here,
// so that a Deployment which has them starts. Only their form is checked.
func acceptIgnored(flags *pflag.FlagSet) {
	flags.Int("cpu-requests", 1000, "accepted, unused: worker counts are fixed")
	flags.StringSlice("log-error-output-paths", []string{"stderr"}, "accepted, unused: the logger's own faults go to stderr")
	flags.Bool("ignore-dra-requests", true, "accepted, unused: nothing is bought for pods with resource claims, and they are told so")
	flags.String("karpenter-service", "", "accepted, unused")
	flags.String("scheduler-config", "", "accepted, unused")
	flags.Bool("disable-controller-warmup", true, "accepted, unused: informers start with the process")
	flags.Bool("disable-cluster-state-observability", false, "accepted, unused")
	flags.Bool("enable-azure-sdk-logging", true, "accepted, unused: Azure requests are not logged")
}

// Validate reports every fault at once, each naming the flag and the variable.
func (c Config) Validate() error {
	return errors.Join(c.Core.validate(), c.Azure.validate(), c.Azure.Images.validate(!c.Azure.Machines.buys()), c.Azure.Machines.validate(), c.Azure.Unsupported.validate())
}

func (c CoreConfig) validate() error {
	var f faults
	f.port("metrics-port", c.MetricsPort)
	f.port("health-probe-port", c.HealthProbePort)
	f.check(c.KubeClientQPS > 0, "kube-client-qps", "must be positive, got %d", c.KubeClientQPS)
	f.check(c.KubeClientBurst > 0, "kube-client-burst", "must be positive, got %d", c.KubeClientBurst)
	f.oneOf("log-level", c.LogLevel, "debug", "info", "error", "")
	f.check(len(c.LogOutputPaths) > 0, "log-output-paths", "names no output: use stdout, stderr or files")
	f.check(c.BatchIdleDuration > 0, "batch-idle-duration", "must be positive, got %s", c.BatchIdleDuration)
	f.check(c.BatchMaxDuration >= c.BatchIdleDuration, "batch-max-duration",
		"must be at least --batch-idle-duration (%s), got %s", c.BatchIdleDuration, c.BatchMaxDuration)
	f.oneOf("preference-policy", c.PreferencePolicy, "Respect", "Ignore")
	f.oneOf("min-values-policy", c.MinValuesPolicy, "Strict", "BestEffort")
	_, err := surplus(c.PreferenceSurplus)
	f.check(err == nil, "preference-surplus", "%v", err)
	_, err = features(c.FeatureGates)
	f.check(err == nil, "feature-gates", "%v", err)
	f.check(c.ConsolidationValidation >= 0, "consolidation-validation-delay", "must not be negative, got %s", c.ConsolidationValidation)
	_, err = kube.MinSavings(c.ConsolidationMinSavings)
	f.check(err == nil, "consolidation-min-savings", "%v", err)
	f.check(c.ConsolidationMinAge >= 0, "consolidation-min-node-age", "must not be negative, got %s", c.ConsolidationMinAge)
	f.oneOf("consolidation-rules", c.ConsolidationRules, "Karve", "Karpenter")
	f.check(c.ConsolidationSteps >= 0, "consolidation-steps", "must not be negative, got %d", c.ConsolidationSteps)
	f.check(c.LeaseDuration >= time.Second, "leader-election-lease-duration", "must be at least 1s, got %s", c.LeaseDuration)
	f.check(c.MachineGrace > 0, "machine-grace", "must be positive, got %s", c.MachineGrace)
	return f.joined()
}

// faults gathers what is wrong with a Config.
type faults []error

func (f *faults) add(err error) { *f = append(*f, err) }
func (f faults) joined() error  { return errors.Join(f...) }

func (f *faults) check(ok bool, flag, format string, args ...any) {
	if !ok {
		f.add(fmt.Errorf("%s %s", spelled(flag), fmt.Sprintf(format, args...)))
	}
}

// given reports whether a required setting has a value.
func (f *faults) given(flag, value string) bool {
	f.check(value != "", flag, "is required")
	return value != ""
}

func (f *faults) variable(name, value, meaning string) {
	if value == "" {
		f.add(fmt.Errorf("the environment variable %s is required: %s", name, meaning))
	}
}

// port allows zero, which disables the listener, as controller-runtime's "0" does.
func (f *faults) port(flag string, port int) {
	f.check(port >= 0 && port <= 65535, flag, "must be a port number, or 0 for none, got %d", port)
}

func (f *faults) oneOf(flag, value string, allowed ...string) {
	names := make([]string, len(allowed))
	for i, a := range allowed {
		if names[i] = a; a == "" {
			names[i] = "(empty)"
		}
	}
	f.check(slices.Contains(allowed, value), flag, "must be one of %s, got %q", strings.Join(names, ", "), value)
}
