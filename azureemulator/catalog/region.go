// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"fmt"
	"io/fs"
	"math"
	"strconv"
	"strings"
)

// addRegions fills in where the sizes are offered and what they cost there.
func addRegions(fsys fs.FS, sizes []Size) error {
	zones, err := readGrid(fsys, "zones.txt", sizes, parseZones)
	if err != nil {
		return err
	}
	prices, err := readGrid(fsys, "prices.txt", sizes, parseUSD)
	if err != nil {
		return err
	}
	spot, err := readGrid(fsys, "spot.txt", sizes, parseUSD)
	if err != nil {
		return err
	}
	if err := sameRegions(zones.regions, prices.regions, spot.regions); err != nil {
		return err
	}
	// One allocation for all: fifteen thousand small ones would be most of the work.
	n := len(zones.regions)
	offers := make([]offer, n*len(sizes))
	for i := range sizes {
		s := &sizes[i]
		s.regions, s.local = zones.regions, offers[i*n:(i+1)*n:(i+1)*n]
		addOffers(s, zones.of(s), prices.of(s), spot.of(s))
		if err := s.checkPrices(); err != nil {
			return fmt.Errorf("spot.txt: %w", err)
		}
	}
	return nil
}

// addOffers applies the rules of the tables to one size.
func addOffers(s *Size, zones entries[[]string], prices, spot entries[float64]) {
	for region := range s.regions {
		o := &s.local[region]
		o.zones, _, o.offered = zones.at(region)
		o.price.OnDemand = onDemand(s, prices, region)
		if o.price.OnDemand > 0 {
			o.price.Spot = spotOf(o.price.OnDemand, spot, region)
		}
	}
}

// onDemand is so much per vCPU, or dollars from a row for one size.
func onDemand(s *Size, prices entries[float64], region int) float64 {
	usd, literal, sold := prices.at(region)
	if !sold || literal {
		return usd
	}
	return retail(usd * float64(s.VCPUs))
}

// spotOf is a share of the on-demand price, or dollars from a row for one size.
func spotOf(onDemand float64, spot entries[float64], region int) float64 {
	usd, literal, sold := spot.at(region)
	if !sold || literal {
		return usd
	}
	return round(usd*onDemand, 6)
}

// grid is a table with a column for each region and a row for each series,
// followed by rows for the sizes that their series does not describe.
type grid[T any] struct {
	regions []string
	rows    map[string][]cell[T]
}

// cell is one entry: a value, "-" for not there, or "." for what the series says.
type cell[T any] struct {
	value  T
	absent bool
	follow bool
}

// entries are the rows of a grid that tell about one size.
type entries[T any] struct {
	own    [2][]cell[T] // the size's and its parent's; nil where there is none
	series []cell[T]
}

func (g grid[T]) of(s *Size) entries[T] {
	e := entries[T]{series: g.rows[s.Series]}
	e.own[0] = g.rows[s.Name]
	if s.Parent != "" {
		e.own[1] = g.rows[s.Parent]
	}
	return e
}

// at finds the entry for a region: in the size's own row, then its parent's, then
// its series'. literal tells that it came from a row for one size. The value is
// zero where there is none.
func (e entries[T]) at(region int) (v T, literal, there bool) {
	for _, row := range e.own {
		if row != nil && !row[region].follow {
			return row[region].value, true, !row[region].absent
		}
	}
	c := e.series[region]
	return c.value, false, !c.absent
}

// gridReader reads one table, line by line.
type gridReader[T any] struct {
	grid[T]
	file  string
	parse func(string) (T, error)
	known map[string]bool
}

func readGrid[T any](fsys fs.FS, file string, sizes []Size, parse func(string) (T, error)) (grid[T], error) {
	text, err := fs.ReadFile(fsys, file)
	if err != nil {
		return grid[T]{}, err
	}
	r := gridReader[T]{grid[T]{rows: map[string][]cell[T]{}}, file, parse, map[string]bool{}}
	for i := range sizes {
		r.known[sizes[i].Name], r.known[sizes[i].Series] = true, true
	}
	n := 0
	for line := range strings.Lines(string(text)) {
		n++
		if err := r.line(strings.Fields(line)); err != nil {
			return grid[T]{}, fmt.Errorf("%s:%d: %w", file, n, err)
		}
	}
	return r.grid, r.complete(sizes)
}

func (r *gridReader[T]) line(words []string) error {
	switch {
	case len(words) == 0, words[0] == "#":
		return nil
	case words[0] == "regions" && r.regions == nil:
		r.regions = words[1:]
		return nil
	case !r.known[words[0]]:
		return fmt.Errorf("%s has no size or series %s", sizesFile, words[0])
	case r.rows[words[0]] != nil:
		return fmt.Errorf("a second row for %s", words[0])
	case len(words)-1 != len(r.regions):
		return fmt.Errorf("%s has %d entries for %d regions", words[0], len(words)-1, len(r.regions))
	}
	row, err := r.row(words[1:], strings.Contains(words[0], "#"))
	if err != nil {
		return fmt.Errorf("%s: %w", words[0], err)
	}
	r.rows[words[0]] = row
	return nil
}

func (r *gridReader[T]) row(words []string, series bool) ([]cell[T], error) {
	row := make([]cell[T], len(words))
	for i, word := range words {
		switch {
		case word == "=" && i > 0:
			row[i] = row[0]
		case word == "-":
			row[i].absent = true
		case word == "." && !series:
			row[i].follow = true
		default:
			v, err := r.parse(word)
			if err != nil {
				return nil, fmt.Errorf("in %s: %w", r.regions[i], err)
			}
			row[i].value = v
		}
	}
	return row, nil
}

// complete demands a row for every series.
func (r *gridReader[T]) complete(sizes []Size) error {
	for i := range sizes {
		if r.rows[sizes[i].Series] == nil {
			return fmt.Errorf("%s has no row for series %s", r.file, sizes[i].Series)
		}
	}
	return nil
}

func sameRegions(zones, prices, spot []string) error {
	for _, other := range [][]string{prices, spot} {
		if strings.Join(zones, " ") != strings.Join(other, " ") {
			return fmt.Errorf("the regional tables name different regions: %v and %v", zones, other)
		}
	}
	return nil
}

func parseUSD(word string) (float64, error) {
	v, err := strconv.ParseFloat(word, 64)
	if err != nil || !(v > 0) || math.IsInf(v, 0) { // !(v > 0) finds NaN too
		return 0, fmt.Errorf("%q is not a positive number", word)
	}
	return v, nil
}

// parseZones reads "123" as three zones and "0" as none.
func parseZones(word string) ([]string, error) {
	if word == "0" {
		return nil, nil
	}
	for i := range len(word) {
		if word[i] < '1' || word[i] > '9' || (i > 0 && word[i] <= word[i-1]) {
			return nil, fmt.Errorf("%q is not zone numbers in rising order", word)
		}
	}
	return strings.Split(word, ""), nil
}
