// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// A schedule says in which minutes something happens, in the five fields of cron or one of its names,
// in UTC. It is read here anew, and not by the library that karve reads it by.
type schedule struct {
	minute, hour, day, month, weekday [60]bool
	// When both are restricted, a day counts that is in either of them.
	anyDay, anyWeekday bool
}

var namedSchedules = map[string]string{
	"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
	"@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
}

var (
	monthNames   = []string{"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}
	weekdayNames = []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}
)

// parseSchedule reads a schedule as budgets have it.
func parseSchedule(text string) (s schedule, err error) {
	if strings.HasPrefix(text, "@") {
		named, ok := namedSchedules[text]
		if !ok {
			return s, fmt.Errorf("%q is no schedule", text)
		}
		text = named
	}
	fields := strings.Fields(text)
	if len(fields) != 5 {
		return s, fmt.Errorf("%q has %d fields, a schedule has 5", text, len(fields))
	}
	for i, f := range []struct {
		set         *[60]bool
		least, most int
		names       []string
	}{
		{&s.minute, 0, 59, nil}, {&s.hour, 0, 23, nil}, {&s.day, 1, 31, nil}, {&s.month, 1, 12, monthNames}, {&s.weekday, 0, 6, weekdayNames},
	} {
		if err := setField(f.set, fields[i], f.least, f.most, f.names); err != nil {
			return s, fmt.Errorf("%q: %w", text, err)
		}
	}
	s.anyDay, s.anyWeekday = unrestricted(fields[2]), unrestricted(fields[4])
	return s, nil
}

// unrestricted reports whether one of the field's items is a star. A step makes it a restriction.
func unrestricted(field string) bool {
	for item := range strings.SplitSeq(field, ",") {
		if item == "*" || item == "?" || item == "*/1" || item == "?/1" {
			return true
		}
	}
	return false
}

// setField reads a list of values, ranges and steps.
func setField(set *[60]bool, field string, least, most int, names []string) error {
	for item := range strings.SplitSeq(field, ",") {
		first, last, step, err := span(item, least, most, names)
		if err != nil {
			return err
		}
		for n := first; n <= last; n += step {
			set[n] = true
		}
	}
	return nil
}

func span(item string, least, most int, names []string) (first, last, step int, err error) {
	of, every, stepped := strings.Cut(item, "/")
	step = 1
	if stepped {
		if step, err = strconv.Atoi(every); err != nil || step < 1 {
			return 0, 0, 0, fmt.Errorf("%q has no step", item)
		}
	}
	from, to, ranged := strings.Cut(of, "-")
	switch {
	case of == "*" || of == "?":
		return least, most, step, nil
	case ranged:
		if last, err = value(to, least, names); err != nil {
			return 0, 0, 0, err
		}
	}
	if first, err = value(from, least, names); err != nil {
		return 0, 0, 0, err
	}
	switch {
	case ranged:
	case stepped:
		last = most
	default:
		last = first
	}
	if first < least || last > most || first > last {
		return 0, 0, 0, fmt.Errorf("%q is not within %d and %d", item, least, most)
	}
	return first, last, step, nil
}

func value(text string, least int, names []string) (int, error) {
	for i, name := range names {
		if strings.EqualFold(name, text) {
			return i + least, nil
		}
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%q is no number", text)
	}
	return n, nil
}

// hitWithin reports whether the schedule has a minute after from, up to and with to.
func (s *schedule) hitWithin(from, to time.Time) bool {
	from, to = from.UTC(), to.UTC()
	for day := midnight(from); !day.After(to); day = day.AddDate(0, 0, 1) {
		if s.on(day) && s.hitOn(day, from, to) {
			return true
		}
	}
	return false
}

func (s *schedule) hitOn(day, from, to time.Time) bool {
	for hour := range 24 {
		for minute := range 60 {
			at := day.Add(time.Duration(hour)*time.Hour + time.Duration(minute)*time.Minute)
			if s.hour[hour] && s.minute[minute] && at.After(from) && !at.After(to) {
				return true
			}
		}
	}
	return false
}

// on reports whether the schedule has any minute on that day.
func (s *schedule) on(day time.Time) bool {
	byDay, byWeekday := s.day[day.Day()], s.weekday[int(day.Weekday())]
	if s.anyDay || s.anyWeekday {
		return s.month[day.Month()] && byDay && byWeekday
	}
	return s.month[day.Month()] && (byDay || byWeekday)
}

// never reports whether the schedule has no day within five years, such as 30 February.
func (s *schedule) never(from time.Time) bool {
	for day := midnight(from.UTC()); day.Year() <= from.UTC().Year()+5; day = day.AddDate(0, 0, 1) {
		if s.on(day) {
			return false
		}
	}
	return true
}

func midnight(t time.Time) time.Time {
	return time.Date(t.Year(), t.Month(), t.Day(), 0, 0, 0, 0, time.UTC)
}
