// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
)

// fencing judges that only the leader writes (S21), by the Lease of the election and by who made
// requests, where that is known. Events and the Lease itself may be written by every process.
type fencing struct {
	bench
	holder timeline[string]
	writes []written
}

type written struct {
	at time.Time
	Request
}

func newFencing(b bench) *fencing { return &fencing{bench: b} }

func (j *fencing) lease(at time.Time, l *coordinationv1.Lease) {
	if l.Name != j.settings.Lease {
		return
	}
	holder := ""
	if l.Spec.HolderIdentity != nil {
		holder = *l.Spec.HolderIdentity
	}
	if n := len(j.holder.values); n == 0 || j.holder.values[n-1] != holder {
		j.holder.set(at, holder, j.settings.Remember)
	}
}

func (j *fencing) request(at time.Time, r Request) {
	reads := r.Method == http.MethodGet || r.Method == http.MethodHead
	free := strings.Contains(r.Resource, "/leases") || strings.Contains(r.Resource, "/events")
	if r.By != "" && !reads && !free && r.done() {
		j.writes = append(j.writes, written{at, r})
	}
}

func (j *fencing) check(at time.Time) {
	lag := j.settings.ObjectLag
	j.writes = slices.DeleteFunc(j.writes, func(w written) bool {
		due := at.Sub(w.at) >= lag
		if holders := j.holder.within(w.at.Add(-lag), w.at.Add(lag)); due && len(holders) > 0 && !slices.Contains(holders, w.By) {
			j.violation("S21", "lease/"+j.settings.Lease, w.at, fmt.Sprintf("%s made the request %s %s when the leader was %s", w.By, w.Method, w.Resource, holders[len(holders)-1]))
		}
		return due
	})
}
