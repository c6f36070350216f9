// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"flag"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// generations is how many generations each soak goes through; zero leaves it to the test.
// A seed makes another cluster of them.
var (
	generations = flag.Int("generations", 0, "generations of objects in each soak; zero is as many as `make test` has time for")
	seed        = flag.Uint64("seed", 1, "what is drawn at random")
)

// perHalf is the number of generations in half a soak.
func perHalf(usually int) int {
	if *generations > 0 {
		return max(1, *generations/2)
	}
	return usually
}

// soak lets generations come and go, and after each half waits until all is over. What is
// held then must be the same after both.
type soak struct {
	// live lets one generation come and go; rest lets enough time pass for whatever is
	// remembered for a while to be forgotten.
	live func(generation int)
	rest func()
	// roots live as long as the process; skipped are types that are not karve's.
	roots   []any
	skipped []reflect.Type
	// half is the number of generations in half the soak.
	half int
	// slack is how many elements more containers may hold, by the beginnings of their names: a
	// cache of fixed size may still be filling. Bytes is how much more memory all may hold.
	slack map[string]int
	bytes uint64
}

// check soaks, and compares what is held.
func (s soak) check(t *testing.T) {
	t.Helper()
	for g := range s.half {
		s.live(g)
	}
	s.rest()
	before, held := reach(s.skips, s.roots...), heap()
	for g := range s.half {
		s.live(s.half + g)
	}
	s.rest()
	after, holds := reach(s.skips, s.roots...), heap()
	t.Logf("%d generations: live heap %d KiB after the first half, %d KiB in the end", 2*s.half, held>>10, holds>>10)
	for _, line := range after.grown(before, s.slack) {
		t.Errorf("seed %d: %s %d generations earlier", *seed, line, s.half)
	}
	if holds > held+s.bytes {
		t.Errorf("seed %d: %d KiB are held, %d KiB were %d generations earlier", *seed, holds>>10, held>>10, s.half)
	}
	runtime.KeepAlive(s.roots)
}

// heap is how much memory is in use once all garbage is gone.
func heap() uint64 {
	runtime.GC()
	runtime.GC() // what only finalizers still held
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// skips reports whether a type is not karve's to prune: the API, tests and logs.
func (s soak) skips(t reflect.Type) bool {
	for _, other := range s.skipped {
		if t == other {
			return true
		}
	}
	if strings.HasPrefix(strings.TrimLeft(t.String(), "*"), "azureemulator.") {
		return true
	}
	switch t {
	case reflect.TypeFor[client.Client](), reflect.TypeFor[client.WithWatch](), reflect.TypeFor[client.Reader](), reflect.TypeFor[logr.Logger](),
		reflect.TypeFor[testing.TB](), reflect.TypeFor[*corev1.Pod](), reflect.TypeFor[schema.GroupVersionKind]():
		return true
	}
	return false
}
