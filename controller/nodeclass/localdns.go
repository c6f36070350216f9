// SPDX-License-Identifier: Apache-2.0

package nodeclass

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/karve-dev/karve/api/v1beta1"
)

// otherDNSCache is the DaemonSet that runs Kubernetes' own DNS cache on nodes.
var otherDNSCache = client.ObjectKey{Namespace: "kube-system", Name: "node-local-dns"}

// localDNS decides whether new nodes run the DNS cache: where it is required, and where it is
// preferred and supported. Once on it is kept on where it is preferred, or nodes
// would differ from day to day. It returns why a preferred cache is off.
func (r *Reconciler) localDNS(ctx context.Context, class *v1beta1.AKSNodeClass) (without string) {
	const condition = v1beta1.ConditionTypeLocalDNSReady
	state := v1beta1.LocalDNSStateDisabled
	switch dns := class.Spec.LocalDNS; {
	case dns == nil:
	case dns.Mode == v1beta1.LocalDNSModeRequired, dns.Mode == v1beta1.LocalDNSModePreferred && class.LocalDNSEnabled():
		state = v1beta1.LocalDNSStateEnabled
	case dns.Mode == v1beta1.LocalDNSModePreferred:
		against, err := r.whyNoLocalDNS(ctx, class)
		if err != nil {
			keep(class, condition, class.Status.LocalDNSState != nil, err)
			return ""
		}
		if against != "" {
			without = "localDNS.mode Preferred: nodes run no DNS cache, as " + against + " (Required turns it on all the same)"
			break
		}
		state = v1beta1.LocalDNSStateEnabled
	}
	class.Status.LocalDNSState = &state
	class.SetTrue(condition)
	return without
}

// whyNoLocalDNS returns why the cluster does not support the cache; empty when it does.
func (r *Reconciler) whyNoLocalDNS(ctx context.Context, class *v1beta1.AKSNodeClass) (string, error) {
	if against := r.Azure.WithoutLocalDNS(class); against != "" {
		return against, nil
	}
	err := r.Client.Get(ctx, otherDNSCache, &appsv1.DaemonSet{})
	if client.IgnoreNotFound(err) != nil {
		return "", fmt.Errorf("looking for another DNS cache: %w", err)
	}
	if err == nil {
		return "the DaemonSet " + otherDNSCache.String() + " runs one already", nil
	}
	return "", nil
}
