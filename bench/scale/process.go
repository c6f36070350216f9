// SPDX-License-Identifier: Apache-2.0

package scale

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// usage is what a process uses, in MiB and seconds.
type usage struct {
	rss, peak float64
	cpu       float64
}

// clockTicks is how many parts of a second Linux counts CPU time in, on every platform that Go has.
const clockTicks = 100

// usageOf reads /proc.
func usageOf(pid int) (u usage, err error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return u, fmt.Errorf("reading the memory of process %d, which needs Linux: %w", pid, err)
	}
	lines := bufio.NewScanner(bytes.NewReader(status))
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ":")
		kib, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 64)
		switch {
		case err != nil:
		case name == "VmRSS":
			u.rss = kib / 1024
		case name == "VmHWM":
			u.peak = kib / 1024
		}
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return u, fmt.Errorf("reading the CPU time of process %d: %w", pid, err)
	}
	_, rest, _ := bytes.Cut(stat, []byte(") ")) // the name before may have any characters
	fields := strings.Fields(string(rest))
	if len(fields) < 13 || u.peak == 0 {
		return u, fmt.Errorf("process %d has ended", pid)
	}
	for _, ticks := range fields[11:13] { // utime, stime
		n, err := strconv.ParseFloat(ticks, 64)
		if err != nil {
			return u, fmt.Errorf("reading the CPU time of process %d: %w", pid, err)
		}
		u.cpu += n / clockTicks
	}
	return u, nil
}

// metrics are those of a process.
type metrics map[string]*dto.MetricFamily

// scrape reads metrics in the text format.
func scrape(ctx context.Context, client *http.Client, url string) (metrics, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers %s", url, response.Status)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return parser.TextToMetricFamilies(response.Body)
}

// sum adds up the counters, gauges and sums of a family's series that have the label values.
func (m metrics) sum(name string, labels map[string]string) (total float64) {
	family := m[name]
	if family == nil {
		return 0
	}
	for _, one := range family.Metric {
		if has(one, labels) {
			total += one.GetCounter().GetValue() + one.GetGauge().GetValue() + one.GetHistogram().GetSampleSum()
		}
	}
	return total
}

func has(one *dto.Metric, labels map[string]string) bool {
	found := 0
	for _, l := range one.Label {
		if value, asked := labels[l.GetName()]; asked && value == l.GetValue() {
			found++
		}
	}
	return found == len(labels)
}

// quantile is that of a histogram without labels, read from its buckets: the upper end of the one
// that it lies in.
func (m metrics) quantile(q float64, name string) (float64, error) {
	family := m[name]
	if family == nil || len(family.Metric) == 0 {
		return 0, errors.New("there is no histogram " + name)
	}
	h := family.Metric[0].GetHistogram()
	for _, b := range h.Bucket {
		if float64(b.GetCumulativeCount()) >= q*float64(h.GetSampleCount()) {
			return b.GetUpperBound(), nil
		}
	}
	return 0, fmt.Errorf("%s has values beyond its buckets", name)
}

// answers reports whether the URL answers 200 within a second.
func answers(ctx context.Context, url string) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	response.Body.Close()
	return response.StatusCode == http.StatusOK
}
