// SPDX-License-Identifier: Apache-2.0

package azure

import (
	"context"

	"github.com/karve-dev/karve/provider/azure/internal/network"
)

// SubnetError says why nodes cannot join a subnet. Reason is one of the reasons of an
// AKSNodeClass's SubnetsReady condition.
type SubnetError = network.SubnetError

// Reasons of a SubnetError.
const (
	SubnetIDInvalid  = network.SubnetIDInvalid
	SubnetNotFound   = network.SubnetNotFound
	SubnetDelegated  = network.SubnetDelegated
	SubnetTooSmall   = network.SubnetTooSmall
	SubnetJoinDenied = network.SubnetJoinDenied
)

// CheckSubnet reports whether nodes can join the subnet of a node class: a *SubnetError when
// they cannot, another error when the check failed. An empty id means the cluster's own subnet,
// and maxPods zero AKS's default.
func (p *Provider) CheckSubnet(ctx context.Context, id string, maxPods int64) error {
	return p.network.CheckSubnet(ctx, id, maxPods)
}
