// SPDX-License-Identifier: Apache-2.0

package controllertest

import (
	"context"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/karve-dev/karve/api/access"
)

// Allows reports whether one of the rules permits the verb on a resource, written
// as in rules: nodes, pods/eviction. Rules that name single objects permit nothing.
func Allows(rules []rbacv1.PolicyRule, verb, group, resource string) bool {
	return slices.ContainsFunc(rules, func(r rbacv1.PolicyRule) bool {
		return len(r.ResourceNames) == 0 && slices.Contains(r.Verbs, verb) &&
			slices.Contains(r.APIGroups, group) && slices.Contains(r.Resources, resource)
	})
}

// allowsNamed reports whether one of the rules permits the verb on the one object of that name.
func allowsNamed(rules []rbacv1.PolicyRule, verb, group, resource, name string) bool {
	return slices.ContainsFunc(rules, func(r rbacv1.PolicyRule) bool {
		if !slices.Contains(r.ResourceNames, name) {
			return false
		}
		r.ResourceNames = nil
		return Allows([]rbacv1.PolicyRule{r}, verb, group, resource)
	})
}

// guarded fails the test when a controller makes a request that karve's role does
// not permit. If reads are answered by a cache, that cache has to list and watch.
func guarded(t testing.TB, c client.WithWatch, cached bool) client.WithWatch {
	rules := slices.Concat(access.Cluster(), access.Surge())
	check := func(o runtime.Object, verbs ...string) {
		kind, err := apiutil.GVKForObject(o, c.Scheme())
		if err != nil {
			return // the client reports it
		}
		for _, verb := range verbs {
			verb, sub, _ := strings.Cut(verb, " ")
			resource := strings.TrimSuffix(plural(kind.Kind)+"/"+sub, "/")
			named := false
			if o, ok := o.(client.Object); ok {
				named = allowsNamed(access.Own(access.DefaultLease), verb, kind.Group, resource, o.GetName())
			}
			if kind.Group != NodeClassGVK().Group && !named && !Allows(rules, verb, kind.Group, resource) {
				t.Errorf("karve may not %s %s of group %q: api/access must allow it", verb, resource, kind.Group)
			}
		}
	}
	reads := func(verb string) []string {
		if cached {
			return []string{"list", "watch"}
		}
		return []string{verb}
	}
	return interceptor.NewClient(c, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			asked := o.DeepCopyObject().(client.Object)
			asked.SetName(key.Name)
			check(asked, reads("get")...)
			return c.Get(ctx, key, o, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
			check(l, reads("list")...)
			return c.List(ctx, l, opts...)
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			check(o, "create")
			return c.Create(ctx, o, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			check(o, "delete")
			return c.Delete(ctx, o, opts...)
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			check(o, "update")
			return c.Update(ctx, o, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			check(o, "patch")
			return c.Patch(ctx, o, p, opts...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			check(o, "patch "+sub)
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		},
		SubResourceCreate: func(ctx context.Context, c client.Client, sub string, o, s client.Object, opts ...client.SubResourceCreateOption) error {
			check(o, "create "+sub)
			return c.SubResource(sub).Create(ctx, o, s, opts...)
		},
	})
}

// plural is the resource of a kind, or of a list of it. No kind used here ends in a y.
func plural(kind string) string {
	name := strings.ToLower(strings.TrimSuffix(kind, "List"))
	if strings.HasSuffix(name, "s") {
		return name + "es"
	}
	return name + "s"
}
