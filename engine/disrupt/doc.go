// Package disrupt decides which nodes go, and what takes their place: because they are
// empty, drifted, past their life, or because the cluster would be cheaper without them.
//
// It is pure like all of engine: what it knows is in its arguments. It works by supposing
// moves in the World (cluster.WhatIf) and asking pack where the pods would go; the World is
// left as it was. Every node that stays gets a reason.
//
// It refuses to act, to read clocks and to wait. The zero Cluster has no nodes; the zero
// Settings are karve's rules without any threshold.
package disrupt
