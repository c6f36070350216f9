// SPDX-License-Identifier: Apache-2.0

package constraint

import (
	"strconv"
)

// Interner interns label keys and their values. It only grows, and a value keeps its ID for the
// life of the Interner, so Requirements made at any time can be compared. It is not safe for
// concurrent use while it grows.
type Interner struct {
	keys map[string]*Key
	size int // keys and values
}

// NewInterner returns an empty Interner.
func NewInterner() *Interner { return &Interner{keys: map[string]*Key{}} }

// Len is how many keys and values the Interner has seen.
func (in *Interner) Len() int { return in.size }

// Key is one label key with the values seen so far.
type Key struct {
	Name   string
	values []string
	ids    map[string]int
	// numbers[i] is values[i] as an integer, where isNumber[i].
	numbers  []int64
	isNumber []bool
	interner *Interner
	number   int // of keys that the interner had before
}

// Number is how many keys the interner had before: a small number of its own.
func (k *Key) Number() int { return k.number }

// Key returns the interned key of that name.
func (in *Interner) Key(name string) *Key {
	k, ok := in.keys[name]
	if !ok {
		k = &Key{Name: name, ids: map[string]int{}, interner: in, number: len(in.keys)}
		in.keys[name] = k
		in.size++
	}
	return k
}

// Lookup returns the key of that name if it is interned. Unlike Key, it never grows the
// Interner.
func (in *Interner) Lookup(name string) (*Key, bool) {
	k, ok := in.keys[name]
	return k, ok
}

// ID returns the ID of a value of the key, and interns the value when it is new.
func (k *Key) ID(value string) int {
	if id, ok := k.ids[value]; ok {
		return id
	}
	id := len(k.values)
	n, err := strconv.ParseInt(value, 10, 64)
	k.values = append(k.values, value)
	k.numbers = append(k.numbers, n)
	k.isNumber = append(k.isNumber, err == nil)
	k.ids[value] = id
	k.interner.size++
	return id
}

// Value returns the value with that ID.
func (k *Key) Value(id int) string { return k.values[id] }
