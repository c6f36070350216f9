// SPDX-License-Identifier: Apache-2.0

package access

import (
	"fmt"
	"io"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// AgentName is of the agent's service account, and of everything that is bound to it.
const AgentName = "karve-agent"

// AgentUser is who the agent is to the API server when it runs in the namespace.
func AgentUser(namespace string) string {
	return "system:serviceaccount:" + namespace + ":" + AgentName
}

// Agent is what the agent of every node may do. Roles cannot tell one's own node from
// others; AgentObjects has a policy that does.
func Agent() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{rule("", "get", "nodes"), rule("", "patch", "nodes")}
}

// AgentObjects are the agent's service account in the namespace, its roles with their
// bindings, and the policy that keeps it to its own node and to what it has to say there:
// a stolen agent token can do no more than taint that node.
//
// The policy goes by the node that is written in a pod's token, as Kubernetes 1.32 and
// later do. Older clusters, whose tokens do not say, refuse the agent everything.
func AgentObjects(namespace string) []client.Object {
	account := &corev1.ServiceAccount{TypeMeta: kind("v1", "ServiceAccount"), ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: AgentName}}
	all := append([]client.Object{account}, everywhere(account, AgentName, Agent())...)
	// Events about nodes live in the namespace default.
	all = append(all, local(account, metav1.NamespaceDefault, AgentName, []rbacv1.PolicyRule{rule("", "create", "events")})...)
	return append(all, ownNodeOnly(namespace)...)
}

// ownNodeOnly refuses the agent every change of a node but that of its own taint and
// annotation, on the node that it runs on.
func ownNodeOnly(namespace string) []client.Object {
	of, fail := metav1.ObjectMeta{Name: AgentName}, admissionv1.Fail
	policy := &admissionv1.ValidatingAdmissionPolicy{
		TypeMeta: kind("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy"), ObjectMeta: of,
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			FailurePolicy: &fail,
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
				Operations: []admissionv1.OperationType{admissionv1.OperationAll},
				Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"*"}, Resources: []string{"nodes", "nodes/*"}},
			}}}},
			MatchConditions: []admissionv1.MatchCondition{{Name: "agent", Expression: fmt.Sprintf("request.userInfo.username == %q", AgentUser(namespace))}},
			Variables: []admissionv1.Variable{
				{Name: "taints", Expression: othersTaints("object")}, {Name: "oldTaints", Expression: othersTaints("oldObject")},
				{Name: "notes", Expression: annotations("object")}, {Name: "oldNotes", Expression: annotations("oldObject")},
			},
			Validations: []admissionv1.Validation{
				{Message: "the agent changes nodes, and nothing else of them",
					Expression: `request.operation == "UPDATE" && (!has(request.subResource) || request.subResource == "")`},
				{Message: "the agent writes to the node that its token was issued for only",
					Expression: `has(request.userInfo.extra) && "authentication.kubernetes.io/node-name" in request.userInfo.extra && ` +
						`request.userInfo.extra["authentication.kubernetes.io/node-name"].exists_one(n, n == request.name)`},
				{Message: "the agent changes no taint but karve.dev/interruption", Expression: `variables.taints == variables.oldTaints`},
				{Message: "the agent's taint evicts no pod",
					Expression: `!has(object.spec.taints) || object.spec.taints.all(t, t.key != "karve.dev/interruption" || t.effect == "NoSchedule")`},
				{Message: "the agent changes no annotation but karve.dev/not-before",
					Expression: `variables.notes.all(k, k == "karve.dev/not-before" || k in variables.oldNotes && variables.notes[k] == variables.oldNotes[k]) && ` +
						`variables.oldNotes.all(k, k == "karve.dev/not-before" || k in variables.notes)`},
				{Message: "the agent changes nothing else of a node", Expression: unchanged("metadata.labels", "metadata.finalizers", "metadata.ownerReferences",
					"spec.unschedulable", "spec.providerID", "spec.podCIDR", "spec.podCIDRs", "spec.configSource")},
			},
		},
	}
	bound := &admissionv1.ValidatingAdmissionPolicyBinding{
		TypeMeta: kind("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicyBinding"), ObjectMeta: of,
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: AgentName, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny}},
	}
	return []client.Object{policy, bound}
}

func othersTaints(of string) string {
	return fmt.Sprintf(`has(%[1]s.spec.taints) ? %[1]s.spec.taints.filter(t, t.key != "karve.dev/interruption") : []`, of)
}

func annotations(of string) string {
	return fmt.Sprintf(`has(%[1]s.metadata.annotations) ? %[1]s.metadata.annotations : {}`, of)
}

// unchanged is an expression for optional fields that stay as they are.
func unchanged(fields ...string) string {
	all := ""
	for i, f := range fields {
		if i > 0 {
			all += " && "
		}
		all += fmt.Sprintf("(has(object.%[1]s) ? has(oldObject.%[1]s) && object.%[1]s == oldObject.%[1]s : !has(oldObject.%[1]s))", f)
	}
	return all
}

// Write writes objects as one stream of YAML documents, as kubectl apply takes it.
func Write(w io.Writer, objects ...client.Object) error {
	for _, object := range objects {
		doc, err := yaml.Marshal(object)
		if err != nil {
			return fmt.Errorf("encoding %T: %w", object, err)
		}
		if _, err := fmt.Fprintf(w, "---\n%s", doc); err != nil {
			return fmt.Errorf("writing %T: %w", object, err)
		}
	}
	return nil
}
