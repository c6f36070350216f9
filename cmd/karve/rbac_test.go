// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	crmanager "sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/yaml"

	"github.com/karve-dev/karve/api/access"
	"github.com/karve-dev/karve/api/crds"
	"github.com/karve-dev/karve/controller/controllertest"
	"github.com/karve-dev/karve/controller/manager"
	"github.com/karve-dev/karve/controller/nodeclass"
	"github.com/karve-dev/karve/provider/azure"
	"github.com/karve-dev/karve/provider/memory"
)

// The role holds what the whole controller follows with every feature on, and no
// kind that nobody follows. What single controllers write is held against the role
// in all their tests, by controllertest; test/simulation holds all requests against it.
//
// Rule PERMISSION-1.
func TestRoleHoldsWhatIsFollowed(t *testing.T) {
	cluster := newEmptyCluster(t, access.Cluster())
	o := CoreConfig{
		SchedulingConfig:     SchedulingConfig{FeatureGates: "NodeOverlay=true,CapacityBuffer=true,StaticCapacity=true"},
		LeaderElectionConfig: LeaderElectionConfig{DisableLeaderElection: true},
	}.options(nil, logr.Discard(), func(m crmanager.Manager) error {
		versions := discovery.NewDiscoveryClientForConfigOrDie(m.GetConfig())
		return (&nodeclass.Reconciler{Client: m.GetClient(), Azure: &azure.Provider{}, Versions: versions}).Register(m)
	})
	o.Provider, o.Registry = memory.New(memory.NewCloud(memory.Options{})), prometheus.NewRegistry()
	m, err := manager.New(&rest.Config{Host: "http://cluster", Transport: cluster}, o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeoutCause(t.Context(), time.Minute, errors.New("waited too long"))
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	select {
	case <-cluster.complete:
	case <-ctx.Done():
		t.Error("api/access lets karve watch what it does not watch:", cluster.unwatched)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// emptyCluster is an API server, reached without a network, that serves the kinds
// of the role, of which there are no objects. It fails the test when it is asked for
// what the role does not hold.
type emptyCluster struct {
	t     *testing.T
	kinds map[string][]metav1.APIResource // by group/version
	rules []rbacv1.PolicyRule

	mu        sync.Mutex
	unwatched map[string]bool // of what the role lets karve watch: "group resource"
	complete  chan struct{}   // closed once nothing is unwatched
}

func newEmptyCluster(t *testing.T, rules []rbacv1.PolicyRule) *emptyCluster {
	c := &emptyCluster{t: t, kinds: kinds(t), rules: rules, unwatched: map[string]bool{}, complete: make(chan struct{})}
	for _, r := range c.rules {
		for _, resource := range r.Resources {
			if slices.Contains(r.Verbs, "watch") {
				c.unwatched[r.APIGroups[0]+" "+resource] = true
			}
		}
	}
	return c
}

// Deployments may be changed only where karve is told to surge, by a role in each of these
// namespaces, or by a cluster role when it is told to do so in all.
//
// Rule SURGE-7.
func TestRolesForSurges(t *testing.T) {
	for flag, want := range map[string][]string{
		"":        nil,
		"web,api": {"Role web/karve-surge", "RoleBinding web/karve-surge", "Role api/karve-surge", "RoleBinding api/karve-surge"},
		"*":       {"ClusterRole /karve-surge", "ClusterRoleBinding /karve-surge"},
	} {
		var out strings.Builder
		cmd := rbacCommand()
		cmd.SetOut(&out)
		cmd.SetArgs([]string{"--surge-namespaces=" + flag})
		if err := cmd.Execute(); err != nil {
			t.Fatal(err)
		}
		var got []string
		permitted := 0
		for doc := range strings.SplitSeq(out.String(), "---\n") {
			o := metav1.PartialObjectMetadata{}
			if err := yaml.Unmarshal([]byte(doc), &o); err != nil {
				t.Fatal(err)
			}
			if o.Name == "karve-surge" {
				got = append(got, o.Kind+" "+o.Namespace+"/"+o.Name)
			}
			role := rbacv1.Role{}
			if err := yaml.Unmarshal([]byte(doc), &role); err != nil {
				t.Fatal(err)
			}
			if controllertest.Allows(role.Rules, "patch", "apps", "deployments") {
				permitted++
			}
		}
		if !slices.Equal(got, want) || permitted != len(want)/2 {
			t.Errorf("--surge-namespaces=%s: printed %q, %d of all roles with the permission; want %q", flag, got, permitted, want)
		}
	}
	cmd := rbacCommand()
	cmd.SetOut(io.Discard)
	cmd.SetErr(io.Discard)
	cmd.SetArgs([]string{"--surge-namespaces=web,*"})
	if err := cmd.Execute(); err == nil || !strings.Contains(err.Error(), "--surge-namespaces must be names of namespaces, or * alone") {
		t.Errorf("all namespaces and one more: %v", err)
	}
}

// A role may be limited to the secret of one bootstrap token.
//
// Rule BOOTSTRAP-1.
func TestRoleForOneToken(t *testing.T) {
	for id, want := range map[string][]string{"": nil, "abcdef": {"bootstrap-token-abcdef"}} {
		var secrets []rbacv1.PolicyRule
		for _, o := range access.Objects(access.Options{Namespace: metav1.NamespaceSystem, TokenID: id}) {
			if role, ok := o.(*rbacv1.Role); ok {
				secrets = append(secrets, slices.DeleteFunc(role.Rules, func(r rbacv1.PolicyRule) bool { return !slices.Contains(r.Resources, "secrets") })...)
			}
		}
		if len(secrets) != 1 || !slices.Equal(secrets[0].ResourceNames, want) || !slices.Equal(secrets[0].Verbs, []string{"list", "watch"}) {
			t.Errorf("token %q: permitted %v, want to list and watch %q", id, secrets, want)
		}
	}
	cmd := rbacCommand()
	cmd.SetOut(io.Discard)
	cmd.SetErr(io.Discard)
	cmd.SetArgs([]string{"--bootstrap-token-id=abcdef.0123456789abcdef"})
	if err := cmd.Execute(); err == nil || strings.Contains(err.Error(), "0123456789abcdef") {
		t.Errorf("a whole token: %v, want an error that does not show it", err)
	}
}

// kinds are those of the roles, in the versions that are served.
func kinds(t *testing.T) map[string][]metav1.APIResource {
	out := map[string][]metav1.APIResource{
		"v1": {
			{Name: "pods", Kind: "Pod", Namespaced: true}, {Name: "nodes", Kind: "Node"}, {Name: "namespaces", Kind: "Namespace"},
			{Name: "persistentvolumes", Kind: "PersistentVolume"}, {Name: "persistentvolumeclaims", Kind: "PersistentVolumeClaim", Namespaced: true},
			{Name: "services", Kind: "Service", Namespaced: true},
			{Name: "podtemplates", Kind: "PodTemplate", Namespaced: true}, {Name: "events", Kind: "Event", Namespaced: true},
		},
		"apps/v1": {
			{Name: "daemonsets", Kind: "DaemonSet", Namespaced: true}, {Name: "replicasets", Kind: "ReplicaSet", Namespaced: true},
			{Name: "statefulsets", Kind: "StatefulSet", Namespaced: true},
		},
		"batch/v1":  {{Name: "jobs", Kind: "Job", Namespaced: true}},
		"policy/v1": {{Name: "poddisruptionbudgets", Kind: "PodDisruptionBudget", Namespaced: true}},
		"storage.k8s.io/v1": {
			{Name: "storageclasses", Kind: "StorageClass"}, {Name: "csinodes", Kind: "CSINode"}, {Name: "volumeattachments", Kind: "VolumeAttachment"},
		},
	}
	all, err := crds.All()
	if err != nil {
		t.Fatal(err)
	}
	for _, crd := range all {
		for _, v := range crd.Spec.Versions {
			gv := crd.Spec.Group + "/" + v.Name
			out[gv] = append(out[gv], metav1.APIResource{Name: crd.Spec.Names.Plural, Kind: crd.Spec.Names.Kind, Namespaced: crd.Spec.Scope == "Namespaced"})
		}
	}
	return out
}

func (c *emptyCluster) RoundTrip(r *http.Request) (*http.Response, error) {
	path := strings.TrimPrefix(strings.TrimPrefix(strings.Trim(r.URL.Path, "/"), "apis"), "api")
	gv, resource := strings.Trim(path, "/"), ""
	if _, ok := c.kinds[gv]; !ok {
		if i := strings.LastIndex(gv, "/"); i >= 0 {
			gv, resource = gv[:i], gv[i+1:]
		}
	}
	switch {
	case gv == "":
		return c.groups(r), nil
	case resource == "":
		return answer(r, http.StatusOK, metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList"}, GroupVersion: gv, APIResources: c.kinds[gv]}), nil
	}
	return c.objects(r, gv, resource), nil
}

// groups answers discovery.
func (c *emptyCluster) groups(r *http.Request) *http.Response {
	if strings.HasPrefix(r.URL.Path, "/apis") {
		list := metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList"}}
		for gv := range c.kinds {
			if group, version, ok := strings.Cut(gv, "/"); ok {
				v := metav1.GroupVersionForDiscovery{GroupVersion: gv, Version: version}
				list.Groups = append(list.Groups, metav1.APIGroup{Name: group, Versions: []metav1.GroupVersionForDiscovery{v}, PreferredVersion: v})
			}
		}
		return answer(r, http.StatusOK, list)
	}
	return answer(r, http.StatusOK, metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}})
}

// objects answers lists with none, and watches with silence until they are given up.
func (c *emptyCluster) objects(r *http.Request, gv, resource string) *http.Response {
	verb := "list"
	if r.URL.Query().Get("watch") != "" {
		verb = "watch"
	}
	c.note(verb, gv, resource)
	i := slices.IndexFunc(c.kinds[gv], func(k metav1.APIResource) bool { return k.Name == resource })
	switch {
	case i < 0 || r.Method != http.MethodGet:
		return answer(r, http.StatusNotFound, metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound})
	case r.URL.Query().Get("sendInitialEvents") != "": // as older servers do: they are asked for a list then
		return answer(r, http.StatusUnprocessableEntity, metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Reason: metav1.StatusReasonInvalid, Code: http.StatusUnprocessableEntity})
	case verb == "watch":
		body, end := io.Pipe()
		context.AfterFunc(r.Context(), func() { end.Close() })
		return response(r, http.StatusOK, body)
	}
	return answer(r, http.StatusOK, map[string]any{
		"apiVersion": gv, "kind": c.kinds[gv][i].Kind + "List", "metadata": map[string]any{"resourceVersion": "1"}, "items": []any{},
	})
}

