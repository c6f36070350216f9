// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/karve-dev/karve/test/kubeapi"
)

// grant is one verb on one resource that a role permits. It is comparable.
type grant struct {
	namespace             string // empty: in all of them
	verb, group, resource string
	name                  string // empty: whatever its name
}

func (g grant) String() string {
	text := g.verb + " " + g.resource
	if g.group != "" {
		text += "." + g.group
	}
	if g.name != "" {
		text += " named " + g.name
	}
	if g.namespace != "" {
		text += " in " + g.namespace
	}
	return text
}

// permits reports whether the grant is enough for a request. As in Kubernetes, a creation has no
// name that a role could go by.
func (g grant) permits(r kubeapi.Request) bool {
	return g.verb == r.Verb && g.group == r.Group && g.resource == r.Resource &&
		(g.namespace == "" || g.namespace == r.Namespace) && (g.name == "" || g.name == r.Name)
}

// permissions are what karve may do by roles and their bindings, and what of it karve has used. Every
// process whose name begins with karve- has the role.
type permissions struct {
	mu    sync.Mutex
	used  map[grant]bool
	fails func(format string, args ...any)
}

// newPermissions reads the grants of roles that are bound in the objects.
func newPermissions(objects []client.Object, fails func(string, ...any)) *permissions {
	p := &permissions{used: map[grant]bool{}, fails: fails}
	for _, o := range objects {
		switch o := o.(type) {
		case *rbacv1.ClusterRole:
			p.add("", o.Rules)
		case *rbacv1.Role:
			p.add(o.Namespace, o.Rules)
		}
	}
	return p
}

func (p *permissions) add(namespace string, rules []rbacv1.PolicyRule) {
	for _, rule := range rules {
		names := rule.ResourceNames
		if len(names) == 0 {
			names = []string{""}
		}
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					for _, name := range names {
						p.used[grant{namespace, verb, group, resource, name}] = false
					}
				}
			}
		}
	}
}

// request holds a request against the role.
func (p *permissions) request(q kubeapi.Request) {
	if !strings.HasPrefix(q.Process, "karve-") {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.use(q) {
		p.fails("karve may not %v: api/access must allow it", grant{q.Namespace, q.Verb, q.Group, q.Resource, q.Name})
	}
	if q.Streams {
		q.Verb = "list" // which it becomes where lists are not streamed
		p.use(q)
	}
}

// write holds a change of an object against the role as the admission plugin
// OwnerReferencesPermissionEnforcement does: who has an owner's deletion wait for an object must be
// allowed to change the owner's finalizers.
func (p *permissions) write(process string, was, is *unstructured.Unstructured) {
	if is == nil {
		return
	}
	var before []metav1.OwnerReference
	if was != nil {
		before = was.GetOwnerReferences()
	}
	for _, o := range is.GetOwnerReferences() {
		blocks := func(b metav1.OwnerReference) bool {
			return b.UID == o.UID && b.BlockOwnerDeletion != nil && *b.BlockOwnerDeletion
		}
		if blocks(o) && !slices.ContainsFunc(before, blocks) {
			group, _, _ := strings.Cut(o.APIVersion, "/")
			p.request(kubeapi.Request{Process: process, Verb: "update", Group: group, Resource: strings.ToLower(o.Kind) + "s/finalizers", Name: o.Name})
		}
	}
}

// use marks all grants that are enough for a request, and reports whether there is one.
func (p *permissions) use(q kubeapi.Request) bool {
	permitted := false
	for g := range p.used {
		if g.permits(q) {
			p.used[g], permitted = true, true
		}
	}
	return permitted
}

// unused are the grants that no request needed.
func (p *permissions) unused() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []string
	for g, used := range p.used {
		if !used {
			out = append(out, fmt.Sprint(g))
		}
	}
	slices.Sort(out)
	return out
}
