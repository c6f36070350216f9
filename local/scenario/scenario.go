// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/karve-dev/karve/local"
)

// Times are how long the parts took, in real seconds, from the moment their
// cause was created.
type Times struct {
	FirstNodeReady, AllPodsRunning time.Duration
	Pods                           int
	Replacement, Removal           time.Duration
	// Consolidation is until the last move ended; Before and After are USD per hour.
	Consolidation time.Duration
	Before, After float64
}

// String is the demo's last line.
func (t Times) String() string {
	return fmt.Sprintf("first node ready %.1f s after the pods were created; all %d pods running in %.1f s; evicted spot node replaced in %.1f s; consolidated in %.1f s from $%.4f to $%.4f an hour; empty nodes removed in %.1f s",
		t.FirstNodeReady.Seconds(), t.Pods, t.AllPodsRunning.Seconds(), t.Replacement.Seconds(), t.Consolidation.Seconds(), t.Before, t.After, t.Removal.Seconds())
}

// runner is a run of the scenario.
type runner struct {
	env    *local.Environment
	voice  *Voice
	prices priceList
	times  Times
	began  time.Time // of the chapter
	// refused is how many launches Azure had refused when the chapter began.
	refused int
}

// patience is how long a step may take before it has failed. It is far above
// the needs of a busy laptop: a demo that is slow is still right.
const patience = 3 * time.Minute

// Run runs the whole scenario and returns how long its parts took. The error
// names the step that did not become true.
func Run(ctx context.Context, env *local.Environment, voice *Voice) (Times, error) {
	prices, err := newPriceList(env.Emulator().Location())
	if err != nil {
		return Times{}, err
	}
	s := &runner{env: env, voice: voice, prices: prices}
	steps := []struct {
		name string
		do   func(context.Context) error
	}{
		{"deploying", s.deploy},
		{"deciding", s.decide},
		{"scaling up", s.scaleUp},
		{"checking the quota", s.checkQuota},
		{"checking where pods are", s.checkPlacement},
		{"replacing an evicted spot node", s.evict},
		{"consolidating", s.consolidate},
		{"scaling down", s.scaleDown},
		{"filling the subnet", s.fillSubnet},
		{"taking stock", s.takeStock},
	}
	for i, step := range steps {
		if err := step.do(ctx); err != nil {
			return s.times, fmt.Errorf("step %d of %d, %s: %w", i+1, len(steps), step.name, errors.Join(err, env.Err()))
		}
	}
	return s.times, nil
}

// workload is one of the scenario.
type workload struct {
	kind, name, what string
	manifest         []byte
	replicas         int
}

var workloads = [...]workload{
	{"Deployment", "web", "on-demand, 0.5 CPU and 1 GiB each, spread evenly over zones", web, 60},
	{"Deployment", "batch", "spot, 2 CPU and 4 GiB each", batch, 12},
	{"Deployment", "train", "1 GPU behind the taint nvidia.com/gpu", train, 1},
	{"StatefulSet", "db", "on-demand, 1 CPU and 4 GiB each, a disk each, never two on one node", db, 3},
}

func (s *runner) deploy(ctx context.Context) error {
	s.voice.Title("Workloads arrive, and there is no node for them")
	for _, pool := range [][]byte{generalPool, gpuPool} {
		if err := s.env.Apply(ctx, pool); err != nil {
			return err
		}
	}
	s.voice.Say("NodePools general (D and E sizes, spot or on-demand) and gpu (NVIDIA, tainted) are applied")
	if err := s.env.Client().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}); err != nil {
		return fmt.Errorf("creating namespace %s: %w", namespace, err)
	}
	if err := s.waitPoolsReady(ctx); err != nil {
		return err
	}
	s.began = time.Now()
	for _, w := range workloads {
		if err := s.env.Apply(ctx, w.manifest); err != nil {
			return err
		}
		s.voice.Say("%s %s: %d × %s", w.kind, w.name, w.replicas, w.what)
		s.times.Pods += w.replicas
	}
	return nil
}

