// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"net/http"
	"time"

	"github.com/karve-dev/karve/azureemulator"
	"github.com/karve-dev/karve/test/scarcity"
)

// nodes are what runs on VMs.
type nodes struct {
	claims *claims
	region *azureemulator.Server
}

// Run is what happens on a VM: its node joins, and is silent once the VM ends.
func (n *nodes) Run(ctx context.Context, m azureemulator.VM) {
	c := n.claims.claimOf(m)
	if c == nil || !n.askMetadata(ctx, m) {
		return
	}
	n.claims.join(c)
	<-ctx.Done()
	n.claims.leave(c)
}

// askMetadata has a VM ask its metadata service who it is, as nodes do before they join,
// until it knows or ends.
func (n *nodes) askMetadata(ctx context.Context, m azureemulator.VM) bool {
	metadata := &http.Client{Transport: n.region.MetadataOf(m.Name), Timeout: 10 * time.Second}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://169.254.169.254/metadata/instance/compute?api-version=2021-02-01", nil)
	if err != nil {
		panic(err) // only the address can be wrong, and it is not
	}
	req.Header.Set("Metadata", "true")
	for {
		answer, err := metadata.Do(req)
		if err == nil {
			_ = answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return true
			}
		}
		if scarcity.Sleep(ctx, time.Second) != nil {
			return false
		}
	}
}

// Preempt has the claim end whose VM Azure will take back, as its agent and the
// interruption controller do.
func (n *nodes) Preempt(vm string, _ azureemulator.Preemption) {
	n.claims.markVMLost(vm)
}
