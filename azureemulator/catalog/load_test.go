// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"maps"
	"strings"
	"testing"
	"testing/fstest"
)

const goodSizes = `# A comment.
defaults
  cpu name; percore 2; memory 4/cpu; arch x64; gens V1,V2; osdisk none
  datadisks 4 8+=16; nics 2; trusted yes; spot yes; cache 0

series D#s_v5
  family f~One; sizes 2 4 8
  constrained 8-2
series E#s_v5 like D#s_v5
  family fTwo 8=fThree; sizes 4 8
  memory 8/cpu 8=60; trusted no; cache 1.5
`

// goodTables are four small tables that agree.
func goodTables() map[string]string {
	return map[string]string{
		"sizes.txt":  goodSizes,
		"zones.txt":  "# A comment.\nregions  here there\nD#s_v5 12 0\n  Standard_D8s_v5 - .\n  Standard_D8-2s_v5 2 .\nE#s_v5 - 1\n",
		"prices.txt": "regions here there\nD#s_v5 0.05 =\n  Standard_D8s_v5 0.5 .\nE#s_v5 0.06666 -\n",
		"spot.txt":   "regions here there\nD#s_v5 0.2 -\n  Standard_D8s_v5 0.0777 .\nE#s_v5 0.25 -\n",
	}
}

func load(tables map[string]string) (map[string]Size, error) {
	fsys := fstest.MapFS{}
	for name, text := range tables {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	sizes, err := Load(fsys)
	byName := map[string]Size{}
	for _, s := range sizes {
		byName[s.Name] = s
	}
	return byName, err
}

func TestLoad(t *testing.T) {
	got, err := load(goodTables())
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 6 {
		t.Errorf("%d sizes, want 6", len(got))
	}
	d8, e8 := got["Standard_D8s_v5"], got["Standard_E8s_v5"]
	if d8.Family != "f One" || d8.MaxDataDisks != 16 || d8.MemoryGiB != 32 || d8.TrustedLaunchDisabled {
		t.Errorf("D8s_v5 is %+v", d8)
	}
	if e8.Family != "fThree" || e8.MaxDataDisks != 16 || e8.MemoryGiB != 60 || !e8.TrustedLaunchDisabled || e8.CachedDiskBytes != 3<<29 {
		t.Errorf("E8s_v5 is %+v", e8)
	}
	if s := got["Standard_D8-2s_v5"]; s.VCPUs != 8 || s.VCPUsAvailable != 2 || s.Parent != "Standard_D8s_v5" || s.MemoryGiB != 32 {
		t.Errorf("D8-2s_v5 is %+v", s)
	}
}

func TestLoadPrices(t *testing.T) {
	got, err := load(goodTables())
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		size, region string
		want         Price
		ok           bool
	}{
		{"Standard_D4s_v5", "here", Price{0.2, 0.04}, true},
		{"Standard_D4s_v5", "there", Price{0.2, 0}, true},
		{"Standard_D8s_v5", "here", Price{0.5, 0.0777}, true},
		{"Standard_D8-2s_v5", "here", Price{0.5, 0.0777}, true}, // as its parent
		{"Standard_D8s_v5", "there", Price{0.4, 0}, true},
		{"Standard_E4s_v5", "here", Price{0.267, 0.06675}, true}, // 0.26664 rounded
		{"Standard_E4s_v5", "there", Price{}, false},
		{"Standard_E4s_v5", "nowhere", Price{}, false},
	}
	for _, tt := range tests {
		if p, ok := got[tt.size].PriceIn(tt.region); p != tt.want || ok != tt.ok {
			t.Errorf("%s in %s costs %v, %v; want %v, %v", tt.size, tt.region, p, ok, tt.want, tt.ok)
		}
	}
}

func TestLoadZones(t *testing.T) {
	got, err := load(goodTables())
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		size, region, zones string
		offered             bool
	}{
		{"Standard_D4s_v5", "here", "1 2", true},
		{"Standard_D4s_v5", "there", "", true},
		{"Standard_D8s_v5", "here", "", false},
		{"Standard_D8-2s_v5", "here", "2", true},
		{"Standard_D8-2s_v5", "there", "", true},
		{"Standard_E4s_v5", "here", "", false},
		{"Standard_E4s_v5", "there", "1", true},
	}
	for _, tt := range tests {
		zones, offered := got[tt.size].ZonesIn(tt.region)
		if strings.Join(zones, " ") != tt.zones || offered != tt.offered {
			t.Errorf("%s in %s: zones %v, offered %v; want %q, %v", tt.size, tt.region, zones, offered, tt.zones, tt.offered)
		}
	}
}

// edit edits one of the tables.
func edit(tables map[string]string, file, old, text string) map[string]string {
	edited := maps.Clone(tables)
	edited[file] = strings.Replace(edited[file], old, text, 1)
	return edited
}

