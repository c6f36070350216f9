// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"path"
	"strings"
	"time"
)

// Kinds of resources.
const (
	VM   = "vm"
	NIC  = "nic"
	Disk = "disk"
)

// Resource is a row of the cloud's list.
type Resource struct {
	ID   string // such as /subscriptions/…/virtualMachines/aks-default-x
	Kind string // VM, NIC or Disk
	Tags map[string]string
	// Created is when the cloud says that it was created; zero when it does not.
	Created time.Time
}

// Request is one that karve made: of the cloud, whose Resource is an ID, or of Kubernetes, whose
// Resource is a path such as /api/v1/namespaces/web/pods/front-1.
type Request struct {
	Method   string
	Resource string
	// Status is the HTTP status of the answer; 0 when none was seen.
	Status int
	// By names the process that made it, as the election's Lease names its holder; empty when it is
	// not known.
	By string
}

// done reports whether the request may have had its effect: it was accepted, or no answer is known.
func (r Request) done() bool { return r.Status == 0 || r.Status >= 200 && r.Status < 300 }

// Tags by which karve, and Karpenter's provider for Azure before it, mark what belongs to a cluster.
const (
	tagCluster          = "karve.dev_cluster"
	tagClaimUID         = "karve.dev_claim-uid"
	tagKarpenterCluster = "karpenter.azure.com_cluster"
	tagNodePool         = "karpenter.sh_nodepool"
)

// tag reads a tag; the cloud ignores the case of keys.
func (r Resource) tag(key string) string {
	if value, ok := r.Tags[key]; ok {
		return value
	}
	for k, value := range r.Tags {
		if strings.EqualFold(k, key) {
			return value
		}
	}
	return ""
}

// ours reports whether karve created the resource for the cluster.
func (r Resource) ours(cluster string) bool {
	of := r.tag(tagCluster)
	return r.tag(tagClaimUID) != "" && of != "" && (cluster == "" || strings.EqualFold(of, cluster))
}

// inherited reports whether Karpenter's provider created the resource for the cluster.
func (r Resource) inherited(cluster string) bool {
	of := r.tag(tagKarpenterCluster)
	return r.tag(tagNodePool) != "" && of != "" && (cluster == "" || strings.EqualFold(of, cluster))
}

// name is how violations name the resource.
func (r Resource) name() string { return r.Kind + "/" + path.Base(r.ID) }

// key is the ID as resources are told apart by it: the cloud ignores its case.
func (r Resource) key() string { return resourceKey(r.ID) }

func resourceKey(id string) string { return strings.ToLower(strings.TrimPrefix(id, "azure://")) }
