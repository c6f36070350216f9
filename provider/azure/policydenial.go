package azure

import (
	"sync"
	"time"

	"github.com/karve-dev/karve/engine/offering"
)

// policyTTL is how long a policy's refusal is told of when nothing is bought meanwhile.
const policyTTL = time.Hour

// policies remembers what policies of the subscription refused, by class: a class that
// gets machines all the same is none the wiser.
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

// PolicyDenial is what a policy of the subscription had against the last machine of a
// class, and what to do about that; empty when none had, or one was bought since.
func (p *Provider) PolicyDenial(class string) string {
	p.policies.mu.Lock()
	defer p.policies.mu.Unlock()
	known := p.policies.denied[class]
	if known.read.IsZero() || p.opts.Now().Sub(known.read) >= policyTTL {
		return ""
	}
	return known.value
}
