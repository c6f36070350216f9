// SPDX-License-Identifier: Apache-2.0

// Package measure times one operation at a time, with what it allocates. It
// collects garbage before each, so that no run pays for the one before. Its only
// statistics are the best, the median and percentiles: the machine may be shared,
// and a mean of few runs says little there.
package measure

import (
	"cmp"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Sample is one run.
type Sample struct {
	Took time.Duration
	// CPU is what all threads of the process computed meanwhile, the collector's
	// included: others on the machine do not lengthen it. Zero where the system does not tell.
	CPU time.Duration
	Heap
}

// Heap is what was allocated, freed or not.
type Heap struct{ Bytes, Objects uint64 }

// Once runs op.
func Once(op func()) Sample {
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	computed, start := cpu(), time.Now()
	op()
	took := time.Since(start)
	computed = cpu() - computed
	runtime.ReadMemStats(&after)
	return Sample{Took: took, CPU: computed, Heap: Heap{after.TotalAlloc - before.TotalAlloc, after.Mallocs - before.Mallocs}}
}

// Light runs op and measures its time alone, with garbage collected when Go sees fit: one of
// many decisions, as a controller makes them.
func Light(op func()) Sample {
	computed, start := cpu(), time.Now()
	op()
	return Sample{Took: time.Since(start), CPU: cpu() - computed}
}

// allocated is what the process has allocated so far. Unlike runtime.ReadMemStats
// it does not stop the world, so it may be asked between measurements of
// microseconds.
func allocated() Heap {
	samples := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}, {Name: "/gc/heap/allocs:objects"}}
	metrics.Read(samples)
	return Heap{samples[0].Value.Uint64(), samples[1].Value.Uint64()}
}

// Series adds up what operations too short for a collection each allocate.
type Series struct {
	Samples []Sample
	sum     Heap
}

// Once runs op, with garbage collected when Go sees fit.
func (s *Series) Once(op func()) {
	before := allocated()
	start := time.Now()
	op()
	s.Samples = append(s.Samples, Sample{Took: time.Since(start)})
	after := allocated()
	s.sum.Bytes += after.Bytes - before.Bytes
	s.sum.Objects += after.Objects - before.Objects
}

// Each is the mean that one operation allocated. Of a single one the runtime does not
// tell: it counts small objects only once their span is full.
func (s *Series) Each() Heap {
	n := uint64(max(1, len(s.Samples)))
	return Heap{s.sum.Bytes / n, s.sum.Objects / n}
}

// Patience says how often an operation is run.
type Patience struct {
	Runs int           // how often, but
	Most time.Duration // not once more after this, and
	Less time.Duration // once more before this: the best of a few runs of milliseconds says little
}

// More reports whether to run once more, after so many runs since start. The first run is always made.
func (p Patience) More(runs int, start time.Time) bool {
	since := time.Since(start)
	return runs == 0 || since < p.Less || runs < p.Runs && since < p.Most
}

// Best returns the fastest sample: the one least disturbed. No samples give a zero one.
func Best(samples []Sample) Sample { return Percentile(samples, 0) }

// Median returns the sample of median time; of two the slower.
func Median(samples []Sample) Sample { return Percentile(samples, 50) }

// Percentile returns the smallest sample that at least p percent of all do not exceed in time.
func Percentile(samples []Sample, p int) Sample {
	if len(samples) == 0 {
		return Sample{}
	}
	sorted := slices.SortedFunc(slices.Values(samples), func(a, b Sample) int { return cmp.Compare(a.Took, b.Took) })
	return sorted[min(len(sorted)-1, len(sorted)*p/100)]
}

// Held is memory that is in use for good.
type Held struct {
	Heap     uint64 // live objects, bytes
	Resident uint64 // of the process; zero where the system does not tell
}

// Hold collects garbage, returns what is free to the system and reads what is left.
func Hold() Held {
	runtime.GC() // finalizers of this one may free more in the next
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return Held{Heap: m.HeapAlloc, Resident: resident()}
}

// resident reads the second number of Linux' statm: pages in memory.
func resident() uint64 {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	words := strings.Fields(string(text))
	if len(words) < 2 {
		return 0
	}
	pages, err := strconv.ParseUint(words[1], 10, 64)
	if err != nil {
		return 0
	}
	return pages * uint64(os.Getpagesize())
}
