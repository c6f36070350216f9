// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/karve-dev/karve/engine/constraint"
)

// knows reports whether any offering, pool or node has the label.
func (w *Snapshot) knows(k *constraint.Key) bool {
	if w.labelsInUse[k] > 0 {
		return true
	}
	for _, m := range w.Catalogs {
		if _, own := m.Base.Get(k); own || m.Catalog.HasLabel(k) {
			return true
		}
	}
	return false
}

// nearest is the known label whose name is most like k's, the likely meaning of a typo;
// empty when none is like it.
func (w *Snapshot) nearest(k *constraint.Key) string {
	best, least := "", mostMistakes+1
	for _, name := range w.vocabulary() {
		if d := mistakes(k.Name, name); d < least {
			best, least = name, d
		}
	}
	return best
}

// vocabulary lists the labels that offerings, pools and nodes have, sorted.
func (w *Snapshot) vocabulary() []string {
	names := map[string]bool{}
	for k := range w.labelsInUse {
		names[k.Name] = true
	}
	for _, m := range w.Catalogs {
		for _, q := range m.Base {
			names[q.Key.Name] = true
		}
		for k := range m.Catalog.Keys() {
			names[k.Name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// mostMistakes is the largest number of wrong letters that counts as a typo.
const mostMistakes = 2

// mistakes counts how many letters of a label key were left out, added, changed or swapped;
// it is more than mostMistakes when the keys are not alike. Prefix and name are compared
// separately, so keys are not alike merely because they share a domain. A name without its
// prefix is one mistake.
func mistakes(a, b string) int {
	prefixA, nameA := cut(a)
	prefixB, nameB := cut(b)
	if nameA == nameB && (prefixA == "" || prefixB == "") {
		return 1
	}
	name, prefix := distance(nameA, nameB), distance(prefixA, prefixB)
	if name > min(mostMistakes, len(nameA)/3) || name+prefix > mostMistakes {
		return mostMistakes + 1
	}
	return name + prefix
}

func cut(key string) (prefix, name string) {
	i := strings.LastIndexByte(key, '/')
	return key[:i+1], key[i+1:]
}

// distance is the edit distance with swaps of adjacent letters (optimal string alignment).
// Strings whose lengths differ by more than mostMistakes are simply far apart.
func distance(a, b string) int {
	if a == b {
		return 0
	}
	if d := len(a) - len(b); max(d, -d) > mostMistakes {
		return mostMistakes + 1
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

// first keeps the mostListed largest counts, ties by name.
func first(counts map[string]int64) map[string]int64 {
	if len(counts) <= mostListed {
		return counts
	}
	names := slices.SortedFunc(maps.Keys(counts), func(x, y string) int {
		return cmp.Or(cmp.Compare(counts[y], counts[x]), cmp.Compare(x, y))
	})
	for _, name := range names[mostListed:] {
		delete(counts, name)
	}
	return counts
}
