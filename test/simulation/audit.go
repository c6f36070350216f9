// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"net/http"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/karve-dev/karve/audit"
)

// auditor judges the world as it goes. It sees all objects in the order in which they change, and
// what Azure has as it is.
type auditor struct {
	mu    sync.Mutex
	audit *audit.Auditor
}

func newAuditor() *auditor {
	return &auditor{audit: audit.New(audit.Settings{Cluster: clusterName, OrphanBound: settlesWithin})}
}

func (a *auditor) object(at time.Time, was, is client.Object) {
	if was == nil && is == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.audit.Object(at, was, is)
}

func (a *auditor) request(r *http.Request, status int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.audit.Request(time.Now(), audit.Request{Method: r.Method, Resource: r.URL.Path, Status: status})
}

// disturbed tells that something is going wrong, or was until now.
func (a *auditor) disturbed() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.audit.Disturbed(time.Now())
}

func (a *auditor) check(resources []audit.Resource) []audit.Violation {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.audit.Cloud(time.Now(), resources)
	return a.audit.Check(time.Now())
}

// audit shows the auditor what Azure has, and records what it finds, until the world ends.
func (w *world) audit() {
	for w.ctx.Err() == nil {
		var resources []audit.Resource
		for _, vm := range w.azure.State().VMs {
			resources = append(resources, audit.Resource{
				ID:   "/subscriptions/" + w.azure.SubscriptionID() + "/resourceGroups/" + vm.ResourceGroup + "/providers/Microsoft.Compute/virtualMachines/" + vm.Name,
				Kind: audit.VM, Tags: vm.Tags, Created: vm.Created,
			})
		}
		for _, v := range w.auditor.check(resources) {
			w.problem("%v", v)
		}
		sleep(w.ctx, 10*time.Second)
	}
}
