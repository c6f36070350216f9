// SPDX-License-Identifier: Apache-2.0

package azureemulator

import (
	"maps"
	"sync"
)

// strikes counts how often each fault of the catalogue has struck: requests that were answered
// otherwise because of it, and what else it has done.
type strikes struct {
	mu     sync.Mutex
	byName map[string]int
}

func (s *strikes) note(fault string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byName == nil {
		s.byName = map[string]int{}
	}
	s.byName[fault]++
}

func (s *strikes) counts() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.byName)
}
