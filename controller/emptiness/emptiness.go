package emptiness

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/controller/buffer"
	"github.com/karve-dev/karve/controller/events"
	"github.com/karve-dev/karve/controller/metrics"
	"github.com/karve-dev/karve/engine/empty"
	"github.com/karve-dev/karve/kube"
)

// Controller removes empty nodes.
type Controller struct {
	Client client.Client
	// Live reads past the cache, for the second look.
	Live    client.Reader
	Mirror  *kube.Mirror
	Events  *events.Recorder
	Metrics *metrics.Set
	Log     logr.Logger
	// Buffers know which nodes have room for capacity buffers; nil when nobody asks for any.
	Buffers *buffer.Keeper
	// Every is how often nodes are looked at; zero means every second.
	Every time.Duration
}

// Start looks at the nodes again and again until the context ends.
func (c *Controller) Start(ctx context.Context) error {
	every := c.Every
	if every <= 0 {
		every = time.Second
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(every):
		}
		if err := c.Disrupt(ctx); err != nil && ctx.Err() == nil {
			c.Log.Error(err, "removing empty nodes failed in part")
		}
	}
}

// Disrupt does one round: read, decide, act, record.
func (c *Controller) Disrupt(ctx context.Context) error {
	if !c.Mirror.Synced() {
		return nil
	}
	now := time.Now()
	machines, nodes, pools := c.read(now)
	verdict := empty.Empty(nodes, pools, now)
	err := errors.Join(c.act(ctx, verdict, machines), c.mark(ctx, machines, nodes, pools, now))
	c.record(verdict, pools)
	return err
}

func (c *Controller) read(now time.Time) (map[string]kube.Machine, []empty.Node, []empty.Pool) {
	all := c.Mirror.Machines()
	machines := make(map[string]kube.Machine, len(all))
	var nodes []empty.Node
	for _, m := range all {
		if m.Node == nil || m.World.Pool == "" {
			continue // nothing to be empty, or nobody's rules to follow
		}
		machines[m.Claim.Name] = m
		node := nodeOf(m, now)
		node.Promised = node.Promised || c.Buffers.Holds(node.Key)
		nodes = append(nodes, node)
	}
	return machines, nodes, c.pools(machines)
}

func nodeOf(m kube.Machine, now time.Time) empty.Node {
	n := empty.Node{
		Key:         m.Claim.Name,
		Pool:        m.World.Pool,
		Initialized: m.World.Initialized,
		Leaving:     m.World.Leaving,
		Protected:   protection(m, now),
		Promised:    m.Promised > 0 || now.Before(m.World.NominatedUntil),
		QuietSince:  quietSince(m),
		Price:       int64(m.World.Price),
	}
	if tainted(m.Node) {
		n.Price = math.MaxInt64 // what was begun comes first, else dearer nodes could make it flap
	}
	n.Pods = homeless(m.Pods, now)
	return n
}

// homeless counts the pods that would need another home.
func homeless(pods []*corev1.Pod, now time.Time) int {
	n := 0
	for _, p := range pods {
		if kube.Movable(p, now) {
			n++
		}
	}
	return n
}

// protection says who asks for the node to be left alone.
func protection(m kube.Machine, now time.Time) string {
	if m.Node.Annotations[karpv1.DoNotDisruptAnnotationKey] == "true" {
		return `Disruption is blocked through the "karpenter.sh/do-not-disrupt" annotation`
	}
	return podProtection(m.Pods, now)
}

func podProtection(pods []*corev1.Pod, now time.Time) string {
	for _, p := range pods {
		if p.DeletionTimestamp == nil && !kube.Terminal(p) && kube.DoNotDisrupt(p, now) {
			return fmt.Sprintf(`Pod has "karpenter.sh/do-not-disrupt" annotation (Pod=%s/%s)`, p.Namespace, p.Name)
		}
	}
	return ""
}

// quietSince is the latest of the node's becoming ready and its last pod event,
// seen by this process or written down by an earlier one.
func quietSince(m kube.Machine) time.Time {
	since := m.Activity
	if t := m.Claim.Status.LastPodEventTime.Time; t.After(since) {
		since = t
	}
	for i := range m.Claim.Status.Conditions {
		condition := &m.Claim.Status.Conditions[i]
		if condition.Type == karpv1.ConditionTypeInitialized && condition.LastTransitionTime.After(since) {
			since = condition.LastTransitionTime.Time
		}
	}
	return since
}

func tainted(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Spec.Taints, isDisrupted)
}

func isDisrupted(t corev1.Taint) bool {
	disrupted := karpv1.DisruptedNoScheduleTaint
	return t.MatchTaint(&disrupted)
}

// pools works out how many nodes each pool may lose now.
func (c *Controller) pools(machines map[string]kube.Machine) []empty.Pool {
	total, down := map[string]int{}, map[string]int{}
	for _, m := range machines {
		if !m.World.Initialized || kube.ConditionTrue(m.Claim, karpv1.ConditionTypeInstanceTerminating) {
			continue
		}
		total[m.World.Pool]++
		if m.World.Leaving || !kube.Ready(m.Node) {
			down[m.World.Pool]++
		}
	}
	var pools []empty.Pool
	for name := range total {
		pool := c.Mirror.Pool(name)
		if pool == nil || pool.Spec.Replicas != nil {
			continue
		}
		budget := pool.MustGetAllowedDisruptions(clock.RealClock{}, total[name], karpv1.DisruptionReasonEmpty)
		p := empty.Pool{Name: name, Allowed: max(0, budget-down[name])}
		if after := pool.Spec.Disruption.ConsolidateAfter.Duration; after != nil {
			p.ConsolidateAfter = *after
		} else {
			p.Never = true
		}
		c.Metrics.AllowedDisruptions.WithLabelValues(name, string(karpv1.DisruptionReasonEmpty)).Set(float64(p.Allowed))
		pools = append(pools, p)
	}
	return pools
}

func (c *Controller) record(v empty.Verdict, pools []empty.Pool) {
	c.Metrics.DisruptionEligible.WithLabelValues("empty").Set(float64(len(v.Take)))
	held := false
	for _, l := range v.Left {
		held = held || l.Because == empty.BudgetExhausted
	}
	if !held {
		return
	}
	for _, p := range pools {
		pool := c.Mirror.Pool(p.Name)
		if p.Allowed == 0 && pool != nil {
			c.Events.Publish(events.Event{About: pool, Reason: "DisruptionBlocked", Every: time.Minute,
				Message: "No allowed disruptions for disruption reason Empty due to blocking budget"})
		}
	}
}
