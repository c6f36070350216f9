// SPDX-License-Identifier: Apache-2.0

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
	if Best(s).Took != 1 || Median(s).Took != 3 {
		t.Errorf("best %d, median %d", Best(s).Took, Median(s).Took)
	}
	if got := Median(nil); got != (Sample{}) {
		t.Errorf("the median of nothing is %v", got)
	}
}

func TestPatience(t *testing.T) {
	p := Patience{Runs: 9, Most: time.Hour, Less: time.Minute}
	for _, c := range []struct {
		runs  int
		since time.Duration
		want  bool
	}{
		{0, 2 * time.Hour, true}, {1, 2 * time.Hour, false},
		{8, 30 * time.Minute, true}, {9, 30 * time.Minute, false},
		{1000, 30 * time.Second, true},
	} {
		if got := p.More(c.runs, time.Now().Add(-c.since)); got != c.want {
			t.Errorf("after %d runs in %v: %t, want %t", c.runs, c.since, got, c.want)
		}
	}
}

func TestOnceCountsAllocations(t *testing.T) {
	var kept []byte
	s := Once(func() { kept = make([]byte, 1<<20) })
	if s.CPU < 0 {
		t.Errorf("%v computed", s.CPU)
	}
	if s.Bytes < uint64(len(kept)) || s.Objects == 0 {
		t.Errorf("%+v counted, %d bytes allocated", s, len(kept))
	}
}

func TestSeriesCountsTheMean(t *testing.T) {
	var s Series
	var kept [10][]byte
	for i := range kept {
		s.Once(func() { kept[i] = make([]byte, 1<<20) })
	}
	if each := s.Each(); len(s.Samples) != 10 || each.Bytes < 1<<20 || each.Bytes > 2<<20 {
		t.Errorf("%d samples, %+v each", len(s.Samples), each)
	}
}

func TestHoldSeesWhatIsKept(t *testing.T) {
	before := Hold()
	kept := make([]byte, 64<<20)
	for i := range kept {
		kept[i] = 1
	}
	after := Hold()
	if grown := after.Heap - before.Heap; grown < 60<<20 {
		t.Errorf("the heap grew by %d", grown)
	}
	if before.Resident > 0 && after.Resident < before.Resident+48<<20 {
		t.Errorf("resident: %d before, %d after", before.Resident, after.Resident)
	}
	kept[0]++ // alive until here
}
