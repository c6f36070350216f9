// SPDX-License-Identifier: Apache-2.0

// Package catalog is the emulator's list of VM sizes: some 1,500 real ones, with
// what each VM has, where it is sold, and for how much.
//
// The list is kept as facts in four text tables that a person can read and edit:
// sizes.txt says what the sizes of a series have, zones.txt where they are
// offered, prices.txt and spot.txt what they cost. Each opens with the form it
// takes. Most sizes follow from their series; rows naming one size hold what does
// not. The tables are parsed at first use, and a mistake in one is reported with
// its file and line, never skipped.
//
// The package knows nothing of subscriptions: quota, restrictions and stock-outs
// are the emulator's. A zero number in a Size means that the VM has none of
// it, an empty string that the API has nothing to say.
package catalog

import (
	"cmp"
	"embed"
	"fmt"
	"io/fs"
	"slices"
	"sync"
)

//go:embed sizes.txt zones.txt prices.txt spot.txt
var tables embed.FS

var embedded = sync.OnceValues(func() ([]Size, error) { return Load(tables) })

// Sizes gives every size of the embedded tables, sorted by name. The slice is the
// caller's; what the sizes point to is shared and must not be changed.
func Sizes() ([]Size, error) {
	sizes, err := embedded()
	return slices.Clone(sizes), err
}

// Regions names the regions of the embedded tables, in the tables' order.
func Regions() ([]string, error) {
	sizes, err := embedded()
	if err != nil || len(sizes) == 0 {
		return nil, err
	}
	return slices.Clone(sizes[0].regions), nil
}

// Load reads the four tables from fsys and gives every size in them, sorted by
// name. The tables must agree: each series of sizes.txt has its row in the other
// three, and no row names a size or series that sizes.txt lacks.
func Load(fsys fs.FS) ([]Size, error) {
	text, err := fs.ReadFile(fsys, sizesFile)
	if err != nil {
		return nil, fmt.Errorf("reading the size catalogue: %w", err)
	}
	sizes, err := parseSizes(string(text))
	if err != nil {
		return nil, fmt.Errorf("reading the size catalogue: %w", err)
	}
	if err := addRegions(fsys, sizes); err != nil {
		return nil, fmt.Errorf("reading the size catalogue: %w", err)
	}
	slices.SortFunc(sizes, func(a, b Size) int { return cmp.Compare(a.Name, b.Name) })
	return sizes, nil
}
