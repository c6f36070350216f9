// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"unsafe"
)

// sizes are how many elements all maps, slices, strings' owners and channels hold together,
// by the struct and the field that holds them ("cluster.podSelectors.byKey"). A name that does not
// depend on the way to it is the same however often and in whatever order things are found.
type sizes map[string]int

// reach counts everything that can be reached from the roots. Nothing may change meanwhile.
// What a closure holds cannot be seen; the heap tells of that (see heap_test.go).
func reach(skip func(reflect.Type) bool, roots ...any) sizes {
	w := &walker{found: sizes{}, seen: map[visit]bool{}, skip: skip}
	for _, root := range roots {
		v := reflect.ValueOf(root)
		w.walk(v, v.Type().String())
	}
	return w.found
}

// grown lists the containers that hold more than before, the worst first. Slack is how much
// more those may hold whose names begin with a key of it.
func (s sizes) grown(before sizes, slack map[string]int) []string {
	var names []string
	for name := range s {
		most := before[name]
		for prefix, more := range slack {
			if strings.HasPrefix(name, prefix) {
				most += more
			}
		}
		if s[name] > most {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(s[b]-before[b], s[a]-before[a]), cmp.Compare(a, b))
	})
	for i, name := range names {
		names[i] = fmt.Sprintf("%s holds %d, it held %d", name, s[name], before[name])
	}
	return names
}

type walker struct {
	found sizes
	seen  map[visit]bool
	skip  func(reflect.Type) bool
}

type visit struct {
	at unsafe.Pointer
	of reflect.Type
}

// walk counts v and what it leads to; owner names the field that holds it.
func (w *walker) walk(v reflect.Value, owner string) {
	if !v.IsValid() || w.skip(v.Type()) {
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() && w.first(v.UnsafePointer(), v.Type()) {
			w.walk(v.Elem(), owner)
		}
	case reflect.Interface:
		if !v.IsNil() {
			w.walk(v.Elem(), owner)
		}
	case reflect.Struct:
		w.fields(v, owner)
	case reflect.Map:
		if !v.IsNil() && w.first(v.UnsafePointer(), v.Type()) {
			w.found[owner] += v.Len()
			for entry := v.MapRange(); entry.Next(); {
				w.walk(entry.Key(), owner)
				w.walk(entry.Value(), owner)
			}
		}
	case reflect.Slice:
		if v.Cap() > 0 && w.first(v.UnsafePointer(), v.Type()) {
			w.found[owner] += v.Len()
			w.elements(v, owner)
		}
	case reflect.Array:
		w.elements(v, owner)
	case reflect.Chan:
		w.found[owner] += v.Len()
	}
}

func (w *walker) first(at unsafe.Pointer, of reflect.Type) bool {
	known := w.seen[visit{at, of}]
	w.seen[visit{at, of}] = true
	return !known
}

func (w *walker) elements(v reflect.Value, owner string) {
	if flat(v.Type().Elem()) {
		return
	}
	for i := range v.Len() {
		w.walk(v.Index(i), owner)
	}
}

// flat reports whether values of the type lead nowhere.
func flat(t reflect.Type) bool { return t.Kind() <= reflect.Complex128 || t.Kind() == reflect.String }

func (w *walker) fields(v reflect.Value, owner string) {
	t := v.Type()
	switch {
	case t == reflect.TypeFor[sync.Map]():
		if v.CanAddr() {
			w.concurrent((*sync.Map)(v.Addr().UnsafePointer()), owner)
		}
		return
	case strings.HasPrefix(t.String(), "atomic.Pointer["):
		if v.CanAddr() { // its field is an unsafe.Pointer
			loaded := reflect.NewAt(t, v.Addr().UnsafePointer()).MethodByName("Load").Call(nil)
			w.walk(loaded[0], owner)
		}
		return
	}
	for i := range t.NumField() {
		name := owner
		if t.Name() != "" {
			generic, _, _ := strings.Cut(t.String(), "[")
			name = generic + "." + t.Field(i).Name
		}
		w.walk(v.Field(i), name)
	}
}

func (w *walker) concurrent(m *sync.Map, owner string) {
	m.Range(func(k, x any) bool {
		w.found[owner]++
		w.walk(reflect.ValueOf(k), owner)
		w.walk(reflect.ValueOf(x), owner)
		return true
	})
}

// The counts see through everything that Go hides elements in.
func TestReachSeesWhatIsHidden(t *testing.T) {
	type inner struct{ list []int }
	type outer struct {
		byName map[string]*inner
		any    any
		shared sync.Map
		queue  chan int
	}
	held := &inner{list: make([]int, 3)}
	x := &outer{byName: map[string]*inner{"a": held, "b": held}, any: map[int]int{1: 1}, queue: make(chan int, 4)}
	x.shared.Store("a", &inner{list: make([]int, 4)})
	x.queue <- 1
	got := reach(func(reflect.Type) bool { return false }, x)
	want := sizes{"soak.outer.byName": 2, "soak.inner.list": 7, "soak.outer.any": 1, "soak.outer.shared": 1, "soak.outer.queue": 1}
	if !maps.Equal(got, want) {
		t.Errorf("counted %v, want %v", got, want)
	}
	x.byName["c"] = nil
	again := reach(func(reflect.Type) bool { return false }, x)
	if grown := again.grown(got, map[string]int{"soak.inner": 9}); !slices.Equal(grown, []string{"soak.outer.byName holds 3, it held 2"}) {
		t.Errorf("grown %q", grown)
	}
}
