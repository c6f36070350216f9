// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"encoding/csv"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// published is where a working copy may have the published sizes and prices as
// CSV files beside it, outside the repository.
const published = "../../../shared/data"

// readCSV gives the rows of a published file as maps from column to cell, or
// skips the test, saying that nothing was compared.
func readCSV(t *testing.T, file string) []map[string]string {
	t.Helper()
	f, err := os.Open(filepath.Join(published, file))
	if os.IsNotExist(err) {
		t.Skipf("NOT COMPARED: %s is not beside this working copy, so the catalogue was checked for consistency only", file)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	records, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var rows []map[string]string
	for _, record := range records[1:] {
		row := map[string]string{}
		for i, column := range records[0] {
			row[column] = record[i]
		}
		rows = append(rows, row)
	}
	return rows
}

// TestSizesAsPublished compares every fact of every size.
func TestSizesAsPublished(t *testing.T) {
	sizes, byName := allSizes(t)
	rows := readCSV(t, "azure-vm-sizes.csv")
	compared, facts := 0, 0
	for _, row := range rows {
		s, ok := byName[row["name"]]
		if !ok {
			t.Errorf("%s is missing from the catalogue", row["name"])
			continue
		}
		compared++
		facts += compareSize(t, s, row)
	}
	if len(sizes) != len(rows) {
		t.Errorf("the catalogue has %d sizes, %d are published", len(sizes), len(rows))
	}
	if compared < 1000 {
		t.Errorf("%d sizes compared, want at least 1000", compared)
	}
	t.Logf("compared %d sizes of %d published, %d facts", compared, len(rows), facts)
}

// compareSize compares s with its published row and counts the facts.
func compareSize(t *testing.T, s Size, row map[string]string) (facts int) {
	t.Helper()
	ours := map[string]string{"tier": s.Tier, "family": s.Family, "ParentSize": s.Parent}
	for _, c := range s.Capabilities() {
		ours[c.Name] = c.Value
	}
	for _, column := range append([]string{"tier", "family", "ParentSize"}, capabilityNames()...) {
		theirs, known := row[column]
		if !known {
			t.Fatalf("no column %s is published", column)
		}
		if theirs == "" && row["capability_source"] != "policy_templates" {
			continue // not known, rather than no
		}
		if column == "ParentSize" && s.Series == "DS#_v2" && (s.number == "12" || s.number == "12-2") {
			continue // Azure calls DS12_v2 its own parent, and DS12-2_v2 an orphan
		}
		facts++
		if !sameFact(ours[column], theirs) {
			t.Errorf("%s: %s is %q, published as %q", s.Name, column, ours[column], theirs)
		}
	}
	return facts
}

// sameFact reports whether two cells say the same: numbers as numbers, and an
// absent capability as no or zero.
func sameFact(a, b string) bool {
	blank := func(s string) bool { return s == "" || s == "0" || s == "False" }
	if a == b || blank(a) && blank(b) {
		return true
	}
	x, errX := strconv.ParseFloat(a, 64)
	y, errY := strconv.ParseFloat(b, 64)
	return errX == nil && errY == nil && x == y
}

// capabilityNames lists every capability that some size has.
func capabilityNames() []string {
	everything := Size{GPUs: 1, CachedDiskBytes: 1, NVMeMiB: 1, NVMePerDiskMiB: 1, EphemeralOSDiskPlacements: "x",
		DiskControllers: "x", UltraSSD: true, TrustedLaunchDisabled: true, Confidential: "x"}
	var names []string
	for _, c := range everything.Capabilities() {
		names = append(names, c.Name)
	}
	return names
}

// TestPricesAsPublished compares on-demand prices to a millionth of a dollar, and
// spot prices, which are published rounded from more digits, to two.
func TestPricesAsPublished(t *testing.T) {
	_, byName := allSizes(t)
	theirs := map[string]Price{}
	for _, row := range readCSV(t, "azure-prices.csv") {
		theirs[row["region"]+" "+row["size"]] = Price{usd(t, row["ondemand_usd_per_hour"]), usd(t, row["spot_usd_per_hour"])}
	}
	onDemand, spot := 0, 0
	eachOffer(t, func(region string, s Size) {
		want := theirs[region+" "+s.Name]
		got, _ := s.PriceIn(region)
		if math.Abs(got.OnDemand-want.OnDemand) > 1e-6 {
			t.Errorf("%s in %s costs %g, published as %g", s.Name, region, got.OnDemand, want.OnDemand)
		}
		if want.OnDemand > 0 && math.Abs(got.Spot-want.Spot) > 2.2e-6 {
			t.Errorf("%s in %s costs %g as spot, published as %g", s.Name, region, got.Spot, want.Spot)
		}
		if want.OnDemand > 0 {
			onDemand++
		}
		if want.Spot > 0 {
			spot++
		}
		delete(theirs, region+" "+s.Name)
	})
	for key := range theirs {
		t.Errorf("%s is priced, but not in the catalogue", key)
	}
	t.Logf("compared %d on-demand and %d spot prices of %d sizes", onDemand, spot, len(byName))
}

// TestZonesAsPublished compares where each size is offered.
func TestZonesAsPublished(t *testing.T) {
	theirs := map[string]string{}
	for _, row := range readCSV(t, "azure-availability.csv") {
		theirs[row["region"]+" "+row["size"]] = "offered in zones " + row["zones"]
	}
	compared := 0
	eachOffer(t, func(region string, s Size) {
		got := ""
		if zones, offered := s.ZonesIn(region); offered {
			got = "offered in zones " + strings.Join(zones, " ")
			compared++
		}
		if want := theirs[region+" "+s.Name]; got != want {
			t.Errorf("%s in %s: %q, published as %q", s.Name, region, got, want)
		}
	})
	if compared != len(theirs) {
		t.Errorf("%d offerings, %d are published", compared, len(theirs))
	}
	t.Logf("compared %d pairs of region and size", compared)
}

func eachOffer(t *testing.T, f func(region string, s Size)) {
	t.Helper()
	regions, err := Regions()
	if err != nil {
		t.Fatal(err)
	}
	sizes, _ := allSizes(t)
	for _, region := range regions {
		for _, s := range sizes {
			f(region, s)
		}
	}
}

// usd reads a price; a blank cell is none.
func usd(t *testing.T, cell string) float64 {
	t.Helper()
	if cell == "" {
		return 0
	}
	v, err := strconv.ParseFloat(cell, 64)
	if err != nil {
		t.Fatal(fmt.Errorf("published price: %w", err))
	}
	return v
}