// TestLoadRefuses makes one mistake at a time and wants it reported where it is.
func TestLoadRefuses(t *testing.T) {
	tests := []struct{ file, old, text, want string }{
		{"sizes.txt", "memory 4/cpu", "memory", "sizes.txt:3: memory: no value"},
		{"sizes.txt", "nics 2", "nics two", "sizes.txt:4: nics of Standard_D2s_v5: \"two\" is not a number"},
		{"sizes.txt", "datadisks 4", "datadisks 0.3/cpu", "not a whole number"},
		{"sizes.txt", "nics 2", "nics -2", "\"-2\" is not a number"},
		{"sizes.txt", "memory 4/cpu", "memory NaN", "\"NaN\" is not a number"},
		{"sizes.txt", "trusted yes", "trusted maybe", "sizes.txt:4: trusted of Standard_D2s_v5: \"maybe\" is neither yes nor no"},
		{"sizes.txt", "spot yes", "spot perhaps", "neither yes nor no"},
		{"sizes.txt", "spot yes", "colour red", "sizes.txt:4: colour of Standard_D2s_v5: no such property"},
		{"sizes.txt", "trusted no", "colour red", "sizes.txt:11: colour: no such property"},
		{"sizes.txt", "trusted no", "memory 3", "sizes.txt:11: memory: said twice"},
		{"sizes.txt", "8=60", "16=60", "sizes.txt:11: memory 16=60: series E#s_v5 has no size 16"},
		{"sizes.txt", "8=60", "8+60", "\"8+60\" after the base value is not of the form number=value"},
		{"sizes.txt", "8=60", "x=60", "\"x\" is not a size's number"},
		{"sizes.txt", "8=60", "8-2+=60", "a constrained size cannot start a range"},
		{"sizes.txt", "8/cpu 8=60", "8=60", "where the base value belongs"},
		{"sizes.txt", "E#s_v5 like", "Es_v5 like", "sizes.txt:9: series \"Es_v5\" must have one #"},
		{"sizes.txt", "E#s_v5 like", "D#s_v5 like", "sizes.txt:9: series D#s_v5 is already on line 6"},
		{"sizes.txt", "like D#s_v5", "like F#s_v5", "sizes.txt:9: series E#s_v5 is like F#s_v5, which is not above it"},
		{"sizes.txt", "like D#s_v5", "as D#s_v5", "sizes.txt:9: want"},
		{"sizes.txt", "series E#s_v5 like D#s_v5", "series", "sizes.txt:9: want"},
		{"sizes.txt", "sizes 4 8\n", "\n", "sizes.txt:9: series E#s_v5 has no sizes"},
		{"sizes.txt", "sizes 4 8\n", "sizes 4 4\n", "sizes.txt:10: sizes: 4 is there twice"},
		{"sizes.txt", "sizes 4 8\n", "sizes 4 8-2\n", "sizes.txt:10: sizes: 8-2: N-M belongs"},
		{"sizes.txt", "constrained 8-2", "constrained 16-2", "sizes.txt:6: Standard_D16-2s_v5 has no parent"},
		{"sizes.txt", "constrained 8-2", "constrained 8-9", "9 of 8 vCPUs available"},
		{"sizes.txt", "family fTwo 8=fThree; ", "", "sizes.txt:9: Standard_E4s_v5 has no quota family"},
		{"sizes.txt", "nics 2;", "", "0 NICs"},
		{"sizes.txt", "arch x64", "arch vax", "architecture \"vax\""},
		{"sizes.txt", "gens V1,V2", "gens V3", "generations \"V3\""},
		{"sizes.txt", "memory 8/cpu 8=60", "memory 0", "has no memory"},
		{"zones.txt", "D#s_v5 12 0", "D#s_v5 21 0", "zones.txt:3: D#s_v5: in here: \"21\" is not zone numbers in rising order"},
		{"zones.txt", "D#s_v5 12 0", "D#s_v5 12", "zones.txt:3: D#s_v5 has 1 entries for 2 regions"},
		{"zones.txt", "D#s_v5 12 0", "D#s_v5 . 0", "\".\" is not zone numbers"},
		{"zones.txt", "E#s_v5 - 1", "", "zones.txt has no row for series E#s_v5"},
		{"zones.txt", "E#s_v5 - 1", "F#s_v5 - 1", "zones.txt:6: sizes.txt has no size or series F#s_v5"},
		{"zones.txt", "E#s_v5 - 1", "D#s_v5 - 1", "zones.txt:6: a second row for D#s_v5"},
		{"zones.txt", "E#s_v5 - 1", "E#s_v5 = 1", "zones.txt:6: E#s_v5: in here: \"=\""},
		{"prices.txt", "0.06666", "-0.06666", "prices.txt:4: E#s_v5: in here: \"-0.06666\" is not a positive number"},
		{"prices.txt", "0.06666", "NaN", "is not a positive number"},
		{"prices.txt", "0.06666", "Inf", "is not a positive number"},
		{"spot.txt", "0.25", "cheap", "spot.txt:4: E#s_v5: in here: \"cheap\""},
		{"spot.txt", "E#s_v5 0.25", "E#s_v5 1.25", "spot.txt: Standard_E4s_v5 in here"},
		{"spot.txt", "here there", "here elsewhere", "name different regions"},
	}
	good := goodTables()
	for _, tt := range tests {
		if !strings.Contains(good[tt.file], tt.old) {
			t.Fatalf("%s has no %q to spoil", tt.file, tt.old)
		}
		_, err := load(edit(good, tt.file, tt.old, tt.text))
		if err == nil {
			t.Errorf("%s with %q for %q: loaded", tt.file, tt.text, tt.old)
			continue
		}
		if !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s with %q for %q: %q does not mention %q", tt.file, tt.text, tt.old, err, tt.want)
		}
	}
}

func TestLoadWantsEveryTable(t *testing.T) {
	for file := range goodTables() {
		tables := goodTables()
		delete(tables, file)
		if _, err := load(tables); err == nil || !strings.Contains(err.Error(), file) {
			t.Errorf("without %s: %v", file, err)
		}
	}
}
