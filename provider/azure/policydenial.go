package azure

import (
	"sync"
	"time"

	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/provider/azure/internal/armerr"
)

// policyTTL is how long a policy's refusal is reported when no node is launched meanwhile.
const policyTTL = time.Hour

// policies remembers which refusals came from policies of the subscription, by node class. A
// successful launch of the class removes them.
type policies struct {
	mu     sync.Mutex
	denied map[string]policyDenial
}

// A policyDenial describes a refusal.
type policyDenial struct {
	words string
	at    time.Time
}

func (d *policies) note(class string, choice offering.Ref, r armerr.Refusal, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.denied[class] = policyDenial{choice.Type + " in " + choice.Zone + ": " + r.Words(), now}
}

func (d *policies) forget(class string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.denied, class)
}

// PolicyDenial describes the last refusal by a policy of the subscription for a node class, and
// what to do about it; empty when there is none, or a node was launched since.
func (p *Provider) PolicyDenial(class string) string {
	p.policies.mu.Lock()
	defer p.policies.mu.Unlock()
	known := p.policies.denied[class]
	if known.at.IsZero() || p.opts.Now().Sub(known.at) >= policyTTL {
		return ""
	}
	return known.words
}
