// SPDX-License-Identifier: Apache-2.0

package nodeclass

import (
	"context"
	"errors"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	versionutil "k8s.io/apimachinery/pkg/util/version"

	"github.com/karve-dev/karve/api/v1beta1"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/kube"
	"github.com/karve-dev/karve/provider"
	"github.com/karve-dev/karve/provider/azure"
)

// Conditions and reasons of karve's own beside those of the API package. They
// inform and do not count towards Ready.
const (
	// ConditionTypeCapacityAvailable: instances can be launched for the class now.
	ConditionTypeCapacityAvailable = "karve.dev/CapacityAvailable"
	// ReasonQuotaExhausted: no offering fits into the quota that is left.
	ReasonQuotaExhausted = "QuotaExhausted"
	// ReasonNothingAvailable: everything is out of stock, restricted or over quota.
	ReasonNothingAvailable = "NothingAvailable"
	// ReasonNoTypes: no VM size of the region meets the class's own fields.
	ReasonNoTypes = "NoTypes"

	// ReasonCannotBeRefreshed: earlier results still hold, but could not
	// be looked up again.
	ReasonCannotBeRefreshed = "CannotBeRefreshed"
	// ReasonLookupFailed: it could not be found out yet.
	ReasonLookupFailed = "LookupFailed"
)

// assess sets all conditions of a class, each after those it depends on.
func (r *Reconciler) assess(ctx context.Context, class *v1beta1.AKSNodeClass) {
	class.InitConditions()
	r.images(ctx, class, r.kubernetesVersion(class))
	r.subnet(ctx, class)
	r.validate(ctx, class)
	r.setFieldsSupported(class, r.localDNS(ctx, class))
	r.capacity(ctx, class)
	r.prices(class)
	r.policy(class)
}

// kubernetesVersion takes the API server's version. It never decreases: behind a
// load balancer an old server may answer during an upgrade, and nodes must not
// be downgraded for it. It reports whether the cluster was upgraded.
func (r *Reconciler) kubernetesVersion(class *v1beta1.AKSNodeClass) (upgraded bool) {
	const condition = v1beta1.ConditionTypeKubernetesVersionReady
	info, err := r.Versions.ServerVersion()
	if err != nil {
		keep(class, condition, class.Status.KubernetesVersion != nil, err)
		return false
	}
	seen, _, _ := strings.Cut(strings.TrimPrefix(info.GitVersion, "v"), "+") // no node image has build metadata
	if known := class.Status.KubernetesVersion; !older(seen, known) {
		upgraded = known != nil && *known != seen
		class.Status.KubernetesVersion = &seen
	}
	class.SetTrue(condition)
	return upgraded
}

// older reports whether a version is below the one known so far.
func older(seen string, known *string) bool {
	if known == nil {
		return false
	}
	a, err := versionutil.ParseGeneric(seen)
	if err != nil {
		return true // nothing to replace a version with
	}
	b, err := versionutil.ParseGeneric(*known)
	return err == nil && a.LessThan(b)
}

// keep keeps an earlier result when it cannot be looked up again,
// provided it was for the same spec.
func keep(class *v1beta1.AKSNodeClass, condition string, known bool, err error) {
	was := class.Condition(condition)
	if known && was.Status == metav1.ConditionTrue && was.ObservedGeneration == class.Generation {
		class.SetCondition(metav1.Condition{
			Type: condition, Status: metav1.ConditionTrue, Reason: ReasonCannotBeRefreshed,
			Message: "still as found earlier; looking it up again failed: " + err.Error(),
		})
		return
	}
	class.SetUnknown(condition, ReasonLookupFailed, err.Error())
}

// subnet checks that nodes can join the network.
func (r *Reconciler) subnet(ctx context.Context, class *v1beta1.AKSNodeClass) {
	const condition = v1beta1.ConditionTypeSubnetsReady
	id, maxPods := "", int64(0)
	if class.Spec.VNETSubnetID != nil {
		id = *class.Spec.VNETSubnetID
	}
	if class.Spec.MaxPods != nil {
		maxPods = int64(*class.Spec.MaxPods)
	}
	err := r.Azure.CheckSubnet(ctx, id, maxPods)
	var wrong *azure.SubnetError
	switch was := class.Condition(condition); {
	case err == nil:
		class.SetTrue(condition)
	case errors.As(err, &wrong):
		class.SetFalse(condition, wrong.Reason, wrong.Detail)
	case was.Status == metav1.ConditionTrue && was.ObservedGeneration == class.Generation:
		keep(class, condition, true, err)
	default:
		class.SetUnknown(condition, v1beta1.ReasonSubnetUnknownError, err.Error())
	}
}

// setFieldsSupported sets FieldsSupported: false with the fields that have no effect.
func (r *Reconciler) setFieldsSupported(class *v1beta1.AKSNodeClass, withoutDNS string) {
	fields := azure.MalformedAnnotations(class)
	if withoutDNS != "" {
		fields = append(fields, withoutDNS)
	}
	if len(fields) == 0 {
		class.SetTrue(v1beta1.ConditionTypeFieldsSupported)
		return
	}
	class.SetFalse(v1beta1.ConditionTypeFieldsSupported, v1beta1.ReasonFieldsNotHonoured, strings.Join(fields, "; "))
}

// capacity reports whether anything can be launched at all.
func (r *Reconciler) capacity(ctx context.Context, class *v1beta1.AKSNodeClass) {
	catalog, err := r.Azure.Catalog(ctx, class.Name)
	if err != nil {
		class.SetUnknown(ConditionTypeCapacityAvailable, ReasonLookupFailed, err.Error())
		class.SetUnknown(kube.ConditionQuotaAvailable, ReasonLookupFailed, err.Error())
		return
	}
	r.quota(class, catalog)
	reason, message := scarcity(catalog)
	if reason == "" {
		class.SetTrue(ConditionTypeCapacityAvailable)
		return
	}
	class.SetFalse(ConditionTypeCapacityAvailable, reason, message)
}

// scarcity returns why nothing can be launched; an empty reason means that something can.
func scarcity(s *provider.Catalog) (reason, message string) {
	offerings, overQuota, sample := 0, 0, ""
	for i := range s.Types {
		for j := range s.Types[i].Offerings {
			o := &s.Types[i].Offerings[j]
			short := shortOf(o, s.QuotaLeft)
			if o.Unavailable == "" && short == "" {
				return "", ""
			}
			offerings++
			if short != "" {
				overQuota++
			}
			if sample == "" {
				sample = s.Types[i].Name + ": " + firstOf(o.Unavailable, describeQuota(short)+" has too little left")
			}
		}
	}
	switch {
	case offerings == 0:
		return ReasonNoTypes, "no VM size of the region meets the class: check imageFamily, security and gpu"
	case overQuota == offerings:
		return ReasonQuotaExhausted, fmt.Sprintf("none of %d offerings fits into what is left of its quota (%s): raise the subscription's quota or free some", offerings, sample)
	}
	return ReasonNothingAvailable, fmt.Sprintf("none of %d offerings can be launched now (%d of them lack quota; %s)", offerings, overQuota, sample)
}

// shortOf is the first quota that is too small for the offering; empty when all suffice.
func shortOf(o *offering.Offering, quotas map[string]int64) string {
	for _, d := range o.QuotaUses {
		if left, limited := quotas[d.Quota]; limited && left < d.Amount {
			return d.Quota
		}
	}
	return ""
}

func firstOf(a, b string) string {
	if a != "" {
		return a
	}
	return b
}
