// SPDX-License-Identifier: Apache-2.0

package kube

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/quantity"
)

// Converter converts many pods that were created from few templates. Equal parts are made once
// and shared between the results, so they must not be changed. Sharing depends on the pod's
// content, never on its owner. The zero value is ready to use, a nil Converter shares nothing;
// it is not safe for concurrent use.
type Converter struct {
	amounts    map[usualAmounts]quantity.Amounts
	labels     map[[2]string]cluster.Term // by key and value
	namespaces map[string][]string
}

// shareable is how many different values of one kind a Converter keeps before it starts over: a
// cluster whose pods all differ must not fill the memory with them.
const shareable = 1 << 14

// keep puts a value into a table, which it makes if needed, and returns the value.
func keep[K comparable, V any](table *map[K]V, key K, v V) V {
	if *table == nil || len(*table) >= shareable {
		*table = map[K]V{}
	}
	(*table)[key] = v
	return v
}

// Shared is how many values are kept for sharing.
func (k *Converter) Shared() int { return len(k.amounts) + len(k.labels) + len(k.namespaces) }

// requests is the function Requests.
func (k *Converter) requests(p *corev1.Pod) quantity.Amounts {
	sum, ok := plainSum(p)
	switch {
	case !ok:
		return schedulerRequests(p)
	case k == nil || sum.others != nil:
		return sum.amounts()
	}
	if a, ok := k.amounts[sum.usual]; ok {
		return a
	}
	return keep(&k.amounts, sum.usual, sum.amounts())
}

// oneLabel is the rule that requires the only label of the map.
func (k *Converter) oneLabel(labels map[string]string) cluster.Term {
	if k == nil {
		return appendLabels(nil, labels)
	}
	var label [2]string
	for key, value := range labels {
		label = [2]string{key, value}
	}
	if t, ok := k.labels[label]; ok {
		return t
	}
	return keep(&k.labels, label, appendLabels(nil, labels))
}

// namespace is a list with that one namespace.
func (k *Converter) namespace(name string) []string {
	if k == nil {
		return []string{name}
	}
	if list, ok := k.namespaces[name]; ok {
		return list
	}
	return keep(&k.namespaces, name, []string{name})
}
