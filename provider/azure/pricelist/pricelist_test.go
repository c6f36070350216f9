// SPDX-License-Identifier: Apache-2.0

package pricelist

import (
	"flag"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/karve-dev/karve/azureemulator/catalog"
)

var rewrite = flag.Bool("rewrite", false, "write the table anew from the catalogue")

const (
	file = "prices.txt"
	// month is that of the newer of the catalogue's two sources of prices.
	month = "2026-08"
	title = `# Retail prices of VM sizes: dollars per hour on demand, and spot in percent of that. Linux, pay as you go.
#   =   as in the first region      -   no price
# Written by "go test ./provider/azure/pricelist -rewrite" from the catalogue of sizes and prices.
`
)

// The table has the catalogue's price of every size that a node could have, to the percent for
// spot.
func TestTableIsTheCatalogues(t *testing.T) {
	want := render(t)
	if *rewrite {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s is not what the catalogue says: run with -rewrite", file)
	}
}

func render(t *testing.T) string {
	t.Helper()
	regions, err := catalog.Regions()
	if err != nil {
		t.Fatal(err)
	}
	sizes, err := catalog.Sizes()
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	fmt.Fprintf(&out, "%sof %s\nregions %s\n", title, month, strings.Join(regions, " "))
	for _, size := range sizes {
		if row := rowOf(size, regions); row != "" && couldBeNode(size) {
			out.WriteString(size.Name + row + "\n")
		}
	}
	return out.String()
}

// couldBeNode leaves out sizes that are never launched, to keep the table small.
func couldBeNode(size catalog.Size) bool {
	return size.VCPUs >= 2 && size.MemoryGiB >= 3.5 && size.Parent == "" && size.Confidential == ""
}

// rowOf is a line's cells; empty where no region has a price.
func rowOf(size catalog.Size, regions []string) string {
	row, first, priced := "", "", false
	for _, region := range regions {
		text := "-"
		if price, ok := size.PriceIn(region); ok {
			priced = true
			text = strconv.FormatFloat(price.OnDemand, 'f', -1, 64)
			if price.Spot > 0 {
				text += "/" + strconv.Itoa(max(1, int(math.Round(100*price.Spot/price.OnDemand))))
			}
		}
		switch first {
		case "":
			first = text
		case text:
			text = "="
		}
		row += " " + text
	}
	if !priced {
		return ""
	}
	return row
}

func TestIn(t *testing.T) {
	for region, want := range map[string]string{"eastus": "eastus", "WestEurope": "westeurope", "moonbase": "eastus"} {
		list, err := In(region)
		if err != nil || list.Region != want || list.Month != month || len(list.Prices) < 500 {
			t.Errorf("%s: %d prices of %s, %s, %v", region, len(list.Prices), list.Region, list.Month, err)
		}
		for size, p := range list.Prices {
			if p.OnDemand <= 0 || p.OnDemand > 1000 || p.Spot < 0 || p.Spot > p.OnDemand {
				t.Errorf("%s: %s costs %v", region, size, p)
			}
		}
	}
}

func TestRead(t *testing.T) {
	const table = "# a comment\n\nof 2026-08\nregions a b c\nD2 0.1/20 = 0.2\nD4 - 0.4/50 -\n"
	for region, want := range map[string]map[string]Price{
		"a": {"D2": {0.1, 0.02}},
		"b": {"D2": {0.1, 0.02}, "D4": {0.4, 0.2}},
		"c": {"D2": {OnDemand: 0.2}},
	} {
		list, err := read(table, region)
		if diff := cmp.Diff(want, list.Prices); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", region, err, diff)
		}
	}
	for _, broken := range []string{"D2 0.1\n", "regions a b\nD2 0.1\n", "regions a\nD2 cheap\n", "regions a\nD2 0.1/none\n"} {
		if _, err := read(broken, "b"); err == nil {
			t.Errorf("%q was read", broken)
		}
	}
}
