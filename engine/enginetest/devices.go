// SPDX-License-Identifier: Apache-2.0

package enginetest

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/karve-dev/karve/engine/quantity"
)

// devices is how many device resources random scripts use. Some are offered by instance types,
// some only by nodes, some not at all; all together they must get positions in a
// quantity.Vector.
const devices = 9

// fullResources lets types and nodes offer devices, and lets pods, DaemonSets and limits ask
// for them and for resources that no instance type or node offers. It has its own random
// source, so that the rest of the script does not change.
func (r *random) fullResources(seed uint64) {
	own := &random{Rand: rand.New(rand.NewPCG(seed, 0xe87e)), s: r.s}
	if !own.chance(40) {
		return
	}
	for i := range r.s.Types {
		r.s.Types[i].Capacity = own.withDevices(r.s.Types[i].Capacity, 30)
	}
	for i := range r.s.Nodes {
		n := &r.s.Nodes[i]
		n.Allocatable = own.withDevices(n.Allocatable, 40)
		n.Capacity = n.Allocatable
	}
	for i := range r.s.Pools {
		p := &r.s.Pools[i]
		if own.chance(30) {
			p.Limits = p.Limits.Add(quantity.Amounts{own.device(): int64(own.IntN(4))})
		}
	}
	for i := range r.s.Daemons {
		if own.chance(10) {
			r.s.Daemons[i].Requests = r.s.Daemons[i].Requests.Add(quantity.Amounts{own.device(): 1})
		}
	}
	own.deviceWorkloads()
}

// deviceWorkloads makes whole workloads ask for devices, so that their pods remain alike.
func (r *random) deviceWorkloads() {
	var more quantity.Amounts
	workload := ""
	for i := range r.s.Pods {
		p := &r.s.Pods[i]
		if name := p.Name[:max(0, strings.LastIndexByte(p.Name, '-'))]; name != workload {
			workload, more = name, r.withDevices(nil, 20)
			if r.chance(8) {
				more = more.Add(quantity.Amounts{"made.up/" + workload: 1})
			}
		}
		if len(more) > 0 {
			p.Requests = p.Requests.Add(more)
		}
	}
}

func (r *random) device() string { return fmt.Sprintf("example.com/device-%d", r.IntN(devices)) }

// withDevices is a with some devices added, often none.
func (r *random) withDevices(a quantity.Amounts, percent int) quantity.Amounts {
	for r.chance(percent) {
		a = a.Add(quantity.Amounts{r.device(): int64(1 + r.IntN(2))})
	}
	return a
}
