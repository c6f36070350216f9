package catalog

import (
	"fmt"
	"io/fs"
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
	for i := range sizes {
		s := &sizes[i]
		s.regions = zones.regions
		s.local = make([]offer, len(s.regions))
		for region := range s.regions {
			o := &s.local[region]
			o.zones, _, o.offered = zones.at(s, region)
			o.price = priceOf(s, prices, spot, region)
		}
	}
	return nil
}

// priceOf applies the two rules of the price list: on-demand is so much per vCPU,
// spot so much of on-demand. Literal rows are dollars and stand as they are.
func priceOf(s *Size, prices, spot grid[float64], region int) Price {
	var p Price
	usd, literal, sold := prices.at(s, region)
	if !sold {
		return p
	}
	p.OnDemand = usd
	if !literal {
		p.OnDemand = retail(usd * float64(s.VCPUs))
	}
	usd, literal, sold = spot.at(s, region)
	if sold && !literal {
		usd = round(usd*p.OnDemand, 6)
	}
	p.Spot = usd
	return p
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

// at finds the entry for a size: its own row, then its parent's, then its
// series'. literal tells that it came from a row for one size.
func (g grid[T]) at(s *Size, region int) (v T, literal, there bool) {
	for _, name := range []string{s.Name, s.Parent} {
		if row := g.rows[name]; row != nil && !row[region].follow {
			return row[region].value, true, !row[region].absent
		}
	}
	c := g.rows[s.Series][region]
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
	case words[0] == "regions":
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
	if err != nil || v <= 0 {
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
