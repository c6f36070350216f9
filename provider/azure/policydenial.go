package azure

import (
	"sync"
	"time"

	"github.com/karve-dev/karve/engine/offering"
)

// policyTTL is how long a policy's refusal is reported when no node is launched meanwhile.
const policyTTL = time.Hour

// policies remembers which refusals came from policies of the subscription, by node class. A
// successful launch of the class removes them.
type policies struct {
	mu     sync.Mutex
	denied map[string]memo[string]
}

func (d *policies) note(class string, choice offering.Ref, r refusal, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.denied[class] = memo[string]{choice.Type + " in " + choice.Zone + ": " + r.words(), now}
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
	if known.read.IsZero() || p.opts.Now().Sub(known.read) >= policyTTL {
		return ""
	}
	return known.value
}
