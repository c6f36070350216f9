// SPDX-License-Identifier: Apache-2.0

package registrationhealth_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/karve-dev/karve/controller/registrationhealth"
)

// Rule LAUNCH-11.
func TestVerdict(t *testing.T) {
	pool := []metav1.OwnerReference{{Kind: "NodePool", UID: "p"}}
	for _, tc := range []struct {
		left     metav1.ConditionStatus // by an earlier process
		outcomes string                 // s: success, f: failure
		want     metav1.ConditionStatus
	}{
		{"Unknown", "", "Unknown"},
		{"Unknown", "f", "Unknown"},
		{"Unknown", "s", "True"},
		{"Unknown", "sf", "True"},
		{"Unknown", "sff", "False"},
		{"Unknown", "ffss", "False"},
		{"Unknown", "ffsss", "True"},
		{"True", "", "True"},
		{"True", "f", "True"},
		{"False", "", "False"},
		{"False", "sss", "True"},
	} {
		l := &registrationhealth.Ledger{}
		l.Resume("p", tc.left, registrationhealth.Outcome{Reason: "Earlier"})
		for _, o := range tc.outcomes {
			l.Record(pool, registrationhealth.Outcome{Failed: o == 'f', Reason: "RegistrationFailed"})
		}
		got, why := l.Status("p")
		if got != tc.want || (got == "False") != (why.Reason != "") {
			t.Errorf("left %s, then %q: %s (%q), want %s", tc.left, tc.outcomes, got, why.Reason, tc.want)
		}
		l.Forget("p")
		if got, _ := l.Status("p"); got != "Unknown" {
			t.Errorf("%s after everything was forgotten", got)
		}
	}
}

func TestNilLedgerAndObjectsWithoutPool(t *testing.T) {
	var none *registrationhealth.Ledger
	none.Record([]metav1.OwnerReference{{Kind: "NodePool", UID: "p"}}, registrationhealth.Outcome{})
	none.Forget("p")
	none.Resume("p", "True", registrationhealth.Outcome{})
	if got, _ := none.Status("p"); got != "Unknown" {
		t.Errorf("a nil ledger says %s", got)
	}
	l := &registrationhealth.Ledger{}
	l.Record(nil, registrationhealth.Outcome{})
	if got, _ := l.Status(""); got != "Unknown" {
		t.Errorf("a claim without a pool made %s", got)
	}
}
