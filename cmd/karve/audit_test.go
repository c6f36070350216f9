// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/api/access"
)

// The auditor's role lets it watch what it watches, and change nothing.
//
// Rule AUDIT-1.
func TestAuditOnlyReads(t *testing.T) {
	for _, rule := range access.Audit() {
		for _, verb := range rule.Verbs {
			if !slices.Contains([]string{"list", "watch"}, verb) {
				t.Errorf("the auditor may %s %v", verb, rule.Resources)
			}
		}
	}
	cluster := newEmptyCluster(t, access.Audit())
	ctx, stop := context.WithTimeoutCause(t.Context(), time.Minute, errors.New("waited too long"))
	defer stop()
	ended := make(chan error, 1)
	a := newAuditing(AuditConfig{}, logr.Discard())
	go func() {
		ended <- a.run(ctx, &rest.Config{Host: "http://cluster", Transport: cluster}, 0)
	}()
	select {
	case <-cluster.complete:
	case <-ctx.Done():
		t.Error("api/access lets the auditor watch what it does not watch:", cluster.unwatched)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// Violations are counted by invariant, each once; invariants without any are 0.
//
// Rule AUDIT-2.
func TestAuditCountsViolations(t *testing.T) {
	a := newAuditing(AuditConfig{ObjectLag: time.Second}, logr.Discard())
	pool := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "web"}}
	pool.Spec.Limits = karpv1.Limits{"nodes": resource.MustParse("1")}
	claims := make([]*karpv1.NodeClaim, 2)
	for i := range claims {
		name := "web-" + strconv.Itoa(i)
		claims[i] = &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{karpv1.NodePoolLabelKey: "web"}}}
		a.tell(nil, claims[i])
	}
	a.tell(nil, pool)
	a.tell(toolscache.DeletedFinalStateUnknown{Key: "default/p", Obj: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "p"}}}, nil)
	for range 2 {
		a.report(a.check(time.Now().Add(time.Minute)))
	}
	text := scrape(t, a)
	for _, want := range []string{`karve_audit_violations{invariant="S5"} 1`, `karve_audit_violations{invariant="S1"} 0`} {
		if !strings.Contains(text, want) {
			t.Errorf("metrics lack %s:\n%s", want, text)
		}
	}
}

// scrape reads the auditor's metrics as Prometheus does.
func scrape(t *testing.T, a *auditing) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.serve(ctx, listener) }()
	answer, err := http.Get("http://" + listener.Addr().String() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	return string(text)
}

func TestAuditConfig(t *testing.T) {
	good := AuditConfig{MetricsPort: 8080, LogLevel: "info", ListEvery: time.Minute, ObjectLag: time.Second, OrphanBound: time.Hour, PodBound: time.Hour}
	for name, tt := range map[string]struct {
		change func(*AuditConfig)
		fault  string
	}{
		"nothing of Azure": {func(*AuditConfig) {}, ""},
		"a name alone":     {func(c *AuditConfig) { c.Azure.ClusterName = "web" }, ""},
		"all of Azure": {func(c *AuditConfig) {
			c.Azure.ClusterName, c.Azure.NodeResourceGroup, c.Azure.SubscriptionID = "web", "rg", "sub"
		}, ""},
		"a part of Azure":  {func(c *AuditConfig) { c.Azure.NodeResourceGroup = "rg" }, "belong together"},
		"no port":          {func(c *AuditConfig) { c.MetricsPort = 70000 }, "port number"},
		"no level":         {func(c *AuditConfig) { c.LogLevel = "loud" }, "log-level"},
		"a negative bound": {func(c *AuditConfig) { c.PodBound = -time.Second }, "must be positive"},
	} {
		t.Run(name, func(t *testing.T) {
			c := good
			tt.change(&c)
			err := c.validate()
			if (err != nil) != (tt.fault != "") || err != nil && !strings.Contains(err.Error(), tt.fault) {
				t.Errorf("got %v, want %q", err, tt.fault)
			}
		})
	}
}
