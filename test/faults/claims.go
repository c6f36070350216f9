// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/karve-dev/karve/azureemulator"
	"github.com/karve-dev/karve/provider"
)

// claims are those of the run, and what is recorded of them.
type claims struct {
	mu      sync.Mutex
	byUID   map[string]*claim // those that exist
	made    int               // claims ever
	last    time.Time         // when a node joined last
	joined  map[int]bool      // orders whose node has joined
	doubles map[string]bool   // claims that had two VMs
}

func newClaims() *claims {
	return &claims{byUID: map[string]*claim{}, joined: map[int]bool{}, doubles: map[string]bool{}}
}

func (cs *claims) create(seed uint64, order, n int, replaces bool) *claim {
	c := &claim{order: order, changed: make(chan struct{}, 1), Claim: provider.Claim{
		Name: fmt.Sprintf("fault-%d-%d", order, n), UID: fmt.Sprintf("uid-%d-%d-%d", seed, order, n),
		Pool: "fault", Class: className, Urgent: replaces,
	}}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.byUID[c.UID], cs.made = c, cs.made+1
	return c
}

// claimOf is the claim that a VM was made for; nil when there is none.
func (cs *claims) claimOf(m azureemulator.VM) *claim {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return cs.byUID[m.Tags[tagClaimUID]]
}

func (cs *claims) exists(uid string) bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return cs.byUID[uid] != nil
}

// snapshot is what the API would list.
func (cs *claims) snapshot() map[string]claim {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	all := make(map[string]claim, len(cs.byUID))
	for uid, c := range cs.byUID {
		all[uid] = *c
	}
	return all
}

func (cs *claims) count() int {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return cs.made
}

// existing are claims that exist.
func (cs *claims) existing() []string {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	var all []string
	for _, c := range cs.byUID {
		all = append(all, c.Name)
	}
	return all
}

// missing are orders whose node has not joined, or is silent.
func (cs *claims) missing(orders int) []string {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	silent := map[int]bool{}
	for _, c := range cs.byUID {
		if !c.node || c.lost {
			silent[c.order] = true
		}
	}
	var all []string
	for i := range orders {
		if !cs.joined[i] || silent[i] {
			all = append(all, fmt.Sprintf("order %d", i))
		}
	}
	return all
}

// join notes that a claim's node reports.
func (cs *claims) join(c *claim) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	c.node, c.joined, cs.joined[c.order], cs.last = true, true, true, time.Now()
	c.wake()
}

// leave notes that it does not any more.
func (cs *claims) leave(c *claim) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	c.node, c.silent = false, time.Now()
	c.wake()
}

func (cs *claims) lastJoined() time.Time {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return cs.last
}

// everJoined reports whether the claim's node has joined at any time.
func (cs *claims) everJoined(c *claim) bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return c.joined
}

func (cs *claims) reports(c *claim) bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return c.node
}

func (cs *claims) isLost(c *claim) bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return c.lost
}

// markLost has a claim end whose VM is gone or will be.
func (cs *claims) markLost(c *claim) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	c.lost = true
	c.wake()
}

// markUIDLost marks the claim with the UID lost, if it still exists.
func (cs *claims) markUIDLost(uid string) {
	cs.mu.Lock()
	c := cs.byUID[uid]
	cs.mu.Unlock()
	if c != nil {
		cs.markLost(c)
	}
}

// markVMLost has the claim of a VM end.
func (cs *claims) markVMLost(vm string) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for _, c := range cs.byUID {
		if c.id != "" && isVM(c.id, vm) {
			c.lost = true
			c.wake()
		}
	}
}

// store notes on the claim what a launch said.
func (cs *claims) store(c *claim, in provider.Instance, err error) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if in.ProviderID != "" {
		c.id, c.unseen = in.ProviderID, false
	}
	c.LaunchState = mergeLaunchState(c.LaunchState, in.LaunchState)
	if err != nil && c.id != "" {
		c.unseen = true
	}
}

// mergeLaunchState is the launch state with more laid over it; an empty value removes a key.
func mergeLaunchState(had, told map[string]string) map[string]string {
	if len(told) == 0 {
		return had
	}
	all := maps.Clone(told)
	for key, value := range had {
		if _, changed := told[key]; !changed {
			all[key] = value
		}
	}
	maps.DeleteFunc(all, func(_, value string) bool { return value == "" })
	return all
}

// nextLook is when to look at a claim next, and whether its VM must be asked about
// now; at once (zero) when the claim is given up.
func (cs *claims) nextLook(c *claim, launched time.Time) (wait time.Duration, ask bool) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	switch since := time.Since(launched); {
	case c.node:
		return time.Hour, false
	case c.joined:
		quiet := time.Since(c.silent)
		return max(silence-quiet, recheck), quiet >= silence
	case since > registrationTimeout:
		return 0, false
	default:
		return max(joinsBy-since, askAgain), since >= joinsBy
	}
}

func (cs *claims) remove(c *claim) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	delete(cs.byUID, c.UID)
	if c.joined {
		delete(cs.joined, c.order)
	}
}

// recordVMs records claims with two VMs, of how many each claim has.
func (cs *claims) recordVMs(byUID map[string]int) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for uid, n := range byUID {
		if n > 1 {
			cs.doubles[uid] = true
		}
	}
}

func (cs *claims) withTwoVMs() []string {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return slices.Sorted(maps.Keys(cs.doubles))
}

// tagClaimUID names the NodeClaim of a VM.
const tagClaimUID = "karve.dev_claim-uid"

// isVM reports whether a provider ID is that of the VM of that name.
func isVM(id, vm string) bool { return strings.EqualFold(path.Base(id), vm) }
