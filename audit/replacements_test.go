// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"net/http"
	"testing"
	"time"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// S16: a node that is replaced goes when its replacements are initialized.
func TestReplacements(t *testing.T) {
	marked := func(h *history) (old, new *karpv1.NodeClaim) {
		old, new = initialized(claimOf("old", "a", ""), "cpu=4"), launched(claimOf("new", "a", ""), "cpu=4")
		old.Annotations[annotationMove] = `{"id":"m1","replacements":1,"cause":"Drifted"}`
		new.Annotations[annotationReplaces] = "m1"
		h.put(old, new)
		return old, new
	}
	run(t, "S16", map[string]func(h *history){
		"after its replacement": func(h *history) {
			old, fresh := marked(h)
			h.put(initialized(fresh, "cpu=4"))
			h.terminate(old)
			h.event(old, eventTerminating)
		},
		"before its replacement [S16]": func(h *history) { // kubernetes-sigs/karpenter 1293
			old, fresh := marked(h)
			h.terminate(old)
			h.event(old, eventTerminating)
			h.put(initialized(fresh, "cpu=4"))
		},
		"before one of two [S16]": func(h *history) {
			old, fresh := marked(h)
			old.Annotations[annotationMove] = `{"id":"m1","replacements":2}`
			h.put(old, initialized(fresh, "cpu=4"))
			h.terminate(old)
			h.event(old, eventTerminating)
		},
		"a user deletes it": func(h *history) {
			old, _ := marked(h)
			h.terminate(old)
		},
		"as a request [S16]": func(h *history) {
			old, _ := marked(h)
			h.terminate(old)
			h.a.Request(h.now, Request{Method: http.MethodDelete, Resource: "/apis/karpenter.sh/v1/nodeclaims/old", Status: 200})
		},
		"once for event and request [S16]": func(h *history) {
			old, _ := marked(h)
			h.terminate(old)
			h.a.Request(h.now, Request{Method: http.MethodDelete, Resource: "/apis/karpenter.sh/v1/nodeclaims/old", Status: 200})
			h.event(old, eventTerminating)
		},
		"its replacement failed after it was initialized": func(h *history) {
			old, fresh := marked(h)
			h.put(initialized(fresh, "cpu=4"))
			h.remove(fresh)
			h.terminate(old)
			h.event(old, eventTerminating)
		},
		"nothing is launched for it": func(h *history) {
			old, _ := marked(h)
			old.Annotations[annotationMove] = `{"id":"m1","replacements":0}`
			h.put(old)
			h.terminate(old)
			h.event(old, eventTerminating)
		},
		"a replacement of another move [S16]": func(h *history) {
			old, fresh := marked(h)
			fresh.Annotations[annotationReplaces] = "m2"
			h.put(initialized(fresh, "cpu=4"))
			h.terminate(old)
			h.event(old, eventTerminating)
		},
	})
	runWith(t, lagging, "S16", map[string]func(h *history){
		"the event comes before the deletion [S16]": func(h *history) {
			old, _ := marked(h)
			h.event(old, eventTerminating)
			h.terminate(old)
		},
		"the replacement comes after the deletion [S16]": func(h *history) {
			old, fresh := marked(h)
			h.terminate(old)
			h.event(old, eventTerminating)
			h.wait(time.Second)
			h.put(initialized(fresh, "cpu=4"))
		},
		"the event comes before the replacement is seen": func(h *history) {
			old, fresh := marked(h)
			h.event(old, eventTerminating)
			h.put(initialized(fresh, "cpu=4"))
			h.terminate(old)
		},
	})
}
