// SPDX-License-Identifier: Apache-2.0

package ratelimit

// Class is a kind of request that Azure limits separately. Most requests fall under two: one of
// Resource Manager (arm-…) and one of the service behind it.
type Class string

// Classes of Resource Manager, by method: GET, DELETE, and everything else.
const (
	ARMReads   Class = "arm-reads"
	ARMWrites  Class = "arm-writes"
	ARMDeletes Class = "arm-deletes"
)

// Classes of Compute for virtual machines.
const (
	PutVM        Class = "vm-put"        // create
	UpdateVM     Class = "vm-update"     // update, start, restart, extensions
	DeleteVM     Class = "vm-delete"     // delete, deallocate, simulate an eviction
	GetVM        Class = "vm-get"        // one virtual machine, its instance view and its extensions
	ListVM       Class = "vm-list"       // virtual machines of a group, location or subscription
	GetOperation Class = "operation-get" // status of an asynchronous operation
)

// Classes of AKS.
const (
	AKS          Class = "aks"           // all requests not below, machines included
	AKSPut       Class = "aks-put"       // a cluster or an agent pool
	AKSList      Class = "aks-list"      // clusters
	AKSOperation Class = "aks-operation" // status of an asynchronous operation
)

// A limit is a bucket's capacity and gain. The zero limit means unlimited.
type limit struct{ burst, perMinute float64 }

// limits are those of a class: for all requests of the subscription in the region, and for each
// single resource.
type limits struct{ all, each limit }

// limitsOf is the table of published limits: Resource Manager's per principal and region
// (learn.microsoft.com, request-limits-and-throttling), Compute's per subscription and region
// (compute-throttling-limits) and those of AKS (quotas-skus-regions).
func limitsOf(c Class) limits {
	switch c {
	case ARMReads:
		return limits{all: limit{250, 25 * 60}}
	case ARMWrites, ARMDeletes:
		return limits{all: limit{200, 10 * 60}}
	case PutVM, UpdateVM, DeleteVM:
		return limits{all: limit{1500, 500}, each: limit{12, 4}}
	case GetVM:
		return limits{all: limit{24000, 8000}, each: limit{36, 12}}
	case ListVM:
		return limits{all: limit{900, 300}}
	case GetOperation:
		return limits{all: limit{15000, 5000}, each: limit{45, 15}}
	case AKS:
		return limits{all: limit{60, 60}}
	case AKSPut:
		return limits{each: limit{20, 1}}
	case AKSList:
		return limits{all: limit{500, 60}}
	case AKSOperation:
		return limits{all: limit{200, 120}}
	}
	return limits{}
}
