// SPDX-License-Identifier: Apache-2.0

package enginetest

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/karve-dev/karve/engine/cluster"
)

// RandomExclusive is RandomFull with claims that one pod at a time may use: several pods share
// each.
func RandomExclusive(seed uint64, pods int) *Script {
	s := RandomFull(seed, pods)
	r := &random{Rand: rand.New(rand.NewPCG(seed, 0xe8c1)), s: s}
	used := map[string]bool{}
	for i := range s.Pods {
		p := &s.Pods[i]
		for r.chance(35) {
			v := cluster.Volume{ID: fmt.Sprint("alone", r.IntN(4)), Driver: r.oneOf(driver, "")}
			claim := claimOf(p.Namespace, v)
			if slices.Contains(p.ExclusiveClaims, claim) || p.Node != "" && used[claim] {
				continue
			}
			used[claim] = used[claim] || p.Node != ""
			p.Volumes, p.ExclusiveClaims = append(slices.Clip(p.Volumes), v), append(p.ExclusiveClaims, claim)
		}
	}
	return s
}

// exclusiveClaims checks that no pod is placed whose claim another pod uses: one on a node, or one
// that is placed, too.
func (c *checker) exclusiveClaims() {
	for i := c.cluster.bound; i < len(c.cluster.pods); i++ {
		if c.cluster.nodeOf[i] < 0 {
			continue
		}
		if user := c.userOfClaims(i); user != nil {
			c.fail("pod %s is placed although pod %s uses a claim of it", c.cluster.pods[i].Name, user.Name)
		}
	}
}

// userOfClaims is a pod that uses a claim which one pod at a time may use, and which pod i mounts;
// nil when there is none.
func (c *checker) userOfClaims(i int) *cluster.Pod {
	for j, p := range c.cluster.pods {
		if j == i || p.Node == "" && (j < c.cluster.bound || c.cluster.nodeOf[j] < 0) || p.Node != "" && !c.hasNode(p.Node) {
			continue
		}
		if slices.ContainsFunc(p.ExclusiveClaims, func(claim string) bool { return slices.Contains(c.cluster.pods[i].ExclusiveClaims, claim) }) {
			return p
		}
	}
	return nil
}

// hasNode reports whether there is a node of that name.
func (c *checker) hasNode(name string) bool {
	return slices.ContainsFunc(c.Nodes, func(n cluster.Node) bool { return n.Name == name })
}