func answer(r *http.Request, code int, object any) *http.Response {
	text, err := json.Marshal(object)
	if err != nil {
		panic(err) // plain values
	}
	return response(r, code, io.NopCloser(bytes.NewReader(text)))
}

func response(r *http.Request, code int, body io.ReadCloser) *http.Response {
	return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, Body: body, Request: r}
}

// note holds a request against the role.
func (c *emptyCluster) note(verb, gv, resource string) {
	group, _, ok := strings.Cut(gv, "/")
	if !ok {
		group = ""
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !controllertest.Allows(c.rules, verb, group, resource) {
		c.t.Errorf("karve asks to %s %s of group %q: api/access must allow it", verb, resource, group)
	}
	if key := group + " " + resource; verb == "watch" && c.unwatched[key] {
		delete(c.unwatched, key)
		if len(c.unwatched) == 0 {
			close(c.complete)
		}
	}
}

// What karve reads once, at its start, it may read by name.
//
// Rule PERMISSION-1.
func TestStartReadsByName(t *testing.T) {
	cluster := &oneReader{cluster: newEmptyCluster(t, nil)}
	config := &rest.Config{Host: "http://cluster", Transport: cluster}
	uid, err := clusterUID(t.Context(), config)
	dns, err2 := NetworkConfig{}.dnsServiceIP(t.Context(), config)
	if err != nil || err2 != nil || uid != "the-uid" || dns != "10.0.0.10" {
		t.Errorf("got UID %q and DNS %q: %v, %v", uid, dns, err, err2)
	}
	for _, want := range []struct {
		path  string
		rules []rbacv1.PolicyRule
		rule  rbacv1.PolicyRule
	}{
		{"/api/v1/namespaces/kube-system", access.Cluster(), byName("namespaces", "kube-system")},
		{"/api/v1/namespaces/kube-system/services/kube-dns", access.System(""), byName("services", "kube-dns")},
	} {
		if !slices.Contains(cluster.read, want.path) || !slices.ContainsFunc(want.rules, func(r rbacv1.PolicyRule) bool { return reflect.DeepEqual(r, want.rule) }) {
			t.Errorf("read %q: want %q, and a rule that permits that and no more", cluster.read, want.path)
		}
	}
	if len(cluster.read) != 2 {
		t.Errorf("read %q: that needs a permission of its own", cluster.read)
	}
}

func byName(resource, name string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{resource}, ResourceNames: []string{name}, Verbs: []string{"get"}}
}