// waitPoolsReady waits until karve has checked pools and class, so that the times
// measured are those of launches.
func (s *runner) waitPoolsReady(ctx context.Context) error {
	for _, pool := range []string{"general", "gpu"} {
		if err := s.env.WaitCondition(ctx, "karpenter.sh/v1", "NodePool", pool, "Ready", "True", patience); err != nil {
			return err
		}
	}
	return nil
}

// decide waits until karve has decided for every pod, and prints the decisions and their reasons.
func (s *runner) decide(ctx context.Context) error {
	var decisions map[string]decision
	err := s.waitFor(ctx, "karve has decided for every pod", func(now state) (bool, error) {
		s.voice.Now("%s", now.summary())
		var err error
		decisions, err = readDecisions(s.env.KarveLog())
		// A pod that was created late may fit on a node that is in flight: then the
		// nodes, all launched, are proof enough.
		settled := len(now.Claims) > 0 && now.launched() == len(now.Claims)
		return serves(decisions) && (podsOf(decisions) >= s.times.Pods || settled), err
	})
	if err != nil {
		return err
	}
	s.voice.Title("karve decided, %.1f s after the pods were created", time.Since(s.began).Seconds())
	whole, list := priceOf(decisions)
	s.voice.Say("%d nodes for %d pods, $%.4f an hour together: $%.4f for the VMs by list, $%.4f for their disks", len(decisions), s.times.Pods, whole, list, whole-list)
	s.voice.Block(decisionTable(decisions, s.prices))
	return nil
}

// serves reports whether a node of each kind that the workloads need was decided on.
func serves(decisions map[string]decision) bool {
	spot, demand, gpu := false, false, false
	for _, d := range decisions {
		spot = spot || d.Pool == "general" && d.CapacityType == "spot"
		demand = demand || d.Pool == "general" && d.CapacityType == "on-demand"
		gpu = gpu || d.Pool == "gpu"
	}
	return spot && demand && gpu
}

// scaleUp waits for nodes and pods.
func (s *runner) scaleUp(ctx context.Context) error {
	s.voice.Title("Azure delivers, nodes join, pods start")
	err := s.waitFor(ctx, "the first node is ready", func(now state) (bool, error) {
		s.voice.Now("%s", now.summary())
		return now.readyNodes() > 0, nil
	})
	if err != nil {
		return err
	}
	s.voice.Say("the first node is ready, %.1f s after the pods were created", s.times.FirstNodeReady.Seconds())
	err = s.waitFor(ctx, fmt.Sprintf("all %d pods are running", s.times.Pods), func(now state) (bool, error) {
		s.voice.Now("%s", now.summary())
		return now.running("") == s.times.Pods, nil
	})
	if err != nil {
		return err
	}
	s.times.AllPodsRunning = time.Since(s.began)
	s.voice.Say("all %d pods are running, %.1f s after they were created", s.times.Pods, s.times.AllPodsRunning.Seconds())
	return nil
}

// evict has Azure evict one spot VM and waits for its replacement.
func (s *runner) evict(ctx context.Context) error {
	s.voice.Title("Azure evicts a spot VM")
	before, err := look(ctx, s.env)
	if err != nil {
		return err
	}
	victim, err := spotNode(before)
	if err != nil {
		return err
	}
	s.began = time.Now()
	if err := s.env.Emulator().VMs.Evict(vmName(victim.ProviderID), 0); err != nil {
		return fmt.Errorf("evicting %s: %w", victim.Node, err)
	}
	s.voice.Say("eviction of %s announced: %d batch pods must move", victim.Node, before.on(victim.Node))
	err = s.waitFor(ctx, "the evicted node is gone and its pods run elsewhere", func(now state) (bool, error) {
		s.voice.Now("%s", now.summary())
		return !has(now, victim.Name) && now.running("batch") == before.running("batch"), nil
	})
	if err != nil {
		return err
	}
	s.times.Replacement = time.Since(s.began)
	s.voice.Say("the node is gone, its pods run on a new one, %.1f s after the notice", s.times.Replacement.Seconds())
	return nil
}

