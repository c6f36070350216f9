// Package measure times one operation at a time, with what it allocates. It
// collects garbage before each, so that no run pays for the one before. Its only
// statistics are the median and the percentile: the machine may be shared, and a
// mean of few runs says little there.
package measure

import (
	"cmp"
	"runtime"
	"runtime/metrics"
	"slices"
	"time"
)

// Sample is one run.
type Sample struct {
	Took  time.Duration
	Bytes uint64 // allocated in the run, freed or not
}

// Once runs op.
func Once(op func()) Sample {
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	op()
	took := time.Since(start)
	runtime.ReadMemStats(&after)
	return Sample{Took: took, Bytes: after.TotalAlloc - before.TotalAlloc}
}

// Median returns the sample of median time; of two the slower. No samples give a zero one.
func Median(samples []Sample) Sample { return Percentile(samples, 50) }

// Percentile returns the smallest sample that at least p percent of all do not exceed in time.
func Percentile(samples []Sample, p int) Sample {
	if len(samples) == 0 {
		return Sample{}
	}
	sorted := slices.SortedFunc(slices.Values(samples), func(a, b Sample) int { return cmp.Compare(a.Took, b.Took) })
	return sorted[min(len(sorted)-1, len(sorted)*p/100)]
}

// Heap is what is in use after a collection, in bytes.
func Heap() uint64 {
	runtime.GC()
	runtime.GC() // finalizers of the first may free more
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// Allocated is what the process has allocated so far, freed or not. Unlike
// runtime.ReadMemStats it does not stop the world, so it may be asked between
// measurements of microseconds.
func Allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
