// SPDX-License-Identifier: Apache-2.0

package azure

import "github.com/karve-dev/karve/provider/azure/internal/network"

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
