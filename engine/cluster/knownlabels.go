// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/karve-dev/karve/engine/constraint"
)

// knowsLabel reports whether any offering, pool or node has the label.
func (s *Snapshot) knowsLabel(k *constraint.Key) bool {
	if s.nodeStore.nodeLabelCounts[k] > 0 {
		return true
	}
	for _, c := range s.PoolCatalogs {
		if _, own := c.NodeRequirements.Get(k); own || c.Catalog.HasLabel(k) {
			return true
		}
	}
	return false
}

// nearestLabel is the known label whose name is most like k's, the likely meaning of a typo;
// empty when none is like it.
func (s *Snapshot) nearestLabel(k *constraint.Key) string {
	best, least := "", maxTypos+1
	for _, name := range s.knownLabels() {
		if d := typos(k.Name, name); d < least {
			best, least = name, d
		}
	}
	return best
}

// knownLabels lists the labels that offerings, pools and nodes have, sorted.
func (s *Snapshot) knownLabels() []string {
	names := map[string]bool{}
	for k := range s.nodeStore.nodeLabelCounts {
		names[k.Name] = true
	}
	for _, c := range s.PoolCatalogs {
		for _, q := range c.NodeRequirements {
			names[q.Key.Name] = true
		}
		for k := range c.Catalog.Keys() {
			names[k.Name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// maxTypos is the largest number of wrong letters that counts as a typo.
const maxTypos = 2

// typos counts how many letters of a label key were left out, added, changed or swapped;
// it is more than maxTypos when the keys are not alike. Prefix and name are compared
// separately, so keys are not alike merely because they share a domain. A name without its
// prefix is one typo.
func typos(a, b string) int {
	prefixA, nameA := splitPrefix(a)
	prefixB, nameB := splitPrefix(b)
	if nameA == nameB && (prefixA == "" || prefixB == "") {
		return 1
	}
	name, prefix := editDistance(nameA, nameB), editDistance(prefixA, prefixB)
	if name > min(maxTypos, len(nameA)/3) || name+prefix > maxTypos {
		return maxTypos + 1
	}
	return name + prefix
}

func splitPrefix(key string) (prefix, name string) {
	i := strings.LastIndexByte(key, '/')
	return key[:i+1], key[i+1:]
}

// editDistance is the edit distance with swaps of adjacent letters (optimal string alignment).
// Strings whose lengths differ by more than maxTypos are simply far apart.
func editDistance(a, b string) int {
	if a == b {
		return 0
	}
	if d := len(a) - len(b); max(d, -d) > maxTypos {
		return maxTypos + 1
	}
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			changed := last[j-1]
			if a[i-1] != b[j-1] {
				changed++
			}
			row[j] = min(changed, last[j]+1, row[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}

// largestCounts keeps the maxListed largest counts, ties by name.
func largestCounts(counts map[string]int64) map[string]int64 {
	if len(counts) <= maxListed {
		return counts
	}
	names := slices.SortedFunc(maps.Keys(counts), func(x, y string) int {
		return cmp.Or(cmp.Compare(counts[y], counts[x]), cmp.Compare(x, y))
	})
	for _, name := range names[maxListed:] {
		delete(counts, name)
	}
	return counts
}
