// Package upstream runs Karpenter's own scheduler on the bench's inputs.
package upstream

import (
	_ "github.com/karve-dev/karve/engine/pack"
	_ "github.com/karve-dev/karve/kube"
	_ "sigs.k8s.io/controller-runtime/pkg/client/fake"
	_ "sigs.k8s.io/karpenter/pkg/controllers/provisioning"
	_ "sigs.k8s.io/karpenter/pkg/controllers/provisioning/scheduling"
)
