// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

const (
	// annotationMove is on NodeClaims that are to be replaced: a mark.
	annotationMove = "karve.dev/move"
	// annotationReplaces is on the NodeClaims launched for them: the mark's id.
	annotationReplaces = "karve.dev/replaces"
	// eventTerminating is the reason of karve's event about a NodeClaim that it deletes.
	eventTerminating = "DisruptionTerminating"
)

// mark is what karve writes on a NodeClaim that is to be replaced.
type mark struct {
	ID           string `json:"id"`
	Replacements int    `json:"replacements"`
}

// replacements judges that karve deletes a node that it replaces only when all replacements have been
// initialized (S16). A user may delete it earlier: the deletion is karve's if its event says so, or if
// the request was seen.
type replacements struct {
	bench
	deletions []removal
	judged    map[types.UID]bool
}

// removal is a NodeClaim that karve deletes.
type removal struct {
	at  time.Time
	uid types.UID
}

func newReplacements(b bench) *replacements {
	return &replacements{bench: b, judged: map[types.UID]bool{}}
}

func (j *replacements) event(at time.Time, e *corev1.Event) {
	if byKarve(e) && e.Reason == eventTerminating && e.InvolvedObject.Kind == "NodeClaim" {
		j.deletions = append(j.deletions, removal{at, e.InvolvedObject.UID})
	}
}

func (j *replacements) request(at time.Time, r Request) {
	name, ok := strings.CutPrefix(r.Resource, "/apis/karpenter.sh/v1/nodeclaims/")
	if x := j.cluster.claimsByName[name]; ok && r.Method == http.MethodDelete && r.done() && x != nil {
		j.deletions = append(j.deletions, removal{at, x.UID})
	}
}

func (j *replacements) check(at time.Time) {
	j.deletions = slices.DeleteFunc(j.deletions, func(d removal) bool {
		due := at.Sub(d.at) >= j.settings.ObjectLag
		if due && !j.judged[d.uid] {
			j.judge(d)
		}
		return due
	})
	for uid := range j.judged {
		if j.cluster.claims[uid] == nil {
			delete(j.judged, uid)
		}
	}
}

// judge compares when the NodeClaim was deleted with when those were initialized that replace it: both
// are NodeClaims, so that this was the order.
func (j *replacements) judge(d removal) {
	x := j.cluster.claims[d.uid]
	if x == nil || x.deleted.IsZero() {
		return
	}
	j.judged[d.uid] = true
	var m mark
	if err := json.Unmarshal([]byte(x.Annotations[annotationMove]), &m); err != nil || m.ID == "" {
		return // it was deleted for another reason than a move
	}
	ready := 0
	for _, other := range j.cluster.claims {
		if other.Annotations[annotationReplaces] == m.ID && !other.initialized.IsZero() && !other.initialized.After(x.deleted) {
			ready++
		}
	}
	if ready < m.Replacements {
		j.violation("S16", x.name(), x.deleted, fmt.Sprintf("karve deleted it (%s) when %d of the %d NodeClaims that replace it were initialized",
			x.reason(karpv1.ConditionTypeDisruptionReason), ready, m.Replacements))
	}
}
