// SPDX-License-Identifier: Apache-2.0

// Package pricelist holds retail prices of VM sizes as of the month that List.Month names. They
// are used for sizes that Azure's own list lacks, for all sizes while it cannot be read, and to check
// its prices whenever it is read.
//
// The prices are never current, and callers that use them must say so. The table is data, written
// by this package's test from azureemulator/catalog (`go test -rewrite`). The zero
// Price means that a size has none.
package pricelist

import (
	_ "embed" // the table
	"fmt"
	"strconv"
	"strings"
)

// Price is the price of a size in US dollars per hour. Spot is zero when the size is not
// available as spot.
type Price struct{ OnDemand, Spot float64 }

// A List is the prices of one region.
type List struct {
	// Region is the requested region or, when the table lacks it, the one used instead.
	Region string
	// Month is the month of the prices, such as 2026-08.
	Month  string
	Prices map[string]Price // by size
}

//go:embed prices.txt
var table string

// In returns the list of a region, or of the table's first region when the table lacks it. An
// error is a bug in the table.
func In(region string) (List, error) { return read(table, region) }

// read parses one column of a table: a line of regions, then one for each size.
func read(table, region string) (List, error) {
	list := List{Prices: map[string]Price{}}
	column := -1
	for line := range strings.Lines(table) {
		words := strings.Fields(line)
		switch {
		case len(words) == 0 || strings.HasPrefix(words[0], "#"):
		case words[0] == "of" && len(words) == 2:
			list.Month = words[1]
		case words[0] == "regions" && len(words) > 1:
			column, list.Region = columnOf(words[1:], region)
		case column < 0 || len(words) <= column+1:
			return List{}, fmt.Errorf("built-in prices: line %q has no column for %s", strings.TrimSpace(line), region)
		default:
			price, err := cell(words[1], words[column+1])
			if err != nil {
				return List{}, fmt.Errorf("built-in prices: %s: %w", words[0], err)
			}
			if price.OnDemand > 0 {
				list.Prices[words[0]] = price
			}
		}
	}
	return list, nil
}

func columnOf(regions []string, region string) (int, string) {
	for i, name := range regions {
		if strings.EqualFold(name, region) {
			return i, name
		}
	}
	return 0, regions[0]
}

// cell parses "0.192/21": dollars on demand, and spot in hundredths of that.
func cell(first, text string) (Price, error) {
	if text == "=" {
		text = first
	}
	if text == "-" {
		return Price{}, nil
	}
	dollars, share, hasSpot := strings.Cut(text, "/")
	onDemand, err := strconv.ParseFloat(dollars, 64)
	if err != nil || !hasSpot {
		return Price{OnDemand: onDemand}, err
	}
	percent, err := strconv.ParseFloat(share, 64)
	return Price{OnDemand: onDemand, Spot: onDemand * percent / 100}, err
}
