// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"context"
	"time"

	"github.com/karve-dev/karve/provider"
)

// Drift compares images. It takes no time and is not counted as a call to the
// cloud; faults of the operation "drift" make it fail.
func (p *Provider) Drift(ctx context.Context, m provider.LaunchedNode) (provider.Drift, error) {
	if err := ctx.Err(); err != nil {
		return provider.Drift{}, err
	}
	p.cloud.mu.Lock()
	fault, image := p.cloud.fault, p.cloud.image
	p.cloud.mu.Unlock()
	if fault != nil {
		if err := fault("drift"); err != nil {
			return provider.Drift{}, err
		}
	}
	if m.ImageID == "" || m.ImageID == image {
		return provider.Drift{}, nil
	}
	return provider.Drift{Reason: "ImageDrift", Detail: "runs " + m.ImageID + ", new VMs run " + image}, nil
}

// RepairPolicies returns the cloud's.
func (p *Provider) RepairPolicies() []provider.RepairPolicy {
	if p.cloud.opts.Repair != nil {
		return p.cloud.opts.Repair
	}
	return []provider.RepairPolicy{
		{Condition: "Ready", Status: "False", Tolerate: 10 * time.Minute},
		{Condition: "Ready", Status: "Unknown", Tolerate: 10 * time.Minute},
	}
}
