// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/karve-dev/karve/controller/events"
	"github.com/karve-dev/karve/kube"
)

// refusals remembers what was said about Nodes that are not believed, so that each thing is said once. A
// restart says it again. The zero refusals is ready to use.
type refusals struct {
	mu   sync.Mutex
	said map[string]map[string]bool // by the claim's name
}

// mostRefusals is how many things are said about the Nodes of one claim: a kubelet may make up more.
const mostRefusals = 32

// first reports whether this is said about a Node of the claim for the first time.
func (r *refusals) first(claim, what string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.said[claim][what] || len(r.said[claim]) >= mostRefusals {
		return false
	}
	if r.said == nil {
		r.said = map[string]map[string]bool{}
	}
	if r.said[claim] == nil {
		r.said[claim] = map[string]bool{}
	}
	r.said[claim][what] = true
	return true
}

// forget drops what was said about the Nodes of a claim.
func (r *refusals) forget(claim string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.said, claim)
}

// Values of the label reason of the metric of refused statements.
const (
	refusedName  = "name"
	refusedAge   = "age"
	refusedClaim = "contradicts_nodeclaim"
)

// refuseNode says that a Node is not the claim's, although it has the provider ID of its instance.
func (s *pass) refuseNode(n *corev1.Node, reason, why string) {
	if s.refusals.first(s.claim.Name, n.Name+"/"+reason) {
		s.refuse(n, reason, "NodeRefused", fmt.Sprintf("This Node has the provider ID of NodeClaim %s and is not its node: %s. "+
			"Find out which machine created it, and delete the Node", s.claim.Name, why))
	}
}

// reportContradictions says what the claim's registered Node says of itself and is not believed.
func (s *pass) reportContradictions() {
	if s.node == nil || !isRegistered(s.node) {
		return
	}
	var texts []string
	for _, c := range kube.Contradictions(s.node, s.claim) {
		if s.refusals.first(s.claim.Name, s.node.Name+"/"+c.About) {
			texts = append(texts, c.String())
		}
	}
	if len(texts) > 0 {
		s.refuse(s.node, refusedClaim, "NodeContradictsClaim", strings.Join(texts, "; ")+". What the NodeClaim says counts. "+
			"If no user or program of yours changed the Node, look into its machine")
	}
}

func (s *pass) refuse(n *corev1.Node, metric, reason, message string) {
	s.Metrics.NodesRefused.WithLabelValues(metric).Inc()
	s.Events.Publish(events.Event{About: n, Warning: true, Reason: reason, Every: 24 * time.Hour, Message: message})
	s.Log.Info("a node is not believed", "node", n.Name, "nodeclaim", s.claim.Name, "reason", metric, "detail", message)
}
