// Package judge replays plans through kube-scheduler's own filter plugins.
package judge

import (
	_ "k8s.io/kubernetes/pkg/scheduler/framework/plugins"
)