// spotNode picks a spot node with pods on it.
func spotNode(now state) (local.Claim, error) {
	for _, c := range now.Claims {
		if c.CapacityType == "spot" && now.on(c.Node) > 0 {
			return c, nil
		}
	}
	return local.Claim{}, errors.New("no spot node has pods: the batch Deployment asked for spot")
}

func has(now state, claim string) bool {
	for _, c := range now.Claims {
		if c.Name == claim {
			return true
		}
	}
	return false
}

// scaleDown sends the web Deployment to sleep and waits until the nodes it leaves
// empty are deleted, to the last network card.
func (s *runner) scaleDown(ctx context.Context) error {
	s.voice.Title("The web Deployment is scaled to 0")
	before, err := look(ctx, s.env)
	if err != nil {
		return err
	}
	s.began = time.Now()
	if err := s.scale(ctx, "web", 0); err != nil {
		return err
	}
	s.voice.Say("web is scaled from %d to 0; nodes that are empty for 5 s are deleted, and nodes too large for their pods are replaced", eveningReplicas)
	err = s.waitFor(ctx, "the cluster costs less, and no node is empty", func(now state) (bool, error) {
		s.voice.Now("%s, $%.4f an hour", now.summary(), s.prices.total(now.Claims))
		cheaper := s.prices.total(now.Claims) < s.prices.total(before.Claims)
		return now.pods("web") == 0 && idle(now) == 0 && cheaper && len(now.Nodes) == len(now.Claims), nil
	})
	if err != nil {
		return err
	}
	s.times.Removal = time.Since(s.began)
	now, err := look(ctx, s.env)
	if err != nil {
		return err
	}
	s.voice.Say("%s: $%.4f an hour instead of $%.4f",
		nodesInstead(len(now.Claims), len(before.Claims)), s.prices.total(now.Claims), s.prices.total(before.Claims))
	return nil
}

// idle counts nodes without pods.
func idle(now state) int {
	n := 0
	for _, c := range now.Claims {
		if now.on(c.Node) == 0 {
			n++
		}
	}
	return n
}

func (s *runner) scale(ctx context.Context, deployment string, replicas int) error {
	patch := client.RawPatch("application/merge-patch+json", []byte(fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas)))
	object := &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: deployment},
	}
	if err := s.env.Client().Patch(ctx, object, patch); err != nil {
		return fmt.Errorf("scaling %s to %d: %w", deployment, replicas, err)
	}
	return nil
}

// takeStock checks that Azure bills for exactly the cluster's nodes, and shows it.
func (s *runner) takeStock(ctx context.Context) error {
	s.voice.Title("What there is now, and what it costs")
	if err := s.env.CheckVMs(ctx, patience); err != nil {
		return err
	}
	now, err := look(ctx, s.env)
	if err != nil {
		return err
	}
	s.voice.Block(nodeTable(now, s.prices))
	s.voice.Say("Azure has one VM per NodeClaim and none without, no orphaned disk or network interface")
	return nil
}

// waitFor watches the cluster until holds is true.
func (s *runner) waitFor(ctx context.Context, what string, holds func(state) (bool, error)) error {
	return local.Until(ctx, patience, what, func(ctx context.Context) (bool, error) {
		if err := s.env.Err(); err != nil {
			return false, err
		}
		now, err := look(ctx, s.env)
		if err != nil {
			return false, err
		}
		s.noteFirstNode(now)
		return holds(now)
	})
}

// noteFirstNode takes the time the moment a first node is ready, whichever step
// happens to be looking.
func (s *runner) noteFirstNode(now state) {
	if s.times.FirstNodeReady == 0 && !s.began.IsZero() && now.readyNodes() > 0 {
		s.times.FirstNodeReady = time.Since(s.began)
	}
}
