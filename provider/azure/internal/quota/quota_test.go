// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/karve-dev/karve/engine/offering"
)

// Rule QUOTA-1.
func TestLedger(t *testing.T) {
	quota := Usages{"dsv5": {Limit: 100, used: 90}, "cores": {Limit: 50, used: 0}}
	names := []string{"family:DSv5", Regional, Spot}
	uses := []offering.QuotaUse{{Quota: "family:DSv5", Amount: 4}, {Quota: Regional, Amount: 4}}
	read := time.Unix(1000, 0)
	l := newLedger()
	left := func(readAt time.Time) map[string]int64 { return l.left(names, quota, readAt) }
	want := func(what string, family, regional int64, readAt time.Time) {
		t.Helper()
		// Quota names without a quota are not limited and not listed.
		if diff := cmp.Diff(map[string]int64{"family:DSv5": family, Regional: regional}, left(readAt)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}

	want("nothing in flight", 10, 50, read)
	for _, vm := range []string{"a", "b"} {
		if _, ok := l.reserve(vm, uses, quota, read); !ok {
			t.Fatalf("%s does not fit", vm)
		}
	}
	want("two in flight", 2, 42, read)
	if exceeded, ok := l.reserve("c", uses, quota, read); ok || exceeded != "family:DSv5" {
		t.Errorf("a third fits into what two left (short of %q)", exceeded)
	}
	l.recordCreated("a", read.Add(time.Second))
	l.cancel("b")
	want("one accepted after the reading, one refused", 6, 46, read)
	want("a later reading holds the accepted one", 10, 50, read.Add(2*time.Second))

	later := read.Add(2 * time.Second)
	l.credit("a", uses, later.Add(time.Second))
	want("the VM is gone and the reading still holds it", 14, 54, later)
	want("a reading after that", 10, 50, later.Add(2*time.Second))
}

func TestUsagesIgnoreCase(t *testing.T) {
	quota := Usages{"standardnddsa100v4family": {Limit: 7}}
	if q, ok := quota.Of(OfFamily("StandardNDDSA100v4Family")); !ok || q.Limit != 7 {
		t.Errorf("got %+v, %v", q, ok)
	}
}

// Rule QUOTA-3.
func TestFamiliesThatQuotaDoesNotList(t *testing.T) {
	quotas := []string{Regional, OfFamily("standardDSv5Family"), OfFamily("standardNew"), OfFamily("standardB"), Spot}
	quota := Usages{"cores": {Limit: 100}, "standarddsv5family": {Limit: 10}}
	if got := quota.Unlisted(quotas); !slices.Equal(got, []string{"standardB", "standardNew"}) {
		t.Errorf("not listed: %v", got)
	}
	if got := Usages(nil).Unlisted(quotas); got != nil {
		t.Errorf("without any reading: %v", got)
	}
}
