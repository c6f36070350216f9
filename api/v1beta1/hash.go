// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	"fmt"
	"strconv"

	"github.com/mitchellh/hashstructure/v2"
)

// HashVersion names the way Hash is computed. Hashes of different versions say
// nothing about each other, so a version change must never look like drift.
const HashVersion = "v3"

// Hash sums up the part of the spec that a node gets when it is launched and
// keeps for life: everything but the tags, which can be changed in place. Nodes
// whose recorded hash differs have drifted. Fields left out do not count, nor
// does the order of lists.
//
// It is the hash that clusters already carry in their annotations, so taking
// such a cluster over drifts nothing.
func (c *AKSNodeClass) Hash() string {
	sum, err := hashstructure.Hash(c.Spec, hashstructure.FormatV2, &hashstructure.HashOptions{
		SlicesAsSets:    true,
		IgnoreZeroValue: true,
		ZeroNil:         true,
	})
	if err != nil {
		// Only a field of a kind that cannot be hashed, such as a channel, fails.
		panic(fmt.Sprintf("hashing AKSNodeClassSpec: %v", err))
	}
	return strconv.FormatUint(sum, 10)
}
