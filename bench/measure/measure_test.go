package measure

import (
	"testing"
	"time"
)

func TestPercentile(t *testing.T) {
	var s []Sample
	for _, n := range []int{5, 1, 4, 2, 3} {
		s = append(s, Sample{Took: time.Duration(n)})
	}
	for p, want := range map[int]time.Duration{0: 1, 50: 3, 99: 5, 100: 5} {
		if got := Percentile(s, p).Took; got != want {
			t.Errorf("percentile %d is %d, want %d", p, got, want)
		}
	}
	if got := Median(nil); got != (Sample{}) {
		t.Errorf("the median of nothing is %v", got)
	}
}

func TestOnceCountsAllocations(t *testing.T) {
	var kept []byte
	s := Once(func() { kept = make([]byte, 1<<20) })
	if s.Bytes < uint64(len(kept)) {
		t.Errorf("%d bytes counted, %d allocated", s.Bytes, len(kept))
	}
}
