// SPDX-License-Identifier: Apache-2.0

package ratelimit

import (
	"net/http"
	"strings"
)

// A call is a request as the limits see it.
type call struct {
	key      string // name of the resource with limits of its own; lower case
	method   string
	classes  []Class // the most specific last
	priority Priority
}

// callOf classifies a request to Resource Manager by its method and path. Unknown requests fall
// under Resource Manager's own limits only.
func callOf(r *http.Request) call {
	segments := strings.Split(strings.Trim(strings.ToLower(r.URL.Path), "/"), "/")
	c := call{method: r.Method, classes: []Class{armClass(r.Method)}, priority: defaultPriority(r.Method), key: segments[len(segments)-1]}
	namespace, path := afterProvider(segments)
	switch namespace {
	case "microsoft.compute":
		c.compute(path)
	case "microsoft.network":
		c.network(path)
	case "microsoft.containerservice":
		c.aks(path)
	}
	return c
}

func armClass(method string) Class {
	switch method {
	case http.MethodGet, http.MethodHead:
		return ARMReads
	case http.MethodDelete:
		return ARMDeletes
	}
	return ARMWrites
}

// defaultPriority returns the priority of a request without a ticket.
func defaultPriority(method string) Priority {
	switch method {
	case http.MethodGet, http.MethodHead:
		return Read
	case http.MethodDelete:
		return Delete
	}
	return Create
}

// afterProvider splits a path at its resource provider: the segments behind its namespace
// alternate between types and names.
func afterProvider(segments []string) (namespace string, path []string) {
	for i := len(segments) - 2; i >= 0; i-- {
		if segments[i] == "providers" {
			return segments[i+1], segments[i+2:]
		}
	}
	return "", nil
}

func (c *call) compute(path []string) {
	switch {
	case len(path) >= 4 && path[0] == "locations" && path[2] == "operations":
		c.key = path[3]
		c.add(GetOperation)
	case len(path) == 3 && path[0] == "locations" && path[2] == "virtualmachines":
		c.list()
	case len(path) == 1 && path[0] == "virtualmachines":
		c.list()
	case len(path) == 1 && path[0] == "disks":
		c.raiseShared()
	case len(path) >= 2 && path[0] == "virtualmachines":
		c.key = path[1]
		c.oneVM(path[2:])
	}
}

// list classifies a list of virtual machines.
func (c *call) list() {
	c.add(ListVM)
	c.raiseShared()
}

func (c *call) network(path []string) {
	if len(path) == 1 && path[0] == "networkinterfaces" {
		c.raiseShared()
	}
}

// raiseShared raises the priority of a list that many callers share. Requests of the highest other
// priority may wait for it, so it must not wait behind them.
func (c *call) raiseShared() {
	if c.method == http.MethodGet {
		c.priority = List
	}
}

// oneVM classifies a request to one virtual machine; below is its path behind the name.
func (c *call) oneVM(below []string) {
	action := ""
	if len(below) > 0 {
		action = below[0]
	}
	switch {
	case c.method == http.MethodGet || c.method == http.MethodHead:
		c.add(GetVM)
	case action == "deallocate" || action == "simulateeviction":
		c.add(DeleteVM)
	case action == "" && c.method == http.MethodPut:
		c.add(PutVM)
	case action == "" && c.method == http.MethodDelete:
		c.add(DeleteVM)
	default:
		c.add(UpdateVM)
	}
}

func (c *call) aks(path []string) {
	of := func(i int, name string) bool { return len(path) > i && path[i] == name }
	switch {
	case of(0, "locations") && of(2, "operations"):
		c.add(AKSOperation)
	case c.method == http.MethodGet && len(path) == 1 && of(0, "managedclusters"):
		c.add(AKSList)
	case c.method == http.MethodPut && len(path) == 2 && of(0, "managedclusters"):
		c.add(AKSPut)
	case c.method == http.MethodPut && len(path) == 4 && of(2, "agentpools"):
		c.add(AKSPut)
	case c.method == http.MethodGet && len(path) == 5 && of(4, "machines"):
		c.add(AKS)
		c.raiseShared()
	default:
		c.add(AKS)
	}
}

func (c *call) add(class Class) { c.classes = append(c.classes, class) }

// service returns the most specific class, under which requests are counted.
func (c *call) service() Class { return c.classes[len(c.classes)-1] }
