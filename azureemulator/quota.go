// SPDX-License-Identifier: Apache-2.0

package azureemulator

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/karve-dev/karve/azureemulator/catalog"
)

// The quotas that are not a VM family's.
const (
	regionalCores    = "cores"
	lowPriorityCores = "lowPriorityCores"
	vmCount          = "virtualMachines"
)

// quota holds limits and what is used of them. Every VM that
// exists counts, whatever its state: a failed or deallocated one holds its
// cores until it is deleted. Spot VMs count against lowPriorityCores and
// virtualMachines, the others against their family, cores and virtualMachines.
type quota struct {
	limits map[string]int // by lower-case name
	used   map[string]int
	names  map[string]string // lower-case name → Azure's spelling
	sub    *subscription
	clock  *clock
}

// Usage is one line of the usages API.
type Usage struct {
	Name    string `json:"name"`
	Current int    `json:"current"`
	Limit   int    `json:"limit"`
}

// quotaAmount is what one VM takes of one quota.
type quotaAmount struct {
	name  string
	count int
}

func newQuota(o Options, all *sizes, sub *subscription, c *clock) *quota {
	q := &quota{limits: map[string]int{}, used: map[string]int{}, names: map[string]string{}, sub: sub, clock: c}
	for _, size := range all.byName {
		q.set(size.Family, o.DefaultFamilyCores)
	}
	q.set(regionalCores, o.RegionalCores)
	q.set(lowPriorityCores, o.LowPriorityCores)
	q.set(vmCount, o.VirtualMachines)
	for name, limit := range o.Quota {
		q.set(name, limit)
	}
	return q
}

func (q *quota) routes() []route {
	return []route{azure("GET", inLocation+"/usages", "Usage.List", reads, q.listUsages)}
}

// set gives a quota its limit. The spelling it was first named by stays.
func (q *quota) set(name string, limit int) {
	k := strings.ToLower(name)
	if _, known := q.names[k]; !known {
		q.names[k] = name
	}
	q.limits[k] = limit
}

// quotaUse returns what a VM of a size takes of each quota.
func quotaUse(size catalog.Size, spot bool) []quotaAmount {
	if spot {
		return []quotaAmount{{lowPriorityCores, size.VCPUs}, {vmCount, 1}}
	}
	return []quotaAmount{{size.Family, size.VCPUs}, {regionalCores, size.VCPUs}, {vmCount, 1}}
}

func (v *vm) quotaUse() []quotaAmount { return quotaUse(v.size, v.spec.isSpot()) }

func (q *quota) take(list []quotaAmount) {
	for _, c := range list {
		q.used[strings.ToLower(c.name)] += c.count
	}
}

func (q *quota) giveBack(list []quotaAmount) {
	for _, c := range list {
		q.used[strings.ToLower(c.name)] -= c.count
	}
}

// check refuses a VM that exceeds a limit, and names the first such quota.
func (q *quota) check(list []quotaAmount) error {
	for _, c := range list {
		k := strings.ToLower(c.name)
		if q.used[k]+c.count > q.limits[k] {
			return q.exceeded(c, q.limits[k], q.used[k])
		}
	}
	return nil
}

// exceeded has the phrases clients look for: the quota's name before
// "Cores quota", and its API name in the link.
func (q *quota) exceeded(c quotaAmount, limit, used int) *Error {
	title := map[string]string{
		regionalCores:    "Total Regional Cores",
		lowPriorityCores: "Low Priority Cores",
		vmCount:          "Virtual Machines",
	}[c.name]
	if title == "" {
		title = c.name + " Cores"
	}
	resource := c.name
	if resource == lowPriorityCores {
		resource = "LowPriorityCores"
	}
	location, needed := q.sub.location, used+c.count
	link := fmt.Sprintf("https://aka.ms/ProdportalCRP/#blade/Microsoft_Azure_Capacity/UsageAndQuota.ReactView/Parameters/%%7B%%22subscriptionId%%22:%%22%s%%22,%%22command%%22:%%22openQuotaApprovalBlade%%22,%%22quotas%%22:[%%7B%%22location%%22:%%22%s%%22,%%22providerId%%22:%%22Microsoft.Compute%%22,%%22resourceName%%22:%%22%s%%22,%%22quotaRequest%%22:%%7B%%22properties%%22:%%7B%%22limit%%22:%d,%%22unit%%22:%%22Count%%22,%%22name%%22:%%7B%%22value%%22:%%22%s%%22%%7D%%7D%%7D%%7D]%%7D",
		q.sub.id, location, resource, needed, resource)
	return conflict("OperationNotAllowed",
		"Operation could not be completed as it results in exceeding approved %s quota. Additional details - Deployment Model: Resource Manager, Location: %s, Current Limit: %d, Current Usage: %d, Additional Required: %d, (Minimum) New Limit Required: %d. Submit a request for Quota increase at %s by specifying parameters listed in the 'Details' section for deployment to succeed. Please read more about quota limits at https://docs.microsoft.com/en-us/azure/azure-supportability/per-vm-quota-requests",
		title, location, limit, used, c.count, needed, link)
}

// setLimit changes a limit: a VM family's, "cores", "lowPriorityCores" or
// "virtualMachines", letter case ignored. What is in use stays in use.
func (q *quota) setLimit(name string, limit int) error {
	q.clock.Lock()
	defer q.clock.Unlock()
	if _, known := q.names[strings.ToLower(name)]; !known {
		return fmt.Errorf("no quota is called %q: name a VM family, %s, %s or %s", name, regionalCores, lowPriorityCores, vmCount)
	}
	if limit < 0 {
		return fmt.Errorf("quota %s: the limit %d is below zero", name, limit)
	}
	q.set(name, limit)
	return nil
}

// allUsages is every quota, ordered by name.
func (q *quota) allUsages() []Usage {
	q.clock.Lock()
	defer q.clock.Unlock()
	return q.usages()
}

func (q *quota) usages() []Usage {
	list := make([]Usage, 0, len(q.names))
	for _, k := range slices.Sorted(maps.Keys(q.names)) {
		list = append(list, Usage{Name: q.names[k], Current: q.used[k], Limit: q.limits[k]})
	}
	return list
}

func (q *quota) listUsages(r *request) (reply, error) {
	if err := q.sub.checkLocation(r.params["location"]); err != nil {
		return reply{}, err
	}
	values := []any{}
	for _, u := range q.allUsages() {
		values = append(values, map[string]any{
			"unit": "Count", "currentValue": u.Current, "limit": u.Limit,
			"name": map[string]string{"value": u.Name, "localizedValue": localized(u.Name)},
		})
	}
	return answer(http.StatusOK, nil, map[string]any{"value": values})
}

// localized turns "standardDSv5Family" into "Standard DSv5 Family vCPUs".
func localized(name string) string {
	switch name {
	case regionalCores:
		return "Total Regional vCPUs"
	case lowPriorityCores:
		return "Total Regional Spot vCPUs"
	case vmCount:
		return "Virtual Machines"
	}
	middle := strings.TrimSpace(strings.TrimSuffix(name, "Family"))
	if len(middle) > 8 && strings.EqualFold(middle[:8], "standard") {
		middle = strings.TrimSpace(middle[8:])
	}
	return "Standard " + middle + " Family vCPUs"
}
