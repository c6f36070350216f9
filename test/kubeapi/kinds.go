// SPDX-License-Identifier: Apache-2.0

package kubeapi

import (
	"fmt"
	"slices"
	"strings"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// kind is a kind of object in one version.
type kind struct {
	gvk        runtimeschema.GroupVersionKind
	plural     string
	namespaced bool
	// hasStatus: there is a status subresource, and only that changes the status.
	hasStatus bool
	// counts: metadata.generation counts the changes of the spec.
	counts bool
	schema *customSchema // of custom resources
}

func (k *kind) gvr() runtimeschema.GroupVersionResource {
	return k.gvk.GroupVersion().WithResource(k.plural)
}

// builtIn are the kinds of Kubernetes itself that karve and the cluster around it use.
func builtIn() []*kind {
	in := func(group, version string, kinds ...*kind) []*kind {
		for _, k := range kinds {
			k.gvk.Group, k.gvk.Version = group, version
		}
		return kinds
	}
	of := func(name, plural string, namespaced, hasStatus, counts bool) *kind {
		return &kind{gvk: runtimeschema.GroupVersionKind{Kind: name}, plural: plural, namespaced: namespaced, hasStatus: hasStatus, counts: counts}
	}
	return slices.Concat(
		in("", "v1",
			of("Pod", "pods", true, true, true), of("Node", "nodes", false, true, false), of("Namespace", "namespaces", false, true, false),
			of("Event", "events", true, false, false), of("Secret", "secrets", true, false, false), of("ConfigMap", "configmaps", true, false, false),
			of("Service", "services", true, true, false), of("PersistentVolume", "persistentvolumes", false, true, false),
			of("PersistentVolumeClaim", "persistentvolumeclaims", true, true, false), of("PodTemplate", "podtemplates", true, false, true),
			of("ReplicationController", "replicationcontrollers", true, true, true)),
		in("apps", "v1",
			of("ReplicaSet", "replicasets", true, true, true), of("DaemonSet", "daemonsets", true, true, true),
			of("StatefulSet", "statefulsets", true, true, true), of("Deployment", "deployments", true, true, true)),
		in("batch", "v1", of("Job", "jobs", true, true, true)),
		in("policy", "v1", of("PodDisruptionBudget", "poddisruptionbudgets", true, true, true)),
		in("storage.k8s.io", "v1",
			of("StorageClass", "storageclasses", false, false, false), of("CSINode", "csinodes", false, false, false),
			of("VolumeAttachment", "volumeattachments", false, true, false)),
		in("scheduling.k8s.io", "v1", of("PriorityClass", "priorityclasses", false, false, false)),
		in("coordination.k8s.io", "v1", of("Lease", "leases", true, false, false)),
	)
}

// customSchema is what a CustomResourceDefinition says about one version.
type customSchema struct {
	structural *schema.Structural
	validator  validation.SchemaValidator
}

// custom are the kinds of a CustomResourceDefinition, by version.
func custom(crd *apiextensionsv1.CustomResourceDefinition) ([]*kind, error) {
	var kinds []*kind
	for _, v := range crd.Spec.Versions {
		if !v.Served {
			continue
		}
		k := &kind{
			gvk:    runtimeschema.GroupVersionKind{Group: crd.Spec.Group, Version: v.Name, Kind: crd.Spec.Names.Kind},
			plural: crd.Spec.Names.Plural, namespaced: crd.Spec.Scope == apiextensionsv1.NamespaceScoped,
			hasStatus: v.Subresources != nil && v.Subresources.Status != nil, counts: true,
		}
		var err error
		if k.schema, err = schemaOf(v.Schema); err != nil {
			return nil, fmt.Errorf("reading the schema of %s %s: %w", crd.Name, v.Name, err)
		}
		kinds = append(kinds, k)
	}
	return kinds, nil
}

func schemaOf(v *apiextensionsv1.CustomResourceValidation) (*customSchema, error) {
	if v == nil {
		return nil, nil
	}
	internal := &apiextensions.CustomResourceValidation{}
	if err := apiextensionsv1.Convert_v1_CustomResourceValidation_To_apiextensions_CustomResourceValidation(v, internal, nil); err != nil {
		return nil, err
	}
	structural, err := schema.NewStructural(internal.OpenAPIV3Schema)
	if err != nil {
		return nil, err
	}
	validator, _, err := validation.NewSchemaValidator(internal.OpenAPIV3Schema)
	if err != nil {
		return nil, err
	}
	return &customSchema{structural, validator}, nil
}

// complete drops fields that the schema does not know and fills in its defaults.
func (s *customSchema) complete(o map[string]any) {
	if s == nil {
		return
	}
	pruning.Prune(o, s.structural, true)
	defaulting.PruneNonNullableNullsWithoutDefaults(o, s.structural)
	defaulting.Default(o, s.structural)
}

func (s *customSchema) validate(o map[string]any) field.ErrorList {
	if s == nil {
		return nil
	}
	return validation.ValidateCustomResource(nil, o, s.validator)
}

// groups are the groups and versions that are served, in order.
func groups(kinds []*kind) []runtimeschema.GroupVersion {
	var all []runtimeschema.GroupVersion
	for _, k := range kinds {
		if gv := k.gvk.GroupVersion(); !slices.Contains(all, gv) {
			all = append(all, gv)
		}
	}
	slices.SortFunc(all, func(a, b runtimeschema.GroupVersion) int { return strings.Compare(a.String(), b.String()) })
	return all
}

var allVerbs = metav1.Verbs{"create", "delete", "get", "list", "patch", "update", "watch"}

// resourceList is the answer to discovery of one version.
func resourceList(kinds []*kind, gv runtimeschema.GroupVersion) *metav1.APIResourceList {
	list := &metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: gv.String()}
	add := func(k *kind, sub, kindName string, verbs metav1.Verbs) {
		list.APIResources = append(list.APIResources, metav1.APIResource{
			Name: k.plural + sub, SingularName: strings.ToLower(k.gvk.Kind), Namespaced: k.namespaced, Kind: kindName, Verbs: verbs,
		})
	}
	for _, k := range kinds {
		if k.gvk.GroupVersion() != gv {
			continue
		}
		add(k, "", k.gvk.Kind, allVerbs)
		if k.hasStatus {
			add(k, "/status", k.gvk.Kind, metav1.Verbs{"get", "patch", "update"})
		}
		if k.gvk.Kind == "Pod" {
			add(k, "/eviction", "Eviction", metav1.Verbs{"create"})
			add(k, "/binding", "Binding", metav1.Verbs{"create"})
		}
	}
	return list
}