// oneReader answers requests for single objects, and takes note of their paths.
type oneReader struct {
	cluster *emptyCluster
	read    []string
}

func (r *oneReader) RoundTrip(q *http.Request) (*http.Response, error) {
	if !strings.Contains(q.URL.Path, "/namespaces/") {
		return r.cluster.RoundTrip(q)
	}
	r.read = append(r.read, q.URL.Path)
	if strings.Contains(q.URL.Path, "/services/") {
		return answer(q, http.StatusOK, corev1.Service{TypeMeta: metav1.TypeMeta{Kind: "Service", APIVersion: "v1"}, Spec: corev1.ServiceSpec{ClusterIP: "10.0.0.10"}}), nil
	}
	return answer(q, http.StatusOK, corev1.Namespace{TypeMeta: metav1.TypeMeta{Kind: "Namespace", APIVersion: "v1"}, ObjectMeta: metav1.ObjectMeta{UID: "the-uid"}}), nil
}

// The roles are printed for the namespace; those for metrics that are served securely only when
// asked for.
//
// Rule METRIC-6.
func TestRBACIsYAML(t *testing.T) {
	for flag, want := range map[string]int{"--metrics-secure=false": 7, "--metrics-secure": 10} {
		var out strings.Builder
		cmd := rbacCommand()
		cmd.SetOut(&out)
		cmd.SetArgs([]string{"--namespace=karve-system", flag})
		if err := cmd.Execute(); err != nil {
			t.Fatal(err)
		}
		got := strings.Count(out.String(), "\nkind: ")
		if got != want || strings.Contains(out.String(), "null") || !strings.Contains(out.String(), "namespace: karve-system") ||
			strings.Contains(out.String(), "tokenreviews") != (want == 10) {
			t.Errorf("%s: %d documents, want %d:\n%s", flag, got, want, out.String())
		}
	}
}
