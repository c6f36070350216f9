// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/karve-dev/karve/engine/quantity"
)

// Source names the record where its results are shown, as its licence asks for.
const Source = "AzurePublicDataset V1 (Cortez et al., \"Resource Central\", SOSP 2017), " +
	"in the form of github.com/huaweicloud/trace_generation_rnn; CC-BY 4.0"

// The files of the record.
const (
	arrivalsFile  = "v1.dev.txt.gz"
	lifetimesFile = "v1.dev.c2100000.txt.gz"
	flavoursFile  = "flav_map.txt"
	intervalsFile = "v1.interval_map.txt"
)

// Bin is the resolution of the record.
const Bin = 5 * time.Minute

// Record is what the files say.
type Record struct {
	Batches []Batch // by bin
	Bins    int
}

// Batch is what a tenant asked for at once.
type Batch struct {
	Bin int
	VMs []VM
}

// VM is one machine.
type VM struct {
	Size quantity.Amounts // cores and memory
	// Least and Most are how many bins it lived, to the precision of the record; both are Forever
	// for one that was alive in the end.
	Least, Most int
}

// Forever is longer than any record.
const Forever = math.MaxInt32

// Read reads the record in the folder.
func Read(folder string) (*Record, error) {
	if folder == "" {
		return nil, fmt.Errorf("the folder of the trace is not known: name the one that has %s, %s, %s and %s", arrivalsFile, lifetimesFile, flavoursFile, intervalsFile)
	}
	sizes, err := readSizes(filepath.Join(folder, flavoursFile))
	if err != nil {
		return nil, err
	}
	intervals, err := readIntervals(filepath.Join(folder, intervalsFile))
	if err != nil {
		return nil, err
	}
	arrivals, err := readLines(filepath.Join(folder, arrivalsFile))
	if err != nil {
		return nil, err
	}
	lifetimes, err := readLines(filepath.Join(folder, lifetimesFile))
	if err != nil {
		return nil, err
	}
	if len(arrivals) != len(lifetimes) || len(arrivals) == 0 {
		return nil, fmt.Errorf("reading the trace: %s has %d lines, %s has %d", arrivalsFile, len(arrivals), lifetimesFile, len(lifetimes))
	}
	p := parser{sizes: sizes, intervals: intervals}
	for i := range arrivals {
		if err := p.bin(arrivals[i], lifetimes[i]); err != nil {
			return nil, fmt.Errorf("reading line %d of the trace: %w", i+1, err)
		}
	}
	return &p.record, nil
}

// parser goes through the lines of both files together.
type parser struct {
	sizes     map[string]quantity.Amounts
	intervals map[string][2]int
	begin     int // seconds at the first line
	record    Record
}

// bin reads the batches of one bin: fields of both lines are about the same VM, and "|" ends a
// batch.
func (p *parser) bin(arrivals, lifetimes string) error {
	at, flavours, _ := strings.Cut(arrivals, " ")
	_, lives, _ := strings.Cut(lifetimes, " ")
	seconds, err := strconv.Atoi(at)
	if err != nil {
		return fmt.Errorf("the time: %w", err)
	}
	if p.record.Bins == 0 {
		p.begin = seconds
	}
	b := Batch{Bin: (seconds - p.begin) / int(Bin.Seconds())}
	p.record.Bins = b.Bin + 1
	f, l := strings.Split(flavours, ","), strings.Split(lives, ",")
	if len(f) != len(l) {
		return fmt.Errorf("%d VMs have %d lifetimes", len(f), len(l))
	}
	for i := range f {
		if f[i] == "|" {
			p.record.Batches = append(p.record.Batches, b)
			b.VMs = nil
			continue
		}
		vm, err := p.vm(f[i], l[i])
		if err != nil {
			return err
		}
		b.VMs = append(b.VMs, vm)
	}
	if len(b.VMs) > 0 {
		p.record.Batches = append(p.record.Batches, b)
	}
	return nil
}

// vm reads one VM. A lifetime is U for a VM that ended, C for one that was alive in the end,
// and the number of an interval.
func (p *parser) vm(flavour, life string) (VM, error) {
	size, ok := p.sizes[flavour]
	if !ok {
		return VM{}, fmt.Errorf("the size %q is not in %s", flavour, flavoursFile)
	}
	if strings.HasPrefix(life, "C") {
		return VM{size, Forever, Forever}, nil
	}
	interval, ok := p.intervals[strings.TrimPrefix(life, "U")]
	if !ok || !strings.HasPrefix(life, "U") {
		return VM{}, fmt.Errorf("the lifetime %q is not in %s", life, intervalsFile)
	}
	return VM{size, max(1, interval[0]), max(1, interval[1])}, nil
}

// readSizes reads lines of "vCPU,GB letter".
func readSizes(path string) (map[string]quantity.Amounts, error) {
	out := map[string]quantity.Amounts{}
	lines, err := readLines(path)
	for _, line := range lines {
		var cores, memory float64
		var letter string
		if _, err := fmt.Sscanf(line, "%f,%f %s", &cores, &memory, &letter); err != nil {
			return nil, fmt.Errorf("reading %s: %q: %w", path, line, err)
		}
		out[letter] = quantity.Amounts{quantity.NameCPU: int64(cores * 1000), quantity.NameMemory: int64(memory * (1 << 30))}
	}
	return out, err
}

// readIntervals reads lines of "seconds interval": the first and last bin of each interval.
func readIntervals(path string) (map[string][2]int, error) {
	out := map[string][2]int{}
	lines, err := readLines(path)
	for _, line := range lines {
		var seconds int
		var name string
		if _, err := fmt.Sscanf(line, "%d %s", &seconds, &name); err != nil {
			return nil, fmt.Errorf("reading %s: %q: %w", path, line, err)
		}
		bin := seconds / int(Bin.Seconds())
		known, ok := out[name]
		if !ok {
			known[0] = bin
		}
		out[name] = [2]int{known[0], bin}
	}
	return out, err
}

// readLines reads a text file, which may be compressed.
func readLines(path string) ([]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("opening the trace: %w", err)
	}
	defer f.Close()
	var from io.Reader = f
	if strings.HasSuffix(path, ".gz") {
		if from, err = gzip.NewReader(f); err != nil {
			return nil, fmt.Errorf("unpacking %s: %w", path, err)
		}
	}
	var out []string
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		if line := strings.TrimSpace(lines.Text()); line != "" {
			out = append(out, line)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	return out, nil
}
