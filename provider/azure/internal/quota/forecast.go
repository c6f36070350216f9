// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"maps"
	"math"
	"sync"
	"time"

	"github.com/karve-dev/karve/provider"
)

// An exhaustionForecast measures how fast quotas shrink. The zero value has no measurements.
type exhaustionForecast struct {
	mu     sync.Mutex
	trends map[string]trend // by quota name
}

// A trend is how fast a quota shrinks.
type trend struct {
	left      int64
	seen      time.Time
	perSecond float64 // negative while it grows
}

const (
	// trendWindow is the averaging time of a trend: it hides bursts and shows trends.
	trendWindow = 10 * time.Minute
	// trendInterval is the interval of measurements.
	trendInterval = 30 * time.Second
	// forecastHorizon is how far ahead a trend is extrapolated.
	forecastHorizon = 24 * time.Hour
)

// observe measures what is left, and returns the quotas that will be used up within a day at
// this rate. Times are whole minutes, so that they do not change all the time.
func (p *exhaustionForecast) observe(now time.Time, left map[string]int64) map[string]provider.Exhaustion {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.trends == nil {
		p.trends = map[string]trend{}
	}
	ending := map[string]provider.Exhaustion{}
	for name, n := range left {
		p.trends[name] = p.trends[name].after(now, n)
		if lasts, ends := p.trends[name].lasts(n); ends {
			ending[name] = provider.Exhaustion{Left: n, In: lasts}
		}
	}
	return ending
}

// after returns the trend with one more measurement, if it is due.
func (p trend) after(now time.Time, left int64) trend {
	passed := now.Sub(p.seen)
	switch {
	case p.seen.IsZero():
		return trend{left: left, seen: now}
	case passed < trendInterval:
		return p
	}
	weight := 1 - math.Exp(-passed.Seconds()/trendWindow.Seconds())
	recent := float64(p.left-left) / passed.Seconds()
	return trend{left: left, seen: now, perSecond: p.perSecond + weight*(recent-p.perSecond)}
}

// lasts returns how long the quota lasts at this rate; false when that is beyond forecastHorizon.
func (p trend) lasts(left int64) (time.Duration, bool) {
	seconds := float64(left) / p.perSecond
	if p.perSecond <= 0 || seconds > forecastHorizon.Seconds() {
		return 0, false
	}
	return time.Duration(seconds * float64(time.Second)).Truncate(time.Minute), true
}

// dropUnused drops the trends of quotas that no node class uses.
func (p *exhaustionForecast) dropUnused(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.trends, func(_ string, x trend) bool { return now.Sub(x.seen) > 6*trendWindow })
}
