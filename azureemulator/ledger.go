// SPDX-License-Identifier: Apache-2.0

package azureemulator

import (
	"maps"
	"net/http"
	"sync"
)

// Ledger counts the requests the emulator has answered. What a node costs in
// reads and writes is the difference between two ledgers over the nodes made.
type Ledger struct {
	// Reads are GETs of Resource Manager, Writes every other method. Token,
	// price and discovery requests are in neither.
	Reads  int `json:"reads"`
	Writes int `json:"writes"`
	// Refused were answered 4xx or 5xx; Throttled are those with 429.
	Refused   int `json:"refused"`
	Throttled int `json:"throttled"`
	// Unknown asked for a path the emulator does not serve.
	Unknown int `json:"unknown"`
	// ByOperation counts by the SDK's name: "VirtualMachines.CreateOrUpdate".
	ByOperation map[string]int `json:"byOperation"`
	// RefusedByOperation counts those of Refused likewise.
	RefusedByOperation map[string]int `json:"refusedByOperation"`
}

type ledger struct {
	mu     sync.Mutex
	counts Ledger
}

// now is the count so far.
func (l *ledger) now() Ledger {
	l.mu.Lock()
	defer l.mu.Unlock()
	counts := l.counts
	counts.ByOperation, counts.RefusedByOperation = maps.Clone(counts.ByOperation), maps.Clone(counts.RefusedByOperation)
	return counts
}

func (l *ledger) unknown() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counts.Unknown++
}

func (l *ledger) count(route *route, req *request, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.counts.ByOperation == nil {
		l.counts.ByOperation, l.counts.RefusedByOperation = map[string]int{}, map[string]int{}
	}
	l.counts.ByOperation[route.name]++
	switch {
	case route.isOpen:
	case req.http.Method == http.MethodGet:
		l.counts.Reads++
	default:
		l.counts.Writes++
	}
	if err == nil {
		return
	}
	l.counts.Refused++
	l.counts.RefusedByOperation[route.name]++
	if asError(err).Status == http.StatusTooManyRequests {
		l.counts.Throttled++
	}
}
