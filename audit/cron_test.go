// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/robfig/cron/v3"
)

// Schedules mean what the library says by which Karpenter reads them.
func TestSchedulesAgainstCron(t *testing.T) {
	const seed = 7
	r := rand.New(rand.NewPCG(seed, seed))
	read := 0
	for i := range 4000 {
		text := drawSchedule(r)
		ours, err := parseSchedule(text)
		theirs, theirErr := cron.ParseStandard("TZ=UTC " + text)
		if (err == nil) != (theirErr == nil) {
			t.Fatalf("seed %d, draw %d: %q: %v, want %v", seed, i, text, err, theirErr)
		}
		if err != nil {
			continue
		}
		read++
		now := begin.Add(time.Duration(r.IntN(4*365*24*60*60)) * time.Second)
		lasts := time.Duration(1+r.IntN(3000)) * time.Minute
		next := theirs.Next(now.Add(-lasts))
		if got, want := ours.hitWithin(now.Add(-lasts), now) || ours.never(now.Add(-lasts)), !next.After(now); got != want {
			t.Fatalf("seed %d, draw %d: %q for %s at %s: active %v, want %v", seed, i, text, lasts, now, got, want)
		}
	}
	if read < 1000 {
		t.Errorf("only %d of the schedules could be read: the draw is too wild", read)
	}
}

func drawSchedule(r *rand.Rand) string {
	if r.IntN(20) == 0 {
		named := []string{"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly", "@never"}
		return named[r.IntN(len(named))]
	}
	fields := make([]string, 5)
	for i, bounds := range [5][2]int{{0, 59}, {0, 23}, {1, 31}, {1, 12}, {0, 6}} {
		items := make([]string, 1+r.IntN(2))
		for j := range items {
			items[j] = drawItem(r, bounds[0], bounds[1], i)
		}
		fields[i] = strings.Join(items, ",")
	}
	return strings.Join(fields, " ")
}

func drawItem(r *rand.Rand, least, most, field int) string {
	draw := func() int { return least + r.IntN(most-least+1) + r.IntN(40)/39 }
	item := "*"
	switch r.IntN(7) {
	case 0:
		item = fmt.Sprint(draw())
	case 1:
		item = fmt.Sprintf("%d-%d", draw(), draw())
	case 2:
		item = "?"
	case 3:
		if field == 3 {
			item = monthNames[r.IntN(12)]
		} else if field == 4 {
			item = strings.ToUpper(weekdayNames[r.IntN(7)]) + "-6"
		}
	}
	if r.IntN(4) == 0 {
		item += fmt.Sprintf("/%d", r.IntN(12))
	}
	return item
}
