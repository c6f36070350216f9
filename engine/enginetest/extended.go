package enginetest

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/karve-dev/karve/engine/quantity"
)

// devices is how many kinds of devices random worlds know. Some kinds are offered by types,
// some by nodes, some by nothing; all together they must find positions.
const devices = 9

// fullResources lets types and nodes offer devices, and pods, DaemonSets and limits ask for
// them and for resources that nothing offers. It draws from a source of its own, so that
// worlds are otherwise what they were without it.
func (r *random) fullResources(seed uint64) {
	own := &random{Rand: rand.New(rand.NewPCG(seed, 0xe87e)), s: r.s}
	if !own.often(40) {
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
		if own.often(30) {
			p.Limits = p.Limits.Add(quantity.Amounts{own.device(): int64(own.IntN(4))})
		}
	}
	for i := range r.s.Daemons {
		if own.often(10) {
			r.s.Daemons[i].Requests = r.s.Daemons[i].Requests.Add(quantity.Amounts{own.device(): 1})
		}
	}
	own.deviceWorkloads()
}

// deviceWorkloads has whole workloads ask for devices, so that pods stay alike.
func (r *random) deviceWorkloads() {
	var more quantity.Amounts
	workload := ""
	for i := range r.s.Pods {
		p := &r.s.Pods[i]
		if name := p.Name[:max(0, strings.LastIndexByte(p.Name, '-'))]; name != workload {
			workload, more = name, r.withDevices(nil, 20)
			if r.often(8) {
				more = more.Add(quantity.Amounts{"made.up/" + workload: 1})
			}
		}
		if len(more) > 0 {
			p.Requests = p.Requests.Add(more)
		}
	}
}

func (r *random) device() string { return fmt.Sprintf("example.com/device-%d", r.IntN(devices)) }

// withDevices is a with some devices, often none.
func (r *random) withDevices(a quantity.Amounts, percent int) quantity.Amounts {
	for r.often(percent) {
		a = a.Add(quantity.Amounts{r.device(): int64(1 + r.IntN(2))})
	}
	return a
}
